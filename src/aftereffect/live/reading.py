"""Reading a log: in pieces, and believing nothing that its hashes do not prove."""

from collections.abc import Iterator

from aftereffect.errors import CorruptionError
from aftereffect.live.events import Event, Link, is_fingerprint, proves
from aftereffect.live.ledger import Ledger
from aftereffect.live.settings import Settings
from aftereffect.live.snapshot import restored
from aftereffect.live.storage import Record, View

#: Events that are read at a time: so few that they are still at hand when they are looked at.
_PIECE = 2_000


def settings_of(record: Record) -> Settings:
    """The settings of an experiment, if they are as they were recorded."""
    if not is_fingerprint(record.digest, record.name, record.settings, record.created_at):
        raise CorruptionError("its settings are not what was recorded")
    return Settings.read(record.settings)


def start_of(record: Record) -> Link:
    """Where the chain of an experiment begins: its first event proves the settings too."""
    return Link(0, record.digest)


def opened(settings: Settings, record: Record, view: View) -> Ledger:
    """An experiment as it stands: the snapshot, and what was recorded since."""
    ledger = restored(settings, start_of(record), view.snapshot())
    seq = ledger.place.seq
    if seq > 0:
        before = [event.hash for event in view.events(seq - 2, 1)] if seq > 1 else [record.digest]
        last = view.events(seq - 1, 1)
        if not (before and last and last[0].hash == ledger.place.hash and proves(last[0], before[0])):
            raise CorruptionError("its snapshot and its log do not belong together")
    ledger.fold_all(events_after(view, seq))
    check_end(view, ledger.place)
    return ledger


def caught_up(ledger: Ledger, view: View) -> Ledger | None:
    """A ledger after all that others recorded since; None if it is not of this log.

    A back-up may have been restored under a running client, or a standby taken over that had not heard of everything.
    """
    seq, known = ledger.place
    events = events_after(view, max(seq - 1, 0))
    if seq > 0:
        last = next(events, None)
        if last is None or last.hash != known:
            return None
    return ledger.fold_all(events)


def events_after(view: View, seq: int) -> Iterator[Event]:
    """All events after one, piece by piece."""
    while piece := view.events(seq, _PIECE):
        yield from piece
        if len(piece) < _PIECE:
            return
        seq = piece[-1].seq


def check_end(view: View, place: Link) -> None:
    """Refuse a log that goes on after a place: a damaged page can end the reading of a table early, without an error."""
    last = view.last_event()
    if last is not None and last.hash != place.hash:
        raise CorruptionError(f"its log ends with event {last.seq}, but can be read up to event {place.seq} alone")


def events_about(view: View, record: Record, first: int, stop: int) -> list[Event]:
    """The events about some slots, each proved by the hash of the one before it."""
    return [_proved(record, *found) for found in view.about(first, stop)]


def event_keyed(view: View, record: Record, key: str) -> Event | None:
    """The event of a key, proved in the same way."""
    found = view.keyed(key)
    return None if found is None else _proved(record, *found)


def _proved(record: Record, event: Event, before: bytes | None) -> Event:
    previous = record.digest if event.seq == 1 else before
    if previous is None or not proves(event, previous):
        raise CorruptionError(f"event {event.seq} of the log, about slot {event.slot}, is not what was recorded")
    return event
