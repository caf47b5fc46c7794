"""Experiments in a database, through SQLAlchemy Core: what SQLite and PostgreSQL share."""

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.events import Event
from aftereffect.live.snapshot import Snapshot
from aftereffect.live.storage.base import Log, Outline, Record, Storage, TokenRecord
from aftereffect.live.storage.schema import VERSION, check_version, events, experiments, prepare, tokens, version_of

#: The columns of an event, in the order of its fields.
_FIELDS = [events.c[name] for name in Event._fields]
_before = events.alias()

_RECORDS = sa.select(*(experiments.c[name] for name in Record._fields)).order_by(experiments.c.id)
_RECORD = _RECORDS.where(experiments.c.name == sa.bindparam("name"))
_TOKENS = sa.select(*(tokens.c[name] for name in TokenRecord._fields)).order_by(tokens.c.id)
_TOKEN = _TOKENS.where(tokens.c.digest == sa.bindparam("digest"))
_FIRST_TOKEN = sa.select(tokens.c.id).limit(1)
_SNAPSHOT = sa.select(experiments.c.snapshot, experiments.c.snapshot_digest).where(experiments.c.id == sa.bindparam("of"))
_EVENTS = (
    sa.select(*_FIELDS)
    .where(events.c.experiment == sa.bindparam("of"), events.c.seq > sa.bindparam("after"))
    .order_by(events.c.seq)
    .limit(sa.bindparam("most"))
)
_OUTLINES = _EVENTS.with_only_columns(*(events.c[name] for name in ("seq", "kind", "slot", "round", "arm", "value")))
_PROVED = (
    sa.select(*_FIELDS, _before.c.hash)
    .outerjoin(_before, (_before.c.experiment == events.c.experiment) & (_before.c.seq == events.c.seq - 1))
    .where(events.c.experiment == sa.bindparam("of"))
    .order_by(events.c.seq)
)
_ABOUT = _PROVED.where(events.c.slot >= sa.bindparam("first"), events.c.slot < sa.bindparam("stop"))
_KEYED = _PROVED.where(events.c.key == sa.bindparam("key"))
_APPEND = events.insert()
_SAVE = (
    experiments.update()
    .where(experiments.c.id == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("snapshot", "snapshot_digest")})
)


