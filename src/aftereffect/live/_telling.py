"""The rules of telling: which totals are recorded, which are there already, which are refused."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from aftereffect._core import check_float, check_int, notation, short_repr, suggest
from aftereffect.errors import ConflictError, CorruptionError, ParameterError, name_field
from aftereffect.live._reading import find_end, find_keyed_event, read_slot_events
from aftereffect.live._rounds import TotalStatistics
from aftereffect.live._state import ExperimentState
from aftereffect.live._unit_state import UnitState
from aftereffect.live._units import UnitTotal, find_unit, write_totals
from aftereffect.live.events import Event, now
from aftereffect.live.records import TotalInput, TotalRecord, read_numbers
from aftereffect.live.settings import MAX_LIVE_SLOTS, MAX_TOTAL, Settings, check_covariate
from aftereffect.live.storage import Log, Record

MAX_KEY_LENGTH = 200
#: Begins the stored key of a batch. No client's key can: they are ASCII.
_BATCH = "§"


class _Place(NamedTuple):
    """A slot, or that of one unit, and what messages call it."""

    slot: int
    name: str
    unit: int | None = None


class _Known(NamedTuple):
    """What is recorded of a place: the total, the arm, numbers by name; revisions so far."""

    total: float | None
    arm: int | None
    covariates: Mapping[str, float | None]
    revision: int = 0


class _Checked(NamedTuple):
    """A row that may be recorded: what it adds to the log, joined with what is known."""

    record: TotalRecord
    arm: int | None
    covariates: dict[str, float | None]
    guardrails: dict[str, float | None]
    has_new_total: bool
    has_new_guardrails: bool


def tell_many(
    log: Log,
    state: ExperimentState,
    record: Record,
    rows: Sequence[TotalInput],
    key: str | None,
    *,
    revise: bool,
    confirm: bool,
) -> list[TotalRecord]:
    """Record the totals of several slots; nothing, if the batch with this key was recorded."""
    batch = None if key is None else _BATCH + check_key(key)
    if batch is not None and find_keyed_event(log, record, batch) is not None:
        return []
    if isinstance(state, UnitState):
        records = list(_tell_units(log, state, rows, revise=revise, confirm=confirm))
    else:
        records = [_tell(log, state, record, row, revise=revise, confirm=confirm) for row in rows]
    if batch is not None:
        check_running(state)
        event = state.head.next("batch", state.next_slot, revision=state.batches, key=batch)
        append(log, state, event)
    return records


def _tell(
    log: Log,
    state: ExperimentState,
    record: Record,
    given: TotalInput,
    *,
    revise: bool,
    confirm: bool,
) -> TotalRecord:
    """Record the total of a slot, or that it is missing."""
    settings = state.settings
    slot = _check_slot(state, given)
    if given.unit is not None:
        with name_field("unit"):
            find_unit(settings.units, slot, given.unit)
    total = _check_total(settings, _Place(slot, f"slot {slot}"), given)
    known, decided = _find_total(log, state, record, slot)
    last = _find_guardrails(log, record, slot) if given.guardrails else None
    checked = _check(
        state,
        _Place(slot, f"slot {slot}"),
        given,
        total,
        known,
        decided,
        read_numbers(settings.guarded, last and last.guardrails) or {},
        state.statistics,
        revise=revise,
        confirm=confirm,
    )
    if checked.has_new_total:
        is_learned = known is not None and known.total is not None and state.is_learned(slot)
        event = state.head.next(
            "total",
            slot,
            revision=known.revision + 1 if known else 0,
            until=find_end(state, record, log, slot) if is_learned else None,
            arm=checked.arm,
            total=total,
            covariates=_write_numbers(settings.covariates, checked.covariates),
        )
        append(log, state, event)
    if checked.has_new_guardrails:
        event = state.head.next(
            "guardrails",
            slot,
            revision=last.revision + 1 if last else 0,
            guardrails=_write_numbers(settings.guarded, checked.guardrails),
        )
        append(log, state, event)
    return checked.record


def _tell_units(
    log: Log, state: UnitState, rows: Sequence[TotalInput], *, revise: bool, confirm: bool
) -> Iterator[TotalRecord]:
    """Record totals of units: those of one slot that follow each other become one event."""
    settings, names = state.settings, state.settings.covariates
    pending: dict[int, UnitTotal] = {}
    before = -1

    def flush() -> None:
        if pending:
            revision, text = state.recordings[before], write_totals(pending.values())
            append(log, state, state.head.next("total", before, revision=revision, units=text))
            pending.clear()

    for given in rows:
        slot = _check_slot(state, given)
        with name_field("unit"):
            unit = find_unit(settings.units, slot, given.unit)
        if slot != before or unit in pending:
            flush()
        before = slot
        place = _Place(slot, f"slot {slot} in {settings.units[unit]}", unit)
        total = _check_total(settings, place, given)
        found, decided = state.find_known(slot, unit), state.find_decided(slot, unit)
        numbers = found and found.covariates and dict(zip(names, found.covariates, strict=True))
        known = found and _Known(found.total, found.arm, numbers or {})
        statistics = state.unit_statistics[unit]
        checked = _check(
            state,
            place,
            given,
            total,
            known,
            decided,
            {},
            statistics,
            revise=revise,
            confirm=confirm,
        )
        if checked.has_new_total:
            every = tuple(checked.covariates.get(name) for name in names)
            has_any = bool(checked.covariates)
            pending[unit] = UnitTotal(unit, checked.arm, total, every if has_any else None)
        yield checked.record
    flush()


def _check(
    state: ExperimentState,
    place: _Place,
    given: TotalInput,
    total: float | None,
    known: _Known | None,
    decided: int | None,
    counted: dict[str, float | None],
    statistics: TotalStatistics,
    *,
    revise: bool,
    confirm: bool,
) -> _Checked:
    """Check a row against what is known of its place; `counted` are numbers of guardrails."""
    settings, slot = state.settings, place.slot
    with name_field("arm"):
        arm = _find_played(state.names, given.arm, place, decided)
    with name_field("covariates"):
        numbers = _check_numbers("covariate", settings.covariates, place, given.covariates)
    with name_field("guardrails"):
        counts = _check_numbers("guardrail", settings.guarded, place, given.guardrails)
    revise = revise or _is_provisional(settings, slot)
    before = dict(known.covariates) if known else {}
    played = None if arm is None else state.names[arm]
    is_same_total = (
        known is not None
        and known.total == total
        and (total is None or arm is None or known.arm in (None, arm))
    )
    is_same = is_same_total and _has_all(before, numbers)
    has_same_counts = _has_all(counted, counts)
    unit = None if place.unit is None else settings.units[place.unit]
    answer = TotalRecord(slot, total, "unchanged", played, unit)
    if not (is_same and has_same_counts):
        check_running(state)
        if total is not None and arm is None:
            raise ConflictError(f"{place.name} was skipped: say which arm was played in it")
        if known and not is_same_total:
            _check_revision(state, place, known, total, arm, revise=revise)
        if not revise:
            _check_added("covariates", place, before, numbers)
            _check_added("guardrails", place, counted, counts)
        if total is not None and not (confirm or is_same_total):
            with name_field("total"):
                statistics.check_likely(settings, place.name, total)
        answer = answer._replace(change="revised" if known else "recorded")
    joined = before | numbers, counted | counts
    return _Checked(answer, arm, *joined, not is_same, not has_same_counts)


def check_key(key: object) -> str:
    """Check an idempotency key that the caller chose."""
    if (
        not isinstance(key, str)
        or not 1 <= len(key) <= MAX_KEY_LENGTH
        or not key.isascii()
        or not key.isprintable()
    ):
        raise ParameterError(
            f"a key must be 1 to {MAX_KEY_LENGTH} printable ASCII characters, got {short_repr(key)}"
        )
    return key


def append(log: Log, state: ExperimentState, event: Event) -> None:
    """Add an event to the log, and fold it."""
    log.append(event)
    state.fold(event)


def refuse_later(message: str, state: ExperimentState, slot: int) -> ConflictError:
    """The error for a slot whose turn has not come."""
    return ConflictError(message, {"next": state.next_slot}, {"slot": min(slot, MAX_LIVE_SLOTS)})


def check_running(state: ExperimentState) -> None:
    """Refuse to record anything after the end."""
    if state.ended:
        raise ConflictError(
            f"experiment {state.settings.name!r} has ended: nothing more is recorded"
        )


def _check_slot(state: ExperimentState, given: TotalInput) -> int:
    """The number of the slot of a row."""
    with name_field("slot"):
        slot = check_int("slot", state.settings.number_slot(given.slot))
    if slot >= state.next_slot:
        message = f"slot {slot} is not decided yet: the next slot is {state.next_slot}, ask first"
        raise refuse_later(message, state, slot)
    return slot


def _check_total(settings: Settings, place: _Place, given: TotalInput) -> float | None:
    with name_field("total"):
        return None if given.total is None else _check_possible(settings, place, given.total)


def _find_total(
    log: Log, state: ExperimentState, record: Record, slot: int
) -> tuple[_Known | None, int | None]:
    """The last total of a slot, and the arm that was decided, which is None if it was skipped.

    The state knows which slots have no total, so the log is read only for the others.
    """
    arm = state.find_outstanding(slot)
    if arm is not None:
        return None, arm
    events = read_slot_events(log, record, slot, slot + 1)
    decision = next((event for event in events if event.kind == "decision"), None)
    totals = [event for event in events if event.kind == "total"]
    if (decision is None or not totals) and not state.is_skipped(slot):
        raise CorruptionError(f"slot {slot} has a total, but the log does not have all its events")
    known = None
    if totals:
        last = totals[-1]
        numbers = read_numbers(state.settings.covariates, last.covariates)
        known = _Known(last.total, last.arm, numbers or {}, last.revision)
    return known, (decision.arm if decision else None)


def _find_guardrails(log: Log, record: Record, slot: int) -> Event | None:
    """The last numbers of guardrails of a slot."""
    events = read_slot_events(log, record, slot, slot + 1)
    return next((event for event in reversed(events) if event.kind == "guardrails"), None)


def _has_all(known: Mapping[str, float | None], numbers: Mapping[str, float | None]) -> bool:
    return all(known.get(name) == number for name, number in numbers.items())


def _check_numbers(
    what: str, names: Sequence[str], place: _Place, given: object
) -> dict[str, float | None]:
    """Check the covariates, or the numbers of guardrails, that a caller gives for a slot."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"the {what}s of {place.name} must be numbers by name, such as "
            f"{{{(*names, 'rain')[0]!r}: 3.5}}, got {short_repr(given)}"
        )
    for name in given:
        if name not in names:
            none = "the experiment has none; they are named when it is created"
            raise ParameterError(
                f"{place.name} has an unknown {what} {short_repr(name)}: "
                f"{suggest(str(name), names) if names else none}"
            )
    return {
        name: None if number is None else check_covariate(f"{name} of {place.name}", number)
        for name, number in given.items()
    }


