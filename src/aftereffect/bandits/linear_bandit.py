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

The slotwise engine is that recursion. The roundwise engine plays n slots of one plan at once, with
the same law. It adds up the deviation of the totals from the plan's level in one more state S, and
z is the state that stays as it is under the plan::

    (x - z, S) becomes  F (x - z, S) + noise with covariance N        F = [A 0; omega 1]

so 2^i slots multiply by F^(2^i) and add noise with covariance N_i, where ::

    N_(i+1) = N_i + F^(2^i) N_i F^(2^i)'

and n slots are as many such steps as n has ones in binary: no more than 53, exact for any n.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import (
    Engine,
    Matrix,
    Memory,
    Vector,
    WorldKernels,
    check_float,
    check_sequence,
    register,
)
from aftereffect.bandits.base import Bandit, EngineName, check_horizon
from aftereffect.bandits.reward_bandits import count_pseudo_regret
from aftereffect.delays import LAST, TRACE_ROWS, DelayFacts, LinearFacts, play_slots, record_slots
from aftereffect.errors import ParameterError

Rows: TypeAlias = tuple[tuple[float, ...], ...]
#: Plain lists: their sums are the same on every machine, which those of a library need not be.
Table: TypeAlias = list[list[float]]

#: The memory of both engines: the state, and in the roundwise one the sum S; what the last pull
#: brings in all; the next state; and the draws of a step. `LAST` is the row of the second.
STATE, NEXT, DRAWN = 0, 2, 3
_ROWS = 4
#: A state may have so many numbers, and entries may be this large.
MAX_STATES, MAX_ENTRY = 20, 1e6
#: Effects of slots may last for some hundred thousands.
MAX_RADIUS = 0.99999
#: After so many doublings nothing is left of a state.
_DOUBLINGS = 60
#: Powers of A that are looked at, and the least radius that is named.
_POWERS, _MIN_RADIUS = 1_000, 1e-3
#: Lags that count for the range of totals, at most, and what is left when the rest does not.
_MAX_LAGS, _NEGLIGIBLE = 100_000, 1e-12


class SlotWorld(NamedTuple):
    """What the slotwise kernel reads; by arm its scaled reward, its gap, <theta, u> and B u."""

    rewards: Vector
    gaps: Vector
    direct: Vector
    pushes: Matrix
    a: Matrix
    omega: Vector
    sigma: float
    output_sigma: float
    low: float
    width: float