class DatabaseStorage(Storage):
    """A database; what differs between them is below."""

    def __init__(self, url: sa.URL, patience: float = 60.0) -> None:
        self.url = url.render_as_string(hide_password=True)
        self.patience = patience
        self.engine = self._engine(url)
        sa.event.listen(self.engine, "connect", _note_process)
        sa.event.listen(self.engine, "checkout", _leave_to_its_process)
        #: The same for statements that need no transaction around them.
        self.single = self.engine
        self._driver: Any = self.engine.dialect.dbapi
        self._prepared = False

    @abstractmethod
    def _engine(self, url: sa.URL) -> sa.Engine:
        """What makes connections."""

    @abstractmethod
    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        """Wait until nobody else writes to an experiment, and keep others from it until the transaction ends."""

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

    def create(self, name: str, settings: str, created_at: str, digest: bytes) -> tuple[Record, bool]:
        with self._changing() as connection:
            known = connection.execute(_RECORD, {"name": name}).one_or_none()
            if known is None:
                given = {"name": name, "settings": settings, "created_at": created_at, "digest": digest}
                connection.execute(experiments.insert(), given)
            return Record(*connection.execute(_RECORD, {"name": name}).one()), known is None

    def find(self, name: str) -> Record | None:
        found = self._rows(_RECORD, {"name": name})
        return Record(*found[0]) if found else None

    def names(self) -> list[str]:
        return [Record(*row).name for row in self._rows(_RECORDS)]

    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        with self._changing() as connection:
            given = {"label": label, "scope": scope, "created_at": created_at, "digest": digest}
            connection.execute(tokens.insert(), given)
            return TokenRecord(*connection.execute(_TOKENS.where(tokens.c.digest == digest)).one())

    def tokens(self) -> list[TokenRecord]:
        return [TokenRecord(*row) for row in self._rows(_TOKENS)]

    def token(self, digest: bytes) -> TokenRecord | None:
        found = self._rows(_TOKEN, {"digest": digest})
        return TokenRecord(*found[0]) if found else None

    def has_tokens(self) -> bool:
        return bool(self._rows(_FIRST_TOKEN))

    def revoke_token(self, token: int, revoked_at: str) -> TokenRecord | None:
        with self._changing() as connection:
            still = (tokens.c.id == token) & tokens.c.revoked_at.is_(None)
            connection.execute(tokens.update().where(still).values(revoked_at=revoked_at))
            found = connection.execute(_TOKENS.where(tokens.c.id == token)).one_or_none()
            return None if found is None else TokenRecord(*found)

    @contextmanager
    def reading(self, experiment: int) -> Iterator[Log]:
        with self._told(), self.engine.connect() as connection, connection.begin():
            self._hold_still(connection)
            yield DatabaseLog(connection, experiment)

    @contextmanager
    def writing(self, experiment: int) -> Iterator[Log]:
        with self._told(), self._alone(), self.engine.connect() as connection, _writing(connection):
            self._lock(connection, experiment)
            yield DatabaseLog(connection, experiment)

    def prepare(self) -> None:
        with self._changing():
            pass

    def examine(self) -> list[str]:
        return []

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """A transaction on what is not of one experiment; tables are made if they are not there."""
        with self._told(), self._alone(), self.engine.connect() as connection, _writing(connection):
            self._prepare(connection)
            self._lock_all(connection)
            yield connection

    def _rows(self, query: sa.Select[Any], given: Mapping[str, object] | None = None) -> Sequence[Sequence[Any]]:
        """What a query finds; nothing where there are no tables yet."""
        if not self._exists():
            return []
        with self._told():
            if not self._prepared:
                with self.engine.connect() as connection:
                    version = version_of(connection)
                check_version(version)
                if version == 0:
                    return []
                if version < VERSION:
                    with self._alone(), self.engine.connect() as connection, _writing(connection):
                        self._prepare(connection)
                self._prepared = True
            with self.single.connect() as connection:
                return run(connection, query, given or {}).fetchall()

    def _prepare(self, connection: sa.Connection) -> None:
        if not self._prepared:
            self._lock_all(connection)
            if version_of(connection) == 0:
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

    def __init__(self, connection: sa.Connection, experiment: int) -> None:
        self._connection = connection
        self._experiment = experiment

    def snapshot(self) -> Snapshot | None:
        found = self._rows(_SNAPSHOT)
        if not found:
            raise CorruptionError("the experiment is gone")
        text, digest = found[0]
        return None if text is None and digest is None else Snapshot(text, digest)

    def events(self, after: int, limit: int) -> Sequence[Event]:
        return [Event(*row) for row in self._rows(_EVENTS, after=after, most=limit)]

    def outlines(self, after: int, limit: int) -> Sequence[Outline]:
        return cast(Sequence[Outline], self._rows(_OUTLINES, after=after, most=limit))

    def about(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        return [(Event(*row[:-1]), row[-1]) for row in self._rows(_ABOUT, first=first, stop=stop)]

    def keyed(self, key: str) -> tuple[Event, bytes | None] | None:
        return next(((Event(*row[:-1]), row[-1]) for row in self._rows(_KEYED, key=key)), None)

    def append(self, event: Event) -> None:
        run(self._connection, _APPEND, {"experiment": self._experiment, **event._asdict()})

    def save(self, snapshot: Snapshot) -> None:
        given = {"of": self._experiment, "snapshot": snapshot.text, "snapshot_digest": snapshot.digest}
        run(self._connection, _SAVE, given)

    def _rows(self, query: sa.Executable, **given: object) -> Sequence[Sequence[Any]]:
        return run(self._connection, query, {"of": self._experiment, **given}).fetchall()


def execute(cursor: DBAPICursor, text: str, given: dict[str, Any]) -> None:
    """Everything that is read from an experiment or added to it goes through here."""
    cursor.execute(text, given)


def run(connection: sa.Connection, statement: sa.Executable, given: Mapping[str, Any]) -> DBAPICursor:
    """Execute one statement; the cursor has what it finds."""
    cursor = connection.connection.cursor()
    text, fixed = _written(statement, connection.dialect)
    execute(cursor, text, {**given, **fixed})
    return cursor


#: By statement and kind of database; each storage has a dialect of its own, and all of a kind write alike.
_texts: dict[tuple[sa.Executable, str], tuple[str, dict[str, object]]] = {}


def _written(statement: sa.Executable, dialect: sa.Dialect) -> tuple[str, dict[str, object]]:
    """A statement as a database takes it, and those of its parameters that are always the same."""
    known = _texts.get((statement, dialect.name))
    if known is None:
        compiled = cast(sa.ClauseElement, statement).compile(dialect=dialect)
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        known = _texts[statement, dialect.name] = str(compiled), fixed
    return known


#: Connections of the process that this one was forked from; closing them here would disturb it.
_left_alone: list[object] = []


def _note_process(connection: object, record: sa.pool.ConnectionPoolEntry) -> None:
    record.info["process"] = os.getpid()


def _leave_to_its_process(connection: object, record: Any, proxy: Any) -> None:
    """A forked process makes connections of its own."""
    if record.info["process"] != os.getpid():
        _left_alone.append(connection)
        record.dbapi_connection = proxy.dbapi_connection = None
        raise sa.exc.DisconnectionError("it belongs to another process")


@contextmanager
def _writing(connection: sa.Connection) -> Iterator[None]:
    """A transaction that is going to write."""
    connection.execution_options(**{WRITES: True})
    with connection.begin():
        yield


#: The name of the option that says so.
WRITES = "aftereffect_writes"
