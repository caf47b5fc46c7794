"""Below SQLAlchemy: statements that go straight to the driver, and processes that fork."""

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor


def execute(cursor: DBAPICursor, text: str, given: dict[str, Any]) -> None:
    """Execute a statement; all reading and writing of experiments goes through here."""
    cursor.execute(text, given)


def run(
    connection: sa.Connection, statement: sa.Executable, given: Mapping[str, Any]
) -> DBAPICursor:
    """Run one statement on the driver and return the cursor with its result.

    SQLAlchemy compiles each statement once. If it also executed them, each would take longer than
    SQLite needs for it.
    """
    cursor = connection.connection.cursor()
    text, fixed = _compile(statement, connection.dialect)
    execute(cursor, text, {**given, **fixed})
    return cursor


def fetch(
    connection: sa.Connection, query: sa.Executable, given: Mapping[str, Any]
) -> Sequence[Sequence[Any]]:
    """All rows of a query.

    Bytes that are not valid UTF-8 become surrogate escapes. The hash of such a row does not fit,
    but the rows beside it can be read, and a damaged experiment can be exported.
    """
    try:
        return run(connection, query, given).fetchall()
    except Exception as error:
        driver: Any = connection.connection.driver_connection
        if "decode" not in str(error) or not hasattr(driver, "text_factory"):
            raise
        driver.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        try:
            return run(connection, query, given).fetchall()
        finally:
            driver.text_factory = str


#: Compiled statements, by the name of the dialect: each storage has a dialect object of its own,
#: but all of one name compile alike.
_compiled: dict[tuple[sa.Executable, str], tuple[str, dict[str, object]]] = {}


def _compile(statement: sa.Executable, dialect: sa.Dialect) -> tuple[str, dict[str, object]]:
    """The text of a statement, and those of its parameters that are constant."""
    known = _compiled.get((statement, dialect.name))
    if known is None:
        compiled = cast(sa.ClauseElement, statement).compile(dialect=dialect)
        fixed = {name: value for name, value in compiled.params.items() if value is not None}
        known = _compiled[statement, dialect.name] = str(compiled), fixed
    return known


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
