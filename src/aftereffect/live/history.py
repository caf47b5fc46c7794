"""The log slot by slot, as people and tables want it."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from aftereffect.extras import imported
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings

SUFFIXES = (".csv", ".parquet")


class Line(NamedTuple):
    """One slot: what was played, and what was told of it.

    `value` is None while nothing is told, and where the slot is `missing`. `counts` says whether it counts in its round: one
    that is missing does not, and neither does a hold slot that was told after its round had closed.
    """

    slot: int
    arm: str
    round: int
    hold: bool
    value: float | None
    missing: bool
    counts: bool
    revisions: int
    decided_at: str
    told_at: str | None


def lines(settings: Settings, events: Iterable[Event]) -> Iterator[Line]:
    """Events about some slots as lines, in the order of the slots."""
    decisions: dict[int, Event] = {}
    outcomes: dict[int, Event] = {}
    for event in events:  # a later revision takes the place of the one before
        if event.kind != "close":
            (decisions if event.kind == "decision" else outcomes)[event.slot] = event
    for slot, decision in sorted(decisions.items()):
        told = outcomes.get(slot)
        yield Line(
            slot,
            settings.arms[decision.arm or 0],
            decision.round or 0,
            hold=slot > (decision.until or 0),
            value=told and told.value,
            missing=told is not None and told.value is None,
            counts=told is not None and told.value is not None and told.round is not None,
            revisions=told.revision if told else 0,
            decided_at=decision.at,
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
        "round": pl.Int64,
        "hold": pl.Boolean,
        "value": pl.Float64,
        "missing": pl.Boolean,
        "counts": pl.Boolean,
        "revisions": pl.Int64,
        "decided_at": pl.String,
        "told_at": pl.String,
    }
    pl.DataFrame(list(rows), schema=types, orient="row").write_parquet(path)


SAVERS = {".csv": _save_csv, ".parquet": _save_parquet}
