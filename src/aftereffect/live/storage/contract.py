"""The contract of a storage: what live experiments require of it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from aftereffect.errors import CorruptionError
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
