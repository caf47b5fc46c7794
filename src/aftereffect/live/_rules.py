"""The rules of asking: what is decided, what is answered again, what is refused."""

import json

from aftereffect._core import check_int
from aftereffect.errors import ConflictError, CorruptionError, ParameterError
from aftereffect.live._arms import ArmChange, plan_changes
from aftereffect.live._reading import OpenLog, find_keyed_event, read_slot_events
from aftereffect.live._results import judge_guardrails
from aftereffect.live._state import ExperimentState
from aftereffect.live._telling import append, check_key, check_running, refuse_later
from aftereffect.live.events import Event
from aftereffect.live.records import Decision, Slot, make_decision
from aftereffect.live.settings import MAX_LIVE_SLOTS
from aftereffect.live.storage import Log, Record, View

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
            return make_decision(opened.settings, opened.find_names(answer), answer), False
    with opened.writing() as (log, state):
        if checked or (number is not None and number < state.next_slot):
            answer = find(log)  # another client may have decided it meanwhile
            if answer is not None:
                return make_decision(opened.settings, state.names, answer), False
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
        raise refuse_later(message, state, slot)
    if slot is not None and slot < next_slot:
        raise ConflictError(f"slot {slot} was skipped, and skipped slots are not decided later")
    if state.ended:
        raise ConflictError(f"experiment {name!r} has ended: no more slots are decided")
    if state.has_reached_horizon:
        raise ConflictError(
            f"experiment {name!r} has decided all {next_slot:,} slots of its horizon: end it"
        )
    for found in judge_guardrails(log, record, state):
        append(log, state, found)
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
        units=choice.units,
    )
    append(log, state, event)
    return make_decision(state.settings, state.names, event)


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
        raise refuse_later(message, state, first)
    if last >= state.settings.planned_slots:
        raise ParameterError(
            f"the last slot to skip must be at most {state.settings.planned_slots - 1:,}, "
            f"where the experiment ends, got {last:,}"
        )
    check_running(state)
    append(log, state, state.head.next("skip", first, until=last))


def change_arms(log: Log, state: ExperimentState, given: dict[ArmChange, object]) -> None:
    """Record that arms come and go; the same call again changes nothing."""
    changes = plan_changes(state.settings, state.arms, given)
    if changes:
        check_running(state)
    for change in changes:
        event = state.head.next(
            "arm",
            state.next_slot,
            revision=state.arm_changes,
            arm=change.number,
            guardrails=change.write(),
        )
        append(log, state, event)


def end(log: Log, state: ExperimentState) -> None:
    """End the experiment, unless it has ended."""
    if not state.ended:
        append(log, state, state.head.next("end", state.next_slot))


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
            append(log, state, event)