def _check_possible(settings: Settings, place: _Place, total: object) -> float:
    """Check that a total is a number that the slot can have brought."""
    # Adding zero turns -0.0 into 0.0: SQLite does not store the sign of zero.
    number, slot = check_float(f"the total of {place.name}", total) + 0.0, place.slot
    low, high = settings.reward_range or (-MAX_TOTAL, MAX_TOTAL)
    most = max(high, 0.0) * (slot + 1) if settings.reward_range else MAX_TOTAL
    if settings.reward_range is None and abs(number) > MAX_TOTAL:
        limit = f"from {-MAX_TOTAL:g} to {MAX_TOTAL:g}"
    elif number < low:
        limit = f"at least {low:g}, the lower end of the reward range"
    elif number > most:
        pulls = f"the {slot + 1:,} pulls so far" if slot else "one pull"
        limit = f"at most {most:g}, the largest reward of {pulls}"
    elif settings.max_total is not None and number > settings.max_total:
        limit = f"at most {settings.max_total:g}, the max_total"
    else:
        return number
    raise ParameterError(f"the total of {place.name} must be {limit}, got {number:g}")


def _is_provisional(settings: Settings, slot: int) -> bool:
    """Whether the total of a slot may still change."""
    if settings.final_after is None:
        return False
    first = settings.find_provisional(now())
    return first is not None and slot >= first


