"""The contract of a storage as tests: of records, transactions, deletion and tokens."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

from aftereffect.errors import NotFoundError, StorageError
from aftereffect.live import Event, Link, Record, Snapshot, Storage, fingerprint
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


class TransactionTests(StorageTests):
    """All or nothing, one writer at a time, readers that see one moment."""

    def test_nothing_is_stored_of_a_transaction_that_fails(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        chain = make_chain(record.digest, [1.0, 2.0])
        with storage.writing(record.id) as log:
            log.append(chain[0])
            log.save(Snapshot("stored", b"1"))
        with suppress(ZeroDivisionError), storage.writing(record.id) as log:
            log.append(chain[1])
            log.save(Snapshot("not stored", b"2"))
            raise ZeroDivisionError
        for each in (storage, self.connect()):
            with each.reading(record.id) as view:
                events = view.events(0, 10)
                require(events == chain[:1], "a transaction that fails must append no event")
                snapshot = view.snapshot()
                require(
                    snapshot == Snapshot("stored", b"1"),
                    "a transaction that fails must save no snapshot",
                )

    def test_one_writes_and_the_others_wait(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")

        def append_some() -> None:
            mine = self.connect()
            for _ in range(5):
                with mine.writing(record.id) as log:
                    events = log.events(0, 1_000)
                    start = Link(0, record.digest)
                    head = Link(events[-1].seq, events[-1].hash) if events else start
                    log.append(head.next("total", head.seq, total=float(head.seq)))

        run_threads(4, append_some)
        with storage.reading(record.id) as view:
            head = Link(0, record.digest)
            for event in view.events(0, 1_000):
                head = head.follow(event)
        require(
            head.seq == 20, f"4 writers of 5 events each must make one chain of 20, got {head.seq}"
        )

    def test_readers_see_one_moment_and_wait_for_nobody(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        chain = make_chain(record.digest, [1.0, 2.0, 3.0])
        with storage.writing(record.id) as log:
            log.append(chain[0])
        with storage.reading(record.id) as view:
            require(len(view.events(0, 10)) == 1, "a reader must see what was stored")
            run_threads(1, lambda: self.append(record.id, chain[1]))
            same = len(view.events(0, 10)) == 1
            require(same, "a reader must not see events that were stored after it began")
        with storage.writing(record.id) as log:
            log.append(chain[2])
            counts = run_threads(1, lambda: self.count(record.id))
            require(counts == [2], "a reader must not wait for a writer, nor see its events")
        require(
            self.count(record.id) == 3, "a reader must see the events of a writer that has finished"
        )


class DeletionTests(StorageTests):
    """Nothing is left of a deleted experiment."""

    def test_nothing_is_left_of_a_deleted_experiment(self) -> None:
        storage, elsewhere = self.connect(), self.connect()
        one, two = (create(storage, name)[0] for name in ("one", "two"))
        for record in (one, two):
            with storage.writing(record.id) as log:
                log.append(make_chain(record.digest, [1.0])[0])
                log.save(Snapshot("text", b"1"))
        with storage.writing(two.id) as log:
            log.append(make_chain(two.digest, [1.0, 2.0])[1])
            log.remove("today")
        for each in (storage, elsewhere):
            require(
                each.find("two") is None and each.names() == ["one"],
                "a deleted experiment must not be found or listed",
            )
            require_deleted(each, two.id)
        again, new = storage.create("two", SETTINGS, "tomorrow", b"other")
        require(
            new and again.id not in (one.id, two.id),
            "the name of a deleted experiment must be free, and its id must not be used again",
        )
        for each in (storage, elsewhere):
            require_deleted(each, two.id)
            with each.reading(again.id) as view:
                empty = not view.events(0, 10) and view.snapshot() is None
                require(empty, "a new experiment must have nothing of a deleted one of its name")
            with each.reading(one.id) as view:
                require(len(view.events(0, 10)) == 1, "other experiments must not lose anything")

    def test_a_deletion_that_fails_deletes_nothing(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        chain = make_chain(record.digest, [1.0])
        with storage.writing(record.id) as log:
            log.append(chain[0])
        with suppress(ZeroDivisionError), storage.writing(record.id) as log:
            log.remove("today")
            raise ZeroDivisionError
        for each in (storage, self.connect()):
            require(each.find("one") == record, "an experiment must survive a deletion that fails")
            with each.reading(record.id) as view:
                require(
                    view.events(0, 10) == chain,
                    "an experiment must have all its events after a deletion that fails",
                )

    def test_a_waiting_writer_finds_that_its_experiment_was_deleted(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        begun, refused = threading.Event(), threading.Event()

        def write() -> None:
            begun.set()
            with suppress(NotFoundError), self.connect().writing(record.id):
                return
            refused.set()

        waiting = threading.Thread(target=write, daemon=True)
        with storage.writing(record.id) as log:
            waiting.start()
            require(begun.wait(MAX_WAIT), "a thread must start")
            log.remove("today")
        require(
            refused.wait(MAX_WAIT),
            "a writer that waits while its experiment is deleted must get a NotFoundError",
        )
        waiting.join(MAX_WAIT)


class TokenTests(StorageTests):
    """Access tokens are found by their digest, and stay revoked."""

    def test_tokens_are_stored_and_revoked_once(self) -> None:
        storage = self.connect()
        empty = storage.tokens() == [] and not storage.has_tokens()
        require(empty, "tokens must give nothing, and has_tokens False, if there is no token")
        require(storage.token(b"1" * 32) is None, "token must give None if there is no token")
        first = storage.add_token("ci", "read", "today", b"1" * 32)
        second = self.connect().add_token("ci", "write", "today", b"2" * 32)
        given = ("ci", "read", b"1" * 32, "today", None)
        require(first[1:] == given, "a token must come back as it was given")
        for each in (storage, self.connect()):
            require(each.has_tokens(), "has_tokens must count tokens that another storage added")
            found = [each.token(b"1" * 32), each.token(b"2" * 32), each.token(b"3" * 32)]
            require(found == [first, second, None], "token must find each by its digest alone")
        in_order = self.connect().tokens() == [first, second]
        require(in_order, "tokens must be listed in the order of their creation")
        revoked = storage.revoke_token(first.id, "later")
        require(
            revoked == first._replace(revoked_at="later"),
            "a revoked token must have the time of its revocation",
        )
        same = storage.revoke_token(first.id, "still later") == revoked
        require(same, "a token that is revoked again must keep the time of the first revocation")
        only = self.connect().tokens() == [revoked, second]
        require(
            only,
            "a revoked token must be revoked in other storages too, and no other token with it",
        )
        found = [self.connect().token(token.digest) for token in (first, second)]
        require(found == [revoked, second], "a revoked token must still be found")
        absent = storage.revoke_token(second.id + 100, "later")
        require(absent is None, "revoke_token must give None for an unknown token")
        storage.revoke_token(second.id, "later")
        require(self.connect().has_tokens(), "has_tokens must count revoked tokens too")

    def test_no_two_tokens_have_the_same_digest(self) -> None:
        storage = self.connect()
        storage.add_token("ci", "read", "today", b"1" * 32)
        try:
            storage.add_token("ci", "admin", "today", b"1" * 32)
        except StorageError:
            require(
                storage.tokens()[0].scope == "read",
                "a token that is refused must leave the first as it was",
            )
        else:
            raise AssertionError("a second token with the same digest must raise StorageError")


class StorageContract(TransactionTests, DeletionTests, TokenTests):
    """The contract of `Storage` as tests: derive a test class from it and define `connect`.

    ::

        class TestMyStorage(StorageContract):
            def connect(self):
                # The same contents within one test, and none when a test begins.
                return MyStorage(self.folder)

    Examples
    --------
    >>> from aftereffect.live import MemoryStorage
    >>> class TestMemory(StorageContract):
    ...     def __init__(self):
    ...         self.storage = MemoryStorage()
    ...
    ...     def connect(self):
    ...         return self.storage
    >>> tests = [name for name in dir(StorageContract) if name.startswith("test_")]
    >>> for name in tests:
    ...     getattr(TestMemory(), name)()
    >>> len(tests)
    17
    """

    def test_an_experiment_is_found_by_name(self) -> None:
        first = self.connect()
        record, new = create(first, "one")
        require(new, "create must return True for a new experiment")
        given = ("one", SETTINGS, "today", fingerprint(SETTINGS))
        require(record[1:] == given, "a record must come back as it was given")
        for storage in (first, self.connect()):
            found = storage.find("one")
            require(found == record, "find must give the record that create gave, also elsewhere")
            require(storage.find("two") is None, "find must give None for an unknown name")

    def test_a_name_is_taken_once(self) -> None:
        record, _ = create(self.connect(), "one")
        again, new = self.connect().create("one", "other settings", "tomorrow", b"other")
        require(
            not new and again == record,
            "create must give back the first experiment of a name, unchanged",
        )

    def test_names_are_in_the_order_of_creation(self) -> None:
        storage = self.connect()
        require(storage.names() == [], "names must give nothing if there is no experiment")
        for name in ("b", "a", "c"):
            create(storage, name)
        require(self.connect().names() == ["b", "a", "c"], "names must be in the order of creation")

    def test_many_create_the_same_at_once(self) -> None:
        answers = run_threads(4, lambda: create(self.connect(), "one"))
        ids = {record.id for record, _ in answers}
        require(len(ids) == 1, "all who create an experiment of one name must get the same one")
        new = [new for _, new in answers].count(True)
        require(new == 1, f"create must return True to exactly one of them, got {new}")

    def test_events_come_back_to_the_last_bit(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        totals = [0.1, -1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, None]
        chain = make_chain(record.digest, totals)
        with storage.writing(record.id) as log:
            for event in chain:
                log.append(event)
        with self.connect().reading(record.id) as view:
            events = view.events(0, 100)
            require(events == chain, f"events must come back as they were given, got {events}")
            same_types = all(
                type(a) is type(b)
                for pair in zip(events, chain, strict=True)
                for a, b in zip(*pair, strict=True)
            )
            require(same_types, "the fields of events must come back in the same types")
            require(
                view.events(3, 2) == chain[3:5],
                "events(after, limit) must give at most limit events, beginning after that number",
            )
            require(
                view.events(len(chain), 10) == [], "events must give nothing after the last event"
            )
            last = view.last_event()
            require(last == chain[-1], "last_event must be the one with the highest number")

    def test_events_about_slots_come_with_the_hash_before(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        chain = make_chain(record.digest, [1.0, 2.0, 3.0])
        with storage.writing(record.id) as log:
            for event in chain[:-1]:
                log.append(event)
        with storage.writing(record.id) as log:
            log.append(chain[-1])
            found = log.slot_events(1, 3)
        require(
            found == [(event, before.hash) for before, event in pairwise(chain)],
            f"slot_events must give events in order, each with the hash before it, got {found}",
        )
        with storage.reading(record.id) as view:
            require(
                view.slot_events(0, 1) == [(chain[0], None)],
                "the hash before the first event must be None",
            )
            require(
                view.slot_events(7, 9) == [],
                "slot_events must give nothing for slots without events",
            )

    def test_an_event_is_found_by_its_key(self) -> None:
        storage = self.connect()
        record, other = (create(storage, name)[0] for name in ("one", "two"))
        chain = make_chain(record.digest, [1.0, 2.0])
        chain = [event._replace(key=f"§ key {event.seq}") for event in chain]
        with storage.writing(record.id) as log:
            for event in chain:
                key = event.key or ""
                require(
                    log.find_by_key(key) is None,
                    "find_by_key must give None before an event has the key",
                )
                log.append(event)
                found = log.find_by_key(key) or (None, None)
                require(found[0] == event, "a writer must find what it appended")
        with self.connect().reading(record.id) as view:
            require(
                view.find_by_key("§ key 1") == (chain[0], None),
                "the hash before the first event must be None",
            )
            require(
                view.find_by_key("§ key 2") == (chain[1], chain[0].hash),
                "an event must come with the hash of the one before",
            )
            require(
                view.find_by_key("§ key 3") is None, "find_by_key must give None for an unknown key"
            )
        with self.connect().reading(other.id) as view:
            require(
                view.find_by_key("§ key 1") is None,
                "a key, which may be any text, must belong to one experiment",
            )

    def test_experiments_do_not_mix(self) -> None:
        storage = self.connect()
        one, two = (create(storage, name)[0] for name in ("one", "two"))
        with storage.writing(one.id) as log:
            log.append(make_chain(one.digest, [1.0])[0])
            log.save(Snapshot("of one", b"1"))
        with storage.reading(two.id) as view:
            empty = not view.events(0, 10) and not view.slot_events(0, 10)
            require(empty, "an experiment must have its own events only")
            require(view.snapshot() is None, "an experiment must have its own snapshot only")
            require(view.last_event() is None, "last_event must be None if there are no events")

    def test_an_event_is_never_replaced(self) -> None:
        storage = self.connect()
        record, _ = create(storage, "one")
        first, second = make_chain(record.digest, [1.0, 2.0])
        first = first._replace(key="mine")
        with storage.writing(record.id) as log:
            log.append(first)
        for double, what in (
            (first._replace(slot=9), "number"),
            (second._replace(slot=first.slot), "slot, kind and revision"),
            (second._replace(key=first.key), "key"),
        ):
            try:
                with storage.writing(record.id) as log:
                    log.append(double)
            except StorageError:
                pass
            else:
                raise AssertionError(f"a second event with the same {what} must raise StorageError")
        with storage.reading(record.id) as view:
            require(
                view.events(0, 10) == [first],
                "an event that is refused must leave the first as it was",
            )
