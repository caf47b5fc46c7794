"""The rules of asking and telling: what is recorded, what is answered again, what is refused."""

import json
from collections.abc import Mapping, Sequence

from aftereffect._core import check_float, check_int, notation, short_repr, suggest
from aftereffect.errors import ConflictError, CorruptionError, ParameterError, name_field
from aftereffect.live._arms import ArmChange, plan_changes
from aftereffect.live._reading import OpenLog, find_end, find_keyed_event, read_slot_events
from aftereffect.live._results import judge_guardrails
from aftereffect.live._state import ExperimentState
from aftereffect.live.events import Event, now
from aftereffect.live.records import (
    Decision,
    Slot,
    TotalInput,
    TotalRecord,
    read_numbers,
    read_probabilities,
)
from aftereffect.live.settings import MAX_LIVE_SLOTS, MAX_TOTAL, Settings, check_covariate
from aftereffect.live.storage import Log, Record, View

MAX_KEY_LENGTH = 200
#: Begins the stored key of a batch. No client's key can: they are ASCII.
_BATCH = "§"
#: The number of slots that one call may skip: eleven years of hours.
MAX_GAP = 100_000


def find_decision(view: View, record: Record, slot: int) -> Event | None:
    """The decision for a slot; None if it is not decided."""
    for event in read_slot_events(view, record, slot, slot + 1):
        if event.kind == "decision":
            return event
    return None


def find_or_decide(opened: OpenLog, slot: Slot | None, key: str | None) -> tuple[Decision, bool]:
    """Find the decision for a slot or a key, or decide the next slot; also say if it is new."""
    if slot is not None and key is not None:
        raise ParameterError("ask with a slot or with a key, not with both")
    number = None if slot is None else check_int("slot", opened.settings.number_slot(slot))
    checked = None if key is None else check_key(key)

    def find(view: View) -> Event | None:
        if checked is not None:
            return find_keyed_event(view, opened.record, checked)
        if number is not None:
            return find_decision(view, opened.record, number)
        return None

    known = opened.state
    decided = MAX_LIVE_SLOTS if known is None else known.next_slot
    if number is not None and number < decided:
        with opened.view() as view:  # a reader makes no writer wait
            answer = find(view)
        if answer is not None:
            return _make_decision(opened.settings, opened.find_names(answer), answer), False
    with opened.writing() as (log, state):
        if checked or (number is not None and number < state.next_slot):
            answer = find(log)  # another client may have decided it meanwhile
            if answer is not None:
                return _make_decision(opened.settings, state.names, answer), False
            if number is not None and not state.is_skipped(number):
                raise CorruptionError(
                    f"slot {number} was decided, but the log has no decision for it"
                )
        return decide(log, state, opened.record, number, checked), True


def decide(
    log: Log, state: ExperimentState, record: Record, slot: int | None, key: str | None
) -> Decision:
    """Decide the next slot and record it; if `slot` is given, it must be the next one.

    Before that, guardrails may stop arms.
    """
    name, next_slot = state.settings.name, state.next_slot
    if slot is not None and slot > next_slot:
        gap = f"slots {next_slot} to {slot - 1}" if slot > next_slot + 1 else f"slot {next_slot}"
        message = (
            f"slot {slot} cannot be decided yet: the next slot is {next_slot}; "
            f"skip {gap} if nothing was played there"
        )
        raise _beyond(message, state, slot)
    if slot is not None and slot < next_slot:
        raise ConflictError(f"slot {slot} was skipped, and skipped slots are not decided later")
    if state.ended:
        raise ConflictError(f"experiment {name!r} has ended: no more slots are decided")
    if state.has_reached_horizon:
        raise ConflictError(
            f"experiment {name!r} has decided all {next_slot:,} slots of its horizon: end it"
        )
    for found in judge_guardrails(log, record, state):
        _append(log, state, found)
    choice = state.decide()
    event = state.head.next(
        "decision",
        choice.slot,
        round=choice.round,
        arm=choice.arm,
        until=choice.until,
        window=choice.window,
        key=key,
        probabilities=choice.probabilities,
    )
    _append(log, state, event)
    return _make_decision(state.settings, state.names, event)


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
    records = [tell(log, state, record, row, revise=revise, confirm=confirm) for row in rows]
    if batch is not None:
        _check_running(state)
        event = state.head.next("batch", state.next_slot, revision=state.batches, key=batch)
        _append(log, state, event)
    return records


