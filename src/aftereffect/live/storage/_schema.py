"""The tables of a database: their columns and migrations, and how statements on them are run."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.events import Event, EventKind, hash_event, is_intact

#: The version of the tables below.
VERSION = 8

metadata = sa.MetaData()

schema = sa.Table(
    "aftereffect_schema",
    metadata,
    sa.Column("version", sa.Integer, nullable=False),
)

experiments = sa.Table(
    "aftereffect_experiments",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("snapshot", sa.Text),
    sa.Column("snapshot_digest", sa.LargeBinary),
)

# Ids of deleted experiments, so that no id is used twice: a client may still have one.
removed = sa.Table(
    "aftereffect_removed",
    metadata,
    sa.Column("experiment", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("removed_at", sa.Text, nullable=False),
)

events = sa.Table(
    "aftereffect_events",
    metadata,
    sa.Column("experiment", sa.ForeignKey(experiments.c.id), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("slot", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("round", sa.BigInteger),
    sa.Column("arm", sa.Integer),
    sa.Column("until", sa.BigInteger),
    sa.Column("window", sa.BigInteger),
    sa.Column("total", sa.Double),
    sa.Column("key", sa.Text),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("probabilities", sa.Text),
    sa.Column("covariates", sa.Text),
    sa.Column("guardrails", sa.Text),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    # A slot has one decision and one total per revision, whatever a program does.
    sa.UniqueConstraint("experiment", "slot", "kind", "revision"),
    sqlite_with_rowid=False,
)

# Few events have a key.
_keyed = events.c.key.is_not(None)
sa.Index(
    "aftereffect_keys",
    events.c.experiment,
    events.c.key,
    unique=True,
    sqlite_where=_keyed,
    postgresql_where=_keyed,
)

tokens = sa.Table(
    "aftereffect_tokens",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("revoked_at", sa.Text),
    # The hash of all other columns; see `seal`.
    sa.Column("seal", sa.LargeBinary),
)


def seal(
    number: int, label: str, scope: str, digest: bytes, created_at: str, revoked_at: str | None
) -> bytes:
    """Hash everything that a row of the tokens holds."""
    fields = (number, label, scope, digest.hex(), created_at, revoked_at)
    return hashlib.sha256(json.dumps(fields).encode()).digest()


def _seal_tokens(connection: sa.Connection) -> None:
    """Version 2: tokens have seals, and there is a table of deleted experiments."""
    kind = connection.dialect.type_compiler_instance.process(sa.LargeBinary())
    connection.exec_driver_sql(f"ALTER TABLE aftereffect_tokens ADD COLUMN seal {kind}")
    connection.exec_driver_sql(
        "CREATE TABLE aftereffect_removed "
        "(experiment INTEGER NOT NULL, removed_at TEXT NOT NULL, PRIMARY KEY (experiment))"
    )
    rows = connection.exec_driver_sql(
        "SELECT id, label, scope, digest, created_at, revoked_at FROM aftereffect_tokens"
    ).all()
    for row in rows:
        # Version 1 has nothing to check a row with, so its content is taken as it is.
        connection.execute(tokens.update().where(tokens.c.id == row[0]).values(seal=seal(*row)))


def _rename_totals(connection: sa.Connection) -> None:
    """Version 3: the kinds outcome and close are now total and end, the column value is total.

    The kind is part of the hash, so all hashes are computed again. From the first damaged event on
    the hashes stay as they are, so that the damage stays visible.
    """
    connection.exec_driver_sql("ALTER TABLE aftereffect_events RENAME COLUMN value TO total")
    for row in connection.execute(sa.select(experiments.c.id, experiments.c.digest)).all():
        _rename_kinds(connection, *row)
    connection.execute(experiments.update().values(snapshot=None, snapshot_digest=None))


def _rename_kinds(connection: sa.Connection, experiment: int, digest: bytes) -> None:
    renamed = {"outcome": "total", "close": "end"}
    of = events.c.experiment == experiment
    later: dict[str, Any] = dict.fromkeys(
        ("probabilities", "covariates", "guardrails")
    )  # from version 4 on
    names = (name for name in Event._fields if name not in later)
    fields = sa.select(*(events.c[name] for name in names)).where(of).order_by(events.c.seq)
    change = events.update().where(of, events.c.seq == sa.bindparam("of_seq"))
    seq, before, after = 0, digest, digest
    while rows := connection.execute(fields.where(events.c.seq > seq).limit(10_000)).all():
        changes = []
        for row in rows:
            event = Event(**dict(row._mapping), **later)
            if not is_intact(event, before):
                break
            kind = cast(EventKind, renamed.get(event.kind, event.kind))
            seq, before = event.seq, event.hash
            after = hash_event(after, event._replace(kind=kind))
            changes.append({"of_seq": seq, "kind": kind, "hash": after})
        if changes:
            connection.execute(change, changes)
        if len(changes) < len(rows):
            return


def _add_probabilities(connection: sa.Connection) -> None:
    """Version 4: decisions have the probabilities with which they were drawn."""
    connection.exec_driver_sql("ALTER TABLE aftereffect_events ADD COLUMN probabilities TEXT")
    connection.execute(experiments.update().values(snapshot=None, snapshot_digest=None))


def _add_covariates(connection: sa.Connection) -> None:
    """Version 5: totals have the covariates that came with them."""
    connection.exec_driver_sql("ALTER TABLE aftereffect_events ADD COLUMN covariates TEXT")
    connection.execute(experiments.update().values(snapshot=None, snapshot_digest=None))


def _drop_snapshots(connection: sa.Connection) -> None:
    """Version 6: settings may have a unit, and snapshots know how many slots the last total saw.

    The tables stay as they are. The new version keeps older code away, which refuses such settings.
    """
    connection.execute(experiments.update().values(snapshot=None, snapshot_digest=None))


def _add_guardrails(connection: sa.Connection) -> None:
    """Version 7: events have numbers of guardrails, and settings may have a rule to stop."""
    connection.exec_driver_sql("ALTER TABLE aftereffect_events ADD COLUMN guardrails TEXT")
    connection.execute(experiments.update().values(snapshot=None, snapshot_digest=None))


def _note_plans(connection: sa.Connection) -> None:
    """Version 8: settings may have what a plan promised.

    The tables stay as they are. The new version keeps older code away, which refuses such settings.
    """


#: What makes each version from the one before. A migration never changes once it is released.
MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {
    2: _seal_tokens,
    3: _rename_totals,
    4: _add_probabilities,
    5: _add_covariates,
    6: _drop_snapshots,
    7: _add_guardrails,
    8: _note_plans,
}


def read_version(connection: sa.Connection) -> int:
    """The version of the tables in a database; 0 if it has none."""
    if not sa.inspect(connection).has_table(schema.name):
        return 0
    version = connection.execute(sa.select(schema.c.version)).scalar_one()
    if not isinstance(version, int) or version < 1:
        raise CorruptionError(
            f"the version of its tables must be a number from 1 on, got {version!r}"
        )
    return version


def check_version(version: int) -> None:
    """Refuse tables of a newer version of this library."""
    if version > VERSION:
        raise StorageError(
            f"its tables have version {version}, made by a newer aftereffect; "
            f"this version can read up to {VERSION}: update aftereffect"
        )


def prepare_tables(connection: sa.Connection) -> None:
    """Create the tables, or migrate those of an earlier version."""
    version = read_version(connection)
    check_version(version)
    if version == 0:
        metadata.create_all(connection)
        connection.execute(schema.insert().values(version=VERSION))
    for later in range(max(version, 1) + 1, VERSION + 1) if version else ():
        MIGRATIONS[later](connection)
        connection.execute(schema.update().values(version=later))


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
