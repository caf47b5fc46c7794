"""What policies of several units remember of every slot, and what totals are usual in it.

Whole arrays are worked on at once: nothing here is compiled.
"""

from typing import NamedTuple, TypeVar

import numpy as np

from aftereffect._core import Matrix, Params, Slots, Vector

#: The weeks of history from which on its season is used.
_SEASON_WEEKS = 2
#: What is usual at a place is at least this part of the mean.
_FLOOR = 0.02


class UnitSlots(NamedTuple):
    """Totals and arms by slot and unit, from the first slot that was observed on.

    That is `before` slots before slot 0, of which -1 says that nothing was observed; `observed`
    slots were observed in all.
    """

    totals: Matrix
    arms: Matrix
    before: Vector
    observed: Vector

    def find_known(self) -> tuple[int, int]:
        """The number of slots before slot 0, and of those from it on, up to the last total."""
        before, count = max(int(self.before[0]), 0), int(self.observed[0])
        known = np.flatnonzero(~np.isnan(self.totals[before:count]).all(axis=1))
        return min(before, count), int(known[-1]) + 1 if len(known) else 0


def blank_slots(units: int, slots: int) -> UnitSlots:
    """Room for so many slots.

    >>> blank_slots(units=3, slots=100).totals.shape
    (100, 3)
    """
    shape = max(slots, 1), units
    return UnitSlots(np.full(shape, np.nan), np.zeros(shape), np.full(1, -1.0), np.zeros(1))


class _HasSlots(NamedTuple):
    slots: UnitSlots


S = TypeVar("S", bound=_HasSlots)


def observe_units(
    state: S, params: Params, t: int, arms: Slots, totals: Vector, covariates: Matrix
) -> None:
    """Keep arms and totals of a slot, if there is room; covariates are not used."""
    slots = state.slots
    if slots.before[0] < 0.0:
        slots.before[0] = max(-t, 0)
    row = t + int(slots.before[0])
    if 0 <= row < slots.totals.shape[0]:
        slots.totals[row], slots.arms[row] = totals, arms
        slots.observed[0] = max(slots.observed[0], row + 1)


def learn_seasons(slots: UnitSlots, week: int, first: int) -> Matrix:
    """What is usual at each place in the week, by place and unit: the median of a history.

    It is 1 everywhere if the history of a unit is shorter than two weeks, or does not show it.

    >>> slots = blank_slots(units=2, slots=9)
    >>> slots.before[0], slots.totals[:] = 9, np.arange(9)[:, None] % 3 + [1.0, np.nan]
    >>> learn_seasons(slots, week=3, first=0)
    array([[1., 1.],
           [2., 1.],
           [3., 1.]])
    """
    before = max(int(slots.before[0]), 0)
    weeks, units = before // week, slots.totals.shape[1]
    usual: Matrix = np.ones((week, units))
    if week == 1 or weeks < _SEASON_WEEKS:
        return usual
    # In order, with what is not known as the last.
    rows = np.sort(slots.totals[before - weeks * week : before].reshape(weeks, week, units), axis=0)
    known = weeks - np.isnan(rows).sum(axis=0)
    low, high = np.maximum(known - 1, 0) // 2, known // 2
    middle = [np.take_along_axis(rows, at[None], axis=0)[0] for at in (low, high)]
    medians = (middle[0] + middle[1]) / 2
    has_season = (known > 0).all(axis=0) & (medians.mean(axis=0) > 0)
    floors = _FLOOR * medians[:, has_season].mean(axis=0)
    usual[:, has_season] = np.maximum(medians[:, has_season], floors)
    return np.roll(usual, first, axis=0)
