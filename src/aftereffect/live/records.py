"""What an experiment answers: decisions, totals, and its history slot by slot, also as files."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, cast, get_args

from aftereffect._core import check_sequence, import_optional, short_repr
from aftereffect.errors import CorruptionError, ParameterError
from aftereffect.live._state import ExperimentState
from aftereffect.live.events import Event

#: A slot as callers name it: its number, or the time at which it begins.
Slot: TypeAlias = int | str | datetime
#: The totals of several slots, as callers give them; None where one is missing.
TotalsInput: TypeAlias = (
    Mapping[Slot, float | None]
    | Mapping[int, float | None]
    | Mapping[str, float | None]
    | Iterable[
        tuple[Slot, float | None]
        | tuple[Slot, float | None, str | None]
        | tuple[Slot, float | None, str | None, Mapping[str, float | None] | None]
        | tuple[
            Slot,
            float | None,
            str | None,
            Mapping[str, float | None] | None,
            Mapping[str, float | None] | None,
        ]
    ]
)

#: The suffixes of files that a history can be written to.
HISTORY_SUFFIXES = (".csv", ".parquet")
#: What a row of an exported file is for: all that was recorded of a slot; a slot of a marketing mix
#: model; or a slot of an experiment whose rounds are clusters.
ExportForm: TypeAlias = Literal["slots", "mmm", "clusters"]
#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Decision(NamedTuple):
    """The decision for one slot: play `arm`. The slot's `round` is planned up to slot `until`.

    In a `hold` slot, all planned slots of the round are decided, and the round waits for totals.
    `time` is when the slot begins, if slots have times. `probabilities` are those with which the
    arm of the round was drawn, by arm; None if the policy records none.

    Examples
    --------
    >>> Decision(slot=4, arm="B", round=2, until=7, hold=False).until
    7
    """

    slot: int
    arm: str
    round: int
    until: int
    hold: bool
    time: str | None = None
    probabilities: dict[str, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()


class TotalRecord(NamedTuple):
    """The recorded total of a slot, or None if it is missing, and the `arm` that was played.

    `change` says what the call changed in the log.

    Examples
    --------
    >>> TotalRecord(slot=4, total=37.0, change="recorded", arm="B").total
    37.0
    """

    slot: int
    total: float | None
    change: Literal["recorded", "unchanged", "revised"]
    arm: str | None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()


class TotalInput(NamedTuple):
    """A total that a caller gives, unchecked: None where it is missing.

    `arm` is the arm that was played, if it was not the decided one. `covariates` and `guardrails`
    are numbers by name.

    Examples
    --------
    >>> TotalInput(4, 37).total
    37
    """

    slot: object
    total: object
    arm: object = None
    covariates: object = None
    guardrails: object = None


class SlotRecord(NamedTuple):
    """One slot of a history.

    `arm` is the arm that was decided, and `played` the arm that was played. Both are None if the
    slot was skipped and has no total. `total` is None while it is outstanding, and if it is
    `missing`. A total that is not yet `learned` waits for the end of its round, or for the next
    round of its arm. `time` is when the slot begins, if slots have times. `probability` is that
    with which the decided arm was drawn, if the policy records it. `covariates` are the numbers
    that came with the slot, by name, with None for one that is not known; None if none came. So are
    `guardrails`.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> slot, total = exp.ask(0).slot, exp.tell(0, 4).total
    >>> exp.history()[0].total
    4.0
    """

    slot: int
    arm: str | None
    played: str | None
    round: int | None
    hold: bool
    total: float | None
    missing: bool
    learned: bool
    revisions: int
    decided_at: str | None
    received_at: str | None
    time: str | None
    probability: float | None
    covariates: dict[str, float | None] | None
    guardrails: dict[str, float | None] | None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()


def read_totals(totals: object) -> list[TotalInput]:
    """Read the argument of `tell_many`: a mapping from slots to totals, or rows.

    >>> read_totals({4: 37})
    [TotalInput(slot=4, total=37, arm=None, covariates=None, guardrails=None)]
    """
    rows = totals.items() if isinstance(totals, Mapping) else check_sequence("totals", totals)
    for row in rows:
        if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 5:
            raise ParameterError(
                "each row must be a slot and its total, and if needed the arm, covariates and "
                f"guardrails: (slot, total, arm, covariates, guardrails), got {short_repr(row)}"
            )
    return [TotalInput(*cast(Any, row)) for row in rows]


def make_records(
    state: ExperimentState, events: Iterable[Event], first: int, stop: int
) -> Iterator[SlotRecord]:
    """The slots ``first .. stop - 1`` as records, from the events about them."""
    arms = state.names
    decisions: dict[int, Event] = {}
    totals: dict[int, Event] = {}
    guardrails: dict[int, str | None] = {}
    for event in events:  # a later revision replaces the one before
        if event.kind == "decision":
            decisions[event.slot] = event
        elif event.kind == "total":
            totals[event.slot] = event
        elif event.kind == "guardrails":
            guardrails[event.slot] = event.guardrails
    for slot in range(first, stop):
        decision, given = decisions.get(slot), totals.get(slot)
        if decision is None and not state.is_skipped(slot):
            raise CorruptionError(f"slot {slot} was decided, but the log has no decision for it")
        decided = decision and decision.arm
        played = decided if given is None or given.arm is None else given.arm
        yield SlotRecord(
            slot,
            None if decided is None else arms[decided],
            None if played is None else arms[played],
            decision and decision.round,
            hold=decision is not None and slot > (decision.until or 0),
            total=given and given.total,
            missing=given is not None and given.total is None,
            learned=given is not None and given.total is not None and state.is_learned(slot),
            revisions=given.revision if given else 0,
            decided_at=decision and decision.at,
            received_at=given and given.at,
            time=state.settings.find_time(slot),
            probability=_find_probability(decision),
            covariates=read_numbers(state.settings.covariates, given and given.covariates),
            guardrails=read_numbers(state.settings.guarded, guardrails.get(slot)),
        )


def read_probabilities(names: Sequence[str], text: str | None) -> dict[str, float] | None:
    """The probabilities of a decision by arm, from the text of an event; not of arms to come."""
    return None if text is None else dict(zip(names, json.loads(text), strict=False))


def read_numbers(names: Sequence[str], text: str | None) -> dict[str, float | None] | None:
    """The covariates or guardrails of a slot by name, from the text of an event."""
    return None if text is None else dict(zip(names, json.loads(text), strict=True))


def _find_probability(decision: Event | None) -> float | None:
    if decision is None or decision.probabilities is None or decision.arm is None:
        return None
    return float(json.loads(decision.probabilities)[decision.arm])


def count_noun(number: int, noun: str) -> str:
    """A number of things, in words.

    >>> count_noun(1, "slot"), count_noun(2_000, "slot")
    ('1 slot', '2,000 slots')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[object]], file: IO[str]) -> None:
    """Write a header and one line per row: None as an empty cell, booleans as true and false.

    Dictionaries are written as JSON.

    A text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> import sys
    >>> write_csv(["slot", "hold", "arm"], [(4, False, "=A")], sys.stdout)
    slot,hold,arm
    4,false,'=A
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(map(_make_cell, row))


def _make_cell(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value


def lay_out_records(
    records: Iterable[SlotRecord], names: Sequence[str]
) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
    """The columns and rows of a table of records, with a column for each covariate and guardrail.

    >>> lay_out_records([], ["temperature"])[0][-2:]
    ('probability', 'temperature')
    """
    rows = (
        (*record[:-2], *map({**(record.covariates or {}), **(record.guardrails or {})}.get, names))
        for record in records
    )
    return (*SlotRecord._fields[:-2], *names), rows


def lay_out_export(
    form: ExportForm, records: Iterable[SlotRecord], arms: Sequence[str], names: Sequence[str]
) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
    """The columns and rows of an exported table, for the tool that `form` says.

    >>> record = SlotRecord(
    ...     slot=0, arm="B", played="B", round=0, hold=False, total=37.0, missing=False,
    ...     learned=True, revisions=0, decided_at=None, received_at=None,
    ...     time="2026-03-02T00:00:00+00:00", probability=0.5, covariates=None, guardrails=None,
    ... )
    >>> columns, rows = lay_out_export("mmm", [record], ["A", "B"], [])
    >>> columns, *rows
    (('date', 'total', 'arm_A', 'arm_B'), ('2026-03-02T00:00:00', 37.0, 0, 1))
    """
    if form not in get_args(ExportForm):
        raise ParameterError(
            f"form must be one of {', '.join(get_args(ExportForm))}, got {short_repr(form)}"
        )
    if form == "slots":
        return lay_out_records(records, names)
    played = [record for record in records if record.played is not None]
    dates = _list_dates(played, form)
    cells = [
        map({**(record.covariates or {}), **(record.guardrails or {})}.get, names)
        for record in played
    ]
    rows = zip(dates, played, cells, strict=True)
    if form == "mmm":
        return ("date", "total", *(f"arm_{arm}" for arm in arms), *names), (
            (date, record.total, *(int(record.played == arm) for arm in arms), *others)
            for date, record, others in rows
        )
    return ("date", "cluster", "treatment", "target", *names), (
        (date, record.round, record.played, record.total, *others)
        for date, record, others in rows
        if record.total is not None
    )


def _list_dates(records: Sequence[SlotRecord], form: str) -> list[str]:
    """When slots begin, without an offset: on the clock, or in UTC if that shows an hour twice."""
    if any(record.time is None for record in records):
        raise ParameterError(
            f"the form {form} needs slots with times, got numbers only: "
            "create the experiment with a slot, such as 1h, or use the form slots"
        )
    times = [datetime.fromisoformat(cast(str, record.time)) for record in records]
    local = [time.replace(tzinfo=None).isoformat() for time in times]
    if len(set(local)) == len(local):
        return local
    return [time.astimezone(UTC).replace(tzinfo=None).isoformat() for time in times]


def save_history(
    records: Iterable[SlotRecord],
    arms: Sequence[str],
    names: Sequence[str],
    path: Path,
    suffix: str,
    form: ExportForm,
) -> None:
    """Write records into a file of the kind that `suffix` says, .csv or .parquet.

    Each covariate and each guardrail has a column.
    """
    columns, rows = lay_out_export(form, records, arms, names)
    if suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            write_csv(columns, rows, file)
        return
    pl: Any = import_optional("polars")
    types = dict.fromkeys(columns, pl.String)
    whole = {"slot", "round", "revisions", "cluster", *(f"arm_{arm}" for arm in arms)}
    real = {"total", "target", "probability", *names}
    for kind, wanted in (
        (pl.Int64, whole),
        (pl.Boolean, {"hold", "missing", "learned"}),
        (pl.Float64, real),
    ):
        types |= dict.fromkeys(wanted & types.keys(), kind)
    pl.DataFrame(list(rows), schema=types, orient="row").write_parquet(path)
