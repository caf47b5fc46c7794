"""What an experiment answers: decisions, totals, and its history slot by slot, also as files."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, cast, get_args

from aftereffect._core import check_sequence, import_optional, short_repr
from aftereffect.errors import CorruptionError, ParameterError
from aftereffect.live._state import ExperimentState
from aftereffect.live._unit_state import UnitState
from aftereffect.live._units import UnitTotal, read_arms, read_chances, read_unit_totals
from aftereffect.live.events import Event
from aftereffect.live.settings import UNIT_COLUMN, Settings

#: A slot as callers name it: its number, or the time at which it begins.
Slot: TypeAlias = int | str | datetime
#: The totals of units in one slot, by name.
UnitTotals: TypeAlias = Mapping[str, float | None]
#: The totals of several slots, as callers give them; None where one is missing.
TotalsInput: TypeAlias = (
    Mapping[Slot, float | None]
    | Mapping[Slot, UnitTotals]
    | Mapping[int, UnitTotals]
    | Mapping[str, UnitTotals]
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
        | tuple[
            Slot,
            float | None,
            str | None,
            Mapping[str, float | None] | None,
            Mapping[str, float | None] | None,
            str | None,
        ]
        | tuple[Slot, UnitTotals]
    ]
)

#: The suffixes of files that a history can be written to.
HISTORY_SUFFIXES = (".csv", ".parquet")
#: What a row of an exported file is for: all that was recorded of a slot; a slot of a marketing mix
#: model; or a slot of an experiment whose rounds are clusters.
ExportForm: TypeAlias = Literal["slots", "mmm", "clusters"]
#: Fields that are None where there is one unit.
_OF_UNITS = ("arms", "unit_probabilities", UNIT_COLUMN)
#: Fields of a record that have no column of this name in every table.
_NOT_COLUMNS = ("covariates", "guardrails", UNIT_COLUMN)
#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Decision(NamedTuple):
    """The decision for one slot: play `arm`. The slot's `round` is planned up to slot `until`.

    In a `hold` slot, all planned slots of the round are decided, and the round waits for totals.
    `time` is when the slot begins, if slots have times. `probabilities` are those with which the
    arm of the round was drawn, by arm; None if the policy records none.

    With several units, `arms` is the arm of each unit by name, and `unit_probabilities` are the
    probabilities of each; `arm` and `probabilities` are None.

    Examples
    --------
    >>> Decision(slot=4, arm="B", round=2, until=7, hold=False).until
    7
    """

    slot: int
    arm: str | None
    round: int
    until: int
    hold: bool
    time: str | None = None
    probabilities: dict[str, float] | None = None
    arms: dict[str, str] | None = None
    unit_probabilities: dict[str, dict[str, float]] | None = None

    def __repr__(self) -> str:
        return _write_call(self)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()


class TotalRecord(NamedTuple):
    """The recorded total of a slot, or None if it is missing, and the `arm` that was played.

    `change` says what the call changed in the log. `unit` is the unit that the total is of, if
    there are several.

    Examples
    --------
    >>> TotalRecord(slot=4, total=37.0, change="recorded", arm="B").total
    37.0
    """

    slot: int
    total: float | None
    change: Literal["recorded", "unchanged", "revised"]
    arm: str | None
    unit: str | None = None

    def __repr__(self) -> str:
        return _write_call(self)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()


class TotalInput(NamedTuple):
    """A total that a caller gives, unchecked: None where it is missing.

    `arm` is the arm that was played, if it was not the decided one. `covariates` and `guardrails`
    are numbers by name. `unit` is the unit that the total is of, if there are several.

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
    unit: object = None