def _check_added(
    what: str,
    place: _Place,
    before: Mapping[str, float | None],
    numbers: Mapping[str, float | None],
) -> None:
    """Refuse other numbers than the recorded ones; those that were not known may be added."""
    for name, number in numbers.items():
        known = before.get(name)
        if known is not None and known != number:
            given = "nothing" if number is None else notation(number)
            raise ConflictError(
                f"{place.name} has the {name} {notation(known)}, got {given}: "
                "give --revise or revise=True to replace it",
                {what: {name: known}},
                {what: {name: number}},
            )


def _write_numbers(names: Sequence[str], numbers: Mapping[str, float | None]) -> str | None:
    """The text of an event; None where no number was ever given."""
    return json.dumps([numbers.get(name) for name in names]) if numbers else None


def _find_played(
    names: Sequence[str], arm: object, place: _Place, decided: int | None
) -> int | None:
    """The number of the arm that was played: the one that the caller names, or the decided one."""
    if arm is None:
        return decided
    if arm not in names:
        raise ParameterError(
            f"{place.name} was played with an unknown arm {short_repr(arm)}: "
            f"{suggest(str(arm), names)}"
        )
    return names.index(str(arm))


def _check_revision(
    state: ExperimentState,
    place: _Place,
    known: _Known,
    total: float | None,
    arm: int | None,
    *,
    revise: bool,
) -> None:
    """Refuse another total than the recorded one, unless the caller revises it."""
    if revise:
        return
    before, after = ("missing" if x is None else notation(x) for x in (known.total, total))
    if known.arm != arm and None not in (known.arm, arm):
        arms = state.names
        before = f"{before} with {arms[cast(int, known.arm)]}"
        after = f"{after} with {arms[cast(int, arm)]}"
    recorded = f"is {before}" if known.total is None else f"has the total {before}"
    raise ConflictError(
        f"{place.name} {recorded}, got {after}: give --revise or revise=True to replace it",
        {"total": known.total},
        {"total": total},
    )
