"""Columns of tables as people and tools write them: CSV files, Parquet files and SQL queries.

In CSV, cells are separated by commas, semicolons or tabs. Numbers may have decimal commas, and
marks between thousands, if the numbers of the table together say which mark is which.
"""

import codecs
import csv
import gzip
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, SupportsFloat, SupportsIndex, cast

from aftereffect._core import import_optional, short_repr
from aftereffect.errors import InputError

#: The most rows of a table.
MAX_ROWS = 2_000_000
#: Characters of the line that names the columns, so that a file without lines is not read whole.
_MAX_HEADER = 100_000
_SEPARATORS = (",", ";", "\t")
_WORKBOOKS = (".xlsx", ".xls", ".ods")
#: What people write where there is no number.
_MISSING = ("", "nan", "na", "null", "none", "missing")
#: Excel writes this line before the one that names the columns.
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*')
#: Marks between thousands that cannot come before decimals.
_SPACES = "' \u2019\u00a0\u202f"
#: A number of which it is not known yet which mark comes before decimals.
_EITHER = re.compile(
    rf"[+-]?(?P<whole>[0-9]{{1,3}}(?:(?P<mark>[.,{_SPACES}])[0-9]{{3}})(?:(?P=mark)[0-9]{{3}})*"
    r"|[0-9]*)(?:(?P<point>[.,])[0-9]*)?(?:[eE][+-]?[0-9]+)?"
)
#: Numbers by the mark before decimals.
_NUMBERS = {
    decimal: re.compile(
        rf"[+-]?(?:[0-9]{{1,3}}(?:([{other}{_SPACES}])[0-9]{{3}})(?:\1[0-9]{{3}})*|[0-9]*)"
        rf"(?:[{decimal}][0-9]*)?(?:[eE][+-]?[0-9]+)?"
    )
    for decimal, other in ((".", ","), (",", "."))
}
_OTHERS = {".": ",", ",": "."}
#: A day first, as Germans write it; with slashes it could also be a month first.
_DAY_FIRST = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")


class Columns(NamedTuple):
    """Cells of a table by column, and the number of each row's line.

    `names` are those of all columns in the file, in small letters. `decimal` is the mark before
    decimals.
    """

    source: str
    names: tuple[str, ...]
    lines: list[int]
    cells: dict[str, list[object]]
    decimal: str

    def require(self, *required: str) -> None:
        """Refuse a table without these columns, or with one of them twice."""
        if all(name in self.cells for name in required):
            return
        is_text = Path(self.source).suffix.lower() in (".csv", ".gz")
        place = (
            f"the first line of {self.source} must name" if is_text else f"{self.source} must have"
        )
        raise InputError(
            f"{place} the columns {' and '.join(required)}, once each, "
            f"got {short_repr(', '.join(self.names))}"
        )


