"""How the original data of the paper's adversarial experiments is read: two competitions of Kaggle.

Their rules do not allow others to pass the files on, so the package has none of their rows:
`outbrain` and `coupon` read the user's own copies.

The files are large, and may be plain, gzipped or zipped. They are unpacked while they are read, so
that no copy is ever on disk and a file of any length takes the same memory. A `Table` is such a
file with its columns; its rows are checked a block at a time. What was read is cached beside them.
"""

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from aftereffect._core import (
    atomic_write,
    describe_code,
    import_optional,
    short_repr,
    sources_digest,
)
from aftereffect.errors import InputError, OutputError
from aftereffect.rewards import OTHER_SEPARATORS

if TYPE_CHECKING:
    import polars

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Ids: TypeAlias = npt.NDArray[np.int64]

#: Bytes in a block: enough that parsing takes longer than handling, and few beside the memory.
BLOCK = 8 << 20
#: The formats by the ending of the name, in the order in which they are looked for.
FORMATS = {".csv": "csv", ".csv.gz": "gzip", ".csv.zip": "zip"}
_KEY = "made_of"


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, if it is one."""
    path = Path(folder)
    if not path.is_dir():
        problem = "it is not a folder" if path.exists() else "there is no such folder"
        raise InputError(f"cannot read {path}: {problem}")
    return path


def find_file(folder: Path, name: str) -> Path | None:
    """The file of this name in whichever format is there, or None."""
    paths = (folder / f"{name}{ending}" for ending in FORMATS)
    return next((path for path in paths if path.is_file()), None)


def read_blocks(path: Path) -> Iterator[bytes]:
    """The header line, then blocks of whole lines.

    A line ends at each line break: none of the original files has one within a value.
    """
    with _name_errors(path), _open(path) as stream:
        yield stream.readline(BLOCK)
        while block := stream.read(BLOCK):
            yield block + stream.readline(BLOCK)


class _Stream(Protocol):
    """A file that is being unpacked."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self, size: int, /) -> bytes: ...


@contextmanager
def _open(path: Path) -> Iterator[_Stream]:
    """The unpacked contents of a file."""
    if path.suffix == ".gz":
        with gzip.open(path) as unzipped:
            yield unzipped
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            members = [
                name
                for name in archive.namelist()
                if name.endswith(".csv") and not name.startswith("__MACOSX/")
            ]
            if len(members) != 1:
                found = ", ".join(members) or "none"
                raise InputError(f"cannot read {path}: expected one csv file in it, found {found}")
            with archive.open(members[0]) as member:
                yield member
    else:
        with path.open("rb") as plain:
            yield plain


