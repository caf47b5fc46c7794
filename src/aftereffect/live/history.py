"""The log slot by slot, as people and tables want it."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from aftereffect.errors import CorruptionError
from aftereffect.extras import imported
from aftereffect.live.events import Event
from aftereffect.live.ledger import Ledger

SUFFIXES = (".csv", ".parquet")


class Line(NamedTuple):
    """One slot: what was advised, what was played, and what was told of it.

    `arm` was advised, `played` was played as far as is known: both are None where the slot was skipped and nothing was told of
    it. `value` is None while nothing is told, and where the slot is `missing`. A total that is told and not `learned` waits
    for the end of its round, or for the next round of its arm.
    """

    slot: int
    arm: str | None
    played: str | None
    round: int | None
    hold: bool
    value: float | None
    missing: bool
    learned: bool
    revisions: int
    decided_at: str | None
    told_at: str | None


def lines(ledger: Ledger, events: Iterable[Event], first: int, stop: int) -> Iterator[Line]:
    """Events about the slots from `first` to before `stop` as lines, in the order of the slots."""
    arms = ledger.settings.arms
    decisions: dict[int, Event] = {}
    outcomes: dict[int, Event] = {}
    for event in events:  # a later revision takes the place of the one before
        if event.kind in ("decision", "outcome"):
            (decisions if event.kind == "decision" else outcomes)[event.slot] = event
    for slot in range(first, stop):
        decision, told = decisions.get(slot), outcomes.get(slot)
        if decision is None and not ledger.is_skipped(slot):
            raise CorruptionError(f"slot {slot} was decided, and its decision is gone")
        advised = decision and decision.arm
        played = advised if told is None or told.arm is None else told.arm
        yield Line(
            slot,
            None if advised is None else arms[advised],
            None if played is None else arms[played],
            decision and decision.round,
            hold=decision is not None and slot > (decision.until or 0),
            value=told and told.value,
            missing=told is not None and told.value is None,
            learned=told is not None and told.value is not None and not ledger.is_waiting(slot),
            revisions=told.revision if told else 0,
            decided_at=decision and decision.at,
            told_at=told and told.at,
        )


#: A spreadsheet computes cells that begin so.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[object]], file: IO[str]) -> None:
    """A line of names and a line per row; nothing stands for None, and truth is written as most programs read it.

    Texts that a spreadsheet would compute get an apostrophe before them; numbers stay numbers.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(map(_cell, row))


def _cell(cell: object) -> object:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell


def _save_csv(rows: Iterable[Line], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        write_csv(Line._fields, rows, file)


def _save_parquet(rows: Iterable[Line], path: Path) -> None:
    pl: Any = imported("polars")
    types = {
        "slot": pl.Int64,
        "arm": pl.String,
        "played": pl.String,
        "round": pl.Int64,
        "hold": pl.Boolean,
        "value": pl.Float64,
        "missing": pl.Boolean,
        "learned": pl.Boolean,
        "revisions": pl.Int64,
        "decided_at": pl.String,
        "told_at": pl.String,
    }
    pl.DataFrame(list(rows), schema=types, orient="row").write_parquet(path)


SAVERS = {".csv": _save_csv, ".parquet": _save_parquet}