def read_columns(
    path: str, required: Sequence[str], optional: Sequence[str] = (), texts: Sequence[str] = ()
) -> Columns:
    """Read columns of a .csv, .csv.gz or .parquet file, whose names may have other capitals.

    Those that are `texts` do not say which mark comes before decimals.
    Raises `InputError` if the file cannot be read. Columns that are not there, or are there twice,
    are left out; `Columns.names` shows which.
    """
    wanted, suffix = (*required, *optional), Path(path).suffix.lower()
    if suffix in _WORKBOOKS:
        raise InputError(f"cannot read {path}: it is a workbook; save its sheet as a .csv file")
    read = _read_parquet if suffix == ".parquet" else _read_csv
    try:
        return read(path, wanted, texts)
    except (OSError, UnicodeError, EOFError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        hint = "; save it as UTF-8" if isinstance(error, UnicodeError) else ""
        raise InputError(
            f"cannot read {path}: {reason}{hint}; give a .csv, .csv.gz or .parquet file with "
            f"columns {' and '.join(required)}"
        ) from None


def read_query(url: str, query: str, wanted: Sequence[str], texts: Sequence[str] = ()) -> Columns:
    """Read columns of the answer to a SQL query; nothing is changed in the database."""
    sa: Any = import_optional("sqlalchemy")
    try:
        with _connect(sa, url) as connection:
            answer = connection.exec_driver_sql(query)
            if not answer.returns_rows:
                raise InputError("the query must be a SELECT, got one that answers with no rows")
            rows = answer.fetchmany(MAX_ROWS + 1)
            names = list(answer.keys())
            connection.rollback()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        raise InputError(f"the query of the totals failed: {reason}") from None
    return _gather("the query", names, wanted, texts, enumerate(rows, 1))


@contextmanager
def _connect(sa: Any, url: str) -> Iterator[Any]:
    """A connection for one query."""
    engine = sa.create_engine(_check_database(sa, url))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _check_database(sa: Any, url: str) -> Any:
    """Refuse what is no URL, and an SQLite file that does not exist: it would be created."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # the URL is not shown: it may have a password
        raise InputError(
            "the URL of the database cannot be read: it must look like sqlite:///FILE "
            "or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        ) from None
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise InputError(f"cannot read {parsed.database}: there is no such database")
    return parsed


def _read_csv(path: str, wanted: Sequence[str], texts: Sequence[str]) -> Columns:
    with _open_text(path) as file:
        header = file.readline(_MAX_HEADER)
        given = _SEPARATOR_LINE.fullmatch(header)
        before = 1 if given else 0
        if given:
            header = file.readline(_MAX_HEADER)
        separator = given[1] if given else max(_SEPARATORS, key=header.count)
        names = next(csv.reader([header], delimiter=separator), [])
        rows = csv.reader(file, delimiter=separator, strict=True)

        def number_rows() -> Iterator[tuple[int, list[str]]]:
            for row in rows:
                if not any(row):  # an empty line
                    continue
                line = rows.line_num + 1 + before
                if len(row) != len(names):  # a comma within a number, or a file that was cut off
                    raise InputError(
                        f"{path}, line {line}: expected {len(names)} cells, got {len(row)}: "
                        "if numbers have decimal commas, separate cells by semicolons"
                    )
                yield line, row

        return _gather(path, names, wanted, texts, number_rows(), by_commas=separator == ",")


def _open_text(path: str) -> IO[str]:
    """Open a text file in UTF-8 or, as spreadsheets mark it, in UTF-16."""
    opener = gzip.open if Path(path).suffix.lower() == ".gz" else open
    with cast(IO[bytes], opener(path, "rb")) as start:
        mark = start.read(2)
    encoding = "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    return TextIOWrapper(cast(Any, opener(path, "rb")), encoding=encoding, newline="")


def _read_parquet(path: str, wanted: Sequence[str], texts: Sequence[str]) -> Columns:
    pl: Any = import_optional("polars")
    try:
        with open(path, "rb") as file:
            frame = pl.read_parquet(file)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from None
    return _gather(path, frame.columns, wanted, texts, enumerate(frame.iter_rows(), 1))


def _gather(
    source: str,
    given: Sequence[str],
    wanted: Sequence[str],
    texts: Sequence[str],
    rows: Iterable[tuple[int, Sequence[object]]],
    *,
    by_commas: bool = True,
) -> Columns:
    names = tuple(str(name).strip().lower() for name in given)
    places = {name: names.index(name.lower()) for name in wanted if names.count(name.lower()) == 1}
    lines: list[int] = []
    cells: dict[str, list[object]] = {name: [] for name in places}
    # Without any of the columns nothing is read: the file may not be a table at all, and never end.
    for line, row in islice(rows, MAX_ROWS + 1 if places else 0):
        lines.append(line)
        for name, place in places.items():
            cells[name].append(row[place])
    if len(lines) > MAX_ROWS:
        raise InputError(f"{source} must have at most {MAX_ROWS:,} rows, got more")
    numbers = {name: column for name, column in cells.items() if name not in texts}
    decimal = _find_decimal(source, lines, numbers, by_commas=by_commas)
    return Columns(source, names, lines, cells, decimal)


def _find_decimal(
    source: str, lines: Sequence[int], cells: dict[str, list[object]], *, by_commas: bool
) -> str:
    """The mark before decimals, as all numbers of a table together show it."""
    shown: dict[str, tuple[int, str]] = {}
    doubtful: tuple[int, str] | None = None
    for column in cells.values():
        for line, cell in zip(lines, column, strict=True):
            if not isinstance(cell, str) or (found := _EITHER.fullmatch(cell.strip())) is None:
                continue
            mark, point, whole = found["mark"], found["point"], found["whole"]
            if point is not None:
                shown.setdefault(point, (line, cell))
            elif mark not in _OTHERS:
                continue
            elif whole.count(mark) > 1:
                shown.setdefault(_OTHERS[mark], (line, cell))
            elif whole.startswith("0"):
                shown.setdefault(mark, (line, cell))
            elif mark == "," or not by_commas:  # a thousand, or a little more than one?
                doubtful = doubtful or (line, cell)
    if len(shown) > 1:
        (line, cell), (other, second) = shown.values()
        raise InputError(
            f"{source}, line {line}: {cell.strip()!r} has another mark before decimals than "
            f"{second.strip()!r} in line {other}: use one of them"
        )
    if not shown and doubtful is not None:
        line, cell = doubtful
        raise InputError(
            f"{source}, line {line}: {cell.strip()!r} may have decimals or thousands, and no other "
            "number says which: write numbers without marks between thousands"
        )
    return next(iter(shown), ".")


def read_cell_number(given: object, decimal: str) -> float:
    """Read a number; NaN where there is none. Raises ValueError.

    >>> read_cell_number("1.234,5", ","), read_cell_number("1'234.5", ".")
    (1234.5, 1234.5)
    """
    if given is None:
        return math.nan
    if isinstance(given, str):
        text = given.strip()
        if text.lower() in _MISSING:
            return math.nan
        if not _NUMBERS[decimal].fullmatch(text):
            raise ValueError
        given = re.sub(rf"[{_OTHERS[decimal]}{_SPACES}]", "", text).replace(decimal, ".")
        if float(given) == 0 and re.search("[1-9]", given.lower().partition("e")[0]):
            raise ValueError  # it is too small
    if not isinstance(given, str | SupportsFloat | SupportsIndex):
        raise ValueError
    try:
        number = float(given)
    except (TypeError, OverflowError):
        raise ValueError from None
    if math.isinf(number) or isinstance(given, bool):
        raise ValueError
    return number


def read_cell_time(given: object) -> datetime:
    """Read a time as people write it. Raises ValueError.

    >>> read_cell_time("02.03.2026 14:00") == read_cell_time("2026-03-02T14:00")
    True
    """
    if isinstance(given, str):
        text = _DAY_FIRST.sub(lambda day: f"{day[3]}-{day[2]:0>2}-{day[1]:0>2}", given.strip(), 1)
        given = datetime.fromisoformat(text.replace("/", "-") if text[4:5] == "/" else text)
    elif isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time())
    if not isinstance(given, datetime) or not 1900 <= given.year < 2200:
        raise ValueError
    return given
