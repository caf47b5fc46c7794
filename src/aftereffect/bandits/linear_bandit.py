"""Dynamical linear bandits: totals follow from a hidden state, and parts of rewards are signed.

The model of Mussi, Metelli and Restelli (2023). Each arm is a plan, an action vector u. In every
slot ::

    total   y = <omega, x> + <theta, u> + output noise
    then    x becomes A x + B u + noise                          x: the hidden state, 0 at first

So a pull of plan u brings <theta, u> at lag 0 and <omega, A^(l-1) B u> at lag l. These parts may be
negative, and each plan has shares of its own. No delay has such parts: shares of a delay are at
least 0 and sum to 1, and policies and estimates rest on that. In all a pull brings ::

    level of u = <theta, u> + <omega, (I - A)^-1 B u>

the total of a slot, in expectation, after u was played for long. The noise enters the state, so
totals of neighbouring slots share it.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aftereffect._core import (
    Engine,
    Matrix,
    Vector,
    WorldKernels,
    check_float,
    register,
)
from aftereffect.bandits._linear_kernels import (
    ROWS,
    RoundWorld,
    SlotWorld,
    play_round,
    play_slot,
)
from aftereffect.bandits._matrices import (
    MAX_ENTRY,
    Rows,
    Table,
    add_up,
    check_matrix,
    check_vector,
    diagonal,
    find_root,
    multiply,
    transpose,
)
from aftereffect.bandits.base import Bandit, EngineName, check_horizon
from aftereffect.bandits.reward_bandits import count_pseudo_regret
from aftereffect.delays import TRACE_ROWS, DelayFacts, LinearFacts, play_slots, record_slots
from aftereffect.errors import ParameterError

#: A state may have so many numbers, and entries of A be so large: powers of it are taken.
MAX_STATES, MAX_TRANSITION = 20, 1e3
#: Effects of slots may last for some hundred thousands.
MAX_RADIUS = 0.99999
#: After so many doublings nothing is left of a state.
_DOUBLINGS = 60
#: Powers of A that are looked at, and the least radius that is named.
_POWERS, _MIN_RADIUS = 1_000, 1e-3
#: Lags that count for the range of totals, at most, and what is left when the rest does not.
_MAX_LAGS, _NEGLIGIBLE = 100_000, 1e-12


@register
@dataclass(frozen=True)
class LinearBandit(Bandit):
    """A dynamical linear bandit: plans push a hidden state, and only a sum of it is observed.

    What a pull brings later may be negative. Policies see totals scaled so that `reward_range`
    becomes 0 to 1; noise may take them out of it. The regret is in the unit of the totals: the
    level of the best plan, which is what it brings per slot in the long run, less that of the plan
    played.

    Parameters
    ----------
    a, b
        The matrices by which the state and the action make the next state. The spectral radius of
        `a` is at most 0.99999.
    omega, theta
        What the state and the action bring at once, by entry.
    plans
        The arms: at least two action vectors.
    sigma, output_sigma
        The standard deviations of the noise of each entry of the state and of the total; the second
        is the first if not given.
    reward_range
        What policies see as totals of 0 and of 1; what totals without noise can be at least and at
        most, whatever is played, to six digits, if not given.

    Examples
    --------
    >>> bandit = LinearBandit([[0.5]], [[1]], [-0.4], [1], plans=[[0.5], [1]])
    >>> bandit.levels.round(3).tolist(), bandit.effects(3)[:, 1].tolist()
    ([0.1, 0.2], [1.0, -0.4, -0.2])
    >>> bandit.scale
    (-0.3, 1.0)
    """

    a: Rows
    b: Rows
    omega: tuple[float, ...]
    theta: tuple[float, ...]
    plans: Rows
    sigma: float = 0.0
    output_sigma: float | None = None
    reward_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._set(omega=check_vector("omega", self.omega), theta=check_vector("theta", self.theta))
        states, inputs = len(self.omega), len(self.theta)
        if states > MAX_STATES:
            raise ParameterError(f"omega must have at most {MAX_STATES} numbers, got {states}")
        self._set(
            a=check_matrix("a", self.a, states, states, MAX_TRANSITION),
            b=check_matrix("b", self.b, states, inputs),
            plans=check_matrix("plans", self.plans, None, inputs),
            sigma=check_float("sigma", self.sigma, at_least=0, at_most=MAX_ENTRY),
        )
        if len(self.plans) < 2:
            raise ParameterError(f"plans must be at least two, one per arm, got {len(self.plans)}")
        if self.output_sigma is not None:
            noise = check_float("output_sigma", self.output_sigma, at_least=0, at_most=MAX_ENTRY)
            self._set(output_sigma=noise)
        if not self._true_radius <= MAX_RADIUS:
            raise ParameterError(
                f"a must have a spectral radius of at most {MAX_RADIUS:g}, got "
                f"{self._true_radius:g}: otherwise effects hardly end"
            )
        if self.reward_range is not None:
            low, high = check_vector("reward_range", self.reward_range, 2)
            self._set(reward_range=(low, check_float("the end of reward_range", high, above=low)))
        low, high = self.scale
        if not low < high:
            raise ParameterError("all totals are the same: give other plans, or a reward_range")

    @property
    def arms(self) -> int:
        return len(self.plans)

    @property
    def noises(self) -> tuple[float, float]:
        """The standard deviations of the noise of the state and of the total."""
        return self.sigma, self.sigma if self.output_sigma is None else self.output_sigma

    @cached_property
    def levels(self) -> Vector:
        """What a pull of each plan brings in all: its total per slot in the long run."""
        direct = multiply(self.plans, transpose([self.theta]))
        later = multiply(self._points, transpose([self.omega]))
        levels = np.array([one[0] + other[0] for one, other in zip(direct, later, strict=True)])
        levels.setflags(write=False)
        return levels

    @property
    def gaps(self) -> Vector:
        """How much less each plan brings per slot than the best one, in the long run."""
        gaps: Vector = self.levels.max() - self.levels
        return gaps

    def effects(self, lags: int) -> Matrix:
        """What a pull brings at the lags 0, 1, ..., by lag and arm, in expectation."""
        pushes, row = transpose(self._pushes), [list(self.omega)]
        found = [[part[0] for part in multiply(self.plans, transpose([self.theta]))]]
        while len(found) < lags:
            found += multiply(row, pushes)
            row = multiply(row, self.a)
        return np.array(found[:lags])

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The reward range: the one given, or what totals without noise can be, to six digits."""
        if self.reward_range is not None:
            return self.reward_range
        pushes, row = transpose(self._pushes), [list(self.omega)]
        parts = [part[0] for part in multiply(self.plans, transpose([self.theta]))]
        least, most = min(parts), max(parts)  # of totals of slot t, then of any slot so far
        low, high = least, most
        largest = max(abs(each) for push in self._pushes for each in push)
        for _ in range(_MAX_LAGS):
            left = largest * sum(abs(each) for each in row[0])
            if left <= _NEGLIGIBLE * (high - low):
                return _round(low), _round(high)
            parts = multiply(row, pushes)[0]
            least, most = least + min(parts), most + max(parts)
            low, high = min(low, least), max(high, most)
            row = multiply(row, self.a)
        raise ParameterError(
            f"effects last longer than {_MAX_LAGS:,} slots: give reward_range=[low, high]"
        )

    @property
    def delay_facts(self) -> DelayFacts:
        return DelayFacts(math.inf, math.inf, math.inf, self.system)

    @cached_property
    def system(self) -> LinearFacts:
        """What `DynLinUcb` must know of it, with the bounds of its authors.

        They bound the state before the first slot by that of the largest plan, divided by 1 less
        the radius.
        """
        a, radius = np.array(self.a), max(self._true_radius, _MIN_RADIUS)
        power, transient = np.eye(len(a)), 1.0
        for _ in range(_POWERS):
            power = power @ a / radius
            transient = max(transient, float(np.linalg.norm(power, 2)))
        omega, theta = (float(np.linalg.norm(each)) for each in (self.omega, self.theta))
        action = max(float(np.linalg.norm(plan)) for plan in self.plans)
        push = float(np.linalg.norm(np.array(self.b), 2))
        state = action / (1 - radius)
        sigma, output_sigma = self.noises
        later = omega * transient
        return LinearFacts(
            plans=self.plans,
            radius=_round(radius),
            size=_round(theta + later * push / (1 - radius)),
            leak=_round(action * later * (action * push / (1 - radius) + state)),
            noise=_round(math.hypot(output_sigma, sigma * later / math.sqrt(1 - radius**2))),
            reward_range=self.scale,
        )

    def check(self, engine: EngineName, horizon: int) -> None:
        check_horizon(self, horizon)

    def engine(self, name: EngineName, horizon: int) -> Engine:
        world: SlotWorld | RoundWorld
        if name == "slotwise":
            collect, world = play_slots(play_slot), self._slot_world()
        else:
            collect, world = play_round, self._round_world(horizon)
        kernels = WorldKernels(collect, count_pseudo_regret)
        return Engine(kernels, world, (ROWS, len(self.omega) + 1))

    def tracer(self, horizon: int) -> Engine:
        kernels = WorldKernels(play_slots(record_slots(play_slot)), count_pseudo_regret)
        columns = max(len(self.omega) + 1, horizon)
        return Engine(kernels, self._slot_world(), (ROWS + len(TRACE_ROWS), columns))

    @cached_property
    def _true_radius(self) -> float:
        return float(np.abs(np.linalg.eigvals(np.array(self.a))).max())

    @cached_property
    def _pushes(self) -> Table:
        """B u, by arm."""
        return multiply(self.plans, transpose(self.b))

    @cached_property
    def _points(self) -> Table:
        """The state that stays as it is under a plan, (I - A)^-1 B u, by arm."""
        power, points = [list(row) for row in transpose(self.a)], self._pushes
        for _ in range(_DOUBLINGS):  # the sum over twice as many powers
            points = add_up(points, multiply(points, power))
            power = multiply(power, power)
        return points

    @property
    def _rewards(self) -> Vector:
        low, high = self.scale
        rewards: Vector = (self.levels - low) / (high - low)
        return rewards

    def _slot_world(self) -> SlotWorld:
        low, high = self.scale
        direct = [part[0] for part in multiply(self.plans, transpose([self.theta]))]
        return SlotWorld(
            self._rewards,
            self.gaps,
            np.array(direct),
            np.array(self._pushes),
            np.array(self.a),
            np.array(self.omega),
            *self.noises,
            low,
            high - low,
        )

    def _round_world(self, horizon: int) -> RoundWorld:
        sigma, output_sigma = self.noises
        states = len(self.omega)
        move = [[*row, 0.0] for row in self.a] + [[*self.omega, 1.0]]
        spread = diagonal([sigma**2] * states + [output_sigma**2])
        moves, spreads = [], []
        for _ in range(max(horizon, 1).bit_length()):
            moves += move
            spreads += find_root(spread)
            spread = add_up(spread, multiply(multiply(move, spread), transpose(move)))
            move = multiply(move, move)
        low, high = self.scale
        return RoundWorld(
            self._rewards,
            self.gaps,
            np.array(self._points),
            np.array(moves),
            np.array(spreads),
            max(self.noises) > 0,
            high - low,
        )


def _round(number: float) -> float:
    return float(f"{number:.6g}")