def tell(
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
    with name_field("slot"):
        slot = check_int("slot", settings.number_slot(given.slot))
    if slot >= state.next_slot:
        message = f"slot {slot} is not decided yet: the next slot is {state.next_slot}, ask first"
        raise _beyond(message, state, slot)
    with name_field("total"):
        total = None if given.total is None else _check_possible(settings, slot, given.total)
    known, decided = _find_total(log, state, record, slot)
    with name_field("arm"):
        arm = _find_played(state.names, given.arm, slot, decided)
    with name_field("covariates"):
        numbers = _check_numbers("covariate", settings.covariates, slot, given.covariates)
    with name_field("guardrails"):
        counts = _check_numbers("guardrail", settings.guarded, slot, given.guardrails)
    revise = revise or _is_provisional(settings, slot)
    before = read_numbers(settings.covariates, known and known.covariates) or {}
    last = _find_guardrails(log, record, slot) if counts else None
    counted = read_numbers(settings.guarded, last and last.guardrails) or {}
    played = None if arm is None else state.names[arm]
    is_same_total = (
        known is not None
        and known.total == total
        and (total is None or arm is None or known.arm in (None, arm))
    )
    is_same = is_same_total and _has_all(before, numbers)
    if is_same and _has_all(counted, counts):
        return TotalRecord(slot, total, "unchanged", played)
    _check_running(state)
    if total is not None and arm is None:
        raise ConflictError(f"slot {slot} was skipped: say which arm was played in it")
    if known and not is_same_total:
        _check_revision(state, known, total, arm, revise=revise)
    if not revise:
        _check_added("covariates", slot, before, numbers)
        _check_added("guardrails", slot, counted, counts)
    if total is not None and not (confirm or is_same_total):
        with name_field("total"):
            state.statistics.check_likely(settings, slot, total)
    if not is_same:
        is_learned = known is not None and known.total is not None and state.is_learned(slot)
        event = state.head.next(
            "total",
            slot,
            revision=known.revision + 1 if known else 0,
            until=find_end(state, record, log, slot) if is_learned else None,
            arm=arm,
            total=total,
            covariates=_write_numbers(settings.covariates, before | numbers),
        )
        _append(log, state, event)
    if not _has_all(counted, counts):
        event = state.head.next(
            "guardrails",
            slot,
            revision=last.revision + 1 if last else 0,
            guardrails=_write_numbers(settings.guarded, counted | counts),
        )
        _append(log, state, event)
    return TotalRecord(slot, total, "revised" if known else "recorded", played)


def skip(log: Log, state: ExperimentState, first: int, last: int) -> None:
    """Record that nothing was decided for some slots; the same call again changes nothing."""
    if (first, last) in state.skipped:
        return
    if not first <= last < first + MAX_GAP:
        raise ParameterError(
            f"the last slot to skip must be from {first} to {first + MAX_GAP - 1}, got {last}"
        )
    if first != state.next_slot:
        message = f"the first slot to skip must be the next slot, {state.next_slot}, got {first}"
        raise _beyond(message, state, first)
    if last >= state.settings.planned_slots:
        raise ParameterError(
            f"the last slot to skip must be at most {state.settings.planned_slots - 1:,}, "
            f"where the experiment ends, got {last:,}"
        )
    _check_running(state)
    _append(log, state, state.head.next("skip", first, until=last))


def change_arms(log: Log, state: ExperimentState, given: dict[ArmChange, object]) -> None:
    """Record that arms come and go; the same call again changes nothing."""
    changes = plan_changes(state.settings, state.arms, given)
    if changes:
        _check_running(state)
    for change in changes:
        event = state.head.next(
            "arm",
            state.next_slot,
            revision=state.arm_changes,
            arm=change.number,
            guardrails=change.write(),
        )
        _append(log, state, event)


def end(log: Log, state: ExperimentState) -> None:
    """End the experiment, unless it has ended."""
    if not state.ended:
        _append(log, state, state.head.next("end", state.next_slot))


def find_notice(opened: OpenLog, hook: str, kind: str) -> int | None:
    """The slot of the last notice of a kind that was delivered to a hook; None if none was."""
    with opened.reading() as (_, state):
        return state.notified.get(f"{hook} {kind}")


def record_notice(opened: OpenLog, hook: str, kind: str, slot: int) -> None:
    """Record that a notice was delivered; also after the end, as that is no news to the policy."""
    with opened.writing() as (log, state):
        if state.notified.get(f"{hook} {kind}", -1) < slot:
            text = json.dumps({"hook": hook, "kind": kind})
            event = state.head.next("notice", slot, revision=state.notices, guardrails=text)
            _append(log, state, event)


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


def _append(log: Log, state: ExperimentState, event: Event) -> None:
    log.append(event)
    state.fold(event)


def _beyond(message: str, state: ExperimentState, slot: int) -> ConflictError:
    return ConflictError(message, {"next": state.next_slot}, {"slot": min(slot, MAX_LIVE_SLOTS)})


def _check_running(state: ExperimentState) -> None:
    if state.ended:
        raise ConflictError(
            f"experiment {state.settings.name!r} has ended: nothing more is recorded"
        )


def _find_total(
    log: Log, state: ExperimentState, record: Record, slot: int
) -> tuple[Event | None, int | None]:
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
    return (totals[-1] if totals else None), (decision.arm if decision else None)


def _find_guardrails(log: Log, record: Record, slot: int) -> Event | None:
    """The last numbers of guardrails of a slot."""
    events = read_slot_events(log, record, slot, slot + 1)
    return next((event for event in reversed(events) if event.kind == "guardrails"), None)


def _has_all(known: Mapping[str, float | None], numbers: Mapping[str, float | None]) -> bool:
    return all(known.get(name) == number for name, number in numbers.items())


def _check_numbers(
    what: str, names: Sequence[str], slot: int, given: object
) -> dict[str, float | None]:
    """Check the covariates, or the numbers of guardrails, that a caller gives for a slot."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"the {what}s of slot {slot} must be numbers by name, such as "
            f"{{{(*names, 'rain')[0]!r}: 3.5}}, got {short_repr(given)}"
        )
    for name in given:
        if name not in names:
            none = "the experiment has none; they are named when it is created"
            raise ParameterError(
                f"slot {slot} has an unknown {what} {short_repr(name)}: "
                f"{suggest(str(name), names) if names else none}"
            )
    return {
        name: None if number is None else check_covariate(f"{name} of slot {slot}", number)
        for name, number in given.items()
    }


def _check_possible(settings: Settings, slot: int, total: object) -> float:
    """Check that a total is a number that the slot can have brought."""
    # Adding zero turns -0.0 into 0.0: SQLite does not store the sign of zero.
    number = check_float(f"the total of slot {slot}", total) + 0.0
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
    raise ParameterError(f"the total of slot {slot} must be {limit}, got {number:g}")


def _is_provisional(settings: Settings, slot: int) -> bool:
    """Whether the total of a slot may still change."""
    if settings.final_after is None:
        return False
    first = settings.find_provisional(now())
    return first is not None and slot >= first


def _check_added(
    what: str, slot: int, before: dict[str, float | None], numbers: dict[str, float | None]
) -> None:
    """Refuse other numbers than the recorded ones; those that were not known may be added."""
    for name, number in numbers.items():
        known = before.get(name)
        if known is not None and known != number:
            given = "nothing" if number is None else notation(number)
            raise ConflictError(
                f"slot {slot} has the {name} {notation(known)}, got {given}: "
                "give --revise or revise=True to replace it",
                {what: {name: known}},
                {what: {name: number}},
            )


def _write_numbers(names: Sequence[str], numbers: dict[str, float | None]) -> str | None:
    """The text of an event; None where no number was ever given."""
    return json.dumps([numbers.get(name) for name in names]) if numbers else None


def _find_played(names: Sequence[str], arm: object, slot: int, decided: int | None) -> int | None:
    """The number of the arm that was played: the one that the caller names, or the decided one."""
    if arm is None:
        return decided
    if arm not in names:
        raise ParameterError(
            f"slot {slot} was played with an unknown arm {short_repr(arm)}: "
            f"{suggest(str(arm), names)}"
        )
    return names.index(str(arm))


def _check_revision(
    state: ExperimentState, known: Event, total: float | None, arm: int | None, *, revise: bool
) -> None:
    """Refuse another total than the recorded one, unless the caller revises it."""
    if revise:
        return
    before, after = ("missing" if x is None else notation(x) for x in (known.total, total))
    if known.arm != arm and None not in (known.arm, arm):
        arms = state.names
        before, after = f"{before} with {arms[known.arm or 0]}", f"{after} with {arms[arm or 0]}"
    recorded = f"is {before}" if known.total is None else f"has the total {before}"
    raise ConflictError(
        f"slot {known.slot} {recorded}, got {after}: give --revise or revise=True to replace it",
        {"total": known.total},
        {"total": total},
    )


def _make_decision(settings: Settings, names: Sequence[str], event: Event) -> Decision:
    if event.round is None or event.arm is None or event.until is None:
        raise ValueError(f"a decision has a round, an arm and an end, got {event}")
    hold = event.slot > event.until
    until = event.slot if hold else event.until
    return Decision(
        event.slot,
        names[event.arm],
        event.round,
        until,
        hold,
        settings.find_time(event.slot),
        read_probabilities(names, event.probabilities),
    )
