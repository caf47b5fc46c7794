"""Files of rewards: a column per arm, or a single column with the paying arm of each slot."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import import_optional, short_repr
from aftereffect.errors import InputError

#: What separates cells in files that should have commas.
OTHER_SEPARATORS = ";\t|"
_DECIMAL_POINTS = "if it has decimal commas, write points: 0.5"
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")
_ARMS_ONLY = "each column is an arm, so take out slots, dates and the like"


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
