"""The rules of asking and telling: what is recorded, what is answered again, what is refused."""

from typing import Any, Literal, NamedTuple

from aftereffect.checks import real, shown, whole
from aftereffect.errors import ConflictError, CorruptionError, ParameterError, about
from aftereffect.live.events import Event
from aftereffect.live.ledger import Ledger, Round
from aftereffect.live.reading import event_keyed, events_about
from aftereffect.live.settings import Settings
from aftereffect.live.storage import Log, Record, View
from aftereffect.spec import notation

LONGEST_KEY = 200


class Slot(NamedTuple):
    """A decided slot: play `arm` in it, and go on with it up to slot `until` if nothing else is asked.

    In a `hold` slot the round has had all its planned slots and waits for their totals.
    """

    number: int
    arm: str
    round: int
    until: int
    hold: bool

    def plain(self) -> dict[str, Any]:
        """By name, in the types that JSON has."""
        number, *rest = self
        return {"slot": number} | dict(zip(self._fields[1:], rest, strict=True))


class Outcome(NamedTuple):
    """What telling did: `change` says whether anything was recorded, `counts` whether the total will be learned from."""

    slot: int
    value: float | None
    change: Literal["recorded", "unchanged", "revised"]
    counts: bool


def decided(view: View, record: Record, settings: Settings, slot: int) -> Slot | None:
    """What is recorded for a slot; None if it is not decided."""
    events = events_about(view, record, slot, slot + 1)
    return next((_slot(settings, event) for event in events if event.kind == "decision"), None)


def decided_for(view: View, record: Record, settings: Settings, key: str) -> Slot | None:
    """What was decided for who asked with that key."""
    event = event_keyed(view, record, key)
    return None if event is None else _slot(settings, event)


def decide(log: Log, ledger: Ledger, slot: int | None, key: str | None) -> Slot:
    """Decide the next slot, which must be that one if a number is given."""
    name = ledger.settings.name
    if slot is not None and slot != ledger.next_slot:
        raise _beyond(f"slot {slot} cannot be decided yet: the next one is {ledger.next_slot}", ledger, slot)
    if ledger.closed:
        raise ConflictError(f"experiment {name!r} is closed: nothing more is decided")
    if ledger.ended:
        raise ConflictError(f"experiment {name!r} has decided all {ledger.next_slot:,} slots of its horizon: close it")
    number, place, arm, until, window = ledger.decision()
    event = ledger.place.next("decision", number, round=place, arm=arm, until=until, window=window, key=key)
    _keep(log, ledger, event)
    return _slot(ledger.settings, event)


def tell(log: Log, ledger: Ledger, record: Record, slot: object, value: object, *, revise: bool) -> Outcome:
    """Record what a slot brought, or that it is missing where the value is None."""
    with about("slot"):
        number = whole("slot", slot)
    if number >= ledger.next_slot:
        raise _beyond(f"slot {number} was never asked for: the next one is {ledger.next_slot}, ask first", ledger, number)
    with about("value"):
        total = None if value is None else believable(ledger.settings, number, value)
    counting = ledger.round if ledger.round and number >= ledger.round.first else None
    known = _outcomes(log, record, number, counting)
    if known and known[-1].value == total:
        return Outcome(number, total, "unchanged", _counts(known[-1]))
    if ledger.closed:
        raise ConflictError(f"experiment {ledger.settings.name!r} is closed: nothing more is recorded")
    if known:
        _check_revision(known[-1], total, revise=revise, open_round=counting is not None)
    event = ledger.place.next(
        "outcome", number, revision=len(known), round=None if counting is None else counting.number, value=total
    )
    _keep(log, ledger, event)
    return Outcome(number, total, "revised" if known else "recorded", _counts(event))


def finish(log: Log, ledger: Ledger) -> None:
    """End the experiment, unless it has ended."""
    if not ledger.closed:
        _keep(log, ledger, ledger.place.next("close", ledger.next_slot))


def checked_key(key: object) -> str:
    """A key that who asks made up."""
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise ParameterError(f"a key must be 1 to {LONGEST_KEY} printable ASCII characters, got {shown(key)}")
    return key


def believable(settings: Settings, slot: int, value: object) -> float:
    """A total that a slot can have brought."""
    total = real(f"the total of slot {slot}", value) + 0.0  # no zero below zero: SQLite does not keep its sign
    low, high = settings.reward_range
    most = max(high, 0.0) * (slot + 1)
    if total < low:
        raise ParameterError(
            f"the total of slot {slot} must be at least {low:g}, the lower end of the reward range, got {total:g}"
        )
    if total > most:
        plays = f"the {slot + 1:,} plays so far" if slot else "a play"
        raise ParameterError(f"the total of slot {slot} must be at most {most:g}, as much as {plays} can bring, got {total:g}")
    if settings.max_total is not None and total > settings.max_total:
        raise ParameterError(f"the total of slot {slot} must be at most {settings.max_total:g}, the max_total, got {total:g}")
    return total


def _beyond(message: str, ledger: Ledger, slot: int) -> ConflictError:
    return ConflictError(message, {"next": ledger.next_slot}, {"slot": slot})


def _keep(log: Log, ledger: Ledger, event: Event) -> None:
    log.append(event)
    ledger.fold(event)


def _outcomes(log: Log, record: Record, slot: int, counting: Round | None) -> list[Event]:
    """What was told of a slot so far; of the open round the ledger knows where that is nothing."""
    if counting and slot not in counting.told:
        return []
    events = events_about(log, record, slot, slot + 1)
    planned = any(event.kind == "decision" and slot <= (event.until or 0) for event in events)
    outcomes = [event for event in events if event.kind == "outcome"]
    if not events or (planned and not outcomes):
        raise CorruptionError(f"slot {slot} is of a round that has closed, and what was recorded about it is gone")
    return outcomes


def _check_revision(known: Event, total: float | None, *, revise: bool, open_round: bool) -> None:
    told = "is marked missing" if known.value is None else f"was told {notation(known.value)}"
    conflict = f"slot {known.slot} {told}, got {'missing' if total is None else notation(total)}"
    if not (open_round and revise):
        why = "say revise to replace it" if open_round else "its round has closed and shaped decisions, so it cannot be revised"
        raise ConflictError(f"{conflict}: {why}", {"value": known.value}, {"value": total})


def _counts(event: Event) -> bool:
    return event.value is not None and event.round is not None


def _slot(settings: Settings, event: Event) -> Slot:
    if event.round is None or event.arm is None or event.until is None:
        raise ValueError(f"a decision has a round, an arm and an end, got {event}")
    hold = event.slot > event.until
    return Slot(event.slot, settings.arms[event.arm], event.round, event.slot if hold else event.until, hold)
