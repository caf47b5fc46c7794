"""The contract of a storage as tests: here of records and events; other parts are beside it."""

from itertools import pairwise

from aftereffect.errors import StorageError
from aftereffect.live import Snapshot, fingerprint
from aftereffect.testing._common import require
from aftereffect.testing._storages import SETTINGS, create, make_chain, run_threads
from aftereffect.testing._tokens import TokenTests
from aftereffect.testing._transactions import DeletionTests, TransactionTests


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
