r"""Totals from where they are: files as spreadsheets write them, folders of them, databases.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "monday.csv")
...     written = path.write_text("slot;total\n0;1.234,5\n1;37,0\n")
...     read_totals_file(path)
[(0, 1234.5, None, {}, {}, None), (1, 37.0, None, {}, {}, None)]
"""

import hashlib
import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from aftereffect._core import parse, short_repr
from aftereffect.errors import ConflictError, InputError, ParameterError
from aftereffect.inference import Guardrail
from aftereffect.live._slot_clock import find_zone, make_clock
from aftereffect.live.settings import UNIT_COLUMN
from aftereffect.rewards import Columns, read_cell_number, read_cell_time, read_columns, read_query

if TYPE_CHECKING:
    from aftereffect.live import ExperimentLike

_SLOT, _TIME, _TOTAL, _ARM, _UNIT = "slot", "time", "total", "arm", UNIT_COLUMN
#: The suffixes of files with totals.
TOTALS_SUFFIXES = (".csv", ".csv.gz", ".parquet")
#: A file is read when it has not changed for so many seconds: somebody may still be writing it.
_SETTLED = 2.0

#: A slot, its total or None if that is missing, the arm if it is given, covariates and numbers of
#: guardrails by name, and the unit if there are several.
Row: TypeAlias = tuple[
    int | datetime,
    float | None,
    str | None,
    dict[str, float | None],
    dict[str, float | None],
    str | None,
]


class FeedForm(NamedTuple):
    """What a feed has: names of covariates and guardrails, columns by their names in it, its zone.

    `columns` has the names of columns that are not called slot, time, unit, total or arm.
    `timezone` is that of times without an offset; None for that of the experiment. `has_units` says
    whether each row is about a unit.

    Examples
    --------
    >>> form = FeedForm(columns={"time": "Datum", "total": "Umsatz"}, timezone="UTC")
    >>> form.find("total"), len(form.columns)
    ('Umsatz', 2)
    """

    covariates: Sequence[str] = ()
    guardrails: Sequence[str] = ()
    columns: Mapping[str, str] = {}
    timezone: str | None = None
    has_units: bool = False

    def find(self, name: str) -> str:
        """What a column is called in the feed."""
        return self.columns.get(name, name)

    @property
    def texts(self) -> list[str]:
        """The names of columns without numbers, whatever an arm is called."""
        return [self.find(_TIME), self.find(_ARM), *self.units]

    @property
    def units(self) -> list[str]:
        """The name of the column of units, if there is one."""
        return [self.find(_UNIT)] if self.has_units else []

    @property
    def names(self) -> list[str]:
        """The names of all columns that the feed may have."""
        units = [_UNIT] if self.has_units else []
        own = (_SLOT, _TIME, *units, _TOTAL, _ARM, *self.covariates, *self.guardrails)
        for name in self.columns:
            if name not in own:
                raise ParameterError(
                    f"the column {short_repr(name)} cannot be named: known are {', '.join(own)}"
                )
        return [self.find(name) for name in own]


PLAIN = FeedForm()


def find_form(
    experiment: "ExperimentLike",
    columns: Mapping[str, str] | None = None,
    timezone: str | None = None,
) -> FeedForm:
    """What the feed of an experiment has.

    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> len(find_form(exp, {"total": "Umsatz"}).covariates)
    0
    """
    status = experiment.status()
    if timezone is not None:
        find_zone(timezone)
    guarded = tuple(parse(text, Guardrail).name for text in status.guardrails)
    return FeedForm(status.covariates, guarded, columns or {}, timezone, bool(status.units))


def read_totals_file(path: str | os.PathLike[str], form: FeedForm = PLAIN) -> list[Row]:
    r"""Read a .csv, .csv.gz or .parquet file with totals; see `aftereffect.rewards.read_columns`.

    It has the columns slot or time, and total. The column arm names the arm that was played, and
    covariates and guardrails have columns of their names; of these, empty cells are left out. A
    file with any line that cannot be read is refused as a whole. Where clocks show an hour twice,
    the first row with a time is the earlier slot, and the second the later one.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "monday.csv")
    ...     written = path.write_text("hour,total\n7,12.5\n")
    ...     read_totals_file(path, FeedForm(columns={"slot": "hour"}))
    [(7, 12.5, None, {}, {}, None)]
    """
    return _read_rows(read_columns(os.fspath(path), (), form.names, form.texts), form)


