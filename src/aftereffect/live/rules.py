"""The rules of asking and telling: what is recorded, what is answered again, what is refused."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from aftereffect.checks import sequence, shown, whole
from aftereffect.errors import ConflictError, CorruptionError, ParameterError, about
from aftereffect.live.events import Event
from aftereffect.live.ledger import Ledger
from aftereffect.live.reading import event_keyed, events_about
from aftereffect.live.settings import MOST_LIVE_SLOTS, Settings
from aftereffect.live.storage import Log, Record, View
from aftereffect.live.totals import check_possible
from aftereffect.spec import nearest, notation

LONGEST_KEY = 200
#: Slots that are skipped at once: eleven years of hours.
MAX_GAP = 100_000


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
    """What telling did: `change` says whether anything was recorded, `arm` which one was really played."""

    slot: int
    value: float | None
    change: Literal["recorded", "unchanged", "revised"]
    arm: str | None


class Telling(NamedTuple):
    """What is told of one slot: its total, None if that is missing; and the arm that was played, if not the one advised."""

    slot: object
    value: object
    arm: object = None


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
    if slot is not None and slot > ledger.next_slot:
        gap = f"slots {ledger.next_slot} to {slot - 1}" if slot > ledger.next_slot + 1 else f"slot {ledger.next_slot}"
        message = (
            f"slot {slot} cannot be decided yet: the next one is {ledger.next_slot}; skip {gap} if nothing was played there"
        )
        raise _beyond(message, ledger, slot)
    if slot is not None and slot < ledger.next_slot:
        raise ConflictError(f"slot {slot} was skipped: nothing was decided for it, and now it is past")
    if ledger.closed:
        raise ConflictError(f"experiment {name!r} is closed: nothing more is decided")
    if ledger.ended:
        raise ConflictError(f"experiment {name!r} has decided all {ledger.next_slot:,} slots of its horizon: close it")
    number, place, arm, until, window = ledger.decide()
    event = ledger.place.next("decision", number, round=place, arm=arm, until=until, window=window, key=key)
    _keep(log, ledger, event)
    return _slot(ledger.settings, event)


def tell(log: Log, ledger: Ledger, record: Record, telling: Telling, *, revise: bool, confirm: bool) -> Outcome:
    """Record what a slot brought, or that it is missing where the value is None."""
    with about("slot"):
        number = whole("slot", telling.slot)
    if number >= ledger.next_slot:
        raise _beyond(f"slot {number} was never asked for: the next one is {ledger.next_slot}, ask first", ledger, number)
    with about("value"):
        total = None if telling.value is None else check_possible(ledger.settings, number, telling.value)
    known, advised = _recorded(log, ledger, record, number)
    with about("arm"):
        arm = _played(ledger.settings, telling.arm, number, advised)
    played = None if arm is None else ledger.settings.arms[arm]
    if known and known.value == total and (total is None or arm is None or known.arm in (None, arm)):
        return Outcome(number, total, "unchanged", played)
    if ledger.closed:
        raise ConflictError(f"experiment {ledger.settings.name!r} is closed: nothing more is recorded")
    if total is not None and arm is None:
        raise ConflictError(f"slot {number} was skipped: say which arm was played in it")
    if known:
        _check_revision(ledger, known, total, arm, revise=revise)
    if total is not None and not confirm:
        with about("value"):
            ledger.seen.check_likely(ledger.settings, number, total)
    event = ledger.place.next("outcome", number, revision=known.revision + 1 if known else 0, arm=arm, value=total)
    _keep(log, ledger, event)
    return Outcome(number, total, "revised" if known else "recorded", played)


def skip(log: Log, ledger: Ledger, first: int, last: int) -> None:
    """Record that nothing was decided for some slots, beginning with the next one; the same again changes nothing."""
    if (first, last) in ledger.skipped:
        return
    if not first <= last < first + MAX_GAP:
        raise ParameterError(f"the last slot to skip must be from {first} to {first + MAX_GAP - 1}, got {last}")
    if first != ledger.next_slot:
        raise _beyond(f"slots are skipped from the next one on, which is {ledger.next_slot}, got {first}", ledger, first)
    if last >= ledger.settings.planned_slots:
        end = ledger.settings.planned_slots - 1
        raise ParameterError(f"the last slot to skip must be at most {end:,}, where the experiment ends, got {last:,}")
    if ledger.closed:
        raise ConflictError(f"experiment {ledger.settings.name!r} is closed: nothing more is recorded")
    _keep(log, ledger, ledger.place.next("skip", first, until=last))


def finish(log: Log, ledger: Ledger) -> None:
    """End the experiment, unless it has ended."""
    if not ledger.closed:
        _keep(log, ledger, ledger.place.next("close", ledger.next_slot))


def checked_key(key: object) -> str:
    """A key that who asks made up."""
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise ParameterError(f"a key must be 1 to {LONGEST_KEY} printable ASCII characters, got {shown(key)}")
    return key


def tellings(outcomes: object) -> list[Telling]:
    """What is told of several slots, by slot or as pairs of slot and total, or triples with the arm."""
    rows = outcomes.items() if isinstance(outcomes, Mapping) else sequence("outcomes", outcomes)
    for row in rows:
        if not isinstance(row, (tuple, list)) or not 2 <= len(row) <= 3:
            raise ParameterError(f"each outcome must be a slot and its total, and perhaps the arm played, got {shown(row)}")
    return [Telling(*cast(Any, row)) for row in rows]


def _beyond(message: str, ledger: Ledger, slot: int) -> ConflictError:
    return ConflictError(message, {"next": ledger.next_slot}, {"slot": min(slot, MOST_LIVE_SLOTS)})


def _keep(log: Log, ledger: Ledger, event: Event) -> None:
    log.append(event)
    ledger.fold(event)


def _recorded(log: Log, ledger: Ledger, record: Record, slot: int) -> tuple[Event | None, int | None]:
    """What was last told of a slot, and the arm that was advised; None if it was skipped. The ledger knows what is untold."""
    if ledger.round is not None and slot in ledger.round.untold:
        return None, ledger.round.arm
    if slot in ledger.backlog and ledger.backlog.total(slot) is None:
        return None, ledger.backlog.arms[slot]
    events = events_about(log, record, slot, slot + 1)
    decision = next((event for event in events if event.kind == "decision"), None)
    outcomes = [event for event in events if event.kind == "outcome"]
    if (decision is None or not outcomes) and not ledger.is_skipped(slot):
        raise CorruptionError(f"slot {slot} was decided and told, and what was recorded about it is gone")
    return (outcomes[-1] if outcomes else None), (decision.arm if decision else None)


def _played(settings: Settings, arm: object, slot: int, advised: int | None) -> int | None:
    """The arm that was really played: the one that is told, or the one that was advised."""
    if arm is None:
        return advised
    if arm not in settings.arms:
        raise ParameterError(f"slot {slot} was played with an unknown arm {shown(arm)}: {nearest(str(arm), settings.arms)}")
    return settings.arms.index(str(arm))


def _check_revision(ledger: Ledger, known: Event, total: float | None, arm: int | None, *, revise: bool) -> None:
    """Something else was told before. What is missing has taught nothing, so that it can be told at any time."""
    can_change = known.value is None or ledger.is_waiting(known.slot)
    if can_change and revise:
        return
    before, now = ("missing" if value is None else notation(value) for value in (known.value, total))
    if known.arm != arm and None not in (known.arm, arm):
        before, now = (f"{text} with {ledger.settings.arms[at or 0]}" for text, at in ((before, known.arm), (now, arm)))
    conflict = f"slot {known.slot} {'is marked' if known.value is None else 'was told'} {before}, got {now}"
    why = "say revise to replace it" if can_change else "it has shaped decisions, so it cannot be revised"
    raise ConflictError(f"{conflict}: {why}", {"value": known.value}, {"value": total})


def _slot(settings: Settings, event: Event) -> Slot:
    if event.round is None or event.arm is None or event.until is None:
        raise ValueError(f"a decision has a round, an arm and an end, got {event}")
    hold = event.slot > event.until
    return Slot(event.slot, settings.arms[event.arm], event.round, event.slot if hold else event.until, hold)
