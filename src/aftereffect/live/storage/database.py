"""Experiments in a database, through SQLAlchemy Core: what SQLite and PostgreSQL share."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import sqlalchemy as sa

from aftereffect.errors import CorruptionError, NotFoundError, StorageError
from aftereffect.live.events import Event
from aftereffect.live.snapshot import Snapshot
from aftereffect.live.storage.base import Log, Record, Storage, TokenRecord
from aftereffect.live.storage.forks import keep_in_parent, register
from aftereffect.live.storage.keys import KnownKeys
from aftereffect.live.storage.schema import VERSION, check_version, events, experiments, prepare, removed, tokens, version_of
from aftereffect.live.storage.seals import damage_of, mended, proved, seal
from aftereffect.live.storage.statements import fetch, run

#: The columns of an event, in the order of its fields.
_FIELDS = [events.c[name] for name in Event._fields]
_before = events.alias()

_RECORDS = sa.select(*(experiments.c[name] for name in Record._fields)).order_by(experiments.c.id)
_RECORD = _RECORDS.where(experiments.c.name == sa.bindparam("name"))
_LAST_IDS = (sa.select(sa.func.max(experiments.c.id)), sa.select(sa.func.max(removed.c.experiment)))
_PRESENT = sa.select(experiments.c.id).where(experiments.c.id == sa.bindparam("of"))
_TOKENS = sa.select(*(tokens.c[name] for name in TokenRecord._fields), tokens.c.seal).order_by(tokens.c.id)
_TOKEN = _TOKENS.where(tokens.c.digest == sa.bindparam("digest"))
_TOKEN_BY_ID = _TOKENS.where(tokens.c.id == sa.bindparam("token"))
_ANY_TOKEN = sa.select(tokens.c.id).limit(1)
_SNAPSHOT = sa.select(experiments.c.snapshot, experiments.c.snapshot_digest).where(experiments.c.id == sa.bindparam("of"))
_EVENTS = (
    sa.select(*_FIELDS)
    .where(events.c.experiment == sa.bindparam("of"), events.c.seq > sa.bindparam("after"))
    .order_by(events.c.seq)
    .limit(sa.bindparam("most"))
)
_LAST_EVENT = sa.select(*_FIELDS).where(events.c.experiment == sa.bindparam("of")).order_by(events.c.seq.desc()).limit(1)
_PROVED = (
    sa.select(*_FIELDS, _before.c.hash)
    .outerjoin(_before, (_before.c.experiment == events.c.experiment) & (_before.c.seq == events.c.seq - 1))
    .where(events.c.experiment == sa.bindparam("of"))
    .order_by(events.c.seq)
)
_ABOUT = _PROVED.where(events.c.slot >= sa.bindparam("first"), events.c.slot < sa.bindparam("stop"))
_KEYED = _PROVED.where(events.c.key == sa.bindparam("key"))
#: Told so that no index of keys is of use: these are read from the table itself.
_ALL_KEYED = (
    sa.select(events.c.seq, events.c.key, events.c.hash)
    .where(events.c.experiment == sa.bindparam("of"), events.c.seq >= sa.bindparam("first"), sa.func.length(events.c.key) > 0)
    .order_by(events.c.seq)
)
_APPEND = events.insert()
_SAVE = (
    experiments.update()
    .where(experiments.c.id == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("snapshot", "snapshot_digest")})
)
#: In the order in which they can be removed.
_REMOVALS = (
    events.delete().where(events.c.experiment == sa.bindparam("of")),
    experiments.delete().where(experiments.c.id == sa.bindparam("of")),
)
_NOTE_REMOVAL = removed.insert()


class DatabaseStorage(Storage):
    """A database; what differs between them is below."""

    def __init__(self, url: sa.URL, patience: float = 60.0) -> None:
        self.url = url.render_as_string(hide_password=True)
        self.patience = patience
        self.engine = self._engine(url)
        #: The same for statements that need no transaction around them.
        self.single = self.engine
        self._driver: Any = self.engine.dialect.dbapi
        self._prepared = False
        self._keys = KnownKeys()
        register(self)

    @abstractmethod
    def _engine(self, url: sa.URL) -> sa.Engine:
        """What makes connections."""

    @abstractmethod
    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        """Wait until nobody else writes to an experiment, and keep others from it until the transaction ends.

        Raises `NotFoundError` where there is no such experiment.
        """

    @abstractmethod
    def _lock_all(self, connection: sa.Connection) -> None:
        """The same for tables that are made or migrated."""

    @abstractmethod
    def _explained(self, error: Exception) -> StorageError:
        """What the driver raised, as an error of ours."""

    def _hold_still(self, connection: sa.Connection) -> None:
        """Show a reader one moment, however much it reads; by default every transaction does."""

    def _alone(self) -> AbstractContextManager[object]:
        """Among the threads that write; by default the database keeps them apart."""
        return nullcontext()

    def _exists(self) -> bool:
        """Whether there is anything to connect to, without making it."""
        return True

    def _check_foreign(self, connection: sa.Connection) -> None:
        """Refuse a database without our tables that is not meant for them; by default any is."""

    def _check_rights(self, connection: sa.Connection) -> None:
        """Refuse a database whose tables exist, but not for this user; by default who can connect sees them."""

    def _check_place(self) -> None:
        """Refuse a database that is no longer where it was opened; by default it cannot move."""

    def prepare_fork(self) -> None:
        """Called before the process forks."""

    def start_in_child(self) -> None:
        """Called in a process that was forked from the one that opened the storage: it makes connections of its own.

        Those of the other process are neither used nor closed here, either of which would disturb it.
        """
        keep_in_parent(self.engine.pool)
        self.engine.dispose(close=False)
        self._keys = KnownKeys()

    def create(self, name: str, settings: str, created_at: str, digest: bytes) -> tuple[Record, bool]:
        with self._changing() as connection:
            known = connection.execute(_RECORD, {"name": name}).one_or_none()
            if known is None:
                number = 1 + max(connection.execute(query).scalar() or 0 for query in _LAST_IDS)
                given = {"id": number, "name": name, "settings": settings, "created_at": created_at, "digest": digest}
                connection.execute(experiments.insert(), given)
            return Record(*connection.execute(_RECORD, {"name": name}).one()), known is None

    def find(self, name: str) -> Record | None:
        found = self._rows(_RECORD, {"name": name})
        return Record(*found[0]) if found else None

    def records(self) -> list[Record]:
        return [Record(*row) for row in self._rows(_RECORDS)]

    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        with self._changing() as connection:
            given = {"label": label, "scope": scope, "created_at": created_at, "digest": digest}
            connection.execute(tokens.insert(), given)
            return _sealed(connection, connection.execute(_TOKEN, {"digest": digest}).one())

    def tokens(self) -> list[TokenRecord]:
        return [proved(row) for row in self._rows(_TOKENS)]

    def token(self, digest: bytes) -> TokenRecord | None:
        found = self._rows(_TOKEN, {"digest": digest})
        return proved(found[0]) if found else None

    def has_tokens(self) -> bool:
        return bool(self._rows(_ANY_TOKEN))

    def revoke_token(self, token: int, revoked_at: str) -> TokenRecord | None:
        with self._changing() as connection:
            still = (tokens.c.id == token) & tokens.c.revoked_at.is_(None)
            connection.execute(tokens.update().where(still).values(revoked_at=revoked_at))
            found = fetch(connection, _TOKEN_BY_ID, {"token": token})
            # A damaged one, too: revoked, it opens nothing, whatever it says.
            return _sealed(connection, found[0]) if found else None

    @contextmanager
    def reading(self, experiment: int) -> Iterator[Log]:
        with self._told():
            self._check_place()
            with self.engine.connect() as connection, connection.begin():
                self._hold_still(connection)
                self._check_present(connection, experiment)
                yield DatabaseLog(connection, experiment, self._keys)

    @contextmanager
    def writing(self, experiment: int) -> Iterator[Log]:
        with self._transaction() as connection:
            self._lock(connection, experiment)
            yield DatabaseLog(connection, experiment, self._keys)

    def prepare(self) -> None:
        with self._changing():
            pass

    def examine(self) -> list[str]:
        return [str(damage) for damage in map(damage_of, self._rows(_TOKENS)) if damage]

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """A transaction on what is not of one experiment; tables are made if they are not there."""
        with self._transaction() as connection:
            self._prepare(connection)
            self._lock_all(connection)
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """A transaction that writes."""
        with self._told():
            self._check_place()
            with self._alone(), self.engine.connect() as connection, _writing(connection):
                yield connection
            self._check_place()  # what went into a file that somebody has replaced meanwhile is not acknowledged

    def _check_present(self, connection: sa.Connection, experiment: int) -> None:
        if run(connection, _PRESENT, {"of": experiment}).fetchone() is None:
            raise self._gone(experiment)

    def _gone(self, experiment: int) -> NotFoundError:
        return NotFoundError(f"{self.url}: there is no experiment with the number {experiment}: it was removed")

    def _rows(self, query: sa.Select[Any], given: Mapping[str, object] | None = None) -> Sequence[Sequence[Any]]:
        """What a query finds; nothing where there are no tables yet."""
        with self._told():
            self._check_place()
            if not self._exists():
                return []
            if not self._prepared:
                with self.engine.connect() as connection:
                    version = version_of(connection)
                    check_version(version)
                    if version == 0:
                        self._check_rights(connection)
                        return []
                if version < VERSION:
                    with self._transaction() as connection:
                        self._prepare(connection)
                self._prepared = True
            with self.single.connect() as connection:
                return fetch(connection, query, given or {})

    def _prepare(self, connection: sa.Connection) -> None:
        if not self._prepared:
            self._lock_all(connection)
            if version_of(connection) == 0:
                self._check_rights(connection)
                self._check_foreign(connection)
            prepare(connection)

    def _named(self, error: Exception) -> StorageError:
        explained = self._explained(error)
        return type(explained)(f"{self.url}: {explained}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say which storage it was, and what to do."""
        try:
            yield
        except (CorruptionError, StorageError) as error:
            if self.url in str(error):
                raise
            raise type(error)(f"{self.url}: {error}") from None
        except sa.exc.DBAPIError as error:
            raise self._named(cast(Exception, error.orig)) from None
        except self._driver.Error as error:
            raise self._named(error) from None
        except (sa.exc.NoResultFound, sa.exc.MultipleResultsFound, UnicodeDecodeError) as error:
            raise CorruptionError(f"{self.url}: a table does not hold what it should: {error}") from None


