"""What every storage of live experiments must hold to."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

from aftereffect.errors import NotFoundError, StorageError
from aftereffect.live.events import Event, Link, fingerprint
from aftereffect.live.snapshot import Snapshot
from aftereffect.live.storage import Record, Storage
from aftereffect.testing.common import require

T = TypeVar("T")

_WAIT = 30.0
_SETTINGS = '{"arms": ["ä", "\\u2603"]}'


class StorageContract(ABC):
    """The contract of `Storage` as tests: derive a test class from it and say how to connect.

    ::

        class TestMyStorage(StorageContract):
            def connect(self):
                return MyStorage(self.place)  # the same place within a test, an empty one at its beginning
    """

    @abstractmethod
    def connect(self) -> Storage:
        """Another storage over the same place."""

    def test_an_experiment_is_found_by_name(self) -> None:
        first = self.connect()
        record, new = _created(first, "one")
        require(new, "create must say that an experiment is new")
        require(record[1:] == ("one", _SETTINGS, "today", fingerprint(_SETTINGS)), "a record must come back as it was given")
        for storage in (first, self.connect()):
            require(storage.find("one") == record, "find must give the record that create gave, also elsewhere")
            require(storage.find("two") is None, "find must give None for a name that nobody created")

    def test_a_name_is_taken_once(self) -> None:
        record, _ = _created(self.connect(), "one")
        again, new = self.connect().create("one", "other settings", "tomorrow", b"other")
        require(not new and again == record, "create must give back what the name stands for, unchanged")

    def test_names_in_the_order_of_creation(self) -> None:
        storage = self.connect()
        require(storage.names() == [], "an empty place must have no names")
        for name in ("b", "a", "c"):
            _created(storage, name)
        require(self.connect().names() == ["b", "a", "c"], "names must be in the order of creation")

    def test_many_create_the_same_at_once(self) -> None:
        answers = _together(4, lambda: _created(self.connect(), "one"))
        require(len({record.id for record, _ in answers}) == 1, "all who create a name must get the same experiment")
        require([new for _, new in answers].count(True) == 1, "exactly one who creates a name may be told that it is new")

    def test_events_come_back_to_the_last_bit(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        log = _chain(record.digest, [0.1, -1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, None])
        with storage.writing(record.id) as writer:
            for event in log:
                writer.append(event)
        with self.connect().reading(record.id) as reader:
            back = reader.events(0, 100)
            require(back == log, f"events must come back as they were given, got {back}")
            alike = all(type(a) is type(b) for pair in zip(back, log, strict=True) for a, b in zip(*pair, strict=True))
            require(alike, "and in the same types")
            require(reader.events(3, 2) == log[3:5], "events(after, limit) must give so many, beginning after that number")
            require(reader.events(len(log), 10) == [], "there must be nothing after the last")
            require(reader.last_event() == log[-1], "last_event must be the one with the highest number")

    def test_events_about_slots_come_with_the_hash_before(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        log = _chain(record.digest, [1.0, 2.0, 3.0])
        with storage.writing(record.id) as writer:
            for event in log[:-1]:
                writer.append(event)
        with storage.writing(record.id) as writer:
            writer.append(log[-1])
            found = writer.about(1, 3)
        expected = [(event, before.hash) for before, event in pairwise(log)]
        require(found == expected, f"about must give events in order, each with the hash of the one before, got {found}")
        with storage.reading(record.id) as reader:
            require(reader.about(0, 1) == [(log[0], None)], "the first event has none before it")
            require(reader.about(7, 9) == [], "about must give nothing for slots without events")

    def test_an_event_is_found_by_its_key(self) -> None:
        storage = self.connect()
        record, other = (_created(storage, name)[0] for name in ("one", "two"))
        log = [event._replace(key=f"key {event.seq}") for event in _chain(record.digest, [1.0, 2.0])]
        with storage.writing(record.id) as writer:
            for event in log:
                require(writer.keyed(event.key or "") is None, "a key must not be found before it is there")
                writer.append(event)
                require((writer.keyed(event.key or "") or (None,))[0] == event, "a writer must find what it appended")
        with self.connect().reading(record.id) as reader:
            require(reader.keyed("key 1") == (log[0], None), "the first event has none before it")
            require(reader.keyed("key 2") == (log[1], log[0].hash), "an event must come with the hash of the one before")
            require(reader.keyed("key 3") is None, "and nothing for a key that nobody used")
        with self.connect().reading(other.id) as reader:
            require(reader.keyed("key 1") is None, "keys are of one experiment")

    def test_experiments_do_not_mix(self) -> None:
        storage = self.connect()
        one, two = (_created(storage, name)[0] for name in ("one", "two"))
        with storage.writing(one.id) as writer:
            writer.append(_chain(one.digest, [1.0])[0])
            writer.save(Snapshot("of one", b"1"))
        with storage.reading(two.id) as reader:
            require(not reader.events(0, 10) and not reader.about(0, 10), "an experiment must see its own events alone")
            require(reader.snapshot() is None, "and its own snapshot")
            require(reader.last_event() is None, "and no last event where there is none")

    def test_what_is_removed_is_gone_and_its_name_is_free(self) -> None:
        storage, elsewhere = self.connect(), self.connect()
        one, two = (_created(storage, name)[0] for name in ("one", "two"))
        for record in (one, two):
            with storage.writing(record.id) as writer:
                writer.append(_chain(record.digest, [1.0])[0])
                writer.save(Snapshot("text", b"1"))
        with storage.writing(two.id) as writer:
            writer.append(_chain(two.digest, [1.0, 2.0])[1])
            writer.remove("today")
        for each in (storage, elsewhere):
            require(each.find("two") is None and each.names() == ["one"], "a removed experiment must not be found or listed")
            _require_gone(each, two.id)
        again, new = storage.create("two", _SETTINGS, "tomorrow", b"other")
        require(new and again.id not in (one.id, two.id), "its name must be free, and its id never be given out again")
        for each in (storage, elsewhere):
            _require_gone(each, two.id)
            with each.reading(again.id) as reader:
                require(not reader.events(0, 10) and reader.snapshot() is None, "nothing must be left of what was removed")
            with each.reading(one.id) as reader:
                require(len(reader.events(0, 10)) == 1, "and nothing of any other experiment go with it")

    def test_a_removal_that_fails_removes_nothing(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        log = _chain(record.digest, [1.0])
        with storage.writing(record.id) as writer:
            writer.append(log[0])
        with suppress(ZeroDivisionError), storage.writing(record.id) as writer:
            writer.remove("today")
            raise ZeroDivisionError
        for each in (storage, self.connect()):
            require(each.find("one") == record, "an experiment must survive a removal that fails")
            with each.reading(record.id) as reader:
                require(reader.events(0, 10) == log, "with all its events")

    def test_who_waits_to_write_finds_that_it_was_removed(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        begun, refused = threading.Event(), threading.Event()

        def write() -> None:
            begun.set()
            with suppress(NotFoundError), self.connect().writing(record.id):
                return
            refused.set()

        waiting = threading.Thread(target=write, daemon=True)
        with storage.writing(record.id) as writer:
            waiting.start()
            require(begun.wait(_WAIT), "a thread must begin")
            writer.remove("today")
        require(refused.wait(_WAIT), "who waited while an experiment was removed must get a NotFoundError")
        waiting.join(_WAIT)

    def test_tokens_are_kept_and_revoked_once(self) -> None:
        storage = self.connect()
        require(storage.tokens() == [] and not storage.has_tokens(), "an empty place must have no tokens")
        first = storage.add_token("ci", "read", "today", b"1" * 32)
        second = self.connect().add_token("ci", "write", "today", b"2" * 32)
        require(first[1:] == ("ci", "read", b"1" * 32, "today", None), "a token must come back as it was given")
        require(self.connect().tokens() == [first, second], "tokens must be listed in the order of their creation")
        revoked = storage.revoke_token(first.id, "later")
        require(revoked == first._replace(revoked_at="later"), "a revoked token must say since when")
        require(storage.revoke_token(first.id, "still later") == revoked, "and stay revoked since then")
        require(self.connect().tokens() == [revoked, second], "also elsewhere, and no other token with it")
        found = [self.connect().token(token.digest) for token in (first, second)]
        require(found == [revoked, second], "a token must be found by its digest, also when it was revoked")
        require(self.connect().token(bytes(32)) is None, "no token must be found by another digest")
        require(self.connect().has_tokens(), "tokens that were revoked must count as made")
        require(storage.revoke_token(second.id + 100, "later") is None, "None for a token that is not there")

    def test_a_token_is_found_by_its_digest(self) -> None:
        storage = self.connect()
        require(not storage.has_tokens(), "an empty place must have no tokens")
        require(storage.token(b"1" * 32) is None, "and find none")
        first, second = (storage.add_token("ci", "read", "today", digest * 32) for digest in (b"1", b"2"))
        for each in (storage, self.connect()):
            require(each.has_tokens(), "has_tokens must tell of tokens that were made, also elsewhere")
            require(each.token(b"1" * 32) == first and each.token(b"2" * 32) == second, "token must find each by its digest")
            require(each.token(b"3" * 32) is None, "and None for one that nobody made")
        for record in (first, second):
            storage.revoke_token(record.id, "later")
        require(self.connect().token(b"1" * 32) == first._replace(revoked_at="later"), "a revoked token must be found as such")
        require(storage.has_tokens(), "and count as made")
        try:
            storage.add_token("ci", "admin", "today", b"1" * 32)
        except StorageError:
            require(storage.tokens()[0].scope == "read", "the first must stay as it was")
        else:
            raise AssertionError("a second token with the same digest must raise StorageError")

    def test_nothing_is_kept_of_a_transaction_that_fails(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        log = _chain(record.digest, [1.0, 2.0])
        with storage.writing(record.id) as writer:
            writer.append(log[0])
            writer.save(Snapshot("kept", b"1"))
        with suppress(ZeroDivisionError), storage.writing(record.id) as writer:
            writer.append(log[1])
            writer.save(Snapshot("not kept", b"2"))
            raise ZeroDivisionError
        for each in (storage, self.connect()):
            with each.reading(record.id) as reader:
                require(reader.events(0, 10) == log[:1], "events of a transaction that fails must be gone")
                require(reader.snapshot() == Snapshot("kept", b"1"), "and its snapshot")

    def test_an_event_is_never_replaced(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        first, second = _chain(record.digest, [1.0, 2.0])
        first = first._replace(key="mine")
        with storage.writing(record.id) as writer:
            writer.append(first)
        for double, what in (
            (first._replace(slot=9), "number"),
            (second._replace(slot=first.slot), "slot, kind and revision"),
            (second._replace(key=first.key), "key"),
        ):
            try:
                with storage.writing(record.id) as writer:
                    writer.append(double)
            except StorageError:
                pass
            else:
                raise AssertionError(f"a second event with the same {what} must raise StorageError")
        with storage.reading(record.id) as reader:
            require(reader.events(0, 10) == [first], "and leave the first as it was")

    def test_one_writes_and_the_others_wait(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")

        def append_some() -> None:
            mine = self.connect()
            for _ in range(5):
                with mine.writing(record.id) as writer:
                    seen = writer.events(0, 1_000)
                    place = Link(seen[-1].seq, seen[-1].hash) if seen else Link(0, record.digest)
                    writer.append(place.next("outcome", place.seq, value=float(place.seq)))

        _together(4, append_some)
        with storage.reading(record.id) as reader:
            place = Link(0, record.digest)
            for event in reader.events(0, 1_000):
                place = place.follow(event)
        require(place.seq == 20, f"4 writers of 5 events each must leave 20 in one chain, got {place.seq}")

    def test_readers_see_one_moment_and_wait_for_nobody(self) -> None:
        storage = self.connect()
        record, _ = _created(storage, "one")
        log = _chain(record.digest, [1.0, 2.0])
        with storage.writing(record.id) as writer:
            writer.append(log[0])
        with storage.reading(record.id) as reader:
            require(len(reader.events(0, 10)) == 1, "a reader must see what was kept")
            _together(1, lambda: self._append(record.id, log[1]))
            require(len(reader.events(0, 10)) == 1, "a reader must go on seeing the moment at which it began")
        with storage.writing(record.id) as writer:
            writer.append(_chain(record.digest, [1.0, 2.0, 3.0])[2])
            require(
                _together(1, lambda: self._count(record.id)) == [2], "a reader must not wait for a writer, nor see its events"
            )
        require(self._count(record.id) == 3, "and afterwards it must see them")

    def _append(self, experiment: int, event: Event) -> None:
        with self.connect().writing(experiment) as writer:
            writer.append(event)

    def _count(self, experiment: int) -> int:
        with self.connect().reading(experiment) as reader:
            return len(reader.events(0, 10))


def _require_gone(storage: Storage, experiment: int) -> None:
    """Neither reading nor writing finds it."""
    for enter in (storage.reading, storage.writing):
        try:
            with enter(experiment):
                pass
        except NotFoundError:
            continue
        raise AssertionError(f"{enter.__name__} a removed experiment must raise NotFoundError")


def _created(storage: Storage, name: str) -> tuple[Record, bool]:
    return storage.create(name, _SETTINGS, "today", fingerprint(_SETTINGS))


def _chain(start: bytes, values: list[float | None]) -> list[Event]:
    """Outcomes of slots 0, 1, ..., chained."""
    place, log = Link(0, start), list[Event]()
    for slot, value in enumerate(values):
        log.append(place.next("outcome", slot, round=2**40, value=value))
        place = place.follow(log[-1])
    return log


def _together(threads: int, work: Callable[[], T]) -> list[T]:
    """What several threads at once came to; an error in one of them is raised here."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def caught() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=caught, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(_WAIT)
        require(not worker.is_alive(), f"a thread still waits after {_WAIT:g} seconds")
    if errors:
        raise errors[0]
    return answers
