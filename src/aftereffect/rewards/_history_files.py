"""Files with times and totals: CSV as people and spreadsheets write it, and Parquet."""

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Vector, import_optional, short_repr
from aftereffect.errors import InputError, ParameterError

#: The most slots from the first to the last time of a history.
MAX_HISTORY = 2_000_000
_COLUMNS = ("time", "total")
#: Characters of the line that names the columns, so that a file without lines is not read whole.
_MAX_HEADER = 100_000
#: What separates cells. With the others than a comma, numbers may have decimal commas.
_SEPARATORS = (",", ";", "\t")
#: What people write where there is no number.
_MISSING = ("", "nan", "na", "null", "none", "missing")


class TimedTotal(NamedTuple):
    """A total with its time, and the number of its line; NaN where it is missing."""

    line: int
    time: datetime
    total: float


def read_timed_totals(path: str) -> list[TimedTotal]:
    """Read a .csv, .csv.gz or .parquet file with the columns time and total, and perhaps others.

    Times are in ISO 8601, with or without an offset from UTC, in any order. An empty total is
    missing. In CSV, cells may be separated by commas, semicolons or tabs; numbers may have decimal
    commas where cells are not separated by commas.
    """
    try:
        rows = _read_parquet(path) if Path(path).suffix == ".parquet" else _read_csv(path)
        known = [_read_row(path, *row) for row in islice(rows, MAX_HISTORY + 1)]
    except (OSError, UnicodeDecodeError, EOFError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot read {path}: {reason}; give a .csv, .csv.gz or .parquet file with columns "
            "time and total"
        ) from None
    if len(known) > MAX_HISTORY:
        raise InputError(f"{path} must have at most {MAX_HISTORY:,} rows, got more")
    return known


def check_timed_totals(rows: Iterable[Any]) -> list[TimedTotal]:
    """Check pairs of a time and a total.

    >>> check_timed_totals([("2026-03-02T00:00", 37), ("2026-03-02T01:00", None)])[0].total
    37.0
    """
    known = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise InputError(
                f"row {number} of a history must be (time, total), got {short_repr(row)}"
            )
        when, total = row
        known.append(_read_row("history", number, when, total, "."))
    return known


def lay_out(
    rows: Iterable[TimedTotal],
    source: str,
    find_place: Callable[[datetime], int],
    is_double: Callable[[datetime], bool] = lambda _: False,
) -> tuple[int, Vector]:
    """Put totals in the order of their slots; return the first slot, and NaN where one is missing.

    Parameters
    ----------
    rows
        Rows in any order. A row that comes again is ignored; with another total it is refused.
    source
        The name of the file, for messages.
    find_place
        The number of the slot of a time; it raises a `ParameterError` if there is none.
    is_double
        Whether clocks show a time twice, at the end of summer: its total is then the mean.
    """
    known: dict[int, TimedTotal] = {}
    for row in rows:
        try:
            place = find_place(row.time)
        except ParameterError as error:
            raise InputError(f"{source}, line {row.line}: {error}") from None
        before = known.get(place, row)
        if math.isnan(row.total):
            row = before
        elif not math.isnan(before.total) and row.total != before.total:
            if not is_double(row.time):
                raise InputError(
                    f"{source}, line {row.line}: {row.time.isoformat()} has the total "
                    f"{row.total:g}, but {before.total:g} in line {before.line}: keep one of them, "
                    "or add up what belongs together"
                )
            row = row._replace(total=(before.total + row.total) / 2)
        known[place] = row
    if all(math.isnan(row.total) for row in known.values()):
        raise InputError(f"{source} must hold at least one total, got none")
    first, last = min(known), max(known)
    if last - first >= MAX_HISTORY:
        raise InputError(
            f"{source} must span at most {MAX_HISTORY:,} slots, got {last - first + 1:,}"
        )
    totals = np.full(last - first + 1, np.nan)
    for place, row in known.items():
        totals[place - first] = row.total
    return first, totals


def _read_csv(path: str) -> Iterator[tuple[int, object, object, str]]:
    opener = gzip.open if Path(path).suffix == ".gz" else open
    with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
        header = file.readline(_MAX_HEADER)
        separator = max(_SEPARATORS, key=header.count)
        names = [
            name.strip().lower() for name in next(csv.reader([header], delimiter=separator), [])
        ]
        absent = [name for name in _COLUMNS if names.count(name) != 1]
        if absent:
            raise InputError(
                f"the first line of {path} must name the columns time and total, once each, "
                f"got {short_repr(header.strip())}"
            )
        columns = [names.index(name) for name in _COLUMNS]
        rows = csv.reader(file, delimiter=separator)
        for row in rows:
            if not row:  # an empty line
                continue
            if len(row) != len(names):  # a comma within a number, or a file that was cut off
                raise InputError(
                    f"{path}, line {rows.line_num + 1}: expected {len(names)} cells, got "
                    f"{len(row)}: if numbers have decimal commas, separate cells by semicolons"
                )
            when, total = (row[column] for column in columns)
            yield rows.line_num + 1, when, total, "." if separator == "," else ","


def _read_parquet(path: str) -> Iterator[tuple[int, object, object, str]]:
    pl: Any = import_optional("polars")
    try:
        with open(path, "rb") as file:
            frame = pl.read_parquet(file)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from None
    names = {name.strip().lower(): name for name in frame.columns}
    if any(name not in names for name in _COLUMNS):
        raise InputError(f"{path} must have the columns time and total, got {frame.columns}")
    columns = [frame.get_column(names[name]).to_list() for name in _COLUMNS]
    for number, (when, total) in enumerate(zip(*columns, strict=True), 1):
        yield number, when, total, "."


def _read_row(source: str, line: int, when: object, total: object, decimal: str) -> TimedTotal:
    try:
        return TimedTotal(line, _read_time(when), _read_total(total, decimal))
    except ValueError:
        raise InputError(
            f"{source}, line {line}: expected a time such as 2026-03-02T00:00 and a total from 0 "
            f"on, such as 1234.5, got {short_repr((when, total))}"
        ) from None


def _read_time(given: object) -> datetime:
    if isinstance(given, str):
        given = datetime.fromisoformat(given.strip())
    elif isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time())
    if not isinstance(given, datetime) or not 1900 <= given.year < 2200:
        raise ValueError
    return given


def _read_total(given: object, decimal: str) -> float:
    if given is None:
        return math.nan
    if isinstance(given, str):
        text = given.strip()
        if text.lower() in _MISSING:
            return math.nan
        if decimal == "," and "." not in text:  # 1.234,5 could be two numbers: refused below
            text = text.replace(",", ".", 1)
        if "_" in text or not text.isascii():
            raise ValueError
        given = text
    try:
        total = float(given)  # type: ignore[arg-type]  # whatever it is, it is tried
    except (TypeError, OverflowError):
        raise ValueError from None
    if total < 0 or math.isinf(total) or isinstance(given, bool):
        raise ValueError
    return total
