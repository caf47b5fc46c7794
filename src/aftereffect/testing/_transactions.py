"""The part of the contract of a storage about transactions and deletion."""

import threading
from contextlib import suppress

from aftereffect.errors import NotFoundError
from aftereffect.live import Link, Snapshot
from aftereffect.testing._common import require
from aftereffect.testing._storages import (
    MAX_WAIT,
    SETTINGS,
    StorageTests,
    create,
    make_chain,
    require_deleted,
    run_threads,
)


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
