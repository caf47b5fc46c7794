"""Read the log of an experiment, check it by its hashes, and derive the state from it."""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import cast

from aftereffect.errors import ConflictError, CorruptionError, ParameterError
from aftereffect.live._rounds import Journal
from aftereffect.live._snapshots import is_snapshot_due, restore_state, take_snapshot
from aftereffect.live._state import ExperimentState, SnapshotMark
from aftereffect.live._unit_state import make_state
from aftereffect.live._units import read_arms
from aftereffect.live.events import Event, Link, is_fingerprint, is_intact
from aftereffect.live.records import SlotRecord, make_records
from aftereffect.live.settings import Settings
from aftereffect.live.storage import Log, Record, Storage, View

#: The number of events that are read at a time: few, so that they stay in the processor's cache.
_PIECE = 2_000
#: The number of slots whose records are made at a time.
_SLOTS = 5_000


def read_settings(record: Record) -> Settings:
    """Read the settings of an experiment, and check that they are as they were recorded."""
    if not is_fingerprint(record.digest, record.name, record.settings, record.created_at):
        raise CorruptionError("its settings are not what was recorded")
    return Settings.from_json(record.settings)


def chain_start(record: Record) -> Link:
    """The position before the first event; its hash covers the settings.

    >>> chain_start(Record(1, "banner", "{}", "today", b"digest"))
    Link(seq=0, hash=b'digest')
    """
    return Link(0, record.digest)


def load_state(settings: Settings, record: Record, view: View) -> ExperimentState:
    """The current state of an experiment, from its snapshot and the events after it."""
    state = restore_state(settings, chain_start(record), view.snapshot())
    seq = state.head.seq
    if seq > 0:
        before = [event.hash for event in view.events(seq - 2, 1)] if seq > 1 else [record.digest]
        last = view.events(seq - 1, 1)
        if not (
            before and last and last[0].hash == state.head.hash and is_intact(last[0], before[0])
        ):
            raise CorruptionError("its snapshot does not belong to its log")
    fold_events(state, record, view, read_events(view, seq))
    check_log_end(view, state.head)
    return state


def fold_events(
    state: ExperimentState, record: Record, view: View, events: Iterable[Event]
) -> ExperimentState:
    """Fold several events of a log; return the state itself."""
    for event in events:
        fold_event(state, record, view, event)
    return state


def fold_event(state: ExperimentState, record: Record, view: View, event: Event) -> None:
    """Fold an event of a log.

    If it replaces a total from which the policy has learned, that takes a journal, for which the
    log is read from its beginning once.
    """
    if state.lacks_journal(event):
        begin_journal(state, record, view)
    state.fold(event)


def begin_journal(state: ExperimentState, record: Record, view: View) -> None:
    """Give a state a journal of what its policy was shown, derived from the log."""
    twin = make_state(state.settings, chain_start(record))
    twin.journal = Journal()
    twin.fold_all(islice(read_events(view, 0), state.head.seq))
    state.journal, state.draws = twin.journal, twin.draws


def find_end(state: ExperimentState, record: Record, view: View, slot: int) -> int | None:
    """The last planned slot of the round with which a total was learned.

    None if the policy looks at every slot.
    """
    if state.settings.looks_at_slots:
        return None
    if state.journal is None:
        begin_journal(state, record, view)
    return cast(Journal, state.journal).find(slot).until


def catch_up(state: ExperimentState, record: Record, view: View) -> ExperimentState | None:
    """Fold the events that were recorded since; None if the state is not of this log.

    That happens when a backup was restored under a running client, or when a standby server took
    over that did not have all events.
    """
    seq, known = state.head
    events = read_events(view, max(seq - 1, 0))
    if seq > 0:
        last = next(events, None)
        if last is None or last.hash != known:
            return None
    return fold_events(state, record, view, events)


def read_events(view: View, seq: int) -> Iterator[Event]:
    """All events after event `seq`, read in pieces.

    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> decisions = exp.ask(0), exp.ask(1)
    >>> with exp.read_log() as view:
    ...     [event.slot for event in read_events(view, 0)]
    [0, 1]
    """
    while piece := view.events(seq, _PIECE):
        yield from piece
        if len(piece) < _PIECE:
            return
        seq = piece[-1].seq


