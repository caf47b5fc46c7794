"""The totals of a past in which one arm was played: an array, or a file with times and totals."""

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import (
    Calendar,
    Matrix,
    Spec,
    Vector,
    check_columns,
    check_sequence,
    short_repr,
    suggest,
)
from aftereffect.errors import InputError, ParameterError
from aftereffect.rewards._columns import (
    MAX_ROWS,
    read_cell_number,
    read_cell_time,
    read_columns,
)

SlotName: TypeAlias = Literal["15min", "1h", "1d", "1w"]
#: The length of each slot, and how many make a day; 0 where one is longer than that.
SLOT_LENGTHS: dict[SlotName, tuple[timedelta, int]] = {
    "15min": (timedelta(minutes=15), 96),
    "1h": (timedelta(hours=1), 24),
    "1d": (timedelta(days=1), 1),
    "1w": (timedelta(weeks=1), 0),
}
#: The most slots from the first to the last time of a history.
MAX_HISTORY = MAX_ROWS
#: The most numbers that a slot can have beside its total.
MAX_COVARIATES = 16
_COLUMNS = ("time", "total")


class TimedTotal(NamedTuple):
    """A total with its time, its covariates and its line; NaN where a number is missing."""

    line: int
    time: datetime
    total: float
    covariates: tuple[float, ...] = ()


def check_covariates(names: object, reserved: Sequence[str] = _COLUMNS) -> tuple[str, ...]:
    """Check the names of covariates, which are columns of files beside those that are reserved.

    >>> check_covariates(["temperature", "rain"])
    ('temperature', 'rain')
    """
    given = check_sequence("covariates", names)
    if len(given) > MAX_COVARIATES:
        raise ParameterError(f"covariates must be at most {MAX_COVARIATES}, got {len(given)}")
    return check_columns("covariates", given, "a covariate", reserved)


def read_timed_totals(path: str, covariates: Sequence[str] = ()) -> list[TimedTotal]:
    """Read a .csv, .csv.gz or .parquet file with the columns time and total, and covariates.

    Times are in ISO 8601, with or without an offset from UTC, in any order. An empty total is
    missing, and an empty covariate not known; other columns are ignored. How CSV may be written,
    `read_columns` says.
    """
    return _read_table(path, covariates)[0]


def read_grouped_totals(
    path: str, column: str, covariates: Sequence[str] = ()
) -> dict[str, list[TimedTotal]]:
    """Read such a file whose rows are of several units: by what stands in a further column."""
    rows, names = _read_table(path, covariates, column)
    found: dict[str, list[TimedTotal]] = {}
    for row, name in zip(rows, names, strict=True):
        if not name:
            raise InputError(f"{path}, line {row.line}: the column {column} is empty")
        found.setdefault(name, []).append(row)
    return found


def _read_table(
    path: str, covariates: Sequence[str], *columns: str
) -> tuple[list[TimedTotal], list[str]]:
    """The rows of a file, and the texts in a further column, if one is named."""
    table = read_columns(path, _COLUMNS, (*covariates, *columns), (*_COLUMNS[:1], *columns))
    table.require(*_COLUMNS, *columns)
    for name in covariates:
        if name not in table.cells:
            raise InputError(
                f"{path} must have one column {name!r}, for the covariate of that name, got "
                f"{table.names.count(name.lower()) or 'none'}: its columns are "
                f"{', '.join(table.names)}"
            )
    names = (*_COLUMNS, *covariates)
    rows = zip(table.lines, *(table.cells[name] for name in names), strict=True)
    texts = [str(cell or "").strip() for name in columns for cell in table.cells[name]]
    return [_read_row(path, names, line, cells, table.decimal) for line, *cells in rows], texts


