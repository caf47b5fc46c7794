"""What the commands of one experiment print."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aftereffect._core import notation, text_table
from aftereffect.cli._values import Format
from aftereffect.inference import Effect, Results
from aftereffect.lag import LagEstimate
from aftereffect.live import (
    ArmStatus,
    Decision,
    SlotRecord,
    Status,
    TotalRecord,
    Verification,
    count_arms,
    lay_out_records,
    write_csv,
)

T = TypeVar("T")


@dataclass(frozen=True)
class Printer(Generic[T]):
    """How to print one kind of answer.

    `to_text` gives what people read, `to_json` what JSON can hold, and `to_rows` the names of the
    columns and the rows of a CSV file.
    """

    to_text: Callable[[T], str]
    to_json: Callable[[T], Any]
    to_rows: Callable[[T], tuple[Sequence[str], Iterable[Sequence[object]]]]

    def show(self, answer: T, format: Format) -> None:
        """Print an answer."""
        if format == "table":
            print(self.to_text(answer))
        elif format == "json":
            print(json.dumps(self.to_json(answer), indent=2, ensure_ascii=False))
        else:
            write_csv(*self.to_rows(answer), sys.stdout)


def _decision_text(decision: Decision) -> str:
    if decision.hold:
        why = f"hold: round {decision.round} waits for totals"
    else:
        why = f"round {decision.round}, planned up to slot {decision.until}"
    time = f" ({format_time(decision.time)})" if decision.time else ""
    if decision.arms is None:
        return f"slot {decision.slot}{time}: play {decision.arm} ({why})"
    arms = text_table([("unit", "arm"), *decision.arms.items()])
    return f"slot {decision.slot}{time}: play {count_arms(decision.arms)} ({why})\n{arms}"


def _totals_text(records: Sequence[TotalRecord]) -> str:
    if len(records) == 1:
        slot, total, change, _, unit = records[0]
        place = f"slot {slot}" if unit is None else f"slot {slot} in {unit}"
        return f"{place}: {'missing' if total is None else notation(total)}, {change}"
    changes = Counter(record.change for record in records)
    counts = ", ".join(f"{count:,} {change}" for change, count in changes.items())
    return f"{len(records):,} totals: {counts or 'nothing to record'}"


def _has_units(records: Sequence[SlotRecord]) -> bool:
    return any(record.unit is not None for record in records)


def _list_numbers(records: Sequence[SlotRecord]) -> list[str]:
    """The names of the covariates and guardrails that some of the slots have."""
    return [
        *next((record.covariates for record in records if record.covariates), {}),
        *next((record.guardrails for record in records if record.guardrails), {}),
    ]


def _merge_numbers(record: SlotRecord) -> dict[str, float | None]:
    return {**(record.covariates or {}), **(record.guardrails or {})}


def _show_number(number: float | None) -> str:
    return "-" if number is None else notation(number)


def _history_text(records: Sequence[SlotRecord]) -> str:
    names, has_units = _list_numbers(records), _has_units(records)
    units = ["unit"] if has_units else []
    rows = [("slot", *units, "arm", "round", "total", *names, "remarks", "decided", "received")]
    for record in records:
        remarks = {
            "hold": record.hold,
            "missing": record.missing,
            "skipped": record.arm is None,
            f"played {record.played}": record.played != record.arm,
            "waits": record.total is not None and not record.learned,
            "revised": record.revisions > 0,
        }
        rows.append(
            (
                str(record.slot) if record.time is None else format_time(record.time)[:16],
                *([str(record.unit)] if has_units else []),
                record.arm or "-",
                "-" if record.round is None else str(record.round),
                _show_number(record.total),
                *map(_show_number, map(_merge_numbers(record).get, names)),
                ", ".join(remark for remark, applies in remarks.items() if applies) or "-",
                format_time(record.decided_at),
                format_time(record.received_at),
            )
        )
    return text_table(rows)


def format_time(time: str | None) -> str:
    """Shorten a time of the log for a table: whole seconds, no zone."""
    return "-" if time is None else time[:19].replace("T", " ")


def _decision_rows(
    decision: Decision,
) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """A row; with several units, one for each of them."""
    first = [field for field in Decision._fields if field not in _OF_UNITS]
    if decision.arms is None:
        return first, [[getattr(decision, field) for field in first]]
    chances = decision.unit_probabilities or {}
    rows = (
        decision._replace(arm=arm, probabilities=chances.get(unit))
        for unit, arm in decision.arms.items()
    )
    cells = ([getattr(row, field) for field in first[1:]] for row in rows)
    return (first[0], "unit", *first[1:]), (
        (decision.slot, unit, *rest) for unit, rest in zip(decision.arms, cells, strict=True)
    )


def _total_rows(
    records: Sequence[TotalRecord],
) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    if any(record.unit is not None for record in records):
        return TotalRecord._fields, records
    return TotalRecord._fields[:-1], (record[:-1] for record in records)


#: Fields of a decision that are columns only where there are several units.
_OF_UNITS = ("arms", "unit_probabilities")
DECISION = Printer(_decision_text, Decision.to_dict, _decision_rows)
TOTALS = Printer[Sequence[TotalRecord]](
    _totals_text, lambda records: [record._asdict() for record in records], _total_rows
)
HISTORY = Printer[Sequence[SlotRecord]](
    _history_text,
    lambda records: [record._asdict() for record in records],
    lambda records: lay_out_records(records, _list_numbers(records), has_units=_has_units(records)),
)
STATUS = Printer(Status.__str__, Status.to_dict, lambda status: (ArmStatus._fields, status.arms))


def _describe_judged(results: Results) -> list[str]:
    guarded = [sentence for found in results.guardrails for sentence in found.describe()]
    return [*results.describe_rule(), *results.describe_lost(), *guarded]


def _judged_to_json(results: Results) -> dict[str, Any]:
    written = results.to_dict()
    names = {"stops": "stops", "judged_guardrails": "guardrails", "lost": "lost"}
    return {name: written[field] for name, field in names.items()}


#: A status, and the results if the experiment has a rule to stop or guardrails.
JUDGED_STATUS = Printer[tuple[Status, Results | None]](
    lambda both: "\n".join([str(both[0]), *(_describe_judged(both[1]) if both[1] else ())]),
    lambda both: both[0].to_dict() | (_judged_to_json(both[1]) if both[1] else {}),
    lambda both: (ArmStatus._fields, both[0].arms),
)
LAG = Printer(
    LagEstimate.__str__,
    LagEstimate.to_dict,
    lambda estimate: (
        ("lag", "arrived", "low", "high"),
        [tuple(row.values()) for row in estimate.rows()],
    ),
)
RESULTS = Printer(
    Results.__str__,
    Results.to_dict,
    lambda results: (
        (*Effect._fields, "probability_best"),
        [(*effect, results.probabilities[effect.arm]) for effect in results.effects],
    ),
)
VERIFICATION = Printer(
    Verification.__str__,
    Verification.to_dict,
    lambda found: (tuple(found.to_dict()), [tuple(found.to_dict().values())]),
)
