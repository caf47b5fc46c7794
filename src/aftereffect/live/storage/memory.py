"""Experiments in memory: gone with the process. For trying things out, and for tests."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from aftereffect.errors import NotFoundError, StorageError
from aftereffect.live.events import Event
from aftereffect.live.snapshot import Snapshot
from aftereffect.live.storage.base import Log, Record, Storage, TokenRecord


@dataclass
class Shelf:
    """One experiment. Its events are only ever added to, so that a reader of the first so many is not disturbed."""

    record: Record
    events: list[Event] = field(default_factory=list)
    about: dict[int, list[Event]] = field(default_factory=dict)
    keyed: dict[str, Event] = field(default_factory=dict)
    #: How many events there are to be seen, and the snapshot: changed at once, when a transaction ends.
    moment: tuple[int, Snapshot | None] = (0, None)
    removed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Event) -> None:
        """At the end, and to those about its slot."""
        self.events.append(event)
        self.about.setdefault(event.slot, []).append(event)
        if event.key is not None:
            self.keyed[event.key] = event


class MemoryStorage(Storage):
    """Keeps experiments in this process; ``memory://`` is a new one each time, so share the object itself."""

    def __init__(self, url: str = "memory://", patience: float = 60.0) -> None:
        self.url = url
        self._patience = patience
        self._lock = threading.Lock()
        self._shelves: dict[str, Shelf] = {}
        self._ids = itertools.count(1)
        self._tokens: dict[bytes, TokenRecord] = {}

    def create(self, name: str, settings: str, created_at: str, digest: bytes) -> tuple[Record, bool]:
        with self._lock:
            new = name not in self._shelves
            if new:
                self._shelves[name] = Shelf(Record(next(self._ids), name, settings, created_at, digest))
            return self._shelves[name].record, new

    def find(self, name: str) -> Record | None:
        shelf = self._shelves.get(name)
        return None if shelf is None else shelf.record

    def records(self) -> list[Record]:
        with self._lock:
            return [shelf.record for shelf in self._shelves.values()]

    @contextmanager
    def reading(self, experiment: int) -> Iterator[Log]:
        yield MemoryLog(self._shelf(experiment))

    @contextmanager
    def writing(self, experiment: int) -> Iterator[Log]:
        shelf = self._shelf(experiment)
        if not shelf.lock.acquire(timeout=self._patience):
            raise StorageError(f"another thread has been writing to {shelf.record.name!r} for {self._patience:g} seconds")
        try:
            if shelf.removed:  # while this one waited
                raise self._gone(experiment)
            log = MemoryLog(shelf)
            yield log
            log.keep()
            if log.removed_at is not None:
                with self._lock:
                    shelf.removed = True
                    del self._shelves[shelf.record.name]
        finally:
            shelf.lock.release()

    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        with self._lock:
            if digest in self._tokens:
                raise StorageError("there is a token with this digest already")
            self._tokens[digest] = TokenRecord(len(self._tokens) + 1, label, scope, digest, created_at, None)
            return self._tokens[digest]

    def tokens(self) -> list[TokenRecord]:
        with self._lock:
            return list(self._tokens.values())

    def token(self, digest: bytes) -> TokenRecord | None:
        return self._tokens.get(digest)

    def has_tokens(self) -> bool:
        return bool(self._tokens)

    def revoke_token(self, token: int, revoked_at: str) -> TokenRecord | None:
        with self._lock:
            known = next((record for record in self._tokens.values() if record.id == token), None)
            if known is not None and known.revoked_at is None:
                known = self._tokens[known.digest] = known._replace(revoked_at=revoked_at)
            return known

    def prepare(self) -> None:
        """Nothing to make."""

    def examine(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing to let go of."""

    def _shelf(self, experiment: int) -> Shelf:
        with self._lock:
            found = next((shelf for shelf in self._shelves.values() if shelf.record.id == experiment), None)
        if found is None:
            raise self._gone(experiment)
        return found

    def _gone(self, experiment: int) -> NotFoundError:
        return NotFoundError(f"{self.url}: there is no experiment with the number {experiment}: it was removed")


class MemoryLog(Log):
    """Sees the events that there were, and those appended since."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._last, self._snapshot = shelf.moment
        self._new = Shelf(shelf.record)
        self.removed_at: str | None = None

    def snapshot(self) -> Snapshot | None:
        return self._snapshot

    def events(self, after: int, limit: int) -> Sequence[Event]:
        after = max(after, 0)
        kept = self._shelf.events[after : min(after + limit, self._last)]
        first_new = max(after - self._last, 0)
        return [*kept, *self._new.events[first_new : first_new + limit - len(kept)]]

    def last_event(self) -> Event | None:
        if self._new.events:
            return self._new.events[-1]
        return self._shelf.events[self._last - 1] if self._last else None

    def about(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        found = [
            event
            for shelf in (self._shelf, self._new)
            for slot in range(first, stop)
            for event in shelf.about.get(slot, ())
            if shelf is self._new or event.seq <= self._last
        ]
        return [(event, self._before(event)) for event in sorted(found)]

    def keyed(self, key: str) -> tuple[Event, bytes | None] | None:
        event = self._shelf.keyed.get(key) or self._new.keyed.get(key)
        seen = event is not None and event.seq <= self._last + len(self._new.events)
        return (event, self._before(event)) if event is not None and seen else None

    def _before(self, event: Event) -> bytes | None:
        return self.events(event.seq - 2, 1)[0].hash if event.seq > 1 else None

    def append(self, event: Event) -> None:
        key, last = (event.slot, event.kind, event.revision), self._last + len(self._new.events)
        if event.seq != last + 1:
            raise StorageError(f"event {event.seq} cannot follow event {last}")
        if any(key == (other.slot, other.kind, other.revision) for other, _ in self.about(event.slot, event.slot + 1)):
            raise StorageError(f"slot {event.slot} has a {event.kind} with revision {event.revision} already")
        if event.key is not None and self.keyed(event.key):
            raise StorageError(f"there is an event with the key {event.key!r} already")
        self._new.add(event)

    def save(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def remove(self, removed_at: str) -> None:
        self.removed_at = removed_at

    def keep(self) -> None:
        """Make what was appended and saved visible."""
        for event in self._new.events:
            self._shelf.add(event)
        self._shelf.moment = len(self._shelf.events), self._snapshot