def read_totals_query(url: str, query: str, form: FeedForm = PLAIN) -> list[Row]:
    """Read the same columns from the answer to a SQL query.

    >>> import sqlite3
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     connection = sqlite3.connect(f"{folder}/shop.db")
    ...     created = connection.execute("CREATE TABLE sales AS SELECT 7 AS slot, 12.5 AS total")
    ...     connection.close()
    ...     read_totals_query(f"sqlite:///{folder}/shop.db", "SELECT * FROM sales")
    [(7, 12.5, None, {}, {}, None)]
    """
    return _read_rows(read_query(url, query, form.names, form.texts), form)


def _read_rows(table: Columns, form: FeedForm) -> list[Row]:
    place = _SLOT if form.find(_SLOT) in table.cells else _TIME
    if place == _TIME and form.find(_TIME) not in table.cells:
        place = _TIME if _TIME in form.columns else _SLOT
    table.require(form.find(place), *form.units, form.find(_TOTAL))
    for name in (_ARM, *form.covariates, *form.guardrails):
        if table.names.count(form.find(name).lower()) > 1:
            raise InputError(f"{table.source} has more than one column {form.find(name)}")
    given = [str(cell or "").strip() or None for cell in table.cells.get(form.find(_ARM), ())]
    arms: Sequence[str | None] = given or [None] * len(table.lines)
    units = _read_units(table, form)
    slots = _read_slots(table, form) if place == _SLOT else _read_times(table, form, units)
    rows: list[Row] = []
    for row, line in enumerate(table.lines):
        where = f"{table.source}, line {line}"
        total = _read_number(table, form.find(_TOTAL), row, f"{where}: a total", "missing")
        further: list[dict[str, float | None]] = []
        for names in (form.covariates, form.guardrails):
            numbers = {
                name: _read_number(table, form.find(name), row, f"{where}: {name}", "not known")
                for name in names
                if form.find(name) in table.cells
            }
            further.append({name: each for name, each in numbers.items() if each is not None})
        rows.append((slots[row], total, arms[row], further[0], further[1], units[row]))
    return rows


def _read_number(table: Columns, column: str, row: int, what: str, absent: str) -> float | None:
    cell = table.cells[column][row]
    try:
        number = read_cell_number(cell, table.decimal)
    except ValueError:
        raise InputError(
            f"{what} must be a number, or empty if it is {absent}, got {short_repr(cell)}: "
            "write 1234.5, without other marks"
        ) from None
    return None if math.isnan(number) else number


def _read_slots(table: Columns, form: FeedForm) -> list[int]:
    slots = []
    for line, cell in zip(table.lines, table.cells[form.find(_SLOT)], strict=True):
        text = str(cell).strip()
        if not (text.isascii() and text.isdigit()):
            raise InputError(
                f"{table.source}, line {line}: a slot must be a whole number, got {text!r}"
            )
        slots.append(int(text))
    return slots


def _read_units(table: Columns, form: FeedForm) -> Sequence[str | None]:
    """The unit of each row, if there are several."""
    if not form.has_units:
        return [None] * len(table.lines)
    names = [str(cell or "").strip() for cell in table.cells[form.find(_UNIT)]]
    for line, name in zip(table.lines, names, strict=True):
        if not name:
            raise InputError(
                f"{table.source}, line {line}: the column {form.find(_UNIT)} must name a unit, got "
                "an empty cell"
            )
    return names


def _read_times(table: Columns, form: FeedForm, units: Sequence[str | None]) -> list[datetime]:
    """The times of rows; one without an offset that comes again is the second of a double hour."""
    zone = None if form.timezone is None else find_zone(form.timezone)
    times: list[datetime] = []
    before: set[tuple[datetime, str | None]] = set()
    cells = table.cells[form.find(_TIME)]
    for line, cell, unit in zip(table.lines, cells, units, strict=True):
        try:
            moment = read_cell_time(cell)
        except ValueError:
            raise InputError(
                f"{table.source}, line {line}: expected a time such as 2026-03-02T00:00, "
                f"got {short_repr(cell)}"
            ) from None
        if moment.tzinfo is None:
            times.append(moment.replace(tzinfo=zone, fold=int((moment, unit) in before)))
            before.add((moment, unit))
        else:
            times.append(moment)
    return times


