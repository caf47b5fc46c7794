"""How what live experiments answer is printed: as text for people, as JSON, as CSV."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from aftereffect.cli.simulate import Format
from aftereffect.columns import aligned
from aftereffect.lag import LagEstimate
from aftereffect.live import ArmStatus, Line, Outcome, Slot, Status, Verification
from aftereffect.live.history import write_csv
from aftereffect.spec import notation

T = TypeVar("T")
Row = Mapping[str, object]


def formats(
    text: Callable[[T], str], plain: Callable[[T], Any], rows: Callable[[T], Sequence[Row]], columns: Sequence[str]
) -> Mapping[Format, Callable[[T], None]]:
    """The three ways to print a thing: its text, what JSON is made of, and its rows with these columns."""
    return {
        "table": lambda thing: print(text(thing)),
        "json": lambda thing: print(json.dumps(plain(thing), indent=2, ensure_ascii=False)),
        "csv": lambda thing: write_csv(columns, ([row[name] for name in columns] for row in rows(thing)), sys.stdout),
    }


def _listed(things: Sequence[Line] | Sequence[Outcome]) -> list[Row]:
    return [thing._asdict() for thing in things]


def _slot_text(slot: Slot) -> str:
    why = f"hold: round {slot.round} waits for totals" if slot.hold else f"round {slot.round}, planned up to slot {slot.until}"
    return f"slot {slot.number}: play {slot.arm} ({why})"


def _outcomes_text(outcomes: Sequence[Outcome]) -> str:
    if len(outcomes) == 1:
        slot, value, change, _ = outcomes[0]
        return f"slot {slot}: {'missing' if value is None else notation(value)}, {change}"
    changes = Counter(outcome.change for outcome in outcomes)
    done = ", ".join(f"{count:,} {change}" for change, count in changes.items()) or "nothing to record"
    return f"{len(outcomes):,} outcomes: {done}"


def _lines_text(lines: Sequence[Line]) -> str:
    rows = [("slot", "arm", "round", "total", "remarks", "decided", "told")]
    for line in lines:
        total = "-" if line.value is None else notation(line.value)
        remarks = ", ".join(remark for remark, holds in _remarks(line).items() if holds) or "-"
        number = "-" if line.round is None else str(line.round)
        times = _moment(line.decided_at), _moment(line.told_at)
        rows.append((str(line.slot), line.arm or "-", number, total, remarks, *times))
    return aligned(rows)


def _remarks(line: Line) -> Mapping[str, bool]:
    return {
        "hold": line.hold,
        "missing": line.missing,
        "skipped": line.arm is None,
        f"played {line.played}": line.played != line.arm,
        "waits": line.value is not None and not line.learned,
        "revised": line.revisions > 0,
    }


def _moment(time: str | None) -> str:
    return "-" if time is None else time[:19].replace("T", " ")


SLOT = formats(_slot_text, Slot.plain, lambda slot: [slot.plain()], ("slot", *Slot._fields[1:]))
OUTCOMES = formats(_outcomes_text, _listed, _listed, Outcome._fields)
LAG = formats(
    LagEstimate.__str__,
    LagEstimate.plain,
    LagEstimate.rows,
    ("lag", "landed", "low", "high"),
)
LINES = formats(_lines_text, _listed, _listed, Line._fields)
STATUS = formats(Status.__str__, Status.plain, lambda status: status.plain()["arms"], ArmStatus._fields)
VERIFICATION = formats(
    Verification.__str__, Verification.plain, lambda found: [found.plain()], (*Verification._fields, "whole")
)
