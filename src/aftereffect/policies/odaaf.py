"""ODAAF and generalised ODAAF: phased elimination that knows the delay.

Both play this loop ::

    draw an order of the arms, once
    phase m = 1, 2, ...: play every active arm, in that order, until it has n_m pulls in all
                         drop every arm whose average is more than 2^-m below the best
                         bridge (where required): play the best arm n_m - n_(m-1) times more and
                         ignore the totals
    when one arm is left, or after the last phase: play the best arm to the end

Averages are over all phases; pulls on a bridge do not count.

In ODAAF (Pike-Burke, Agrawal, Szepesvari and Grunewalder, 2018), with D = 2^-m and L = ln(T D^2),
every active arm has n_m pulls after phase m ::

    mean       n_m = ceil( (sqrt(2L) + sqrt(2L + 8/3 D L + 6 D m E))^2 / D^2 )                (14)
    bounded    n_m = max( m min(d, (14) / m),
                          ceil( (sqrt(2L) + sqrt(2L + 8/3 D L + 4 D E))^2 / D^2 ) )   (18), bridged
    variance   n_m = ceil( (sqrt(2L) + sqrt(2L + 8/3 D L + 4 D (E + 2V)))^2 / D^2 )   (25), bridged

where E is the mean lag, V the variance of the lag and d the reach. The regret is O(sum of
ln(T gap^2) / gap + E ln(1/gap)) for the first, and without the logarithm at E for the others.

Generalised ODAAF (Garg and Akash, 2019) is for lags of at most d slots. It has no bridge, and
n_m = ceil( (sqrt(L) + sqrt(L + 4 D m d))^2 / (2 D^2) ). We do not know that paper's own n_m in
full; this one is equation (28) of ODAAF's supplement. It is safe in any case: what leaks into a
block or out of it is at most d per phase. Phases stop when T 4^-m <= e.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from aftereffect._core import MAX_SLOTS, PolicyKernels, Vector, check_float, register
from aftereffect.delays import DelayFacts
from aftereffect.errors import ParameterError
from aftereffect.policies.base import Policy

VariantName = Literal["mean", "bounded", "variance"]

#: Lags longer than any run make no difference, and pulls computed from them would overflow.
MAX_FACTS = {"mean_lag": MAX_SLOTS, "lag_variance": float(MAX_SLOTS) ** 2, "reach": MAX_SLOTS}


class PhasesState(NamedTuple):
    """By arm: pulls, their total, and whether it is dropped; the order of arms; single numbers.

    ``cursor`` is the place in the order, ``on_bridge`` says that the round is a bridge, and
    ``after_bridge`` that arms of this phase have been dropped. Phase 0 has no order yet.
    """

    pulls: Vector
    total: Vector
    dropped: Vector
    order: Vector
    phase: Vector
    cursor: Vector
    on_bridge: Vector
    after_bridge: Vector


class PhasesParams(NamedTuple):
    """The horizon, whether there are bridges, and n_1, n_2, ... up to the last phase."""

    horizon: int
    bridged: bool
    targets: Vector


def blank_phases(arms: int) -> PhasesState:
    """The state before the first slot."""
    return PhasesState(*(np.zeros(arms) for _ in range(4)), *(np.zeros(1) for _ in range(4)))


def find_best(state: PhasesState) -> tuple[int, int]:
    """The active arm with the highest average, and how many arms are active."""
    best, active, highest = 0, 0, -math.inf
    for arm in range(state.pulls.shape[0]):
        if state.dropped[arm] == 0.0:
            active += 1
            average = state.total[arm] / max(state.pulls[arm], 1.0)
            if average > highest:
                best, highest = arm, average
    return best, active


def drop(state: PhasesState, margin: float) -> None:
    """Drop the arms whose average is more than a margin below the best."""
    best, _ = find_best(state)
    highest = state.total[best] / max(state.pulls[best], 1.0)
    for arm in range(state.pulls.shape[0]):
        if state.total[arm] / max(state.pulls[arm], 1.0) + margin < highest:
            state.dropped[arm] = 1.0


def shuffle(order: Vector, rng: np.random.Generator) -> None:
    """Draw the order of the arms (Fisher and Yates)."""
    for place in range(order.shape[0]):
        order[place] = place
    for place in range(order.shape[0] - 1, 0, -1):
        other = int(rng.random() * (place + 1))
        order[place], order[other] = order[other], order[place]


def decide(
    state: PhasesState, params: PhasesParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next arm of the phase, or the bridge, or the last arm to the end."""
    if state.phase[0] == 0.0:
        shuffle(state.order, rng)
        state.phase[0] = 1.0
    while True:
        phase = int(state.phase[0])
        best, active = find_best(state)
        if active == 1 or phase > params.targets.shape[0]:
            rest = max(params.horizon - t, 1)
            return best, rest, rest
        target = params.targets[phase - 1]
        while state.cursor[0] < state.order.shape[0]:
            arm = int(state.order[int(state.cursor[0])])
            if state.dropped[arm] == 0.0 and state.pulls[arm] < target:
                slots = int(target - state.pulls[arm])
                return arm, slots, slots
            state.cursor[0] += 1
        if state.after_bridge[0] == 0.0:
            drop(state, 2.0**-phase)
            state.after_bridge[0] = 1.0
            best, active = find_best(state)
            slots = int(target - params.targets[phase - 2]) if phase > 1 else int(target)
            if params.bridged and active > 1 and slots > 0:
                state.on_bridge[0] = 1.0
                return best, slots, 0
        else:
            state.phase[0] += 1
            state.cursor[0] = state.after_bridge[0] = 0.0