class SlotRecord(NamedTuple):
    """One slot of a history; with several units, one slot of one `unit`.

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
    unit: str | None = None

    def __repr__(self) -> str:
        return _write_call(self)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict()


def _write_call(record: Any) -> str:
    """The call that makes a record, without what only experiments with several units have."""
    parts = [
        f"{name}={value!r}"
        for name, value in zip(record._fields, record, strict=True)
        if value is not None or name not in _OF_UNITS
    ]
    return f"{type(record).__name__}({', '.join(parts)})"


def read_totals(totals: object) -> list[TotalInput]:
    """Read the argument of `tell_many`: a mapping from slots to totals, or rows.

    Totals of several units in one slot are a mapping by unit, and become a row for each.

    >>> read_totals({4: 37})
    [TotalInput(slot=4, total=37, arm=None, covariates=None, guardrails=None, unit=None)]
    >>> [(row.total, row.unit) for row in read_totals({4: {"north": 37, "south": None}})]
    [(37, 'north'), (None, 'south')]
    """
    rows = totals.items() if isinstance(totals, Mapping) else check_sequence("totals", totals)
    for row in rows:
        if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= len(TotalInput._fields):
            raise ParameterError(
                "each row must be a slot and its total, and if needed the arm, covariates, "
                "guardrails and the unit: (slot, total, arm, covariates, guardrails, unit), "
                f"got {short_repr(row)}"
            )
    return [each for row in rows for each in _split_units(TotalInput(*cast(Any, row)))]


def _split_units(row: TotalInput) -> list[TotalInput]:
    """A row for each unit, where totals are given by unit."""
    if not isinstance(row.total, Mapping):
        return [row]
    if any(each is not None for each in row[2:]):
        raise ParameterError(
            "totals by unit have no arm, covariates, guardrails or unit of their own, got "
            f"{short_repr(tuple(row))}: give a row for each unit"
        )
    return [row._replace(total=total, unit=unit) for unit, total in row.total.items()]


def make_records(
    state: ExperimentState, events: Iterable[Event], first: int, stop: int
) -> Iterator[SlotRecord]:
    """The slots ``first .. stop - 1`` as records, from the events about them."""
    if isinstance(state, UnitState):
        yield from _make_unit_records(state, events, first, stop)
        return
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


def _make_unit_records(
    state: UnitState, events: Iterable[Event], first: int, stop: int
) -> Iterator[SlotRecord]:
    """The same with a record for each slot and unit."""
    arms, settings = state.names, state.settings
    decisions: dict[int, Event] = {}
    totals: dict[int, list[Event]] = {}
    for event in events:
        if event.kind == "decision":
            decisions[event.slot] = event
        elif event.kind == "total":
            totals.setdefault(event.slot, []).append(event)
    for slot in range(first, stop):
        decision = decisions.get(slot)
        if decision is None and not state.is_skipped(slot):
            raise CorruptionError(f"slot {slot} was decided, but the log has no decision for it")
        decided = read_arms(decision and decision.units)
        chances = read_chances(decision and decision.probabilities, len(settings.units))
        given: dict[int, tuple[str, UnitTotal]] = {}
        revisions: Counter[int] = Counter()
        for event in totals.get(slot, ()):  # a later revision replaces the one before
            for each in read_unit_totals(event.units):
                given[each.unit] = event.at, each
                revisions[each.unit] += 1
        time = settings.find_time(slot)
        for unit, name in enumerate(settings.units):
            received_at, answer = given.get(unit, (None, UnitTotal(unit, None, None)))
            arm = decided[unit] if decided else None
            played = arm if answer.arm is None else answer.arm
            numbers = answer.covariates
            yield SlotRecord(
                slot,
                None if arm is None else arms[arm],
                None if played is None else arms[played],
                decision and decision.round,
                hold=False,
                total=answer.total,
                missing=unit in given and answer.total is None,
                learned=answer.total is not None and state.is_unit_learned(slot, unit),
                revisions=max(revisions[unit] - 1, 0),
                decided_at=decision and decision.at,
                received_at=received_at,
                time=time,
                probability=None if chances is None or arm is None else chances[unit][arm],
                covariates=None
                if numbers is None
                else dict(zip(settings.covariates, numbers, strict=True)),
                guardrails=None,
                unit=name,
            )


def make_decision(settings: Settings, names: Sequence[str], event: Event) -> Decision:
    """The answer that an event stands for; `names` are those of the arms."""
    if event.round is None or event.until is None or (event.arm is None and event.units is None):
        raise ValueError(f"a decision has a round, an arm and an end, got {event}")
    return answer_decision(
        settings,
        names,
        event.slot,
        event.round,
        event.until,
        event.arm,
        read_arms(event.units),
        event.probabilities,
    )


def answer_decision(
    settings: Settings,
    names: Sequence[str],
    slot: int,
    number: int,
    until: int,
    arm: int | None,
    arms: Sequence[int],
    probabilities: str | None,
) -> Decision:
    """A decision with names in the place of numbers; `number` is that of the round."""
    answer = Decision(slot, None, number, max(until, slot), slot > until, settings.find_time(slot))
    if not settings.units:
        chances = read_probabilities(names, probabilities)
        return answer._replace(arm=names[arm or 0], probabilities=chances)
    rows = read_chances(probabilities, len(settings.units))
    return answer._replace(
        arms={unit: names[each] for unit, each in zip(settings.units, arms, strict=True)},
        unit_probabilities={
            unit: dict(zip(names, row, strict=False))
            for unit, row in zip(settings.units, rows or [], strict=True)
        },
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
    records: Iterable[SlotRecord], names: Sequence[str], *, has_units: bool = False
) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
    """The columns and rows of a table of records, with a column for each covariate and guardrail.

    With several units, the second column is the unit.

    >>> lay_out_records([], ["temperature"])[0][-2:]
    ('probability', 'temperature')
    """
    columns = [field for field in SlotRecord._fields if field not in _NOT_COLUMNS]
    if has_units:
        columns.insert(1, UNIT_COLUMN)
    read = attrgetter(*columns)
    rows = ((*read(record), *map(_find_number(record), names)) for record in records)
    return (*columns, *names), rows


def _find_number(record: SlotRecord) -> Callable[[str], float | None]:
    """How to find a covariate, or a number of a guardrail, by its name."""
    return {**(record.covariates or {}), **(record.guardrails or {})}.get


def lay_out_export(
    form: ExportForm,
    records: Iterable[SlotRecord],
    arms: Sequence[str],
    names: Sequence[str],
    units: Sequence[str] = (),
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
        return lay_out_records(records, names, has_units=bool(units))
    played = [record for record in records if record.played is not None]
    keys = [
        (date, record.unit) if units else (date,)
        for date, record in zip(_list_dates(played, form), played, strict=True)
    ]
    heads = ("date", UNIT_COLUMN) if units else ("date",)
    rows = zip(keys, played, (map(_find_number(record), names) for record in played), strict=True)
    if form == "mmm":
        return (*heads, "total", *(f"arm_{arm}" for arm in arms), *names), (
            (*key, record.total, *(int(record.played == arm) for arm in arms), *others)
            for key, record, others in rows
        )
    return (*heads, "cluster", "treatment", "target", *names), (
        (*key, _number_cluster(record, units), record.played, record.total, *others)
        for key, record, others in rows
        if record.total is not None
    )


def _number_cluster(record: SlotRecord, units: Sequence[str]) -> int | None:
    """The round of a slot; with several units, each unit's part of a round has its own number."""
    if record.round is None or record.unit is None:
        return record.round
    return record.round * len(units) + units.index(record.unit)


def _list_dates(records: Sequence[SlotRecord], form: str) -> list[str]:
    """When slots begin, without an offset: on the clock, or in UTC if that shows an hour twice."""
    if any(record.time is None for record in records):
        raise ParameterError(
            f"the form {form} needs slots with times, got numbers only: "
            "create the experiment with a slot, such as 1h, or use the form slots"
        )
    times = [datetime.fromisoformat(cast(str, record.time)) for record in records]
    local = [time.replace(tzinfo=None).isoformat() for time in times]
    if len(set(local)) == len({record.time for record in records}):
        return local
    return [time.astimezone(UTC).replace(tzinfo=None).isoformat() for time in times]


def save_history(
    records: Iterable[SlotRecord],
    arms: Sequence[str],
    names: Sequence[str],
    path: Path,
    suffix: str,
    form: ExportForm,
    units: Sequence[str] = (),
) -> None:
    """Write records into a file of the kind that `suffix` says, .csv or .parquet.

    Each covariate and each guardrail has a column, and so have units, if there are several.
    """
    columns, rows = lay_out_export(form, records, arms, names, units)
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