class DatabaseLog(Log):
    """One experiment within a transaction.

    Statements are written by SQLAlchemy, once, and handed to the driver as they are: executed by SQLAlchemy, each would take
    longer than SQLite needs for it.
    """

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

    def keyed(self, key: str) -> tuple[Event, bytes | None] | None:
        found = next(((Event(*row[:-1]), row[-1]) for row in self._rows(_KEYED, key=key)), None)
        if found is None and self._keys.may_have(self._experiment, key, self._all_keyed):
            # Nothing proves that a key is not there, and a slot must not be decided twice.
            for seq, other, _ in self._all_keyed(0):
                if other == key:
                    raise CorruptionError(f"event {seq} of the log has the key {key!r}, and the index of keys does not find it")
        return found

    def append(self, event: Event) -> None:
        run(self._connection, _APPEND, {"experiment": self._experiment, **event._asdict()})

    def save(self, snapshot: Snapshot) -> None:
        given = {"of": self._experiment, "snapshot": snapshot.text, "snapshot_digest": snapshot.digest}
        run(self._connection, _SAVE, given)

    def remove(self, removed_at: str) -> None:
        for statement in _REMOVALS:
            run(self._connection, statement, {"of": self._experiment})
        run(self._connection, _NOTE_REMOVAL, {"experiment": self._experiment, "removed_at": removed_at})

    def _all_keyed(self, first: int) -> Sequence[tuple[int, str, bytes]]:
        return cast(Sequence[tuple[int, str, bytes]], self._rows(_ALL_KEYED, first=first))

    def _rows(self, query: sa.Executable, **given: object) -> Sequence[Sequence[Any]]:
        return fetch(self._connection, query, {"of": self._experiment, **given})


def _sealed(connection: sa.Connection, row: Sequence[Any]) -> TokenRecord:
    """A token as it stands in the table, after giving it a seal."""
    record = mended(row)
    values = {**record._asdict(), "seal": seal(*record)}
    connection.execute(tokens.update().where(tokens.c.id == record.id).values(values))
    return record


@contextmanager
def _writing(connection: sa.Connection) -> Iterator[None]:
    """A transaction that is going to write."""
    connection.execution_options(**{WRITES: True})
    with connection.begin():
        yield


#: The name of the option that says so.
WRITES = "aftereffect_writes"
