"""The season of a history: how large totals are at each place in the week; calendars of policies.

Medians over the weeks, so that a day of zeros or a holiday changes little. Nothing is allocated.
"""

import math
from dataclasses import replace

from aftereffect._core import Calendar, Vector, check_int
from aftereffect.errors import ParameterError
from aftereffect.policies.base import Policy

#: The last weeks, whose level the season is scaled to.
_LAST_WEEKS = 3
#: A slot of a minute.
_MAX_SLOTS_PER_DAY = 1_440
#: The most slots of policies that remember every slot.
MAX_REMEMBERED = 300_000


class CalendarPolicy(Policy):
    """A policy that remembers every slot; two of its parameters are their calendar."""

    slots_per_day: int | None
    first: int

    def _check_calendar(self) -> None:
        """Check and store these parameters."""
        if self.slots_per_day is not None:
            per_day = check_int("slots_per_day", self.slots_per_day, at_most=_MAX_SLOTS_PER_DAY)
            self._set(slots_per_day=per_day)
        self._set(first=check_int("first", self.first, at_most=7 * _MAX_SLOTS_PER_DAY))

    def _check_horizon(self, horizon: int) -> None:
        if horizon > MAX_REMEMBERED:
            raise ParameterError(
                f"{self} remembers every slot, at most {MAX_REMEMBERED:,} of them, "
                f"got {horizon:,}: use another policy, such as ars-ucb"
            )

    def with_calendar(self, calendar: Calendar) -> Policy:
        if self.slots_per_day is not None:
            return self
        return replace(self, slots_per_day=calendar.slots_per_day, first=calendar.first)


def scratch_size(slots: int, slots_per_week: int) -> int:
    """How many numbers `learn_season` needs for its work on so many slots.

    >>> scratch_size(1_344, 168)
    16
    """
    return 2 * max(slots // slots_per_week, 1)


def learn_season(
    totals: Vector,
    first_place: int,
    count: int,
    slots_per_week: int,
    shape: Vector,
    scratch: Vector,
) -> bool:
    """Learn what to expect at each place in the week: ``shape[0:slots_per_week]``.

    Each week is divided by its level, which is the mean of its totals. The median over the weeks at
    each place is multiplied by the mean level of the last three weeks. Weeks are counted back from
    the last slot; slots before the first whole week, and weeks of which less than half is known,
    do not count.

    Parameters
    ----------
    totals
        The totals in ``totals[0:count]``, oldest first; NaN where one is missing.
    first_place
        The place of ``totals[0]`` in its week, from 0 to ``slots_per_week - 1``.
    count, slots_per_week
        The number of totals, and of places.
    shape
        Is overwritten. Places without a total get the mean level, or 1 if nothing is known.
    scratch
        Is overwritten; `scratch_size` says how long it must be.

    Returns
    -------
        Whether every place had a total.

    Examples
    --------
    >>> import numpy as np
    >>> shape, scratch = np.zeros(2), np.zeros(scratch_size(6, 2))
    >>> learn_season(np.array([1.0, 3, 2, 6, 4, 12]), 0, 6, 2, shape, scratch), shape.tolist()
    (True, [2.3333333333333335, 7.0])
    """
    weeks = count // slots_per_week
    skipped = count - weeks * slots_per_week
    level, levels = 0.0, 0
    for back in range(weeks):
        week = weeks - 1 - back
        scratch[week] = mean_of_week(totals, skipped + week * slots_per_week, slots_per_week)
        if scratch[week] > 0.0 and levels < _LAST_WEEKS:
            level += scratch[week]
            levels += 1
    level = level / levels if levels > 0 else 1.0
    is_complete = levels > 0
    for number in range(slots_per_week):
        known = 0
        for week in range(weeks):
            total = totals[skipped + week * slots_per_week + number]
            if scratch[week] > 0.0 and not math.isnan(total):
                scratch[weeks + known] = total / scratch[week]
                known += 1
        place = (first_place + skipped + number) % slots_per_week
        shape[place] = level
        if known > 0:
            shape[place] *= find_median(scratch, weeks, known)
        else:
            is_complete = False
    return is_complete


def mean_of_week(totals: Vector, first: int, slots: int) -> float:
    """The mean of the totals of a week; 0 if less than half of them are known."""
    total, known = 0.0, 0
    for slot in range(first, first + slots):
        if not math.isnan(totals[slot]):
            total += totals[slot]
            known += 1
    return total / known if 2 * known >= slots else 0.0


def find_median(values: Vector, first: int, count: int) -> float:
    """Sort ``values[first:first + count]`` in place and return the median."""
    gap = count // 2
    while gap > 0:  # Shell's sort
        for here in range(first + gap, first + count):
            value, place = values[here], here
            while place >= first + gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 2
    middle = first + count // 2
    median: float = values[middle]
    return median if count % 2 else 0.5 * (median + values[middle - 1])
