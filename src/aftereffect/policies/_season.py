"""Medians without new arrays: the season of a history, and how far numbers are spread."""

import math

from aftereffect._core import Vector

#: The weeks at the end of a history that say how high totals are now.
_LAST_WEEKS = 3


def sort_first(numbers: Vector, count: int) -> None:
    """Sort the first numbers of an array, in place."""
    gap = count // 2
    while gap > 0:
        for place in range(gap, count):
            number, hole = numbers[place], place
            while hole >= gap and numbers[hole - gap] > number:
                numbers[hole] = numbers[hole - gap]
                hole -= gap
            numbers[hole] = number
        gap //= 2


def find_median(numbers: Vector, count: int) -> float:
    """The median of the first numbers of an array, which it sorts; 0 if there are none."""
    if count == 0:
        return 0.0
    sort_first(numbers, count)
    middle = count // 2
    if count % 2 == 1:
        return float(numbers[middle])
    return 0.5 * float(numbers[middle - 1] + numbers[middle])


def learn_season(
    totals: Vector, first_place: int, count: int, week: int, shape: Vector, scratch: Vector
) -> bool:
    """Learn the total that each place in the week usually has.

    The first `count` totals are those of a history whose first slot has that place in its week; NaN
    where one is missing. Each week is divided by its level. `shape` then has the median over weeks
    of each place, times the level of the last weeks. Returns whether every place had a total; if
    not, `shape` is left as it was. `scratch` needs room for twice the slots and the weeks.
    """
    weeks = count // week
    skipped = count - weeks * week
    if weeks < 1:
        return False
    floor = _find_floor(totals, count)
    # Scratch holds the medians of places, then the levels of weeks, then what is sorted.
    levels, buffer = week, week + weeks
    for each in range(weeks):
        scratch[levels + each] = 0.0
    for turn in range(2):  # levels need the medians of places, and these the levels
        for place in range(week):
            found = 0
            for each in range(weeks):
                total = totals[skipped + each * week + place]
                if not math.isnan(total):
                    scratch[buffer + found] = math.log(max(total, floor)) - scratch[levels + each]
                    found += 1
            if found == 0:
                return False
            scratch[place] = _median_from(scratch, buffer, found)
        if turn == 0:
            for each in range(weeks):
                scratch[levels + each] = _find_level(
                    totals, skipped + each * week, week, floor, scratch, buffer
                )
    now = 0.0
    last = min(weeks, _LAST_WEEKS)
    for each in range(weeks - last, weeks):
        now += scratch[levels + each] / last
    for place in range(week):
        shape[(first_place + skipped + place) % week] = math.exp(scratch[place] + now)
    return True


def _find_floor(totals: Vector, count: int) -> float:
    """A small part of the mean, which stands for totals of 0 in logarithms."""
    known, total = 0, 0.0
    for slot in range(count):
        if not math.isnan(totals[slot]):
            total += max(totals[slot], 0.0)
            known += 1
    return max(0.02 * total / max(known, 1), 1e-300)


def _find_level(
    totals: Vector, begin: int, week: int, floor: float, scratch: Vector, buffer: int
) -> float:
    """The median over a week of the logarithms of totals less those of their places."""
    found = 0
    for place in range(week):
        total = totals[begin + place]
        if not math.isnan(total):
            scratch[buffer + found] = math.log(max(total, floor)) - scratch[place]
            found += 1
    return _median_from(scratch, buffer, found)


def _median_from(numbers: Vector, begin: int, count: int) -> float:
    """The median of some numbers from `begin` on, which it sorts."""
    return find_median(numbers[begin : begin + count], count)
