"""The log of one experiment in a database transaction."""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import sqlalchemy as sa

from aftereffect.errors import CorruptionError
from aftereffect.live.events import Event, Snapshot
from aftereffect.live.storage._connections import fetch, run
from aftereffect.live.storage._schema import events, experiments, removed
from aftereffect.live.storage.contract import Log

#: The number of experiments whose keys are remembered; the keys of others are read again.
_MAX_EXPERIMENTS = 256

#: The columns of an event, in the order of its fields.
_FIELDS = [events.c[name] for name in Event._fields]
_before = events.alias()
_of_experiment = events.c.experiment == sa.bindparam("of")

_SNAPSHOT = sa.select(experiments.c.snapshot, experiments.c.snapshot_digest).where(
    experiments.c.id == sa.bindparam("of")
)
_EVENTS = (
    sa.select(*_FIELDS)
    .where(_of_experiment, events.c.seq > sa.bindparam("after"))
    .order_by(events.c.seq)
    .limit(sa.bindparam("most"))
)
_LAST_EVENT = sa.select(*_FIELDS).where(_of_experiment).order_by(events.c.seq.desc()).limit(1)
_WITH_HASH_BEFORE = (
    sa.select(*_FIELDS, _before.c.hash)
    .outerjoin(
        _before, (_before.c.experiment == events.c.experiment) & (_before.c.seq == events.c.seq - 1)
    )
    .where(_of_experiment)
    .order_by(events.c.seq)
)
_ABOUT = _WITH_HASH_BEFORE.where(
    events.c.slot >= sa.bindparam("first"), events.c.slot < sa.bindparam("stop")
)
_KEYED = _WITH_HASH_BEFORE.where(events.c.key == sa.bindparam("key"))
#: Written so that no index of keys can serve it: it must read the table itself.
_ALL_KEYED = (
    sa.select(events.c.seq, events.c.key, events.c.hash)
    .where(
        _of_experiment,
        events.c.seq >= sa.bindparam("first"),
        sa.func.length(events.c.key) > 0,
    )
    .order_by(events.c.seq)
)
_APPEND = events.insert()
_SAVE = (
    experiments.update()
    .where(experiments.c.id == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("snapshot", "snapshot_digest")})
)
#: In the order that the foreign key allows.
_REMOVALS = (
    events.delete().where(_of_experiment),
    experiments.delete().where(experiments.c.id == sa.bindparam("of")),
)
_NOTE_REMOVAL = removed.insert()


class _Keys:
    """The keys of one experiment up to an event, as 8-byte hashes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Begin again."""
        self.seq, self.hash = 0, b""
        self.hashes = array("q")

    def add(self, rows: Sequence[tuple[int, str, bytes]]) -> None:
        """Add the keys of further events."""
        self.hashes.extend(hash(key) for _, key, _ in rows)
        if rows:
            self.seq, _, self.hash = rows[-1]


class KnownKeys:
    """The keys of the latest experiments, to check the index that finds them.

    With a damaged index a key would not be found, and its slot decided twice. So the keys are also
    read from the table of events: once, and later only those that were added since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._experiments: OrderedDict[int, _Keys] = OrderedDict()

    def may_have(
        self, experiment: int, key: str, read: Callable[[int], Sequence[tuple[int, str, bytes]]]
    ) -> bool:
        """Whether an experiment has a key. Once in 2**64 times, true for one that it has not.

        Parameters
        ----------
        experiment
            The id of the experiment.
        key
            The key to look for.
        read
            Reads number, key and hash of all events that have a key, in order, from a number on.
        """
        with self._lock:
            known = self._experiments.setdefault(experiment, _Keys())
            self._experiments.move_to_end(experiment)
            while len(self._experiments) > _MAX_EXPERIMENTS:
                self._experiments.popitem(last=False)
        with known.lock:
            rows = read(known.seq)
            if known.seq and (not rows or (rows[0][0], rows[0][2]) != (known.seq, known.hash)):
                known.forget()  # another log: after a failed transaction, or a restored backup
                rows = read(0)
            known.add(rows[1:] if known.seq else rows)
            return bool(np.any(np.frombuffer(known.hashes, dtype=np.int64) == hash(key)))


class DatabaseLog(Log):
    """One experiment in a transaction."""

    def __init__(self, connection: sa.Connection, experiment: int, keys: KnownKeys) -> None:
        self._connection = connection
        self._experiment = experiment
        self._keys = keys

    def snapshot(self) -> Snapshot | None:
        text, digest = self._rows(_SNAPSHOT)[0]
        return None if text is None and digest is None else Snapshot(text, digest)

    def events(self, after: int, limit: int) -> Sequence[Event]:
        return [Event(*row) for row in self._rows(_EVENTS, after=after, most=limit)]

    def last_event(self) -> Event | None:
        return next((Event(*row) for row in self._rows(_LAST_EVENT)), None)

    def about(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        return [(Event(*row[:-1]), row[-1]) for row in self._rows(_ABOUT, first=first, stop=stop)]

    def find_by_key(self, key: str) -> tuple[Event, bytes | None] | None:
        for row in self._rows(_KEYED, key=key):
            return Event(*row[:-1]), row[-1]
        if self._keys.may_have(self._experiment, key, self._read_keys):
            for seq, other, _ in self._read_keys(0):
                if other == key:
                    raise CorruptionError(
                        f"event {seq} of the log has the key {key!r}, "
                        "but the index of keys does not find it"
                    )
        return None

    def append(self, event: Event) -> None:
        run(self._connection, _APPEND, {"experiment": self._experiment, **event._asdict()})

    def save(self, snapshot: Snapshot) -> None:
        given = {"snapshot": snapshot.text, "snapshot_digest": snapshot.digest}
        run(self._connection, _SAVE, {"of": self._experiment, **given})

    def remove(self, removed_at: str) -> None:
        for statement in _REMOVALS:
            run(self._connection, statement, {"of": self._experiment})
        given = {"experiment": self._experiment, "removed_at": removed_at}
        run(self._connection, _NOTE_REMOVAL, given)

    def _read_keys(self, first: int) -> Sequence[tuple[int, str, bytes]]:
        return cast(Sequence[tuple[int, str, bytes]], self._rows(_ALL_KEYED, first=first))

    def _rows(self, query: sa.Executable, **given: object) -> Sequence[Sequence[Any]]:
        return fetch(self._connection, query, {"of": self._experiment, **given})
