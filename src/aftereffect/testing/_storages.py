"""What tests of storages share: chains of events, threads, and storages with the same contents."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from aftereffect.errors import NotFoundError
from aftereffect.live import Event, Link, Record, Storage, fingerprint
from aftereffect.testing._common import require

T = TypeVar("T")

#: How many seconds a thread may take.
MAX_WAIT = 30.0
SETTINGS = '{"arms": ["ä", "\\u2603"]}'


class StorageTests(ABC):
    """Tests of storages that share their contents."""

    @abstractmethod
    def connect(self) -> Storage:
        """Open another storage with the same contents."""

    def append(self, experiment: int, event: Event) -> None:
        """Append an event through a storage of its own."""
        with self.connect().writing(experiment) as log:
            log.append(event)

    def count(self, experiment: int) -> int:
        """Count the events, at most 10, through a storage of its own."""
        with self.connect().reading(experiment) as view:
            return len(view.events(0, 10))


def create(storage: Storage, name: str) -> tuple[Record, bool]:
    """Create an experiment."""
    return storage.create(name, SETTINGS, "today", fingerprint(SETTINGS))


def make_chain(start: bytes, totals: Sequence[float | None]) -> list[Event]:
    """Totals of slots 0, 1, ... as a chain of events."""
    head, chain = Link(0, start), list[Event]()
    for slot, total in enumerate(totals):
        chain.append(head.next("total", slot, round=2**40, total=total))
        head = head.follow(chain[-1])
    return chain


def run_threads(count: int, work: Callable[[], T]) -> list[T]:
    """Call `work` in several threads at once; return their results, or raise their first error."""
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT)
        require(not thread.is_alive(), f"a thread still waits after {MAX_WAIT:g} seconds")
    if errors:
        raise errors[0]
    return results


def require_deleted(storage: Storage, experiment: int) -> None:
    """Require that neither reading nor writing finds an experiment."""
    for enter in (storage.reading, storage.writing):
        try:
            with enter(experiment):
                pass
        except NotFoundError:
            continue
        raise AssertionError(f"{enter.__name__} a deleted experiment must raise NotFoundError")
