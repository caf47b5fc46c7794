"""Experiments in a file, through SQLite: nothing to start, one writer at a time."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


class SqliteStorage(DatabaseStorage):
    """``sqlite:///file.db``: a write-ahead log, synced at every commit."""

    def __init__(self, url: sa.URL, patience: float = 60.0) -> None:
        if not url.database or url.database == ":memory:" or url.query or url.host or url.username:
            raise StorageError("a storage in a file is written sqlite:///file.db; for one in memory write memory://")
        # Wherever a process goes later; and SQLite keeps its log beside the file itself, not beside a link to it.
        self._path = Path(url.database).resolve()
        self._writer = threading.Lock()
        super().__init__(url, patience)

    def _engine(self, url: sa.URL) -> sa.Engine:
        # BEGIN is said below, not by the driver.
        engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=sa.pool.QueuePool, max_overflow=-1, paramstyle="named"
        )
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> sqlite3.Connection:
        self._check_length()
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=rwc",
            uri=True,
            timeout=self.patience,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._switch_to_log(connection)
            for setting in ("synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

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
        """BEGIN IMMEDIATE has it already."""

    def _lock_all(self, connection: sa.Connection) -> None:
        """BEGIN IMMEDIATE has it already."""

    def _check_foreign(self, connection: sa.Connection) -> None:
        if sa.inspect(connection).get_table_names():
            raise StorageError("the file is a database of another program: name another file")

    def examine(self) -> list[str]:
        with self._told(), self.engine.connect() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def _explained(self, error: Exception) -> StorageError:
        name = getattr(error, "sqlite_errorname", "")
        for beginning, (kind, explanation) in _EXPLANATIONS.items():
            if name.startswith(beginning):
                return kind(explanation)
        if "decode" in str(error):
            return CorruptionError("a text cannot be read: the file is damaged, restore a backup")
        return StorageError(str(error))


def _pages(header: bytes) -> int:
    """How many bytes the pages take that the header of a file tells of."""
    size = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65_536 if size == 1 else size)


def _begin(connection: sa.Connection) -> None:
    """A writer takes the lock at once: two that first read and then want to write would wait for each other."""
    writes = connection.get_execution_options().get(WRITES)
    connection.connection.cursor().execute("BEGIN IMMEDIATE" if writes else "BEGIN")
