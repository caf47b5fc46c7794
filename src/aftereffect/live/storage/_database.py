"""Experiments in a database, through SQLAlchemy Core: what all databases share, and PostgreSQL.

A process that forks leaves the connections of its storages to the parent; the child makes its own.
PostgreSQL needs hardly more than what is shared; what SQLite needs is in `_sqlite`.
"""

import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, cast

import sqlalchemy as sa

from aftereffect.errors import CorruptionError, NotFoundError, StorageError
from aftereffect.live.storage._schema import (
    VERSION,
    DatabaseLog,
    DatabaseTokens,
    KnownKeys,
    check_version,
    experiments,
    fetch,
    prepare_tables,
    read_version,
    removed,
    run,
)
from aftereffect.live.storage.contract import Log, Record, Storage


class Forking(Protocol):
    """An object that takes part when the process forks."""

    def prepare_fork(self) -> None:
        """Called in the parent before it forks."""

    def start_in_child(self) -> None:
        """Called in the child."""


#: The storages of this process; none is added while it forks.
_storages: weakref.WeakSet[Forking] = weakref.WeakSet()
_registering = threading.Lock()
#: Objects of the parent process that this process must never close.
_of_parent: list[object] = []


def register_for_forks(storage: Forking) -> None:
    """Call the methods of a storage when the process forks."""
    with _registering:
        _storages.add(storage)


def leave_to_parent(connections: object) -> None:
    """Keep connections of the parent alive in the child: the garbage collector would close them."""
    _of_parent.append(connections)


def _before_fork() -> None:
    _registering.acquire()
    for storage in list(_storages):
        storage.prepare_fork()


def _after_fork_in_child() -> None:
    _registering.release()
    for storage in list(_storages):
        storage.start_in_child()


if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_registering.release,
        after_in_child=_after_fork_in_child,
    )


#: The execution option that marks a transaction as one that writes.
WRITES = "aftereffect_writes"

_RECORDS = sa.select(*(experiments.c[name] for name in Record._fields)).order_by(experiments.c.id)
_RECORD = _RECORDS.where(experiments.c.name == sa.bindparam("name"))
_LAST_IDS = (sa.select(sa.func.max(experiments.c.id)), sa.select(sa.func.max(removed.c.experiment)))
_PRESENT = sa.select(experiments.c.id).where(experiments.c.id == sa.bindparam("of"))