def absorb(state: PhasesState, params: PhasesParams, arm: int, window: int, total: float) -> None:
    """Credit the pulls, except those on a bridge."""
    if state.on_bridge[0] == 1.0:
        state.on_bridge[0] = 0.0
    else:
        state.pulls[arm] += window
        state.total[arm] += total


KERNELS = PolicyKernels(decide, absorb)


def find_targets(horizon: int, pulls: Callable[[int], int]) -> list[int]:
    """n_1, n_2, ... while T 4^-m is above e: later phases are about gaps that T slots cannot show.

    They never fall and never exceed MAX_SLOTS, the longest run: more would not fit into the
    integers of compiled code.
    """
    targets: list[int] = []
    while horizon / 4.0 ** (len(targets) + 1) > math.e:
        targets.append(min(max(pulls(len(targets) + 1), *targets[-1:], 1), MAX_SLOTS))
    return targets


def _pulls(horizon: int, m: int, delay: float) -> int:
    """The form that the three variants share; they differ in the term for the delay."""
    d = 2.0**-m
    log = math.log(horizon * d**2)
    root = math.sqrt(2 * log) + math.sqrt(2 * log + 8 / 3 * d * log + d * delay)
    return math.ceil(root**2 / d**2)


def mean_pulls(horizon: int, m: int, facts: DelayFacts) -> int:
    """Equation (14)."""
    return _pulls(horizon, m, 6 * m * facts.mean_lag)


def bounded_pulls(horizon: int, m: int, facts: DelayFacts) -> int:
    """Equation (18)."""
    bounded = min(facts.reach, mean_pulls(horizon, m, facts) / m)
    return max(math.ceil(m * bounded), _pulls(horizon, m, 4 * facts.mean_lag))


def variance_pulls(horizon: int, m: int, facts: DelayFacts) -> int:
    """Equation (25)."""
    return _pulls(horizon, m, 4 * (facts.mean_lag + 2 * facts.lag_variance))


class Variant(NamedTuple):
    """How many pulls a phase needs, whether a bridge follows, and which facts must be known."""

    pulls: Callable[[int, int, DelayFacts], int]
    bridged: bool
    needs: tuple[str, ...]


VARIANTS: Mapping[VariantName, Variant] = {
    "mean": Variant(mean_pulls, False, ("mean_lag",)),
    "bounded": Variant(bounded_pulls, True, ("mean_lag", "reach")),
    "variance": Variant(variance_pulls, True, ("mean_lag", "lag_variance")),
}


