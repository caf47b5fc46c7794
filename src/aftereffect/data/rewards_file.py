"""Rewards from a file of one's own: a table by slot and arm, or one column with the paying arm of each slot."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aftereffect.errors import InputError
from aftereffect.extras import imported


def read_rewards(path: Path) -> NDArray[Any]:
    """The numbers in a .npy, .csv or .parquet file: a row per slot, and a column per arm or a single one.

    A .csv file may begin with a line of names.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"cannot read rewards from {path}: its name must end in {' or '.join(READERS)}")
    if not path.is_file():
        raise InputError(f"cannot read {path}: there is no such file")
    try:
        values = reader(path)
    except InputError:
        raise
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # polars panics at some damaged files, and a panic is no Exception
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"cannot read {path}: not a {path.suffix} file of numbers ({reason})") from None
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"cannot read {path}: it holds several arrays, and one is needed")
    return loaded


def _csv(path: Path) -> NDArray[Any]:
    pl = imported("polars")
    with path.open(encoding="utf-8") as lines:
        named = not all(_is_number(cell) for cell in lines.readline().split(","))
    return _numbers(path, pl.read_csv(path, has_header=named, infer_schema_length=None))


def _parquet(path: Path) -> NDArray[Any]:
    return _numbers(path, imported("polars").read_parquet(path))


def _numbers(path: Path, frame: Any) -> NDArray[Any]:
    for name, column in frame.to_dict().items():
        if not column.dtype.is_numeric() or column.null_count():
            raise InputError(f"cannot read {path}: the column {name} must hold numbers and nothing else")
    values: NDArray[Any] = frame.to_numpy()
    return values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


READERS: Mapping[str, Callable[[Path], NDArray[Any]]] = {".npy": _npy, ".csv": _csv, ".parquet": _parquet}
