"""Experiments in memory, lost when the process ends: for trials and tests."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from aftereffect.errors import NotFoundError, StorageError
from aftereffect.live.events import Event, Snapshot
from aftereffect.live.storage.contract import Log, Record, Storage, TokenRecord


@dataclass
class _StoredExperiment:
    """One experiment. Events are only appended, so readers of the first ones are not disturbed."""

    record: Record
    events: list[Event] = field(default_factory=list)
    about: dict[int, list[Event]] = field(default_factory=dict)
    find_by_key: dict[str, Event] = field(default_factory=dict)
    #: The number of visible events, and the snapshot. Both change at once when a transaction ends.
    visible: tuple[int, Snapshot | None] = (0, None)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, event: Event) -> None:
        """Append an event."""
        self.events.append(event)
        self.about.setdefault(event.slot, []).append(event)
        if event.key is not None:
            self.find_by_key[event.key] = event


class MemoryStorage(Storage):
    """Stores experiments in this process. Each ``memory://`` is new, so share the object.

    Examples
    --------
    >>> len(MemoryStorage().names())
    0
    """

    def __init__(self, url: str = "memory://", *, lock_timeout: float = 60.0) -> None:
        self.url, self._lock_timeout = url, lock_timeout
        self._lock = threading.Lock()
        self._experiments: dict[str, _StoredExperiment] = {}
        self._ids = itertools.count(1)
        self._tokens: dict[bytes, TokenRecord] = {}

    def create(
        self, name: str, settings: str, created_at: str, digest: bytes
    ) -> tuple[Record, bool]:
        with self._lock:
            new = name not in self._experiments
            if new:
                record = Record(next(self._ids), name, settings, created_at, digest)
                self._experiments[name] = _StoredExperiment(record)
            return self._experiments[name].record, new

    def find(self, name: str) -> Record | None:
        stored = self._experiments.get(name)
        return None if stored is None else stored.record

    def records(self) -> list[Record]:
        with self._lock:
            return [stored.record for stored in self._experiments.values()]

    @contextmanager
    def reading(self, experiment: int) -> Iterator[Log]:
        yield _MemoryLog(self._find(experiment))

    @contextmanager
    def writing(self, experiment: int) -> Iterator[Log]:
        stored = self._find(experiment)
        if not stored.lock.acquire(timeout=self._lock_timeout):
            raise StorageError(
                f"another thread has been writing to {stored.record.name!r} "
                f"for {self._lock_timeout:g} seconds"
            )
        try:
            self._find(experiment)  # it may have been deleted while this thread waited
            log = _MemoryLog(stored)
            yield log
            log.commit()
            if log.is_removed:
                with self._lock:
                    del self._experiments[stored.record.name]
        finally:
            stored.lock.release()

    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        with self._lock:
            if digest in self._tokens:
                raise StorageError("there is a token with this digest already")
            number = len(self._tokens) + 1
            self._tokens[digest] = TokenRecord(number, label, scope, digest, created_at, None)
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
        """There is nothing to create."""

    def examine(self) -> list[str]:
        return []

    def close(self) -> None:
        """There is nothing to close."""

    def _find(self, experiment: int) -> _StoredExperiment:
        with self._lock:
            for stored in self._experiments.values():
                if stored.record.id == experiment:
                    return stored
        raise NotFoundError(
            f"{self.url}: there is no experiment with the id {experiment}: it was deleted"
        )


class _MemoryLog(Log):
    """One experiment in a transaction: the events that were visible, and those appended since."""

    def __init__(self, stored: _StoredExperiment) -> None:
        self._stored = stored
        self._last, self._snapshot = stored.visible
        self._new = _StoredExperiment(stored.record)
        self.is_removed = False

    def snapshot(self) -> Snapshot | None:
        return self._snapshot

    def events(self, after: int, limit: int) -> Sequence[Event]:
        after = max(after, 0)
        old = self._stored.events[after : min(after + limit, self._last)]
        first_new = max(after - self._last, 0)
        return old + self._new.events[first_new : first_new + limit - len(old)]

    def last_event(self) -> Event | None:
        if self._new.events:
            return self._new.events[-1]
        return self._stored.events[self._last - 1] if self._last else None

    def slot_events(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        found = [
            event
            for part in (self._stored, self._new)
            for slot in range(first, stop)
            for event in part.about.get(slot, ())
            if part is self._new or event.seq <= self._last
        ]
        return [(event, self._hash_before(event)) for event in sorted(found)]

    def find_by_key(self, key: str) -> tuple[Event, bytes | None] | None:
        event = self._stored.find_by_key.get(key) or self._new.find_by_key.get(key)
        if event is None or event.seq > self._last + len(self._new.events):
            return None
        return event, self._hash_before(event)

    def _hash_before(self, event: Event) -> bytes | None:
        return self.events(event.seq - 2, 1)[0].hash if event.seq > 1 else None

    def append(self, event: Event) -> None:
        last = self._last + len(self._new.events)
        if event.seq != last + 1:
            raise StorageError(f"event {event.seq} cannot follow event {last}")
        for other, _ in self.slot_events(event.slot, event.slot + 1):
            if (event.kind, event.revision) == (other.kind, other.revision):
                raise StorageError(
                    f"slot {event.slot} already has a {event.kind} with revision {event.revision}"
                )
        if event.key is not None and self.find_by_key(event.key):
            raise StorageError(f"there is already an event with the key {event.key!r}")
        self._new.add(event)

    def save(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def remove(self, removed_at: str) -> None:
        self.is_removed = True

    def commit(self) -> None:
        """Make visible what was appended and saved."""
        for event in self._new.events:
            self._stored.add(event)
        self._stored.visible = len(self._stored.events), self._snapshot
