"""Where experiments are kept: by URL, one class per kind of storage."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aftereffect.checks import real
from aftereffect.errors import ParameterError
from aftereffect.extras import imported, require
from aftereffect.live.storage.base import Log, Record, Storage, TokenRecord, View
from aftereffect.live.storage.memory import MemoryStorage
from aftereffect.spec import nearest


def _data_folder() -> Path:
    """Where programs keep what belongs to their user, by the XDG base directory specification."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return given if given.is_absolute() else Path(os.path.expanduser("~"), ".local", "share")


#: A file of the user's own, whatever folder a command is run in.
DEFAULT_STORAGE = f"sqlite:///{_data_folder() / 'aftereffect' / 'aftereffect.db'}"
_EXAMPLE = "sqlite:///file.db"
_LONGEST_PATIENCE = 86_400.0


def _read(url: str) -> Any:
    sa = imported("sqlalchemy")
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # it is not shown: there may be a password in it
        raise ParameterError(f"the URL of the storage cannot be read: write one such as {_EXAMPLE}") from None


def _sqlite(url: str, patience: float) -> Storage:
    read = _read(url.replace("?", "%3F"))  # there is nothing to ask a file for: it belongs to its name
    from aftereffect.live.storage.sqlite import SqliteStorage

    return SqliteStorage(read, patience, makes_folder=url == DEFAULT_STORAGE)


def _postgresql(url: str, patience: float) -> Storage:
    require("postgres")
    read = _read(url)
    from aftereffect.live.storage.postgresql import PostgresqlStorage

    return PostgresqlStorage(read, patience)


#: By the beginning of the URL. SQLAlchemy is imported when a storage needs it, and not before.
STORAGES: dict[str, Callable[[str, float], Storage]] = {
    "memory": MemoryStorage,
    "sqlite": _sqlite,
    "postgresql+psycopg": _postgresql,
}


def open_storage(url: str, *, patience: float = 60.0) -> Storage:
    """The storage at a URL.

    Parameters
    ----------
    url
        ``sqlite:///file.db``, ``postgresql+psycopg://user:password@host/database``, or ``memory://`` for a new one that is gone
        with the process.
    patience
        Seconds to wait for others who write.
    """
    real("patience", patience, at_least=0, at_most=_LONGEST_PATIENCE)
    scheme, mark, _ = url.partition("://") if isinstance(url, str) else ("", "", "")
    if not mark or scheme not in STORAGES:
        # The URL itself is not shown: there may be a password in it.
        what = f"one that begins with {scheme!r}" if mark else "something else"
        raise ParameterError(f"a storage is a URL such as {_EXAMPLE}, got {what}: {nearest(scheme, STORAGES)}")
    return STORAGES[scheme](url, patience)


__all__ = [
    "DEFAULT_STORAGE",
    "STORAGES",
    "Log",
    "MemoryStorage",
    "Record",
    "Storage",
    "TokenRecord",
    "View",
    "open_storage",
]
