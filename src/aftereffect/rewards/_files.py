"""Files: rewards by slot and arm; and times, totals and covariates, as people and tools write them.

A file of rewards has a column per arm, or a single column with the paying arm of each slot.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import (
    Matrix,
    Vector,
    check_names,
    check_sequence,
    import_optional,
    short_repr,
    suggest,
)
from aftereffect.errors import InputError, ParameterError
from aftereffect.rewards._columns import MAX_ROWS, read_cell_number, read_cell_time, read_columns

#: The most slots from the first to the last time of a history.
MAX_HISTORY = MAX_ROWS
#: The most numbers that a slot can have beside its total.
MAX_COVARIATES = 16
_COLUMNS = ("time", "total")
#: What separates cells in files that should have commas.
OTHER_SEPARATORS = ";\t|"
_DECIMAL_POINTS = "if it has decimal commas, write points: 0.5"
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")
_ARMS_ONLY = "each column is an arm, so take out slots, dates and the like"


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
    known = check_names("covariates", check_sequence("covariates", names), "a covariate")
    if len(known) > MAX_COVARIATES:
        raise ParameterError(f"covariates must be at most {MAX_COVARIATES}, got {len(known)}")
    for number, name in enumerate(known):
        if name.lower() in reserved or '"' in name:
            raise ParameterError(
                f"a covariate must not have quotes or the name of another column, got {name!r}: "
                "choose another name"
            )
        if name.lower() in (other.lower() for other in known[:number]):
            raise ParameterError(f"covariates must differ by more than capitals, got {name!r}")
    return known


def read_timed_totals(path: str, covariates: Sequence[str] = ()) -> list[TimedTotal]:
    """Read a .csv, .csv.gz or .parquet file with the columns time and total, and covariates.

    Times are in ISO 8601, with or without an offset from UTC, in any order. An empty total is
    missing, and an empty covariate not known; other columns are ignored. How CSV may be written,
    `read_columns` says.
    """
    table = read_columns(path, _COLUMNS, covariates)
    table.require(*_COLUMNS)
    for name in covariates:
        if name not in table.cells:
            raise InputError(
                f"{path} must have one column {name!r}, for the covariate of that name, got "
                f"{table.names.count(name.lower()) or 'none'}: its columns are "
                f"{', '.join(table.names)}"
            )
    names = (*_COLUMNS, *covariates)
    rows = zip(table.lines, *(table.cells[name] for name in names), strict=True)
    return [_read_row(path, names, line, cells, table.decimal) for line, *cells in rows]


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


def read_rewards(path: Path) -> NDArray[Any]:
    """Read a .npy, .csv or .parquet file: a row per slot, and a column per arm or a single one.

    A .csv file may begin with a line of names.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"cannot read rewards from {path}: its name must end in {' or '.join(READERS)}"
        )
    if not path.is_file():
        raise InputError(f"cannot read {path}: there is no such file")
    try:
        values = reader(path)
    except (InputError, KeyboardInterrupt, SystemExit):
        raise
    except MemoryError:
        raise InputError(f"cannot read {path}: it needs more memory than there is") from None
    except (
        BaseException
    ) as error:  # polars panics at some damaged files, and a panic is no Exception
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(
            f"cannot read {path}: not a {path.suffix} file of numbers ({reason})"
        ) from None
    if values.ndim != 2:
        return values
    if values.shape[1] == 1:
        return values[:, 0]
    if values.size and np.issubdtype(values.dtype, np.number) and values.max() > 1:
        most = f"got {values.max():g}: divide all by the most that one can be"
        raise InputError(f"cannot use {path}: rewards must be numbers from 0 to 1, {most}")
    return values


def find_other_separator(line: str) -> str | None:
    """What separates the cells of a line instead of commas, or None."""
    return next((mark for mark in OTHER_SEPARATORS if mark in line), None)


def _npy(path: Path) -> NDArray[Any]:
    """The array in the file; mapped first, so that a false size is found before memory is taken."""
    loaded = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise InputError(f"cannot read {path}: expected one array, got several")
    return np.array(loaded)


def _csv(path: Path) -> NDArray[Any]:
    pl = import_optional("polars")
    with path.open(encoding="utf-8-sig") as lines:
        first, second = lines.readline().rstrip("\r\n"), lines.readline().rstrip("\r\n")
    _check_separators(path, first, second)
    named = not all(_is_number(cell) for cell in first.split(","))
    try:
        frame = pl.read_csv(path, has_header=named, infer_schema_length=None)
    except pl.exceptions.ComputeError as error:
        if "found more fields" not in str(error):
            raise
        cells = len(first.split(","))
        raise InputError(
            f"cannot read {path}: a line has more cells than the first, {cells}; {_DECIMAL_POINTS}"
        ) from None
    return _numbers(path, frame)


def _check_separators(path: Path, first: str, second: str) -> None:
    """Refuse a file with other separators, as spreadsheets write where decimals have commas."""
    other = find_other_separator(first)
    if other and (
        "," not in first or all(_is_number(cell.replace(",", ".")) for cell in first.split(other))
    ):
        decimals = f"; {_DECIMAL_POINTS}" if "," in second else ""
        raise InputError(
            f"cannot read {path}: its columns are separated by {other!r}: use commas{decimals}"
        )


def _parquet(path: Path) -> NDArray[Any]:
    return _numbers(path, import_optional("polars").read_parquet(path))


def _numbers(path: Path, frame: Any) -> NDArray[Any]:
    several = frame.width > 1
    for name, column in frame.to_dict().items():
        if column.null_count():
            raise InputError(
                f"cannot read {path}: the column {name} has empty cells, "
                "and must hold numbers and nothing else"
            )
        if not column.dtype.is_numeric():
            came = short_repr(
                str(next((each for each in column if not _is_number(str(each))), column[0]))
            )
            hint = (
                f"; {_DECIMAL_POINTS}"
                if _DECIMAL_COMMA.fullmatch(str(column[0]))
                else f"; {_ARMS_ONLY}"
                if several
                else ""
            )
            raise InputError(
                f"cannot read {path}: the column {name} must hold numbers and nothing else, "
                f"got {came}{hint}"
            )
        if several and _counts(column.to_numpy()):
            raise InputError(
                f"cannot read {path}: the column {name} counts the slots; {_ARMS_ONLY}"
            )
    values: NDArray[Any] = frame.to_numpy()
    return values


def _counts(values: NDArray[Any]) -> bool:
    """Whether these are slot numbers such as 0, 1, 2, ..."""
    return len(values) > 1 and bool(values[-1] > 1 and np.all(np.diff(values.astype(float)) == 1))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


READERS: Mapping[str, Callable[[Path], NDArray[Any]]] = {
    ".npy": _npy,
    ".csv": _csv,
    ".parquet": _parquet,
}