def check_log_end(view: View, head: Link) -> None:
    """Check that the log ends at `head`.

    A damaged page can end the reading of a table early, without an error.

    >>> from aftereffect import open_storage
    >>> storage = open_storage("memory://")
    >>> record, is_new = storage.create("banner", "{}", "today", b"digest")
    >>> with storage.reading(record.id) as view:
    ...     check_log_end(view, chain_start(record))
    """
    last = view.last_event()
    if last is not None and last.hash != head.hash:
        raise CorruptionError(
            f"its log ends with event {last.seq}, but only {head.seq} events can be read"
        )


def read_slot_events(view: View, record: Record, first: int, stop: int) -> list[Event]:
    """The events about the slots ``first .. stop - 1``, each proved by the hash before it."""
    return [_prove(record, *found) for found in view.slot_events(first, stop)]


def find_keyed_event(view: View, record: Record, key: str) -> Event | None:
    """The event with this idempotency key, proved by the hash before it; None if there is none."""
    found = view.find_by_key(key)
    return None if found is None else _prove(record, *found)


def _prove(record: Record, event: Event, before: bytes | None) -> Event:
    previous = record.digest if event.seq == 1 else before
    if previous is None or not is_intact(event, previous):
        raise CorruptionError(
            f"event {event.seq} of the log, about slot {event.slot}, is not what was recorded"
        )
    return event


class OpenLog:
    """The log of an experiment in a storage, and its state, which follows the log.

    Threads may share it.
    """

    def __init__(self, storage: Storage, record: Record) -> None:
        self.storage, self.record = storage, record
        #: The state when the log was last read; None if it must be loaded.
        self.state: ExperimentState | None = None
        self._lock = threading.RLock()
        with self._naming_damage():
            self.settings = read_settings(record)

    @contextmanager
    def view(self) -> Iterator[View]:
        """The log as it is now, without its state; the hashes are not checked."""
        with self._naming_damage(), self.storage.reading(self.record.id) as view:
            yield view

    @contextmanager
    def reading(self) -> Iterator[tuple[View, ExperimentState]]:
        """The log as it is now, and its state."""
        with self._lock, self.view() as view:
            yield view, self._update_state(view)

    @contextmanager
    def writing(self) -> Iterator[tuple[Log, ExperimentState]]:
        """The log as it is now, to be written to, and its state."""
        with self._lock, self._naming_damage():
            try:
                with self.storage.writing(self.record.id) as log:
                    state = self._update_state(log)
                    head = state.head
                    yield log, state
                    if is_snapshot_due(state):
                        log.save(take_snapshot(state))
                        state.last_snapshot = SnapshotMark(state.head.seq, state.rounds)
            except BaseException as error:
                # A refusal changes nothing, so the state is still right. After any other error it
                # may not be, and is loaded from the log again.
                refused = isinstance(error, (ParameterError, ConflictError))
                if not refused or self.state is None or self.state.head != head:
                    self.state = None
                raise

    def find_names(self, decision: Event) -> Sequence[str]:
        """The names of the arms of a decision, of which some may have been added since."""
        state = self.state
        known = self.settings.arms if state is None else state.names
        arms = read_arms(decision.units) or (decision.arm or 0,)
        chances = json.loads(decision.probabilities or "[]")
        drawn = len(chances if decision.units is None else chances[0])
        if max(drawn, *(arm + 1 for arm in arms)) <= len(known):
            return known
        with self.reading() as (_, state):
            return state.names

    def read_records(
        self, view: View, state: ExperimentState, first: int, stop: int
    ) -> Iterator[SlotRecord]:
        """The records of the slots ``first .. stop - 1``, read in pieces."""
        ahead = state.look_ahead()
        for begin in range(first, stop, _SLOTS):
            end = min(begin + _SLOTS, stop)
            events = read_slot_events(view, self.record, begin, end)
            yield from make_records(ahead, events, begin, end)

    def _update_state(self, view: View) -> ExperimentState:
        # A state that fails to catch up is dropped: it may have folded half of the events.
        state, self.state = self.state, None
        if state is not None:
            state = catch_up(state, self.record, view)
        if state is None:
            state = load_state(self.settings, self.record, view)
        self.state = state
        return state

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        """Add the name of the experiment to an error about damage, and what to do."""
        try:
            yield
        except CorruptionError as error:
            raise CorruptionError(
                f"experiment {self.record.name!r} is damaged, {error}; "
                "verify it to see how much is intact, and restore a backup"
            ) from None
