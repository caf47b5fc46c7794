"""Experiments in a file, through SQLite: nothing to start, one writer at a time."""

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.storage.database import WRITES, DatabaseStorage

#: What SQLite's errors mean, by the beginning of their names.
_EXPLANATIONS: dict[str, tuple[type[StorageError], str]] = {
    "SQLITE_FULL": (StorageError, "the disk is full: nothing of this was recorded, make room and try again"),
    "SQLITE_READONLY": (StorageError, "it may not be written: look at the permissions of the file and of its folder"),
    "SQLITE_CANTOPEN": (StorageError, "it cannot be opened: the folder must exist, and both must be readable and writable"),
    "SQLITE_BUSY": (StorageError, "another process has been writing for too long: nothing of this was recorded, try again"),
    "SQLITE_NOTADB": (CorruptionError, "the file is no database of SQLite, or its beginning is damaged"),
    "SQLITE_CORRUPT": (CorruptionError, "the file is damaged: restore a backup"),
    "SQLITE_CONSTRAINT": (StorageError, "what was to be recorded is there already: nothing of this was recorded"),
    "SQLITE_IOERR": (StorageError, "the disk reports an error: nothing of this was recorded"),
}


#: The beginning of every file of SQLite.
_MAGIC, _HEADER = b"SQLite format 3\0", 100
#: Experiments and digests of tokens are nobody else's business.
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700

#: Held while a file is made. A process that closes any handle of a file loses all its locks on it, so that no other thread may
#: work with a file that is just being made.
_making = threading.Lock()
#: Files that this process must not touch, since the one it was forked from was in the middle of using them. SQLite takes the
#: locks of that process for its own, and what it wrote would be lost as soon as that process is done with the file.
_lost_in_fork: set[Path] = set()


class Connection(sqlite3.Connection):
    """One that can be listed without being kept."""


class SqliteStorage(DatabaseStorage):
    """``sqlite:///file.db``: a write-ahead log, synced at every commit."""

    def __init__(self, url: sa.URL, patience: float = 60.0, *, makes_folder: bool = False) -> None:
        if not url.database or url.database == ":memory:" or url.query or url.host or url.username:
            raise StorageError("a storage in a file is written sqlite:///file.db; for one in memory write memory://")
        # Wherever a process goes later; and SQLite keeps its log beside the file itself, not beside a link to it.
        self._path = Path(url.database).resolve()
        self._makes_folder = makes_folder
        self._writer = threading.Lock()
        #: Device and number of the file that was opened.
        self._file: tuple[int, int] | None = None
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        super().__init__(url, patience)

    def _engine(self, url: sa.URL) -> sa.Engine:
        # BEGIN is said below, not by the driver.
        engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=sa.pool.QueuePool, max_overflow=-1, paramstyle="named"
        )
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> sqlite3.Connection:
        if self._path in _lost_in_fork:
            raise StorageError(
                "this process was forked while another thread was using the file: start processes before threads, or by spawn"
            )
        self._make_file()
        self._check_length()
        file = self._identity()
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=rw",
            uri=True,
            timeout=self.patience,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        self._connections.add(connection)
        try:
            self._switch_to_log(connection)
            for setting in ("synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {setting}")
            self._file = self._file or file
            if file != self._identity():  # replaced while it was opened
                raise self._moved()
            self._check_place()
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_file(self) -> None:
        """Make the file, unless it is there, so that nobody else may read it; SQLite gives those beside it the same rights."""
        try:
            if self._makes_folder:
                self._path.parent.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            with _making, suppress(FileExistsError):
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))
        except OSError as error:
            raise StorageError(f"{_EXPLANATIONS['SQLITE_CANTOPEN'][1]} ({error.strerror})") from None

    def _identity(self) -> tuple[int, int] | None:
        """Which file lies at the path now."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_place(self) -> None:
        """SQLite would go on with the file that it has opened, and what it writes there is gone when the last handle closes.

        It is not opened anew: the write-ahead log beside it may be of the old file, and would be taken into the new one.
        """
        if self._file is not None and self._file != self._identity():
            raise self._moved()

    def _moved(self) -> StorageError:
        return StorageError(
            "the file was replaced or removed while it was in use, and nothing of this is in the file that is there now: stop"
            f" all clients, remove {self._path.name}-wal and {self._path.name}-shm, put the right file in place and start again"
        )

    def prepare_fork(self) -> None:
        """Idle connections are closed: inherited, they make SQLite believe that the new process holds their locks."""
        self.engine.dispose()

    def start_in_child(self) -> None:
        global _making
        _making, self._writer = threading.Lock(), threading.Lock()
        if any(_is_open(connection) for connection in self._connections):
            _lost_in_fork.add(self._path)
        super().start_in_child()

    def close(self) -> None:
        super().close()
        self._file = None

    def _switch_to_log(self, connection: sqlite3.Connection) -> None:
        """Where several open a new file at once, SQLite has all but one fail here without waiting."""
        end = time.monotonic() + self.patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _check_length(self) -> None:
        """Refuse a file that was cut off: SQLite would go on with it until it needs a page that is gone.

        Its header says how many pages there are; while a write-ahead log lies beside it some may still be in there. Who takes a
        log in just now is given a moment.
        """
        try:
            for moment in (0.0, 0.2):
                time.sleep(moment)
                if not self._exists() or self._path.with_name(f"{self._path.name}-wal").exists():
                    return
                with self._path.open("rb") as file:
                    header = file.read(_HEADER)
                if not header.startswith(_MAGIC) or _pages(header) <= self._path.stat().st_size:
                    return
        except (OSError, ValueError) as error:
            raise StorageError(f"it cannot be opened: {getattr(error, 'strerror', None) or error}") from None
        raise CorruptionError("the file is damaged, its end is missing: restore a backup")

    def _exists(self) -> bool:
        """An empty file is nothing yet."""
        try:
            return self._path.exists() and self._path.stat().st_size > 0
        except OSError as error:
            raise StorageError(f"{self.url}: {error.strerror}") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # Between processes SQLite waits in ever longer naps; threads need not.
        if not self._writer.acquire(timeout=self.patience):
            raise StorageError(_EXPLANATIONS["SQLITE_BUSY"][1])
        try:
            yield
        finally:
            self._writer.release()

    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        self._check_present(connection, experiment)  # BEGIN IMMEDIATE has the lock already

    def _lock_all(self, connection: sa.Connection) -> None:
        """BEGIN IMMEDIATE has it already."""

    def _check_foreign(self, connection: sa.Connection) -> None:
        if sa.inspect(connection).get_table_names():
            raise StorageError("the file is a database of another program: name another file")

    def examine(self) -> list[str]:
        with self._told(), self.engine.connect() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return ([] if found == ["ok"] else found) + super().examine()

    def _explained(self, error: Exception) -> StorageError:
        name = getattr(error, "sqlite_errorname", "")
        for beginning, (kind, explanation) in _EXPLANATIONS.items():
            if name.startswith(beginning):
                return kind(explanation)
        if "decode" in str(error):
            return CorruptionError("a text cannot be read: the file is damaged, restore a backup")
        return StorageError(str(error))


def _is_open(connection: Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError:
        return False
    return True


def _pages(header: bytes) -> int:
    """How many bytes the pages take that the header of a file tells of."""
    size = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65_536 if size == 1 else size)


def _begin(connection: sa.Connection) -> None:
    """A writer takes the lock at once: two that first read and then want to write would wait for each other."""
    writes = connection.get_execution_options().get(WRITES)
    connection.connection.cursor().execute("BEGIN IMMEDIATE" if writes else "BEGIN")