class DatabaseStorage(DatabaseTokens, Storage):
    """A storage in a database; subclasses define what differs between databases."""

    def __init__(self, url: sa.URL, lock_timeout: float = 60.0) -> None:
        self.url = url.render_as_string(hide_password=True)
        self.lock_timeout = lock_timeout
        self.engine = self._make_engine(url)
        #: The engine for statements that need no transaction around them.
        self.single = self.engine
        self._driver: Any = self.engine.dialect.dbapi
        self._prepared = False
        self._keys = KnownKeys()
        register_for_forks(self)

    @abstractmethod
    def _make_engine(self, url: sa.URL) -> sa.Engine:
        """Make the engine, which makes connections."""

    @abstractmethod
    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        """Become the only writer of an experiment until the transaction ends.

        Raises `NotFoundError` if there is no such experiment.
        """

    @abstractmethod
    def _lock_all(self, connection: sa.Connection) -> None:
        """Become the only one who creates or migrates tables, until the transaction ends."""

    @abstractmethod
    def _explain(self, error: Exception) -> StorageError:
        """Translate an error of the driver."""

    def _begin_reading(self, connection: sa.Connection) -> None:
        """Make a transaction see one moment; by default every transaction does."""

    def _alone(self) -> AbstractContextManager[object]:
        """Keep other threads from writing; by default the database does."""
        return nullcontext()

    def _exists(self) -> bool:
        """Whether there is a database to connect to. Must not create it."""
        return True

    def _check_foreign(self, connection: sa.Connection) -> None:
        """Refuse a database that belongs to another program; by default any may be shared."""

    def _check_rights(self, connection: sa.Connection) -> None:
        """Refuse a database whose tables this user may not see; by default users see them."""

    def _check_unmoved(self) -> None:
        """Refuse a database that is no longer where it was opened; by default it cannot move."""

    def prepare_fork(self) -> None:
        """Called before the process forks."""

    def start_in_child(self) -> None:
        """Called in the child: it makes connections of its own.

        It neither uses nor closes those of its parent; both would disturb the parent.
        """
        leave_to_parent(self.engine.pool)
        self.engine.dispose(close=False)
        self._keys = KnownKeys()

    def create(
        self, name: str, settings: str, created_at: str, digest: bytes
    ) -> tuple[Record, bool]:
        with self._changing() as connection:
            known = connection.execute(_RECORD, {"name": name}).one_or_none()
            if known is None:
                number = 1 + max(connection.execute(query).scalar() or 0 for query in _LAST_IDS)
                record = Record(number, name, settings, created_at, digest)
                connection.execute(experiments.insert(), record._asdict())
            return Record(*connection.execute(_RECORD, {"name": name}).one()), known is None

    def find(self, name: str) -> Record | None:
        found = self._rows(_RECORD, {"name": name})
        return Record(*found[0]) if found else None

    def records(self) -> list[Record]:
        return [Record(*row) for row in self._rows(_RECORDS)]

    @contextmanager
    def reading(self, experiment: int) -> Iterator[Log]:
        with self._explaining():
            self._check_unmoved()
            with self.engine.connect() as connection, connection.begin():
                self._begin_reading(connection)
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

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """A transaction that changes more than one experiment; creates tables if needed."""
        with self._transaction() as connection:
            self._prepare(connection)
            self._lock_all(connection)
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """A transaction that writes."""
        with self._explaining():
            self._check_unmoved()
            with self._alone(), self.engine.connect() as connection:
                connection.execution_options(**{WRITES: True})
                with connection.begin():
                    yield connection
            # What went into a file that somebody has replaced meanwhile is not acknowledged.
            self._check_unmoved()

    def _check_present(self, connection: sa.Connection, experiment: int) -> None:
        if run(connection, _PRESENT, {"of": experiment}).fetchone() is None:
            raise self._not_found(experiment)

    def _not_found(self, experiment: int) -> NotFoundError:
        return NotFoundError(
            f"{self.url}: there is no experiment with the id {experiment}: it was deleted"
        )

    def _rows(
        self, query: sa.Select[Any], given: Mapping[str, object] | None = None
    ) -> Sequence[Sequence[Any]]:
        """The rows of a query; none where there are no tables yet."""
        with self._explaining():
            self._check_unmoved()
            if not self._exists():
                return []
            if not self._prepared:
                with self.engine.connect() as connection:
                    version = read_version(connection)
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
            if read_version(connection) == 0:
                self._check_rights(connection)
                self._check_foreign(connection)
            prepare_tables(connection)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Translate errors of the driver, and add the URL of the storage to every error."""
        try:
            yield
        except (CorruptionError, StorageError) as error:
            if self.url in str(error):
                raise
            raise type(error)(f"{self.url}: {error}") from None
        except sa.exc.DBAPIError as error:
            raise self._name(cast(Exception, error.orig)) from None
        except self._driver.Error as error:
            raise self._name(error) from None
        except (sa.exc.NoResultFound, sa.exc.MultipleResultsFound, UnicodeDecodeError) as error:
            raise CorruptionError(f"{self.url}: a table has unexpected contents: {error}") from None

    def _name(self, error: Exception) -> StorageError:
        explained = self._explain(error)
        return type(explained)(f"{self.url}: {explained}")


#: The advisory lock of whoever creates tables or experiments: a number that nobody else uses.
_SETUP_LOCK = 0x_AF7E_EFFE_C7

#: The time after which a server counts as unreachable, in seconds (the last one in milliseconds).
#: Parameters of the URL override these.
_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: The time that a statement may take, apart from waiting for a lock.
_STATEMENT_MILLISECONDS = 60_000

_ONE_MOMENT = sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
#: Schemas on the search path that have our tables but that the user may not use: PostgreSQL ignores
#: them silently.
_FORBIDDEN = sa.text("""
    SELECT n.nspname FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'aftereffect_schema' AND c.relkind = 'r'
    AND NOT has_schema_privilege(n.oid, 'USAGE')
    AND n.nspname = ANY (SELECT replace(btrim(place, ' "'), '$user', current_user)
                         FROM unnest(string_to_array(current_setting('search_path'), ',')) place)
