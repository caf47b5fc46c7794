"""An original file as data: its name and columns, and its rows, checked, a block at a time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aftereffect._core import import_optional, short_repr
from aftereffect.errors import InputError
from aftereffect.reproduction.datasets._files import FORMATS, find_file, read_blocks
from aftereffect.rewards import SEPARATORS

if TYPE_CHECKING:
    import polars


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
                (mark for mark in SEPARATORS if set(absent) <= set(_split(text, mark))), None
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