@register
@dataclass(frozen=True)
class Odaaf(Policy):
    """ODAAF: phased elimination; needs the horizon and facts about the delay.

    Parameters
    ----------
    variant
        ``mean`` (knows the mean lag), ``bounded`` (also the reach) or ``variance`` (also the
        variance).
    mean_lag, lag_variance, reach
        What it knows of the delay. A simulation fills in the true values of what you leave out.

    Examples
    --------
    >>> Odaaf("bounded", mean_lag=20, reach=30).targets(horizon=10_000)[:3]
    [585, 1501, 3940]
    """

    variant: VariantName = "mean"
    mean_lag: float | None = None
    lag_variance: float | None = None
    reach: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        self._check_choices(variant=VariantName)
        for name, most in MAX_FACTS.items():
            if getattr(self, name) is not None:
                self._set(
                    **{name: check_float(name, getattr(self, name), at_least=0, at_most=most)}
                )

    def with_delay_facts(self, facts: DelayFacts) -> "Odaaf":
        missing = {name: getattr(facts, name) for name in self._missing()}
        for name, truth in missing.items():
            if math.isinf(truth):
                raise ParameterError(
                    f"odaaf(variant={self.variant}) needs {name}, which is infinite or unknown "
                    f"here: pass {name}=..."
                )
        return replace(self, **missing)

    def kernels(self) -> PolicyKernels:
        return KERNELS

    def initial(self, arms: int) -> PhasesState:
        return blank_phases(arms)

    def params(self, arms: int, horizon: int) -> PhasesParams:
        targets = np.array(self.targets(horizon), dtype=float)
        return PhasesParams(horizon, VARIANTS[self.variant].bridged, targets)

    def targets(self, horizon: int) -> list[int]:
        """n_1, n_2, ... for a run of that many slots."""
        missing = self._missing()
        if missing:
            given = ", ".join(f"{name}=..." for name in missing)
            raise ParameterError(
                f"odaaf(variant={self.variant}) needs {' and '.join(missing)}: pass {given}"
            )
        facts = DelayFacts(self.mean_lag or 0.0, self.lag_variance or 0.0, self.reach or 0.0)
        return find_targets(horizon, lambda m: VARIANTS[self.variant].pulls(horizon, m, facts))

    def _missing(self) -> list[str]:
        return [name for name in VARIANTS[self.variant].needs if getattr(self, name) is None]


def pulls_of_phase(horizon: int, m: int, reach: float) -> int:
    """Equation (28)."""
    d = 2.0**-m
    log = math.log(horizon * d**2)
    return math.ceil((math.sqrt(log) + math.sqrt(log + 4 * d * m * reach)) ** 2 / (2 * d**2))


@register
@dataclass(frozen=True)
class GeneralizedOdaaf(Policy):
    """Generalised ODAAF: phased elimination; needs the horizon and the largest lag.

    Parameters
    ----------
    d
        The largest lag. A simulation fills in the true value if you leave it out.

    Examples
    --------
    >>> GeneralizedOdaaf(d=30).targets(horizon=10_000)[:3]
    [244, 914, 2781]
    """

    d: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        if self.d is not None:
            self._set(d=check_float("d", self.d, at_least=0, at_most=MAX_SLOTS))

    def with_delay_facts(self, facts: DelayFacts) -> "GeneralizedOdaaf":
        if self.d is not None:
            return self
        if math.isinf(facts.reach):
            raise ParameterError(
                "generalized-odaaf needs d, the largest lag, which is infinite or unknown here: "
                "pass d=..."
            )
        return replace(self, d=facts.reach)

    def kernels(self) -> PolicyKernels:
        return KERNELS

    def initial(self, arms: int) -> PhasesState:
        return blank_phases(arms)

    def params(self, arms: int, horizon: int) -> PhasesParams:
        return PhasesParams(horizon, False, np.array(self.targets(horizon), dtype=float))

    def targets(self, horizon: int) -> list[int]:
        """n_1, n_2, ... for a run of that many slots."""
        if self.d is None:
            raise ParameterError("generalized-odaaf needs d, the largest lag: pass d=...")
        reach = self.d
        return find_targets(horizon, lambda m: pulls_of_phase(horizon, m, reach))
