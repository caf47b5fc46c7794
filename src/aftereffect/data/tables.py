"""An original file as data: its name and the columns wanted of it; and its rows, checked, a part at a time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aftereffect.checks import shown
from aftereffect.data.packing import FORMATS, blocks, find
from aftereffect.data.separators import SEPARATORS
from aftereffect.errors import InputError
from aftereffect.extras import imported

if TYPE_CHECKING:
    import polars


class Kind(NamedTuple):
    """What a column holds: its name in messages, and how to read it from text, with null for what is not of that kind."""

    plural: str
    read: Callable[["polars.Expr"], "polars.Expr"]


def _whole(text: "polars.Expr") -> "polars.Expr":
    return text.cast(imported("polars").Int64, strict=False)


def _number(text: "polars.Expr") -> "polars.Expr":
    return text.cast(imported("polars").Float64, strict=False).fill_nan(None)


def _moment(text: "polars.Expr") -> "polars.Expr":
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)


def _as_it_is(text: "polars.Expr") -> "polars.Expr":
    return text


WHOLE = Kind("whole numbers", _whole)
NUMBER = Kind("numbers", _number)
MOMENT = Kind("times such as 2012-01-31 09:30:00", _moment)
TEXT = Kind("text", _as_it_is)


@dataclass(frozen=True)
class Table:
    """One original file: its name without the ending, the columns wanted of it, and the word for a missing value."""

    name: str
    columns: Mapping[str, Kind]
    missing: str

    def path(self, folder: Path) -> Path:
        """Where the file is, in whichever format."""
        path = find(folder, self.name)
        if path is None:
            names = ", ".join(self.name + ending for ending in FORMATS)
            raise InputError(f"cannot read {folder}: it has none of {names}; {self._should_hold}")
        return path

    def refusal(self, path: Path, problem: str) -> InputError:
        """What to raise when the file is not what it should be."""
        return InputError(f"cannot read {path}: {problem}; {self._should_hold}")

    def parts(self, path: Path) -> Iterator["polars.DataFrame"]:
        """The rows that have all the wanted values, in the order of the file."""
        pl = imported("polars")
        lines = blocks(path)
        header = self._header(path, next(lines))
        before = 1
        for block in lines:
            self._check_encoding(path, block, before)
            try:
                text = pl.read_csv(header + block, columns=list(self.columns), infer_schema_length=0, null_values=self.missing)
            except pl.exceptions.PolarsError:
                raise self.refusal(path, f"what follows line {before:,} is not comma-separated text") from None
            values = text.select(kind.read(pl.col(name)).alias(name) for name, kind in self.columns.items())
            self._check_kinds(path, text, values, before)
            yield values.drop_nulls()
            before += block.count(b"\n") or 1  # the last line may lack its end
        if before == 1:
            raise self.refusal(path, "it has no rows")

    def rows(self, path: Path) -> "polars.DataFrame":
        """All parts as one, for a file that is no burden."""
        frame: polars.DataFrame = imported("polars").concat(self.parts(path))
        return frame

    @property
    def _should_hold(self) -> str:
        return f"it should hold the comma-separated columns {', '.join(self.columns)}"

    def _header(self, path: Path, line: bytes) -> bytes:
        """The header line, after making sure that it has the wanted columns."""
        self._check_encoding(path, line, 0)
        text = line.decode("utf-8-sig").rstrip("\r\n")
        if not text:
            raise self.refusal(path, "it is empty" if not line else "its first line is empty")
        there = _split(text, ",")
        absent = [name for name in self.columns if name not in there]
        if absent:
            other = next((mark for mark in SEPARATORS if set(absent) <= set(_split(text, mark))), None)
            lacks = f"it lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}"
            raise self.refusal(path, lacks if other is None else f"its columns are separated by {other!r}")
        return text.encode() + b"\n"

    def _check_encoding(self, path: Path, block: bytes, before: int) -> None:
        try:
            block.decode()
        except UnicodeDecodeError as error:
            line = before + block.count(b"\n", 0, error.start) + 1
            raise self.refusal(path, f"line {line:,} is not UTF-8 text") from None

    def _check_kinds(self, path: Path, text: "polars.DataFrame", values: "polars.DataFrame", before: int) -> None:
        for name, kind in self.columns.items():
            if values[name].null_count() > text[name].null_count():
                row = (values[name].is_null() & text[name].is_not_null()).arg_true()[0]
                came = f"line {before + row + 1:,} has {shown(text[name][row])} in the column {name}, which holds {kind.plural}"
                raise self.refusal(path, came)


def _split(text: str, mark: str) -> list[str]:
    return [name.strip('"') for name in text.split(mark)]