def check_timed_totals(rows: Iterable[Any], covariates: Sequence[str] = ()) -> list[TimedTotal]:
    """Check rows of a time and a total, and perhaps covariates by their names.

    >>> check_timed_totals([("2026-03-02T00:00", 37), ("2026-03-02T01:00", None)])[0].total
    37.0
    """
    known = []
    for number, row in enumerate(rows, 1):
        is_row = isinstance(row, (tuple, list)) and 2 <= len(row) <= 3
        given = row[2] if is_row and len(row) == 3 else {}
        if not (is_row and isinstance(given, Mapping)):
            raise InputError(
                f"row {number} of a history must be (time, total) or (time, total, "
                f"{{covariate: number}}), got {short_repr(row)}"
            )
        for name in given:
            if name not in covariates:
                raise InputError(
                    f"row {number} of a history has an unknown covariate {short_repr(name)}: "
                    f"{suggest(str(name), covariates)}"
                )
        cells = (*row[:2], *(given.get(name) for name in covariates))
        known.append(_read_row("history", (*_COLUMNS, *covariates), number, cells, "."))
    return known


def lay_out(
    rows: Iterable[TimedTotal],
    source: str,
    find_place: Callable[[datetime], int],
    is_double: Callable[[datetime], bool] = lambda _: False,
) -> tuple[int, Vector, Matrix]:
    """Put rows in the order of their slots; return the first slot, the totals and the covariates.

    Where one is missing, there is NaN.

    Parameters
    ----------
    rows
        Rows in any order. A row that comes again is ignored; with another number it is refused.
    source
        The name of the file, for messages.
    find_place
        The number of the slot of a time; it raises a `ParameterError` if there is none.
    is_double
        Whether clocks show a time twice, at the end of summer: its numbers are then the means.
    """
    known: dict[int, TimedTotal] = {}
    for row in rows:
        try:
            place = find_place(row.time)
        except ParameterError as error:
            raise InputError(f"{source}, line {row.line}: {error}") from None
        before = known.get(place, row)
        known[place] = _join(source, before, row, is_double=is_double(row.time))
    if all(math.isnan(row.total) for row in known.values()):
        raise InputError(f"{source} must hold at least one total, got none")
    first, last = min(known), max(known)
    if last - first >= MAX_HISTORY:
        raise InputError(
            f"{source} must span at most {MAX_HISTORY:,} slots, got {last - first + 1:,}"
        )
    totals = np.full(last - first + 1, np.nan)
    covariates = np.full((len(totals), len(known[first].covariates)), np.nan)
    for place, row in known.items():
        totals[place - first] = row.total
        covariates[place - first] = row.covariates
    return first, totals, covariates


def _join(source: str, before: TimedTotal, row: TimedTotal, *, is_double: bool) -> TimedTotal:
    """Join two rows of the same slot."""
    joined: list[float] = []
    pairs = zip((before.total, *before.covariates), (row.total, *row.covariates), strict=True)
    for known, number in pairs:
        if math.isnan(known) or math.isnan(number) or known == number:
            joined.append(known if math.isnan(number) else number)
        elif is_double:
            joined.append((known + number) / 2)
        else:
            what = "covariate" if joined else "total"
            raise InputError(
                f"{source}, line {row.line}: {row.time.isoformat()} has the {what} {number:g}, "
                f"but {known:g} in line {before.line}: keep one of them, or add up what belongs "
                "together"
            )
    return row._replace(total=joined[0], covariates=tuple(joined[1:]))


def _read_row(
    source: str, names: Sequence[str], line: int, cells: Sequence[object], decimal: str
) -> TimedTotal:
    when, given = cells[:2]
    try:
        time, total = read_cell_time(when), read_cell_number(given, decimal)
        if total < 0:
            raise ValueError
    except ValueError:
        raise InputError(
            f"{source}, line {line}: expected a time such as 2026-03-02T00:00 and a total from 0 "
            f"on, such as 1234.5, got {short_repr((when, given))}"
        ) from None
    covariates = []
    for name, cell in zip(names[2:], cells[2:], strict=True):
        try:
            covariates.append(read_cell_number(cell, decimal))
        except ValueError:
            raise InputError(
                f"{source}, line {line}: expected a number as {name}, such as 3.5, or nothing "
                f"where it is not known, got {short_repr(cell)}"
            ) from None
    return TimedTotal(line, time, total, tuple(covariates))


class History(NamedTuple):
    """Totals without holes, one per slot; the place of the first in its week; and covariates.

    Covariates are one row per slot, with NaN where a number is not known.
    """

    totals: Vector
    first: int
    covariates: Matrix


