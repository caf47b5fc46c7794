"""What planned switchbacks share: all totals by slot, a forecast by season, and a ratio per arm.

They compare, by arm, the sum of the totals that count with the sum of their forecasts. A forecast
is the median of the same place in the week over the weeks of a history (see `_season`), or 1 if
there is no history of at least a week. The ratio is computed anew from all that is known at every
decision, so totals may come late.
"""

import math
from typing import NamedTuple

import numpy as np

from aftereffect._core import Calendar, Vector
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
