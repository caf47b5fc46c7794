"""The tables that experiments are kept in, and how a database comes to have them."""

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.storage.seals import seal

#: Of the tables below.
VERSION = 2

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

# Numbers of removed experiments, so that none is given out again: a client may still hold one.
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
    sa.Column("value", sa.Double),
    sa.Column("key", sa.Text),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    # A slot is decided once and told once, whatever a program does.
    sa.UniqueConstraint("experiment", "slot", "kind", "revision"),
    sqlite_with_rowid=False,
)

# Few events have a key.
_keyed = events.c.key.is_not(None)
sa.Index("aftereffect_keys", events.c.experiment, events.c.key, unique=True, sqlite_where=_keyed, postgresql_where=_keyed)

tokens = sa.Table(
    "aftereffect_tokens",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("revoked_at", sa.Text),
    # Of all the others; see `seal`.
    sa.Column("seal", sa.LargeBinary),
)


def _seal_tokens(connection: sa.Connection) -> None:
    """Version 2: tokens have seals, and there is a table of removed experiments."""
    kind = connection.dialect.type_compiler_instance.process(sa.LargeBinary())
    connection.exec_driver_sql(f"ALTER TABLE aftereffect_tokens ADD COLUMN seal {kind}")
    connection.exec_driver_sql(
        "CREATE TABLE aftereffect_removed (experiment INTEGER NOT NULL, removed_at TEXT NOT NULL, PRIMARY KEY (experiment))"
    )
    rows = connection.exec_driver_sql("SELECT id, label, scope, digest, created_at, revoked_at FROM aftereffect_tokens").all()
    for row in rows:
        # Version 1 kept nothing to check a row with: what is there is taken as it is.
        connection.execute(tokens.update().where(tokens.c.id == row[0]).values(seal=seal(*row)))


#: By version, what makes the tables of the one before into its own. Written once and never changed.
MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {2: _seal_tokens}


def version_of(connection: sa.Connection) -> int:
    """The version of the tables in a database; 0 if it has none of ours."""
    if not sa.inspect(connection).has_table(schema.name):
        return 0
    version = connection.execute(sa.select(schema.c.version)).scalar_one()
    if not isinstance(version, int) or version < 1:
        raise CorruptionError(f"the version of its tables must be a number from 1 on, got {version!r}")
    return version


def check_version(version: int) -> None:
    """Refuse tables that a later version of this library made: what they mean is not known here."""
    if version > VERSION:
        raise StorageError(
            f"its tables have version {version}, made by a newer aftereffect; this one knows up to {VERSION}: update it"
        )


def prepare(connection: sa.Connection) -> None:
    """Give a database the tables of today: all of them, or what migrations change in those of an earlier version."""
    version = version_of(connection)
    check_version(version)
    if version == 0:
        metadata.create_all(connection)
        connection.execute(schema.insert().values(version=VERSION))
    for later in range(max(version, 1) + 1, VERSION + 1) if version else ():
        MIGRATIONS[later](connection)
        connection.execute(schema.update().values(version=later))
