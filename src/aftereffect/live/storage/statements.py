"""Statements that SQLAlchemy writes, once, and that are handed to the driver as they are.

Executed by SQLAlchemy, each would take longer than SQLite needs for it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor


def execute(cursor: DBAPICursor, text: str, given: dict[str, Any]) -> None:
    """Everything that is read from an experiment or added to it goes through here."""
    cursor.execute(text, given)


def run(connection: sa.Connection, statement: sa.Executable, given: Mapping[str, Any]) -> DBAPICursor:
    """Execute one statement; the cursor has what it finds."""
    cursor = connection.connection.cursor()
    text, fixed = _written(statement, connection.dialect)
    execute(cursor, text, {**given, **fixed})
    return cursor


def fetch(connection: sa.Connection, query: sa.Executable, given: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """All rows that a query finds.

    A text that is no text any more is told with marks for the bytes that cannot be read: its hash will not fit, but the rows
    beside it can be read, and a damaged experiment can be exported.
    """
    try:
        return run(connection, query, given).fetchall()
    except Exception as error:
        driver: Any = connection.connection.driver_connection
        if "decode" not in str(error) or not hasattr(driver, "text_factory"):
            raise
        driver.text_factory = _marked
        try:
            return run(connection, query, given).fetchall()
        finally:
            driver.text_factory = str


def _marked(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


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
