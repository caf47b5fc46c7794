"""Experiments in a file, through SQLite: no server, one writer at a time."""

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
from aftereffect.live.storage._database import WRITES, DatabaseStorage

#: Explanations of SQLite's errors, by the beginning of their names.
_EXPLANATIONS: dict[str, tuple[type[StorageError], str]] = {
    "SQLITE_FULL": (
        StorageError,
        "the disk is full; nothing was recorded: make room and try again",
    ),
    "SQLITE_READONLY": (
        StorageError,
        "it cannot be written: check the permissions of the file and of its folder",
    ),
    "SQLITE_CANTOPEN": (
        StorageError,
        "it cannot be opened: its folder must exist, and both must be readable and writable",
    ),
    "SQLITE_BUSY": (
        StorageError,
        "another process has been writing for too long; nothing was recorded: try again",
    ),
    "SQLITE_NOTADB": (
        CorruptionError,
        "the file is not an SQLite database, or its beginning is damaged",
    ),
    "SQLITE_CORRUPT": (CorruptionError, "the file is damaged: restore a backup"),
    "SQLITE_CONSTRAINT": (
        StorageError,
        "this is already stored; nothing was recorded",
    ),
    "SQLITE_IOERR": (StorageError, "the disk reports an error; nothing was recorded"),
}


#: The first bytes of every SQLite file, and the length of its header.
_MAGIC, _HEADER = b"SQLite format 3\0", 100
#: Only the user who created them may read experiments and digests of tokens.
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700

#: Held while a file is created. A process that closes any handle of a file loses all its locks on
#: it, so no other thread may use a file that is just being created.
_creating = threading.Lock()
#: Files that this process must not touch, because its parent was using them when it forked. SQLite
#: would take the parent's locks for its own, and lose what it wrote as soon as the parent is done
#: with the file.
_lost_in_fork: set[Path] = set()


class Connection(sqlite3.Connection):
    """A connection that a WeakSet can hold."""