def leave_out_unplayed(experiment: "ExperimentLike", rows: Sequence[Row]) -> list[Row]:
    """The rows without those of slots before the first, or that were skipped.

    If a row of a skipped slot says which arm was played, it stays.

    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> slots = exp.ask(0), exp.skip(1)
    >>> len(leave_out_unplayed(exp, [(0, 5.0, None, {}, {}, None), (1, 5.0, None, {}, {}, None)]))
    1
    """
    status = experiment.status()
    clock = None
    if status.slot_length is not None:
        clock = make_clock(status.slot_length, status.start, status.timezone)

    def number(row: Row) -> int | datetime:
        return row[0] if isinstance(row[0], int) or clock is None else clock.find_slot(row[0])

    numbered = [(number(row), row) for row in rows]
    slots = [slot for slot, _ in numbered if isinstance(slot, int) and 0 <= slot < status.slots]
    skipped: set[int | datetime] = set()
    if slots:
        records = experiment.history(after=min(slots) - 1, limit=max(slots) - min(slots) + 1)
        skipped = {record.slot for record in records if record.arm is None}
    return [
        row
        for slot, row in numbered
        if not (isinstance(slot, int) and slot < 0) and (slot not in skipped or row[2] is not None)
    ]


class FileReport(NamedTuple):
    """What came of a file: how many totals changed the log and how many did not, or the problem.

    Examples
    --------
    >>> print(FileReport("monday.csv", recorded=24, revised=0, unchanged=0, problem=None))
    monday.csv: 24 recorded, 0 revised, 0 unchanged
    """

    name: str
    recorded: int
    revised: int
    unchanged: int
    problem: str | None

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.name}: refused: {self.problem}"
        counts = ("recorded", "revised", "unchanged")
        return f"{self.name}: {', '.join(f'{getattr(self, each)} {each}' for each in counts)}"


class FolderFeed:
    r"""A folder into which files with totals are put; each is told to an experiment once.

    The log keeps which files were told, in the same transaction as their totals. So a crash at any
    moment neither loses a file nor tells it twice, and an old file never undoes a newer one. Files
    are told in the order of their names. If a file changes, it counts as a new file. A file that is
    refused is tried again each time, as its slots may be decided meanwhile.

    Files whose names begin with a dot are left alone, and so is one that was changed in the last
    two seconds. To be safe, write a file under such a name, and rename it.

    Examples
    --------
    >>> from pathlib import Path
    >>> import os
    >>> import tempfile
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> slot = exp.ask(0).slot
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "monday.csv")
    ...     written = path.write_text("slot,total\n0,5\n")
    ...     os.utime(path, (0, 0))  # as if it were written long ago
    ...     print(*FolderFeed(exp, folder).tell_new())
    monday.csv: 1 recorded, 0 revised, 0 unchanged
    """

    def __init__(
        self,
        experiment: "ExperimentLike",
        folder: str | os.PathLike[str],
        *,
        columns: Mapping[str, str] | None = None,
        timezone: str | None = None,
        ignore_unplayed: bool = False,
        revise: bool = False,
        confirm: bool = False,
    ) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InputError(f"expected a folder with files of totals, got {self.folder}")
        self._experiment, self._ignore_unplayed = experiment, ignore_unplayed
        self._form = find_form(experiment, columns, timezone)
        self._revise, self._confirm = revise, confirm
        #: Time of change and size of files that need not be read again.
        self._done: dict[str, tuple[int, int]] = {}

    def tell_new(self) -> list[FileReport]:
        """Tell the totals of all files that were not told before."""
        paths = [
            path
            for path in sorted(self.folder.iterdir())
            if not path.name.startswith(".") and path.name.lower().endswith(TOTALS_SUFFIXES)
        ]
        return [report for path in paths if (report := self._tell_file(path)) is not None]

    def _tell_file(self, path: Path) -> FileReport | None:
        """Tell the totals of a file; None if it was told before, or may not be complete."""
        try:
            seen = _look_at(path)
            is_fresh = 0 <= time.time() - seen[0] / 1e9 < _SETTLED
            if self._done.get(path.name) == seen or is_fresh:
                return None
            content = path.read_bytes()
            rows = read_totals_file(path, self._form)
            if _look_at(path) != seen:
                return None
        except OSError as error:
            return FileReport(path.name, 0, 0, 0, str(error))
        key = f"file-{hashlib.sha256(path.name.encode() + bytes(1) + content).hexdigest()}"
        try:
            if self._ignore_unplayed:
                rows = leave_out_unplayed(self._experiment, rows)
            records = self._experiment.tell_many(
                rows, revise=self._revise, confirm=self._confirm, key=key
            )
        except (ParameterError, ConflictError) as error:
            return FileReport(path.name, 0, 0, 0, str(error))
        self._done[path.name] = seen
        if not records:
            return None
        counts = Counter(record.change for record in records)
        return FileReport(
            path.name, counts["recorded"], counts["revised"], counts["unchanged"], problem=None
        )


def _look_at(path: Path) -> tuple[int, int]:
    """When a file was changed, in nanoseconds, and its size."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size