@dataclass(frozen=True, repr=False)
class RecordedTotals(Spec):
    """Totals from an array that begins on a Monday. It has a label, but no spec string.

    Parameters
    ----------
    totals
        One number per slot; NaN where a total is missing.

    Examples
    --------
    >>> RecordedTotals([3, float("nan"), 5]).history.totals.tolist()
    [3.0, 4.0, 5.0]
    """

    kind = "history"

    totals: Vector = field(compare=False)
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        totals = _check_totals(self.totals)
        totals.setflags(write=False)
        digest = hashlib.sha256(totals.tobytes()).hexdigest()[:12]
        self._set(totals=totals, digest=digest)

    def __str__(self) -> str:
        """A label."""
        return f"recorded-totals({len(self.totals)} slots, {self.digest})"

    __repr__ = __str__

    @property
    def history(self) -> History:
        """The same without holes."""
        return History(fill_holes(self.totals), 0, np.zeros((len(self.totals), 0)))


def as_history(value: Any) -> RecordedTotals:
    """Recorded totals, from themselves or from an array; they check what they are made of."""
    if isinstance(value, RecordedTotals):
        return value
    return RecordedTotals(value)


def _check_totals(values: ArrayLike) -> Vector:
    try:
        totals = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        totals = np.zeros(0)
    if totals.ndim != 1 or not (totals >= 0).any() or (totals < 0).any() or np.isinf(totals).any():
        raise ParameterError(
            "history must be a path, or a list of totals from 0 on (NaN if missing), "
            f"got {short_repr(values)}"
        )
    return totals


def fill_holes(totals: Vector) -> Vector:
    """Put straight lines in place of totals that are NaN.

    >>> fill_holes(np.array([1, np.nan, np.nan, 4.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    known = np.flatnonzero(~np.isnan(totals))
    filled: Vector = np.interp(np.arange(len(totals)), known, totals[known])
    return filled


class DatedTotals(NamedTuple):
    """Totals with NaN in their holes, the time of the first, and the same without holes."""

    totals: Vector
    start: datetime
    history: History


def read_history(path: str, slot: SlotName, covariates: tuple[str, ...] = ()) -> History:
    """Read a file of times and totals, and put straight lines into its holes.

    Holes of covariates stay.
    """
    return read_dated_totals(path, slot, covariates).history


def read_dated_totals(path: str, slot: SlotName, covariates: tuple[str, ...] = ()) -> DatedTotals:
    """Read a file of times and totals (see `read_timed_totals`).

    Times lie a whole number of slots apart. Slots without a total are holes.
    """
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        changed = 0  # the reader says what is wrong
    return _read_file(path, slot, covariates, changed)


@lru_cache(maxsize=4)  # all policies of a study play the same
def _read_file(path: str, slot: SlotName, covariates: tuple[str, ...], changed: int) -> DatedTotals:
    return arrange_totals(read_timed_totals(path, covariates), path, slot)


def arrange_totals(rows: Sequence[TimedTotal], source: str, slot: SlotName) -> DatedTotals:
    """Put rows in the order of their times; `source` is the name of their file, for messages."""
    length, slots_per_day = SLOT_LENGTHS[slot]
    if not rows:
        raise InputError(f"{source} must hold at least one total, got none")
    if len({row.time.tzinfo is None for row in rows}) > 1:
        raise InputError(f"times in {source} must all have an offset from UTC, or none of them")
    first = min(row.time for row in rows)

    def find_place(time: datetime) -> int:
        place, rest = divmod(time - first, length)
        if rest:
            raise ParameterError(
                f"times must lie a whole number of slots of {slot} apart, "
                f"got {first} and {time}: choose another slot"
            )
        return place

    _, totals, numbers = lay_out(rows, source, find_place)
    week = Calendar(slots_per_day).slots_per_week
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=first.weekday())
    filled = fill_holes(totals)
    for array in (totals, filled, numbers):  # they are cached, and shared
        array.setflags(write=False)
    return DatedTotals(totals, first, History(filled, (first - monday) // length % week, numbers))
