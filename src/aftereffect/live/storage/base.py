"""What live experiments ask of a storage."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from aftereffect.errors import CorruptionError
from aftereffect.live.events import Event
from aftereffect.live.snapshot import Snapshot


class Record(NamedTuple):
    """An experiment as it was created, and the fingerprint of all that, where the chain of events begins."""

    id: int
    name: str
    settings: str
    created_at: str
    digest: bytes


def is_text(kept: object) -> bool:
    """Whether a cell still holds a text: a flipped bit can turn it into bytes, or into what is no UTF-8."""
    try:
        return isinstance(kept, str) and bool(kept.encode())
    except UnicodeEncodeError:
        return False


class TokenRecord(NamedTuple):
    """A token of the service: what it opens, and a digest by which it is known again; the token itself is not kept."""

    id: int
    label: str
    scope: str
    digest: bytes
    created_at: str
    revoked_at: str | None


class View(ABC):
    """One experiment as it stood when it was first looked at; nothing that others do meanwhile is seen."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """The last that was saved."""

    @abstractmethod
    def events(self, after: int, limit: int) -> Sequence[Event]:
        """Events in the order of their numbers, beginning after this one, at most so many."""

    @abstractmethod
    def last_event(self) -> Event | None:
        """The event with the highest number; None if there is none."""

    @abstractmethod
    def about(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        """Events about slots ``first .. stop - 1`` in the order of their numbers, each with the hash of the event before it.

        That is None for the first event of all.
        """

    @abstractmethod
    def keyed(self, key: str) -> tuple[Event, bytes | None] | None:
        """The event that has this key, with the hash of the event before it."""


class Log(View):
    """A view that may be written to; nobody else writes to the experiment meanwhile."""

    @abstractmethod
    def append(self, event: Event) -> None:
        """Add an event at the end."""

    @abstractmethod
    def save(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""

    @abstractmethod
    def remove(self, removed_at: str) -> None:
        """Remove the experiment, with its snapshot and all its events; the last thing that a transaction does."""


class Storage(ABC):
    """A place that keeps experiments.

    The contract, which `aftereffect.testing.StorageContract` checks:

    - *Names*: `create` keeps a new experiment, or gives back what the name already stands for; of two that create the same
      name at once one wins, and both get that. Ids never change, and none is ever given out again.
    - *Append-only*: an event, once kept, never changes, and is removed only with its whole experiment. Numbers go up by one
      from 1 on; two events of one experiment have neither the same number, nor the same slot, kind and revision, nor the same
      key: else `StorageError`.
    - *Removal*: after a transaction that removed an experiment nothing is left of it. Its name is free. Who still holds its id
      gets a `NotFoundError` for reading and for writing, also when an experiment of the same name was created since.
    - *Transactions*: what is appended and saved while `writing` becomes visible, all at once, when it is left without an
      exception, and is then durable: it survives the end of the process, however sudden, and of the machine, if disks keep what
      they say they wrote. Left by an exception, nothing of it is kept.
    - *Exclusive*: of those who write to one experiment, in whatever thread, process or machine, one is at work and the others
      wait; one that waits for too long gets a `StorageError`. Whoever enters sees all that was kept before.
    - *Readers* see one moment, wait for no writer, and no writer waits for them.
    - *Exact*: events and snapshots come back as they were given, every bit of a float included (but for the sign of zero).
    - *Tokens*, once revoked, stay so; the first time counts. A token that is not as it was recorded opens nothing: `token` and
      `tokens` raise `CorruptionError`, until it is revoked.
    - *Loud*: what cannot be read or written raises `StorageError`, what cannot be as it was recorded `CorruptionError`.

    Storages may be shared by threads.
    """

    #: As it was asked for, without a password.
    url: str

    @abstractmethod
    def create(self, name: str, settings: str, created_at: str, digest: bytes) -> tuple[Record, bool]:
        """Keep a new experiment, unless there is one of that name; the record that is kept, and whether it is new."""

    @abstractmethod
    def find(self, name: str) -> Record | None:
        """The experiment of that name."""

    @abstractmethod
    def records(self) -> list[Record]:
        """All experiments, in the order of their creation, as they lie there: damaged ones too, whatever they hold."""

    def names(self) -> list[str]:
        """The names of all experiments, in the order of their creation."""
        records = self.records()
        for record in records:
            if not is_text(record.name):
                raise CorruptionError(f"{self.url}: the name of experiment {record.id} is damaged: restore a backup")
        return [record.name for record in records]

    def readable_names(self) -> list[str]:
        """The same without those that are damaged: for who must not be kept from the others by one of them."""
        return [record.name for record in self.records() if is_text(record.name)]

    @abstractmethod
    def reading(self, experiment: int) -> AbstractContextManager[View]:
        """See one experiment."""

    @abstractmethod
    def writing(self, experiment: int) -> AbstractContextManager[Log]:
        """See one experiment, and add to it: all or nothing."""

    @abstractmethod
    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        """Keep a new token."""

    @abstractmethod
    def tokens(self) -> list[TokenRecord]:
        """All tokens, also those that were revoked, in the order of their creation."""

    @abstractmethod
    def token(self, digest: bytes) -> TokenRecord | None:
        """The token with this digest, also if it was revoked."""

    @abstractmethod
    def has_tokens(self) -> bool:
        """Whether any token was ever made."""

    @abstractmethod
    def revoke_token(self, token: int, revoked_at: str) -> TokenRecord | None:
        """Note when a token was revoked, unless it was before; None if there is no such token."""

    @abstractmethod
    def prepare(self) -> None:
        """Make sure that it can be read and written: tables are made where there are none, nothing else is changed."""

    @abstractmethod
    def examine(self) -> list[str]:
        """What is wrong with the medium by its own checks; nothing if all is well or it has none."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""

    def __enter__(self) -> "Storage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
