"""Storages of live experiments: one class for each kind, found by the scheme of a URL."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from aftereffect._core import check_float, import_optional, require_extra, suggest
from aftereffect.errors import ParameterError, StorageError
from aftereffect.live.storage.contract import (
    Log,
    MemoryStorage,
    Record,
    Storage,
    TokenRecord,
    View,
    is_text,
)

__all__ = [
    "DEFAULT_STORAGE",
    "Log",
    "MemoryStorage",
    "Record",
    "Storage",
    "TokenRecord",
    "View",
    "is_text",
    "open_or_borrow",
    "open_storage",
]


def _find_data_folder() -> Path:
    """The folder for data of the user, by the XDG base directory specification."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return given if given.is_absolute() else Path(os.path.expanduser("~"), ".local", "share")


#: A file of the user, the same in whatever folder a command runs.
DEFAULT_STORAGE = f"sqlite:///{_find_data_folder() / 'aftereffect' / 'aftereffect.db'}"
#: The group of entry points with which other packages add schemes.
ENTRY_POINTS = "aftereffect.storages"
_MAX_LOCK_TIMEOUT = 86_400.0


def _parse_url(url: str) -> Any:
    sa = import_optional("sqlalchemy")
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # the URL is not shown: it may have a password
        raise ParameterError(
            "the URL of the storage cannot be read: it must look like sqlite:///FILE "
            "or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        ) from None


def _open_sqlite(url: str, *, lock_timeout: float) -> Storage:
    parsed = _parse_url(url.replace("?", "%3F"))  # a question mark belongs to the file name
    from aftereffect.live.storage._sqlite import SqliteStorage

    return SqliteStorage(parsed, lock_timeout, create_folder=url == DEFAULT_STORAGE)


def _open_postgresql(url: str, *, lock_timeout: float) -> Storage:
    require_extra("postgres")
    parsed = _parse_url(url)
    from aftereffect.live.storage._database import PostgresqlStorage

    return PostgresqlStorage(parsed, lock_timeout)


#: By scheme. SQLAlchemy is imported only when a storage needs it.
_BUILT_IN: dict[str, Callable[..., Storage]] = {
    "memory": MemoryStorage,
    "sqlite": _open_sqlite,
    "postgresql+psycopg": _open_postgresql,
}


def open_storage(url: str, *, lock_timeout: float = 60.0) -> Storage:
    """Open the storage at a URL.

    Other packages add schemes with entry points of the group ``aftereffect.storages``. The name of
    an entry point is the scheme. Its value is a callable that takes the URL and the keyword
    ``lock_timeout``, and returns a `Storage`.

    Parameters
    ----------
    url
        ``sqlite:///file.db``, ``postgresql+psycopg://user:password@host/database``, or
        ``memory://`` for a new storage that is gone with the process.
    lock_timeout
        How many seconds to wait for other writers.

    Examples
    --------
    >>> from aftereffect import open_storage
    >>> with open_storage("memory://") as storage:
    ...     print(len(storage.names()), "experiments in", storage.url)
    0 experiments in memory://
    """
    check_float("lock_timeout", lock_timeout, at_least=0, at_most=_MAX_LOCK_TIMEOUT)
    scheme, mark, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not mark:  # the URL is not shown: it may have a password
        got = "a text without ://" if isinstance(url, str) else type(url).__name__
        raise ParameterError(
            f"a storage must be a URL such as sqlite:///FILE or memory://, got {got}"
        )
    if scheme in _BUILT_IN:
        return _BUILT_IN[scheme](url, lock_timeout=lock_timeout)
    others = entry_points(group=ENTRY_POINTS)
    if scheme not in others.names:
        raise ParameterError(
            f"unknown scheme {scheme!r} in the URL of a storage: "
            f"{suggest(scheme, [*_BUILT_IN, *sorted(others.names)])}"
        )
    point = others[scheme]
    try:
        make = point.load()
    except Exception as error:
        raise StorageError(
            f"cannot load the storage {scheme!r} ({point.value}): {type(error).__name__}: {error}"
        ) from error
    storage = make(url, lock_timeout=lock_timeout)
    if not isinstance(storage, Storage):
        raise StorageError(
            f"the entry point {scheme!r} of {ENTRY_POINTS} must return a Storage, "
            f"got {type(storage).__name__}"
        )
    return storage


@contextmanager
def open_or_borrow(storage: Storage | str) -> Iterator[tuple[Storage, bool]]:
    """Give a storage, and whether it was opened here from a URL.

    If it was, an error in the block closes it.
    """
    if isinstance(storage, Storage):
        yield storage, False
        return
    opened = open_storage(storage)
    try:
        yield opened, True
    except BaseException:
        opened.close()
        raise