@contextmanager
def _name_errors(path: Path) -> Iterator[None]:
    """Name the file in the message if it cannot be unpacked."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        form = next(FORMATS[ending] for ending in FORMATS if path.name.endswith(ending))
        raise InputError(
            f"cannot read {path}: it is not a complete {form} file of {path.stem}, "
            "download it again"
        ) from None
    except RuntimeError as error:  # zipfile raises it for encryption and for unknown methods
        raise InputError(
            f"cannot read {path}: unpack it to {path.stem} with another program ({error})"
        ) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def cache_beside(
    folder: Path, name: str, sources: Iterable[Path], code: str, make: Callable[[], Arrays]
) -> Arrays:
    """The arrays that `make`, from the module with this code, makes of the source files, cached.

    They are made anew only when a source file or this package has changed. If the folder cannot be
    written, nothing is cached.
    """
    target = folder / f".aftereffect-{name}.npz"
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    key = json.dumps([describe_code(), sources_digest([Path(__file__), Path(code)]), states])
    cached = _load_cached(target, key)
    if cached is not None:
        return cached
    arrays = make()
    contents: dict[str, Any] = {_KEY: key, **arrays}
    with suppress(OutputError), atomic_write(target) as draft:
        np.savez_compressed(draft, **contents)
    return arrays


def _load_cached(target: Path, key: str) -> Arrays | None:
    try:
        with target.open("rb") as file, np.load(file) as stored:
            if str(stored[_KEY]) != key:
                return None
            return {name: stored[name] for name in stored.files if name != _KEY}
    except Exception:  # whatever is wrong with the cached file, it is made anew
        return None


class ColumnType(NamedTuple):
    """The type of a column: its name in messages, and how to read it; other text becomes null."""

    plural: str
    read: Callable[["polars.Expr"], "polars.Expr"]


def _read_int(text: "polars.Expr") -> "polars.Expr":
    return text.cast(import_optional("polars").Int64, strict=False)


def _read_float(text: "polars.Expr") -> "polars.Expr":
    return text.cast(import_optional("polars").Float64, strict=False).fill_nan(None)


def _read_time(text: "polars.Expr") -> "polars.Expr":
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)


def _read_text(text: "polars.Expr") -> "polars.Expr":
    return text


INTEGER = ColumnType("whole numbers", _read_int)
NUMBER = ColumnType("numbers", _read_float)
TIME = ColumnType("times such as 2012-01-31 09:30:00", _read_time)
TEXT = ColumnType("text", _read_text)


@dataclass(frozen=True)
class Table:
    """An original file: its name without the ending, the columns we need, its word for null."""

    name: str
    columns: Mapping[str, ColumnType]
    missing: str

    def path(self, folder: Path) -> Path:
        """The path of the file, in whichever format."""
        path = find_file(folder, self.name)
        if path is None:
            names = ", ".join(self.name + ending for ending in FORMATS)
            raise InputError(f"cannot read {folder}: it has none of {names}; {self._expected}")
        return path

    def make_error(self, path: Path, problem: str) -> InputError:
        """The error to raise if the file is not as it should be."""
        return InputError(f"cannot read {path}: {problem}; {self._expected}")

    def read_parts(self, path: Path) -> Iterator["polars.DataFrame"]:
        """The rows without nulls, in the order of the file."""
        pl = import_optional("polars")
        lines = read_blocks(path)
        header = self._read_header(path, next(lines))
        before = 1
        for block in lines:
            self._check_encoding(path, block, before)
            try:
                text = pl.read_csv(
                    header + block,
                    columns=list(self.columns),
                    infer_schema_length=0,
                    null_values=self.missing,
                )
            except pl.exceptions.PolarsError:
                raise self.make_error(
                    path, f"what follows line {before:,} is not comma-separated text"
                ) from None
            values = text.select(
                kind.read(pl.col(name)).alias(name) for name, kind in self.columns.items()
            )
            self._check_types(path, text, values, before)
            yield values.drop_nulls()
            before += block.count(b"\n") or 1  # the last line may have no line break
        if before == 1:
            raise self.make_error(path, "it has no rows")

    def read(self, path: Path) -> "polars.DataFrame":
        """All rows at once, for a small file."""
        frame: polars.DataFrame = import_optional("polars").concat(self.read_parts(path))
        return frame

    @property
    def _expected(self) -> str:
        return f"expected the comma-separated columns {', '.join(self.columns)}"

    def _read_header(self, path: Path, line: bytes) -> bytes:
        """The header line, after a check that it has all columns that we need."""
        self._check_encoding(path, line, 0)
        text = line.decode("utf-8-sig").rstrip("\r\n")
        if not text:
            raise self.make_error(path, "it is empty" if not line else "its first line is empty")
        names = _split(text, ",")
        absent = [name for name in self.columns if name not in names]
        if absent:
            other = next(
                (mark for mark in OTHER_SEPARATORS if set(absent) <= set(_split(text, mark))), None
            )
            lacks = f"it lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}"
            raise self.make_error(
                path, lacks if other is None else f"its columns are separated by {other!r}"
            )
        return text.encode() + b"\n"

    def _check_encoding(self, path: Path, block: bytes, before: int) -> None:
        try:
            block.decode()
        except UnicodeDecodeError as error:
            line = before + block.count(b"\n", 0, error.start) + 1
            raise self.make_error(path, f"line {line:,} is not UTF-8 text") from None

    def _check_types(
        self, path: Path, text: "polars.DataFrame", values: "polars.DataFrame", before: int
    ) -> None:
        for name, kind in self.columns.items():
            if values[name].null_count() > text[name].null_count():
                row = (values[name].is_null() & text[name].is_not_null()).arg_true()[0]
                raise self.make_error(
                    path,
                    f"line {before + row + 1:,} has {short_repr(text[name][row])} in the column "
                    f"{name}, which holds {kind.plural}",
                )


def _split(text: str, mark: str) -> list[str]:
    return [name.strip('"') for name in text.split(mark)]