class RoundWorld(NamedTuple):
    """What the roundwise kernel reads; by arm its scaled reward, its gap, and its state z.

    ``moves`` has the powers of F one below the other, and ``spreads`` roots of the N_i.
    """

    rewards: Vector
    gaps: Vector
    points: Matrix
    moves: Matrix
    spreads: Matrix
    is_noisy: bool
    width: float


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
        most, whatever is played, if not given.

    Examples
    --------
    >>> bandit = LinearBandit([[0.5]], [[1]], [-0.4], [1], plans=[[0.5], [1]])
    >>> bandit.levels.round(3).tolist(), bandit.effects(3)[:, 1].tolist()
    ([0.1, 0.2], [1.0, -0.4, -0.2])
    >>> [round(end, 3) for end in bandit.scale]
    [-0.3, 1.0]
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
        self._set(
            omega=_check_vector("omega", self.omega), theta=_check_vector("theta", self.theta)
        )
        states, inputs = len(self.omega), len(self.theta)
        if states > MAX_STATES:
            raise ParameterError(f"omega must have at most {MAX_STATES} numbers, got {states}")
        self._set(
            a=_check_matrix("a", self.a, states, states),
            b=_check_matrix("b", self.b, states, inputs),
            plans=_check_matrix("plans", self.plans, None, inputs),
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
            low, high = _check_vector("reward_range", self.reward_range, 2)
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
        direct = _multiply(self.plans, _transpose([self.theta]))
        later = _multiply(self._points, _transpose([self.omega]))
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
        pushes, row = _transpose(self._pushes), [list(self.omega)]
        found = [[part[0] for part in _multiply(self.plans, _transpose([self.theta]))]]
        while len(found) < lags:
            found += _multiply(row, pushes)
            row = _multiply(row, self.a)
        return np.array(found[:lags])

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The reward range: the one that was given, or what totals without noise can be."""
        if self.reward_range is not None:
            return self.reward_range
        pushes, row = _transpose(self._pushes), [list(self.omega)]
        parts = [part[0] for part in _multiply(self.plans, _transpose([self.theta]))]
        least, most = min(parts), max(parts)  # of totals of slot t, then of any slot so far
        low, high = least, most
        largest = max(abs(each) for push in self._pushes for each in push)
        for _ in range(_MAX_LAGS):
            left = largest * sum(abs(each) for each in row[0])
            if left <= _NEGLIGIBLE * (high - low):
                return low, high
            parts = _multiply(row, pushes)[0]
            least, most = least + min(parts), most + max(parts)
            low, high = min(low, least), max(high, most)
            row = _multiply(row, self.a)
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
        return Engine(kernels, world, (_ROWS, len(self.omega) + 1))

    def tracer(self, horizon: int) -> Engine:
        kernels = WorldKernels(play_slots(record_slots(play_slot)), count_pseudo_regret)
        columns = max(len(self.omega) + 1, horizon)
        return Engine(kernels, self._slot_world(), (_ROWS + len(TRACE_ROWS), columns))

    @cached_property
    def _true_radius(self) -> float:
        return float(np.abs(np.linalg.eigvals(np.array(self.a))).max())

    @cached_property
    def _pushes(self) -> Table:
        """B u, by arm."""
        return _multiply(self.plans, _transpose(self.b))

    @cached_property
    def _points(self) -> Table:
        """The state that stays as it is under a plan, (I - A)^-1 B u, by arm."""
        power, points = [list(row) for row in _transpose(self.a)], self._pushes
        for _ in range(_DOUBLINGS):  # the sum over twice as many powers
            points = _add(points, _multiply(points, power))
            power = _multiply(power, power)
        return points

    @property
    def _rewards(self) -> Vector:
        low, high = self.scale
        rewards: Vector = (self.levels - low) / (high - low)
        return rewards

    def _slot_world(self) -> SlotWorld:
        low, high = self.scale
        direct = [part[0] for part in _multiply(self.plans, _transpose([self.theta]))]
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
        spread = _diagonal([sigma**2] * states + [output_sigma**2])
        moves, spreads = [], []
        for _ in range(max(horizon, 1).bit_length()):
            moves += move
            spreads += _find_root(spread)
            spread = _add(spread, _multiply(_multiply(move, spread), _transpose(move)))
            move = _multiply(move, move)
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


def play_slot(
    memory: Memory, world: SlotWorld, slot: int, arm: int, begins: bool, rng: np.random.Generator
) -> float:
    """One slot of the recursion; its scaled total."""
    states = world.omega.shape[0]
    total = world.direct[arm] + world.output_sigma * rng.standard_normal()
    for row in range(states):
        total += world.omega[row] * memory[STATE, row]
        pushed = world.pushes[arm, row] + world.sigma * rng.standard_normal()
        for column in range(states):
            pushed += world.a[row, column] * memory[STATE, column]
        memory[NEXT, row] = pushed
    for row in range(states):
        memory[STATE, row] = memory[NEXT, row]
    memory[LAST, 0] = world.rewards[arm]
    scaled: float = (total - world.low) / world.width
    return scaled


def play_round(
    memory: Memory,
    world: RoundWorld,
    t: int,
    arm: int,
    slots: int,
    window: int,
    rng: np.random.Generator,
) -> float:
    """A round at once; the scaled total of its window."""
    states = world.points.shape[1]
    for row in range(states):
        memory[STATE, row] -= world.points[arm, row]
    move_on(memory, world, slots - window, rng)
    memory[STATE, states] = 0.0
    move_on(memory, world, window, rng)
    for row in range(states):
        memory[STATE, row] += world.points[arm, row]
    total: float = window * world.rewards[arm] + memory[STATE, states] / world.width
    return total


def move_on(memory: Memory, world: RoundWorld, slots: int, rng: np.random.Generator) -> None:
    """Move the deviation of the state, and the sum, by so many slots."""
    size, first = world.moves.shape[1], 0
    while slots > 0:
        if slots % 2 == 1:
            for row in range(size):
                moved = 0.0
                for column in range(size):
                    moved += world.moves[first + row, column] * memory[STATE, column]
                if world.is_noisy:
                    memory[DRAWN, row] = rng.standard_normal()
                    for column in range(row + 1):
                        moved += world.spreads[first + row, column] * memory[DRAWN, column]
                memory[NEXT, row] = moved
            for row in range(size):
                memory[STATE, row] = memory[NEXT, row]
        slots //= 2
        first += size


def _check_vector(name: str, values: object, length: int | None = None) -> tuple[float, ...]:
    given = check_sequence(name, values)
    wanted = "at least one number" if length is None else f"{length} numbers"
    if len(given) != (length or max(len(given), 1)):
        raise ParameterError(f"{name} must be {wanted}, got {len(given)}")
    return tuple(
        check_float(f"{name}[{place}]", each, at_least=-MAX_ENTRY, at_most=MAX_ENTRY)
        for place, each in enumerate(given)
    )


def _check_matrix(name: str, values: object, rows: int | None, columns: int) -> Rows:
    given = check_sequence(name, values)
    if rows is not None and len(given) != rows:
        raise ParameterError(
            f"{name} must have {rows} rows of {columns} numbers, got {len(given)} rows"
        )
    return tuple(_check_vector(f"{name}[{row}]", each, columns) for row, each in enumerate(given))


def _round(number: float) -> float:
    return float(f"{number:.6g}")


def _transpose(rows: Sequence[Sequence[float]]) -> Table:
    return [list(column) for column in zip(*rows, strict=True)]


def _multiply(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> Table:
    columns = list(zip(*other, strict=True))
    return [
        [math.fsum(x * y for x, y in zip(row, column, strict=True)) for column in columns]
        for row in one
    ]


def _add(one: Table, other: Table) -> Table:
    return [
        [x + y for x, y in zip(row, each, strict=True)]
        for row, each in zip(one, other, strict=True)
    ]


def _diagonal(entries: Sequence[float]) -> Table:
    size = len(entries)
    return [
        [entries[row] if row == column else 0.0 for column in range(size)] for row in range(size)
    ]


def _find_root(covariance: Table) -> Table:
    """The lower triangle whose square is a covariance (Cholesky); some entries may be certain."""
    size = len(covariance)
    root = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            known = math.fsum(root[row][at] * root[column][at] for at in range(column))
            left = covariance[row][column] - known
            if row == column:
                # What rounding leaves of nothing is no variance.
                root[row][row] = math.sqrt(left) if left > 1e-14 * covariance[row][row] else 0.0
            elif root[column][column] > 0.0:
                root[row][column] = left / root[column][column]
    return root
