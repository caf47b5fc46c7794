"""When slots begin, by the clocks of a time zone, and the totals of slots before the first."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from aftereffect._core import Calendar, check_choice, check_float, short_repr
from aftereffect.errors import InputError, ParameterError, name_field
from aftereffect.rewards import (
    SLOT_LENGTHS,
    SlotName,
    TimedTotal,
    check_timed_totals,
    lay_out,
    read_timed_totals,
)

#: The most slots of a history: eleven years of hours.
MAX_LIVE_HISTORY = 100_000
_DAY = timedelta(days=1)
#: Totals by slot, and the covariates of each slot; None where a number is not known.
Totals: TypeAlias = tuple[float | None, ...]
CovariateRows: TypeAlias = tuple[tuple[float | None, ...], ...]


class SlotClock(NamedTuple):
    """The length of slots, the time at which slot 0 begins on the wall, and the time zone.

    Slots shorter than a day all last equally long. When clocks change, days have one hour more or
    less, and so many more or fewer slots. Slots of a day or a week begin at the same time of day.

    A policy counts slots by the clock on the wall, so that a place in the week is always the same
    hour: see `place_on_wall`.

    Examples
    --------
    >>> clock = SlotClock("1h", datetime(2026, 3, 29), "Europe/Berlin")
    >>> [clock.find_time(slot).isoformat() for slot in (1, 2)]
    ['2026-03-29T01:00:00+01:00', '2026-03-29T03:00:00+02:00']
    >>> [clock.place_on_wall(slot) for slot in (0, 1, 2, 3)]
    [0, 1, 3, 4]
    """

    slot: SlotName
    start: datetime
    timezone: str

    @property
    def length(self) -> timedelta:
        """The length of a slot."""
        return SLOT_LENGTHS[self.slot][0]

    @property
    def calendar(self) -> Calendar:
        """How slots lie in days and weeks."""
        per_day = SLOT_LENGTHS[self.slot][1]
        week = Calendar(per_day).slots_per_week
        monday = self.start.date() - timedelta(days=self.start.weekday())
        since = self.start - datetime.combine(monday, datetime.min.time())
        return Calendar(per_day, since // self.length % week)

    def find_time(self, slot: int) -> datetime:
        """The time at which a slot begins."""
        zone = find_zone(self.timezone)
        try:
            if self.length >= _DAY:
                return (self.start + slot * self.length).replace(tzinfo=zone)
            begin = self.start.replace(tzinfo=zone).astimezone(UTC)
            return (begin + slot * self.length).astimezone(zone)
        except OverflowError:
            raise ParameterError(f"slot {slot:,} begins after the year 9999") from None

    def place_on_wall(self, slot: int) -> int:
        """How many slots clocks have shown since the start; an hour shown twice counts once."""
        if self.length >= _DAY or slot == 0:
            return slot
        return (self.find_time(slot).replace(tzinfo=None) - self.start) // self.length

    def find_slot(self, time: datetime) -> int:
        """The slot that begins at a time; negative before the start.

        A time without an offset from UTC is one of this time zone. If clocks show it twice, it is
        the first.
        """
        number, rest = divmod(self._find_age(time), self.length)
        if rest:
            raise ParameterError(
                f"no slot begins at {time.isoformat()}: slots of {self.slot} follow each other "
                f"from {self.start.isoformat()} on"
            )
        return number

    def find_running(self, time: datetime) -> int:
        """The slot that runs at a time; negative before the start."""
        return self._find_age(time) // self.length

    def _find_age(self, time: datetime) -> timedelta:
        """How long after the start a time is: on the clocks, if slots are so long."""
        zone = find_zone(self.timezone)
        local = time.replace(tzinfo=zone) if time.tzinfo is None else time.astimezone(zone)
        if self.length >= _DAY:
            return local.replace(tzinfo=None) - self.start
        return local.astimezone(UTC) - self.start.replace(tzinfo=zone).astimezone(UTC)

    def is_double(self, time: datetime) -> bool:
        """Whether clocks show a time without an offset twice."""
        zone = find_zone(self.timezone)
        first, second = (time.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
        return time.tzinfo is None and first != second


def make_clock(slot: object, start: object, timezone: object) -> SlotClock:
    """Check the settings of a clock.

    >>> make_clock("1d", "2026-03-02", "UTC").start
    datetime.datetime(2026, 3, 2, 0, 0)
    """
    with name_field("slot"):
        length = check_choice("slot", slot, SLOT_LENGTHS)
    with name_field("timezone"):
        if not isinstance(timezone, str):
            raise ParameterError(f"timezone must be a name, got {short_repr(timezone)}")
        zone = find_zone(timezone)
    with name_field("start"):
        begin = read_time("start", start)
    if begin.tzinfo is not None:
        begin = begin.astimezone(zone).replace(tzinfo=None)
    # A start that follows a history may be a time that clocks skip: then it is an hour later.
    begin = begin.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    return SlotClock(length, begin, timezone)


def place_history(
    slot: str | None,
    start: object,
    timezone: str | None,
    history: object,
    covariates: Sequence[str] = (),
) -> tuple[SlotClock | None, Totals, CovariateRows]:
    """Find the clock of an experiment, and what was observed before slot 0.

    That is one total per slot, the last one directly before slot 0, and one row of covariates.

    Parameters
    ----------
    slot, start, timezone
        The settings of the clock. If there is no start, slot 0 follows the last slot of a history
        with times; without one it is the next full slot.
    history
        The path of a file (see `read_timed_totals`), rows of a time and a total, or totals.
    covariates
        The names of the covariates that the history has.
    """
    try:
        return _place(slot, start, timezone, history, covariates)
    except InputError as error:
        if isinstance(history, (str, os.PathLike)):
            raise
        raise ParameterError(str(error)) from None  # there is no file


def _place(
    slot: str | None,
    start: object,
    timezone: str | None,
    history: object,
    covariates: Sequence[str],
) -> tuple[SlotClock | None, Totals, CovariateRows]:
    rows, totals = read_past_totals(history, covariates)
    if slot is None:
        if start is not None or timezone is not None or rows:
            given = "a history with times" if rows else "a start or a time zone"
            raise ParameterError(
                f"{given} needs the length of a slot: give slot (--slot), as in 1h"
            )
        return None, totals, ()
    zone = "UTC" if timezone is None else timezone
    if start is not None:
        _check_start(start, zone)
    if start is None and rows:
        length = _find_length(slot)
        times = [_find_wall(row, zone) for row in rows]
        start = min(times) + ((max(times) - min(times)) // length + 1) * length
    clock = make_clock(slot, find_next_slot(slot, zone) if start is None else start, zone)
    if not rows:
        return clock, totals, ()

    def find_place(time: datetime) -> int:
        if clock.find_slot(time) >= 0:
            raise ParameterError(
                f"{time.isoformat()} is not before the start, {clock.start.isoformat()}"
            )
        wall = _find_wall(TimedTotal(0, time, 0.0), zone)
        return (wall - clock.start) // clock.length

    source = str(history) if isinstance(history, (str, os.PathLike)) else "history"
    first, placed, numbers = lay_out(rows, source, find_place, clock.is_double)
    _check_length(-first)
    padded = np.full((-first, 1 + len(covariates)), np.nan)
    padded[: len(placed), 0], padded[: len(placed), 1:] = placed, numbers
    known = [tuple(None if each != each else each for each in row) for row in padded.tolist()]
    past = tuple(row[1:] for row in known) if covariates else ()
    return clock, tuple(row[0] for row in known), past


def _check_start(given: object, timezone: str) -> None:
    """Refuse a start that clocks skip, or that they show twice: slot 0 would be another hour."""
    with name_field("start"):
        start = read_time("start", given)
        with name_field("timezone"):
            zone = find_zone(timezone)
        local = start.replace(tzinfo=zone) if start.tzinfo is None else start.astimezone(zone)
        wall = local.replace(tzinfo=None)
        first, second = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        if first.utcoffset() == second.utcoffset():
            return
        shown, skipped = wall.isoformat(), first.astimezone(UTC).astimezone(zone)
        if skipped.replace(tzinfo=None) != wall:
            raise ParameterError(
                f"start must be a time that clocks show, and in {timezone} they skip {shown}: "
                f"give another one, such as {skipped.isoformat()}"
            )
        if start.tzinfo is None:
            raise ParameterError(
                f"start must be one time, and clocks in {timezone} show {shown} twice: for the "
                f"first, give {first.isoformat()}"
            )
        if local.fold:
            raise ParameterError(
                f"start cannot be the second of two times that clocks in {timezone} show as "
                f"{shown}: give another one, such as {first.isoformat()}, the first"
            )


def read_past_totals(
    history: object, covariates: Sequence[str] = ()
) -> tuple[list[TimedTotal], Totals]:
    """Read what came before an experiment: rows with times, or totals without.

    >>> read_past_totals([37, None])
    ([], (37.0, None))
    """
    if history is None:
        return [], ()
    if isinstance(history, (str, os.PathLike)):
        rows = read_timed_totals(os.fspath(history), covariates)
        if not rows:
            raise InputError(f"{history} must hold at least one total, got none")
        return rows, ()
    if isinstance(history, np.ndarray) and history.ndim:
        history = history.tolist()
    if not isinstance(history, Sequence) or isinstance(history, (bytes, bytearray)):
        raise ParameterError(
            f"history must be a path, or a list of (time, total), got {short_repr(history)}"
        )
    _check_length(len(history))
    if len(history) and isinstance(history[0], (tuple, list)):
        try:
            return check_timed_totals(history, covariates), ()
        except InputError as error:
            raise ParameterError(str(error)) from None  # there is no file
    if covariates and len(history):
        raise ParameterError(
            "totals without times have no covariates: give a file, or rows of "
            "(time, total, {covariate: number})"
        )
    return [], check_totals(list(history))


def check_totals(history: Sequence[object], largest: float = sys.float_info.max) -> Totals:
    """Check totals that were observed before slot 0; None where one is missing.

    >>> check_totals([37, None])
    (37.0, None)
    """
    _check_length(len(history))
    return tuple(
        None
        if total is None or total != total
        else check_float("a total of the history", total, at_least=-largest, at_most=largest)
        for total in history
    )


def _check_length(slots: int) -> None:
    if slots > MAX_LIVE_HISTORY:
        raise ParameterError(
            f"a history must begin at most {MAX_LIVE_HISTORY:,} slots before the start, "
            f"got {slots:,}: give the last part of it"
        )


def _find_length(slot: object) -> timedelta:
    """The length of a slot, by its name."""
    return SLOT_LENGTHS[check_choice("slot", slot, SLOT_LENGTHS)][0]


def _find_wall(row: TimedTotal, timezone: str) -> datetime:
    """The time of a row on the wall of a time zone."""
    if row.time.tzinfo is None:
        return row.time
    return row.time.astimezone(find_zone(timezone)).replace(tzinfo=None)


def find_next_slot(slot: str, timezone: str) -> datetime:
    """The next full slot from now on, on the wall of a time zone."""
    length = _find_length(slot)
    now = datetime.now(find_zone(timezone)).replace(tzinfo=None)
    monday = datetime.combine(now.date() - timedelta(days=now.weekday()), datetime.min.time())
    return monday + -(-(now - monday) // length) * length


def read_time(name: str, given: object) -> datetime:
    """Read a time in ISO 8601.

    >>> read_time("start", "2026-03-02T14:00").hour
    14
    """
    time = given
    if not isinstance(given, datetime):
        with suppress(ValueError):
            time = datetime.fromisoformat(str(given))
    if not isinstance(time, datetime) or not 1900 <= time.year < 2200:
        raise ParameterError(
            f"{name} must be a time from 1900 to 2199, such as 2026-03-02T00:00, "
            f"got {short_repr(given)}"
        )
    return time


def find_zone(name: str) -> ZoneInfo:
    """Find a time zone by its name.

    >>> find_zone("Europe/Berlin").key
    'Europe/Berlin'
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ParameterError(
            f"timezone must be a name such as UTC or Europe/Berlin, got {short_repr(name)}"
        ) from None
