"""The contract of a storage: what live experiments require of it; and a storage in memory."""

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from aftereffect.errors import CorruptionError, NotFoundError, StorageError
from aftereffect.live.events import Event, Snapshot


class Record(NamedTuple):
    """An experiment as it was created; `digest` is the fingerprint of its other texts.

    Examples
    --------
    >>> from aftereffect import open_storage
    >>> record, is_new = open_storage("memory://").create("banner", "{}", "today", b"digest")
    >>> record.id
    1
    """

    id: int
    name: str
    settings: str
    created_at: str
    digest: bytes


def is_text(cell: object) -> bool:
    r"""Whether a cell holds valid text: a flipped bit can make it bytes, or invalid UTF-8.

    >>> is_text("banner"), is_text(b"banner"), is_text("\udc80")
    (True, False, False)
    """
    try:
        return isinstance(cell, str) and bool(cell.encode())
    except UnicodeEncodeError:
        return False


class View(ABC):
    """One experiment as it was when the view was first used; later changes are not visible.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> slot = exp.ask(0)
    >>> with exp.read_log() as view:
    ...     view.last_event().seq
    1
    """

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """The snapshot that was saved last."""

    @abstractmethod
    def events(self, after: int, limit: int) -> Sequence[Event]:
        """The events after event number `after`, at most `limit` of them, in order."""

    @abstractmethod
    def last_event(self) -> Event | None:
        """The event with the highest number; None if there is none."""

    @abstractmethod
    def slot_events(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        """The events about slots ``first .. stop - 1`` in order, each with the hash before it.

        That hash is None for the very first event.
        """

    @abstractmethod
    def find_by_key(self, key: str) -> tuple[Event, bytes | None] | None:
        """The event with this idempotency key, and the hash before it; None if there is none."""


class Log(View):
    """A view that can be written to; nobody else writes to the experiment meanwhile.

    Examples
    --------
    >>> from aftereffect import open_storage
    >>> from aftereffect.live import chain_start
    >>> storage = open_storage("memory://")
    >>> record, is_new = storage.create("banner", "{}", "today", b"digest")
    >>> with storage.writing(record.id) as log:
    ...     log.append(chain_start(record).next("end", 0))
    ...     len(log.events(0, 10))
    1
    """

    @abstractmethod
    def append(self, event: Event) -> None:
        """Add an event at the end."""

    @abstractmethod
    def save(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""

    @abstractmethod
    def remove(self, removed_at: str) -> None:
        """Delete the experiment with its events; must be the last call of a transaction."""


class TokenRecord(NamedTuple):
    """An access token of the service: its scope, and a digest that identifies it.

    The token itself is not stored.

    Examples
    --------
    >>> from aftereffect import open_storage
    >>> token = open_storage("memory://").add_token("ci", "read", "today", b"digest")
    >>> token.id, token.scope
    (1, 'read')
    """

    id: int
    label: str
    scope: str
    digest: bytes
    created_at: str
    revoked_at: str | None


class TokenStorage(ABC):
    """The part of the contract that the service needs to authenticate clients.

    - A revoked token stays revoked, and the first revocation counts.
    - A token that is not as it was recorded gives no access: `token` and `tokens` raise
      `CorruptionError` until it is revoked.
    """

    @abstractmethod
    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        """Store a new token; raise `StorageError` if there is one with the same digest."""

    @abstractmethod
    def tokens(self) -> list[TokenRecord]:
        """All tokens, revoked ones too, in the order of their creation."""

    @abstractmethod
    def token(self, digest: bytes) -> TokenRecord | None:
        """The token with this digest, even if it is revoked; None if there is none."""

    @abstractmethod
    def has_tokens(self) -> bool:
        """Whether any token was ever created."""

    @abstractmethod
    def revoke_token(self, token: int, revoked_at: str) -> TokenRecord | None:
        """Revoke a token unless it is revoked already; None if there is no such token."""


class Storage(TokenStorage):
    """Stores experiments with their logs. Threads may share one.

    The contract, which `aftereffect.testing.StorageContract` checks:

    - *Names*: `create` stores a new experiment, or returns the one that has the name. If two
      clients create the same name at once, one of them wins, and both get the same record. Ids
      never change, and no id is used twice.
    - *Append-only*: a stored event never changes, and is deleted only with its whole experiment.
      Event numbers go up by one from 1. Within an experiment no two events have the same number, or
      the same slot, kind and revision, or the same key; else `append` raises `StorageError`.
    - *Deletion*: after a transaction that removed an experiment, nothing of it is left, and its
      name is free. Reading or writing by its id raises `NotFoundError`, even if a new experiment
      has the same name.
    - *Transactions*: what is appended and saved inside `writing` becomes visible at once, when the
      block is left without an exception. It is then durable: it survives a crash of the process,
      and of the machine if the disk keeps what it acknowledged. After an exception nothing of it is
      stored.
    - *Exclusive writers*: only one writer works on an experiment at a time, across threads,
      processes and machines. Others wait, and get a `StorageError` if they wait too long. A writer
      sees everything that was stored before.
    - *Readers* see one moment. They never wait for writers, and writers never wait for them.
    - *Exact*: events and snapshots come back as they were given, with every bit of a float (except
      the sign of zero).
    - *Tokens*: see `TokenStorage`.
    - *Errors*: what cannot be read or written raises `StorageError`; what is evidently not as it
      was recorded raises `CorruptionError`.

    Examples
    --------
    >>> from aftereffect import open_storage
    >>> with open_storage("memory://") as storage:
    ...     len(storage.records())
    0
    """

    #: The URL of the storage, without a password.
    url: str

    @abstractmethod
    def create(
        self, name: str, settings: str, created_at: str, digest: bytes
    ) -> tuple[Record, bool]:
        """Store a new experiment, unless the name exists; return its record, and if it is new."""

    @abstractmethod
    def find(self, name: str) -> Record | None:
        """The experiment with this name; None if there is none."""

    @abstractmethod
    def records(self) -> list[Record]:
        """All experiments in the order of their creation, damaged ones too, unchecked."""

    def names(self) -> list[str]:
        """The names of all experiments, in the order of their creation."""
        records = self.records()
        for record in records:
            if not is_text(record.name):
                raise CorruptionError(
                    f"{self.url}: the name of experiment {record.id} is damaged: restore a backup"
                )
        return [record.name for record in records]

    def readable_names(self) -> list[str]:
        """The names that are not damaged, for callers that must go on with the other ones."""
        return [record.name for record in self.records() if is_text(record.name)]

    @abstractmethod
    def reading(self, experiment: int) -> AbstractContextManager[View]:
        """Read one experiment."""

    @abstractmethod
    def writing(self, experiment: int) -> AbstractContextManager[Log]:
        """Read one experiment and write to it, in one transaction."""

    @abstractmethod
    def prepare(self) -> None:
        """Check that the storage can be read and written; create its tables if there are none."""

    @abstractmethod
    def examine(self) -> list[str]:
        """Run the medium's own checks, and return the problems that they find."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections."""

    def __enter__(self) -> "Storage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
