"""The history that a plan is made of: read, checked, and described."""

import math
import os
import warnings
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import Calendar, Vector, check_choice, short_repr
from aftereffect.errors import InputError
from aftereffect.rewards import (
    SLOT_LENGTHS,
    DatedTotals,
    SlotName,
    arrange_totals,
    as_history,
    check_timed_totals,
    read_dated_totals,
)

#: A path, rows of a time and a total, or totals from a Monday on.
HistoryLike: TypeAlias = str | os.PathLike[str] | Sequence[Any] | Vector

#: Weeks without which nothing is planned, and below which a warning says so; and the fewest slots.
_MIN_WEEKS, _FEW_WEEKS, _MIN_SLOTS = 2, 6, 8
#: The last weeks of a history that count; slots of a week may go back further.
_MAX_WEEKS, _MAX_WEEKLY_SLOTS = 26, 260
#: The largest total, so that sums stay finite.
_MAX_TOTAL = 1e100
#: The largest share of slots without a total.
_MAX_MISSING = 0.3
#: What is usual at a place of the week is at least this part of the mean.
_FLOOR = 0.02
#: An outlier is so many deviations of the noise away.
_OUTLIER = 5.0
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Past(NamedTuple):
    """A checked history: totals without holes, and what is usual in each slot.

    ``place`` is the place of its first slot in the week, ``missing`` the share of holes.
    """

    totals: Vector
    usual: Vector
    place: int
    slot: SlotName
    missing: float

    @property
    def calendar(self) -> Calendar:
        """The calendar of its slots, with the place of the first slot after it."""
        calendar = Calendar(SLOT_LENGTHS[self.slot][1])
        return calendar._replace(first=(self.place + len(self.totals)) % calendar.slots_per_week)

    @property
    def weeks(self) -> float:
        """How many weeks it lasts."""
        return len(self.totals) / self.calendar.slots_per_week


class Description(NamedTuple):
    """What a history is like, in percent where it does not say otherwise.

    ``mean`` is the mean total of a slot. Hours and weekdays are those with the largest and the
    smallest totals, and by how much these differ from the mean. The level wanders by
    ``level_deviation`` and forgets within ``level_days``. ``noise`` is the deviation of a slot from
    season and level. ``season`` has the usual total at each place in the week, and ``level`` the
    level of each day.

    Examples
    --------
    >>> week = [60, 80, 90, 100, 120, 150, 70]
    >>> history = [total * (1 + day % 5 / 100) for day, total in enumerate(week * 10)]
    >>> past, _ = read_past(history, "1d")
    >>> describe(past, None).high_day
    ('Saturday', 56.7)
    """

    slots: int
    weeks: float
    start: str | None
    mean: float
    high_hour: tuple[str, float] | None
    low_hour: tuple[str, float] | None
    high_day: tuple[str, float] | None
    low_day: tuple[str, float] | None
    level_deviation: float
    level_days: float
    noise: float
    outliers: float
    zeros: float
    missing: float
    season: list[float]
    level: list[float]

    def __str__(self) -> str:
        """A few lines."""
        lines = [f"{self.slots:,} slots, {self.weeks:.1f} weeks, {self.mean:,.4g} per slot"]
        pairs = ((self.high_hour, self.low_hour), (self.high_day, self.low_day))
        for name, (high, low) in zip(("hours", "weekdays"), pairs, strict=True):
            if high is not None and low is not None:
                lines.append(f"{name}: {high[0]} {high[1]:+.0f} %, {low[0]} {low[1]:+.0f} %")
        days = "under a day" if self.level_days < 1 else f"about {self.level_days:.0f} days"
        lines.append(f"the level wanders by {self.level_deviation:.1f} % and remembers {days}")
        lines.append(
            f"noise of a slot {self.noise:.1f} %, outliers {self.outliers:.2g} %, "
            f"zeros {self.zeros:.2g} %, missing {self.missing:.2g} %"
        )
        return "\n".join(lines)


def read_past(history: HistoryLike, slot: str) -> tuple[Past, datetime | None]:
    """Read and check a history; return it, and when its first slot begins, if that is known."""
    name = check_choice("slot", slot, SLOT_LENGTHS)
    source, dated = _read(history, name)
    week = Calendar(SLOT_LENGTHS[name][1]).slots_per_week
    most = _MAX_WEEKS * week if week > 1 else _MAX_WEEKLY_SLOTS
    cut = max(len(dated.totals) - most, 0)
    recorded, filled = dated.totals[cut:], np.array(dated.history.totals[cut:])
    place = (dated.history.first + cut) % week
    known = ~np.isnan(recorded)
    least = max(_MIN_WEEKS * week, _MIN_SLOTS)
    if len(recorded) < least:
        raise InputError(
            f"{source} must have at least {least:,} slots of {slot}, got {len(recorded):,}: "
            "record the totals of more weeks first"
        )
    missing = 1 - known.mean()
    if missing > _MAX_MISSING:
        raise InputError(
            f"{source} must have a total in at least {1 - _MAX_MISSING:.0%} of its slots, got "
            f"{1 - missing:.0%}: is the slot really {slot}?"
        )
    if recorded[known].max() > _MAX_TOTAL:
        raise InputError(
            f"{source} must have totals of at most {_MAX_TOTAL:g}, got {recorded[known].max():g}: "
            "use a larger unit"
        )
    if recorded[known].min() == recorded[known].max():
        raise InputError(
            f"{source} must have totals that differ, got {recorded[known][0]:g} in all slots: "
            "a constant history does not say how much totals vary"
        )
    usual = find_usual(np.where(known, recorded, np.nan), place, week)
    filled = np.where(known, recorded, usual)
    past = Past(filled, usual, place, name, float(missing))
    if past.weeks < _FEW_WEEKS and week > 1:
        warnings.warn(
            f"{source} has only {past.weeks:.1f} weeks: the plan cannot know how much weeks "
            f"differ; from {_FEW_WEEKS} weeks on it can",
            stacklevel=3,
        )
    is_dated = isinstance(history, (str, os.PathLike)) or _has_rows(history)
    return past, dated.start + cut * SLOT_LENGTHS[name][0] if is_dated else None