class SqliteStorage(DatabaseStorage):
    """``sqlite:///file.db``, with a write-ahead log that is synced at every commit."""

    def __init__(
        self, url: sa.URL, lock_timeout: float = 60.0, *, create_folder: bool = False
    ) -> None:
        if not url.database or url.database == ":memory:" or url.query or url.host or url.username:
            raise StorageError(
                "an SQLite storage must be sqlite:///FILE; for one in memory use memory://"
            )
        # Resolved, because the process may change its folder, and because SQLite puts its log
        # beside the file itself, not beside a link to it.
        self._path = Path(url.database).resolve()
        self._create_folder = create_folder
        self._writer = threading.Lock()
        #: Device and inode of the file that was opened.
        self._file: tuple[int, int] | None = None
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        super().__init__(url, lock_timeout)

    def _make_engine(self, url: sa.URL) -> sa.Engine:
        # The listener sends BEGIN; the driver must not.
        engine = sa.create_engine(
            "sqlite://",
            creator=self._connect,
            poolclass=sa.pool.QueuePool,
            max_overflow=-1,
            paramstyle="named",
        )
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> sqlite3.Connection:
        if self._path in _lost_in_fork:
            raise StorageError(
                "this process was forked while another thread was using the file: "
                "start processes before threads, or with spawn"
            )
        self._create_file()
        self._check_length()
        file = self._identity()
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=rw",
            uri=True,
            timeout=self.lock_timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=Connection,
        )
        self._connections.add(connection)
        try:
            self._switch_to_wal(connection)
            for setting in ("synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {setting}")
            self._file = self._file or file
            if file != self._identity():  # replaced while it was opened
                raise self._moved_error()
            self._check_unmoved()
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_file(self) -> None:
        """Create the file for this user only, if there is none; its log gets the same mode."""
        try:
            if self._create_folder:
                self._path.parent.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            with _creating, suppress(FileExistsError):
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))
        except OSError as error:
            raise StorageError(
                f"{_EXPLANATIONS['SQLITE_CANTOPEN'][1]} ({error.strerror})"
            ) from None

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of the file that is at the path now."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_unmoved(self) -> None:
        """Refuse a file that was replaced: SQLite would write into the old one, which is gone.

        The new file is not opened: the write-ahead log beside it may belong to the old file, and
        SQLite would merge it into the new one.
        """
        if self._file is not None and self._file != self._identity():
            raise self._moved_error()

    def _moved_error(self) -> StorageError:
        return StorageError(
            "the file was replaced or removed while it was in use, and the file that is there now "
            f"does not belong to this storage: stop all clients, remove {self._path.name}-wal and "
            f"{self._path.name}-shm, put the right file in place and start again"
        )

    def prepare_fork(self) -> None:
        """Close idle connections: SQLite would believe that the child holds their locks."""
        self.engine.dispose()

    def start_in_child(self) -> None:
        global _creating
        _creating, self._writer = threading.Lock(), threading.Lock()
        if any(_is_open(connection) for connection in self._connections):
            _lost_in_fork.add(self._path)
        super().start_in_child()

    def close(self) -> None:
        super().close()
        self._file = None

    def _switch_to_wal(self, connection: sqlite3.Connection) -> None:
        """Switch to a write-ahead log, trying again while another process does so."""
        end = time.monotonic() + self.lock_timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _check_length(self) -> None:
        """Refuse a truncated file: SQLite would use it until it needs a page that is gone.

        The header says how many pages there are. Some may still be in a write-ahead log, and
        another process may just be moving them into the file, so the check is repeated once.
        """
        try:
            for pause in (0.0, 0.2):
                time.sleep(pause)
                if not self._exists() or self._path.with_name(f"{self._path.name}-wal").exists():
                    return
                with self._path.open("rb") as file:
                    header = file.read(_HEADER)
                if (
                    not header.startswith(_MAGIC)
                    or _read_length(header) <= self._path.stat().st_size
                ):
                    return
        except (OSError, ValueError) as error:
            raise StorageError(
                f"it cannot be opened: {getattr(error, 'strerror', None) or error}"
            ) from None
        raise CorruptionError("the file is damaged: its end is missing, restore a backup")

    def _exists(self) -> bool:
        """Whether the file exists and is not empty."""
        try:
            return self._path.exists() and self._path.stat().st_size > 0
        except OSError as error:
            raise StorageError(f"{self.url}: {error.strerror}") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # SQLite waits for other processes by polling; for other threads a lock is faster.
        if not self._writer.acquire(timeout=self.lock_timeout):
            raise StorageError(_EXPLANATIONS["SQLITE_BUSY"][1])
        try:
            yield
        finally:
            self._writer.release()

    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        self._check_present(connection, experiment)  # BEGIN IMMEDIATE has locked it

    def _lock_all(self, connection: sa.Connection) -> None:
        """BEGIN IMMEDIATE has locked it."""

    def _check_foreign(self, connection: sa.Connection) -> None:
        if sa.inspect(connection).get_table_names():
            raise StorageError("the file is a database of another program: use another file")

    def examine(self) -> list[str]:
        with self._explaining(), self.engine.connect() as connection:
            found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
        return ([] if found == ["ok"] else found) + super().examine()

    def _explain(self, error: Exception) -> StorageError:
        name = getattr(error, "sqlite_errorname", "")
        for beginning, (kind, explanation) in _EXPLANATIONS.items():
            if name.startswith(beginning):
                return kind(explanation)
        if "decode" in str(error):
            return CorruptionError("the file is damaged: a text cannot be read, restore a backup")
        return StorageError(str(error))


def _is_open(connection: Connection) -> bool:
    try:
        return connection.total_changes >= 0  # reading it fails on a closed connection
    except sqlite3.ProgrammingError:
        return False


def _read_length(header: bytes) -> int:
    """The length of a database in bytes, by its header."""
    size = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65_536 if size == 1 else size)


def _begin(connection: sa.Connection) -> None:
    """Begin a transaction. A writer locks at once: two that read first would block each other."""
    writes = connection.get_execution_options().get(WRITES)
    connection.connection.cursor().execute("BEGIN IMMEDIATE" if writes else "BEGIN")
