"""The totals of the slots before the first: of one unit, or of each of several."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import check_choice, check_float, short_repr, suggest
from aftereffect.errors import InputError, ParameterError, name_field
from aftereffect.live._slot_clock import SlotClock, find_zone, make_clock, read_time
from aftereffect.rewards import (
    SLOT_LENGTHS,
    TimedTotal,
    check_timed_totals,
    lay_out,
    read_grouped_totals,
    read_timed_totals,
)

#: The most slots of a history: eleven years of hours.
MAX_LIVE_HISTORY = 100_000
#: The most totals of a history, of all units together.
_MAX_TOTALS = 1_000_000
#: Totals by slot, and the covariates of each slot; None where a number is not known.
Totals: TypeAlias = tuple[float | None, ...]
CovariateRows: TypeAlias = tuple[tuple[float | None, ...], ...]


class Past(NamedTuple):
    """What one unit observed before slot 0: rows with times, or totals alone; and its source.

    Examples
    --------
    >>> Past("history", [], (37.0, None)).totals
    (37.0, None)
    """

    source: str
    rows: list[TimedTotal]
    totals: Totals


def place_history(
    slot: str | None,
    start: object,
    timezone: str | None,
    history: object,
    covariates: Sequence[str] = (),
    units: Sequence[str] = (),
) -> tuple[SlotClock | None, tuple[Any, ...], tuple[Any, ...]]:
    """Find the clock of an experiment, and what was observed before slot 0.

    That is one total per slot, the last one directly before slot 0, and one row of covariates. With
    several units, it is a tuple of these per slot, with one for each unit.

    Parameters
    ----------
    slot, start, timezone
        The settings of the clock. If there is no start, slot 0 follows the last slot of a history
        with times; without one it is the next full slot.
    history
        The path of a file (see `read_timed_totals`), rows of a time and a total, or totals. Of
        several units, it is a file with the column unit, or a mapping from units to these.
    covariates
        The names of the covariates that the history has.
    units
        The names of the units, if there are several.
    """
    try:
        clock, totals, rows = _place(slot, start, timezone, history, covariates, units)
    except InputError as error:
        if isinstance(history, (str, os.PathLike)):
            raise
        raise ParameterError(str(error)) from None  # there is no file
    if units:
        return clock, totals, rows
    return clock, tuple(each for (each,) in totals), tuple(each for (each,) in rows)


def _place(
    slot: str | None,
    start: object,
    timezone: str | None,
    history: object,
    covariates: Sequence[str],
    units: Sequence[str],
) -> tuple[SlotClock | None, tuple[Totals, ...], tuple[CovariateRows, ...]]:
    """The same, with a tuple per slot also where there is one unit."""
    pasts = read_pasts(history, covariates, units)
    rows = [row for past in pasts for row in past.rows]
    if slot is None:
        if start is not None or timezone is not None or rows:
            given = "a history with times" if rows else "a start or a time zone"
            raise ParameterError(
                f"{given} needs the length of a slot: give slot (--slot), as in 1h"
            )
        return None, _align(pasts), ()
    zone = "UTC" if timezone is None else timezone
    if start is not None:
        _check_start(start, zone)
    if start is None and rows:
        length = _find_length(slot)
        times = [_find_wall(row, zone) for row in rows]
        start = min(times) + ((max(times) - min(times)) // length + 1) * length
    clock = make_clock(slot, find_next_slot(slot, zone) if start is None else start, zone)
    if not rows:
        return clock, _align(pasts), ()

    def find_place(time: datetime) -> int:
        if clock.find_slot(time) >= 0:
            raise ParameterError(
                f"{time.isoformat()} is not before the start, {clock.start.isoformat()}"
            )
        wall = _find_wall(TimedTotal(0, time, 0.0), zone)
        return (wall - clock.start) // clock.length

    placed = [
        lay_out(past.rows, past.source, find_place, clock.is_double) if past.rows else None
        for past in pasts
    ]
    slots = -min(each[0] for each in placed if each is not None)
    _check_length(slots, len(pasts))
    padded = np.full((slots, len(pasts), 1 + len(covariates)), np.nan)
    for unit, each in enumerate(placed):
        if each is not None:
            first, totals, numbers = each
            known = slice(slots + first, slots + first + len(totals))
            padded[known, unit, 0], padded[known, unit, 1:] = totals, numbers
    cells = [
        [tuple(None if number != number else number for number in row) for row in of_slot]
        for of_slot in padded.tolist()
    ]
    past_rows = tuple(tuple(row[1:] for row in of_slot) for of_slot in cells)
    return (
        clock,
        tuple(tuple(row[0] for row in of_slot) for of_slot in cells),
        past_rows if covariates else (),
    )


def _align(pasts: Sequence[Past]) -> tuple[Totals, ...]:
    """The totals of each slot, which lie directly before slot 0; None where a unit has none."""
    slots = max(len(past.totals) for past in pasts)
    _check_length(slots, len(pasts))
    columns = ((None,) * (slots - len(past.totals)) + past.totals for past in pasts)
    return tuple(zip(*columns, strict=True))


def read_pasts(history: object, covariates: Sequence[str], units: Sequence[str]) -> list[Past]:
    """What each unit observed before slot 0; of the only one, if there are no names.

    >>> [past.totals for past in read_pasts({"south": [37]}, (), ["north", "south"])]
    [(), (37.0,)]
    """
    if not units:
        is_file = isinstance(history, (str, os.PathLike))
        return [
            Past(str(history) if is_file else "history", *read_past_totals(history, covariates))
        ]
    if history is None:
        history = {}
    if isinstance(history, (str, os.PathLike)):
        path = os.fspath(history)
        grouped = read_grouped_totals(path, "unit", covariates)
        _check_known(grouped, units, path)
        return [Past(path, grouped.get(unit, []), ()) for unit in units]
    if not isinstance(history, Mapping):
        raise ParameterError(
            "history of several units must be a file with the column unit, or a mapping from units "
            f"to what each observed, got {short_repr(history)}"
        )
    _check_known(history, units, "history")
    return [
        Past(f"the history of {unit}", *read_past_totals(history.get(unit), covariates))
        for unit in units
    ]


def _check_known(given: Mapping[Any, object], units: Sequence[str], source: str) -> None:
    for name in given:
        if name not in units:
            raise InputError(
                f"{source} has an unknown unit {short_repr(name)}: {suggest(str(name), units)}"
            )


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


def _check_length(slots: int, units: int = 1) -> None:
    if slots > MAX_LIVE_HISTORY:
        raise ParameterError(
            f"a history must begin at most {MAX_LIVE_HISTORY:,} slots before the start, "
            f"got {slots:,}: give the last part of it"
        )
    if slots * units > _MAX_TOTALS:
        raise ParameterError(
            f"a history of {units:,} units must have at most {_MAX_TOTALS:,} totals in all, "
            f"got {slots:,} slots of each: give the last part of it"
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