""")
_LOCK = sa.select(experiments.c.id).where(experiments.c.id == sa.bindparam("of")).with_for_update()

#: Explanations of PostgreSQL's errors, by the beginning of their codes.
_EXPLANATIONS: dict[str, tuple[type[StorageError], str]] = {
    "53100": (
        StorageError,
        "the server's disk is full; nothing was recorded: make room and try again",
    ),
    "57014": (StorageError, "the server took too long; nothing was recorded: try again"),
    "55P03": (
        StorageError,
        "another client has been writing for too long; nothing was recorded: try again",
    ),
    "23": (StorageError, "this is already stored; nothing was recorded"),
    "25006": (StorageError, "the server accepts no writes (it may be a standby)"),
    "42501": (
        StorageError,
        "this user may not do that: grant it rights on the tables aftereffect_*",
    ),
    "XX001": (CorruptionError, "the server found damaged data: restore a backup"),
    "XX002": (CorruptionError, "the server found a damaged index: run REINDEX, then verify"),
}


class PostgresqlStorage(DatabaseStorage):
    """``postgresql+psycopg://user:password@host/database``; a writer locks the experiment's row."""

    def __init__(self, url: sa.URL, lock_timeout: float = 60.0) -> None:
        super().__init__(url, lock_timeout)
        self.single = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    def _make_engine(self, url: sa.URL) -> sa.Engine:
        # pre_ping notices a restarted server before a transaction begins.
        engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            max_overflow=-1,
            isolation_level="READ COMMITTED",
            connect_args={
                name: value for name, value in _TIMEOUTS.items() if name not in url.query
            },
        )
        sa.event.listen(engine, "connect", self._configure)
        return engine

    def _configure(self, connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        milliseconds = max(1, round(self.lock_timeout * 1000))
        cursor.execute(f"SET lock_timeout = {milliseconds}")
        cursor.execute(f"SET statement_timeout = {milliseconds + _STATEMENT_MILLISECONDS}")
        # An acknowledged total must be on the disk, whatever the server's default.
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        cursor.close()
        connection.commit()

    def _begin_reading(self, connection: sa.Connection) -> None:
        run(connection, _ONE_MOMENT, {})

    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        if run(connection, _LOCK, {"of": experiment}).fetchone() is None:
            raise self._not_found(experiment)

    def _lock_all(self, connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))

    def _check_rights(self, connection: sa.Connection) -> None:
        forbidden = connection.execute(_FORBIDDEN).scalars().all()
        if forbidden:
            raise StorageError(
                f"its tables are in the schema {forbidden[0]!r}, which this user may not use: "
                f"GRANT USAGE ON SCHEMA {forbidden[0]}"
            )

    def _explain(self, error: Exception) -> StorageError:
        state = getattr(error, "sqlstate", None) or ""
        for beginning, (kind, explanation) in _EXPLANATIONS.items():
            if state.startswith(beginning):
                return kind(explanation)
        text = " ".join(str(error).split())
        if not state or state.startswith("57P"):
            return StorageError(f"the server cannot be reached, or the connection broke: {text}")
        return StorageError(text)
