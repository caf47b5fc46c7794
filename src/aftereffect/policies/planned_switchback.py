"""Planned switchbacks: blocks of a length fixed beforehand, then the best arm for good.

They differ in their blocks and in the slots that count. In each pass of `FixedSwitchback` every arm
has a block, in random order, and the second half of each block counts. `OptimalSwitchback` is the
design that is best for effects that last at most m slots (Bojinov, Simchi-Levi and Zhao, Management
Science, 2023): arms are drawn in slot 0 and in the slots 2m, 3m, 4m, ...; the last one is played
for 2m slots; a slot counts if the m slots before it had the same arm.

They compare, by arm, the sum of the totals that count with the sum of their forecasts. A forecast
is the median of the same place in the week over the weeks of a history (see `_season`), or 1 if
there is no history of at least a week. The ratio is computed anew from all that is known at every
decision, so totals may come late.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import Calendar, SlotKernels, Vector, check_int, register
from aftereffect.policies._season import CalendarPolicy, learn_season, scratch_size

#: The most slots of a block, or blocks.
MAX_BLOCK = 1_000_000
#: The slots for which there is room if nobody says how many there will be.
_ROOM = 10_000


class SwitchbackState(NamedTuple):
    """What was seen, and what is computed from it.

    Totals and arms lie by slot from that of ``origin`` on, which is the first that was observed:
    slot t at t + origin. ``used`` says which arms had their turn in this pass. ``sums`` and
    ``forecasts`` are those of the slots that count, by arm.
    """

    probabilities: Vector
    used: Vector
    origin: Vector
    totals: Vector
    arms: Vector
    shape: Vector
    scratch: Vector
    sums: Vector
    forecasts: Vector


class SwitchbackParams(NamedTuple):
    """Slots per week, and the place of slot 0 in its week; what else depends on the policy."""

    slots_per_week: int
    first: int
    #: The slots of a block, or of the carryover.
    length: int
    #: The number of blocks in which arms are compared.
    blocks: int


def count_week(slots_per_day: int | None) -> int:
    """The number of slots in a week; 1 if slots are longer than days, or nobody says.

    >>> count_week(24), count_week(None)
    (168, 1)
    """
    return Calendar(slots_per_day or 0).slots_per_week


def blank_switchback(arms: int, slots: int, slots_per_week: int) -> SwitchbackState:
    """A fresh state with room for so many slots."""
    return SwitchbackState(
        probabilities=np.zeros(arms),
        used=np.zeros(arms),
        origin=np.full(1, -1.0),
        totals=np.full(max(slots, 1), np.nan),
        arms=np.full(max(slots, 1), -1.0),
        shape=np.ones(slots_per_week),
        scratch=np.zeros(scratch_size(slots, slots_per_week)),
        sums=np.zeros(arms),
        forecasts=np.zeros(arms),
    )


def observe(
    state: SwitchbackState,
    params: SwitchbackParams,
    t: int,
    arm: int,
    total: float,
    covariates: Vector,
) -> None:
    """Keep the arm and the total of a slot, if there is room; covariates are not used."""
    if state.origin[0] < 0.0:
        state.origin[0] = max(-t, 0)
    index = find_slot(state, t)
    if 0 <= index < state.totals.shape[0]:
        state.totals[index] = total
        state.arms[index] = arm


def find_slot(state: SwitchbackState, t: int) -> int:
    """Where a slot lies in the arrays."""
    return t + max(int(state.origin[0]), 0)


def begin_comparison(state: SwitchbackState, params: SwitchbackParams) -> None:
    """Learn the season from the history, and clear the sums of the arms."""
    week = params.slots_per_week
    history = min(max(int(state.origin[0]), 0), state.totals.shape[0])
    first_place = (params.first - history) % week
    if history < week or not learn_season(
        state.totals, first_place, history, week, state.shape, state.scratch
    ):
        for place in range(week):
            state.shape[place] = 1.0
    for arm in range(state.sums.shape[0]):
        state.sums[arm] = state.forecasts[arm] = 0.0


def add_slot(state: SwitchbackState, params: SwitchbackParams, slot: int) -> None:
    """Add the total of a slot, and its forecast, to those of its arm, if it is known."""
    index = find_slot(state, slot)
    if index < state.totals.shape[0] and not math.isnan(state.totals[index]):
        arm = int(state.arms[index])
        state.sums[arm] += state.totals[index]
        state.forecasts[arm] += state.shape[(params.first + slot) % params.slots_per_week]


def choose_best_ratio(state: SwitchbackState) -> int:
    """The arm with the highest ratio of totals to forecasts; arm 0 if nothing is known."""
    best, highest = 0, -math.inf
    for arm in range(state.sums.shape[0]):
        if state.forecasts[arm] > 0.0:
            ratio = state.sums[arm] / state.forecasts[arm]
            if ratio > highest:
                best, highest = arm, ratio
    for arm in range(state.probabilities.shape[0]):
        state.probabilities[arm] = 1.0 if arm == best else 0.0
    return best


def draw_arm(state: SwitchbackState, rng: np.random.Generator) -> int:
    """Draw one of the arms that are not used, all with the same probability."""
    arms, left = state.used.shape[0], 0
    for arm in range(arms):
        left += 1 if state.used[arm] == 0.0 else 0
    skip, chosen = int(rng.random() * left), 0
    for arm in range(arms):
        state.probabilities[arm] = 0.0
        if state.used[arm] == 0.0:
            state.probabilities[arm] = 1.0 / left
            if skip == 0:
                chosen = arm
            skip -= 1
    return chosen


class Switchback(CalendarPolicy):
    """A switchback that is planned beforehand."""

    def initial(self, arms: int) -> SwitchbackState:
        return self.initial_for(arms, _ROOM)

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> SwitchbackState:
        return blank_switchback(arms, slots, count_week(self.slots_per_day))


def decide_fixed(
    state: SwitchbackState, params: SwitchbackParams, t: int, rng: np.random.Generator
) -> tuple[int, int]:
    """The arm of the block that begins, or the best one."""
    length, number = params.length, t // params.length
    left = length - t % length
    if number >= params.blocks:
        begin_comparison(state, params)
        for slot in range(length * params.blocks):
            if slot % length >= length // 2:
                add_slot(state, params, slot)
        return choose_best_ratio(state), left
    if number % state.used.shape[0] == 0:
        for arm in range(state.used.shape[0]):
            state.used[arm] = 0.0
    arm = draw_arm(state, rng)
    state.used[arm] = 1.0
    return arm, left


@register
@dataclass(frozen=True)
class FixedSwitchback(Switchback):
    """Blocks of fixed length, every arm equally often in random order; then the best arm for good.

    A baseline that looks at every slot.

    Parameters
    ----------
    block
        The number of slots in a block. Only the second half of each block counts.
    blocks_per_arm
        The number of blocks of each arm.
    slots_per_day, first
        How slots lie in days, and the place of slot 0 in its week, from Monday on. A simulation
        fills them in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.SeasonalBandit([0, .1, .2], ae.Geometric(.8), season="ar+weekday")
    >>> study = ae.simulate(FixedSwitchback(24), bandit, horizon=1_344, replications=20, seed=1)
    >>> round(float(study[0].final.mean()), 2)
    0.94
    """

    block: int = 24
    blocks_per_arm: int = 2
    slots_per_day: int | None = None
    first: int = 0

    def __post_init__(self) -> None:
        self._check_calendar()
        self._set(
            block=check_int("block", self.block, at_least=1, at_most=MAX_BLOCK),
            blocks_per_arm=check_int(
                "blocks_per_arm", self.blocks_per_arm, at_least=1, at_most=MAX_BLOCK
            ),
        )

    def kernels(self) -> SlotKernels:
        return SlotKernels(decide_fixed, observe)

    def params(self, arms: int, horizon: int) -> SwitchbackParams:
        self._check_horizon(horizon)
        return SwitchbackParams(
            count_week(self.slots_per_day), self.first, self.block, arms * self.blocks_per_arm
        )


def decide_optimal(
    state: SwitchbackState, params: SwitchbackParams, t: int, rng: np.random.Generator
) -> tuple[int, int]:
    """An arm drawn at random, or the best one."""
    length, last = params.length, params.length * params.blocks
    end = last + 2 * length
    if params.blocks == 1:
        last, end = 0, 2 * length
    if t < end:
        arm = draw_arm(state, rng)
        if t >= last:
            return arm, end - t
        return arm, 2 * length - t if t < 2 * length else length - t % length
    begin_comparison(state, params)
    same, before = 0, -1
    for slot in range(end):
        index = find_slot(state, slot)
        arm = int(state.arms[index]) if index < state.arms.shape[0] else -1
        same = same + 1 if arm == before else 0
        before = arm
        if arm >= 0 and same >= length:
            add_slot(state, params, slot)
    return choose_best_ratio(state), length


@register
@dataclass(frozen=True)
class OptimalSwitchback(Switchback):
    """The best switchback for a known carryover (Bojinov et al. 2023); then the best arm for good.

    A baseline that looks at every slot.

    Parameters
    ----------
    carryover
        For how many slots after its own a pull still brings something.
    blocks
        How often an arm is drawn before the best one is chosen.
    slots_per_day, first
        How slots lie in days, and the place of slot 0 in its week, from Monday on. A simulation
        fills them in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.SeasonalBandit([0, .1], ae.Interval(0, 12), season="ar")
    >>> study = ae.simulate(OptimalSwitchback(12), bandit, horizon=1_344, replications=20, seed=1)
    >>> round(float(study[0].final.mean()), 2)
    2.52
    """

    carryover: int = 12
    blocks: int = 8
    slots_per_day: int | None = None
    first: int = 0

    def __post_init__(self) -> None:
        self._check_calendar()
        self._set(
            carryover=check_int("carryover", self.carryover, at_least=1, at_most=MAX_BLOCK),
            blocks=check_int("blocks", self.blocks, at_least=1, at_most=MAX_BLOCK),
        )

    def kernels(self) -> SlotKernels:
        return SlotKernels(decide_optimal, observe)

    def params(self, arms: int, horizon: int) -> SwitchbackParams:
        self._check_horizon(horizon)
        return SwitchbackParams(
            count_week(self.slots_per_day), self.first, self.carryover, self.blocks
        )