def _read(history: HistoryLike, slot: SlotName) -> tuple[str, DatedTotals]:
    """The name of a history for messages, and its totals."""
    if isinstance(history, (str, os.PathLike)):
        path = os.fspath(history)
        return path, read_dated_totals(path, slot)
    if _has_rows(history):
        return "the history", arrange_totals(check_timed_totals(history), "the history", slot)
    given = as_history(history)
    return "the history", DatedTotals(given.totals, datetime(2001, 1, 1), given.history)


def _has_rows(history: object) -> bool:
    """Whether it holds rows of a time and a total, and not totals only."""
    if not isinstance(history, (Sequence, np.ndarray)):
        raise InputError(
            "history must be a path, rows of (time, total), or totals from a Monday on, got "
            f"{short_repr(history)}"
        )
    return len(history) > 0 and isinstance(history[0], (tuple, list))


def find_usual(totals: Vector, place: int, week: int) -> Vector:
    """What is usual in each slot: the median of its place in the week."""
    places = (place + np.arange(len(totals))) % week
    mean = float(np.nanmean(totals))
    season = np.full(week, mean)
    for each in range(week):
        here = totals[places == each]
        if not np.isnan(here).all():
            season[each] = np.nanmedian(here)
    floored: Vector = np.maximum(season, _FLOOR * mean)[places]
    return floored


def find_level(past: Past) -> Vector:
    """The level of each day, or of each slot that is longer: totals over what is usual."""
    per_day = max(past.calendar.slots_per_day, 1)
    whole = len(past.totals) // per_day * per_day
    sums, usual = (
        each[len(each) - whole :].reshape(-1, per_day).sum(axis=1)
        for each in (past.totals, past.usual)
    )
    level: Vector = np.maximum(sums, _FLOOR * usual) / usual
    return level


def describe(past: Past, start: datetime | None) -> Description:
    """Describe a history."""
    week, per_day = past.calendar.slots_per_week, past.calendar.slots_per_day
    level, mean = find_level(past), float(past.totals.mean())
    logs = np.log(level) - np.log(level).mean()
    variance = float((logs**2).mean())
    together = float((logs[1:] * logs[:-1]).mean()) / variance if variance > 0 else 0.0
    days_per_step = 1.0 if per_day else 7.0
    memory = -days_per_step / math.log(together) if 0 < together < 1 else 0.0
    steps = max(per_day, 1)
    whole = len(level) * steps
    totals, usual = past.totals[-whole:], past.usual[-whole:]
    left = totals / usual - np.repeat(level, steps)
    if steps == 1:  # what a level of the slot before does not say
        left = logs[1:] - together * logs[:-1]
    noise = 1.4826 * float(np.median(np.abs(left - np.median(left))))
    outliers = float((np.abs(left) > _OUTLIER * noise).mean()) if noise > 0 else 0.0
    season = np.zeros(week)
    season[(past.place + np.arange(len(past.usual))) % week] = past.usual
    by_hour = season.reshape(7, per_day).mean(axis=0) if per_day > 1 else None
    by_day = season.reshape(7, per_day).mean(axis=1) if per_day else None
    hours = [f"{60 * 24 * each // steps // 60:02d}:{60 * 24 * each // steps % 60:02d}"
             for each in range(steps)]  # fmt: skip
    return Description(
        slots=len(past.totals),
        weeks=past.weeks,
        start=None if start is None else start.isoformat(),
        mean=mean,
        high_hour=None if by_hour is None else _name_extreme(by_hour, hours, 1),
        low_hour=None if by_hour is None else _name_extreme(by_hour, hours, -1),
        high_day=None if by_day is None else _name_extreme(by_day, _DAYS, 1),
        low_day=None if by_day is None else _name_extreme(by_day, _DAYS, -1),
        level_deviation=100 * math.sqrt(variance),
        level_days=memory,
        noise=100 * noise,
        outliers=100 * outliers,
        zeros=100 * float((past.totals == 0).mean()),
        missing=100 * past.missing,
        season=season.tolist(),
        level=level.tolist(),
    )


def _name_extreme(means: Vector, names: Sequence[str], sign: int) -> tuple[str, float]:
    at = int(np.argmax(sign * means))
    return names[at], round(100 * (float(means[at] / means.mean()) - 1), 1)
