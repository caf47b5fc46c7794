"""The tables of a database: columns, migrations, how statements are run; and their rows.

Rows are the log of one experiment in a transaction, and access tokens. Each token has a seal, so a
row that was changed gives no access.
"""

import hashlib
import json
import threading
from abc import abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.events import Event, EventKind, Snapshot, hash_event, is_intact
from aftereffect.live.storage.contract import Log, TokenRecord, TokenStorage

#: The version of the tables below.
VERSION = 11

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
    sa.Column("units", sa.Text),
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
        ("probabilities", "covariates", "guardrails", "units")
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


def _note_replaced_totals(connection: sa.Connection) -> None:
    """Version 9: totals may be replaced after policies that learn from rounds have learned them.

    Settings may say when totals are final, and there are events for batches of totals and
    for notices of hooks. The tables stay as they are. The new version keeps older code away, which
    would count totals twice.
    """


def _note_arm_changes(connection: sa.Connection) -> None:
    """Version 10: arms may come and go, and snapshots say which there are.

    The tables stay as they are. The new version keeps older code away, which does not know the
    events of arms.
    """
    connection.execute(experiments.update().values(snapshot=None, snapshot_digest=None))


def _add_units(connection: sa.Connection) -> None:
    """Version 11: events may be about several units, and settings may name them."""
    connection.exec_driver_sql("ALTER TABLE aftereffect_events ADD COLUMN units TEXT")


#: What makes each version from the one before. A migration never changes once it is released.
MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {
    2: _seal_tokens,
    3: _rename_totals,
    4: _add_probabilities,
    5: _add_covariates,
    6: _drop_snapshots,
    7: _add_guardrails,
    8: _note_plans,
    9: _note_replaced_totals,
    10: _note_arm_changes,
    11: _add_units,
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
        return
    for later in range(version + 1, VERSION + 1):
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


#: The number of experiments whose keys are remembered; the keys of others are read again.
_MAX_EXPERIMENTS = 256

#: The columns of an event, in the order of its fields.
_FIELDS = [events.c[name] for name in Event._fields]
_before = events.alias()
_of_experiment = events.c.experiment == sa.bindparam("of")

_SNAPSHOT = sa.select(experiments.c.snapshot, experiments.c.snapshot_digest).where(
    experiments.c.id == sa.bindparam("of")
)
_EVENTS = (
    sa.select(*_FIELDS)
    .where(_of_experiment, events.c.seq > sa.bindparam("after"))
    .order_by(events.c.seq)
    .limit(sa.bindparam("most"))
)
_LAST_EVENT = sa.select(*_FIELDS).where(_of_experiment).order_by(events.c.seq.desc()).limit(1)
_WITH_HASH_BEFORE = (
    sa.select(*_FIELDS, _before.c.hash)
    .outerjoin(
        _before, (_before.c.experiment == events.c.experiment) & (_before.c.seq == events.c.seq - 1)
    )
    .where(_of_experiment)
    .order_by(events.c.seq)
)
_ABOUT = _WITH_HASH_BEFORE.where(
    events.c.slot >= sa.bindparam("first"), events.c.slot < sa.bindparam("stop")
)
_KEYED = _WITH_HASH_BEFORE.where(events.c.key == sa.bindparam("key"))
#: Written so that no index of keys can serve it: it must read the table itself.
_ALL_KEYED = (
    sa.select(events.c.seq, events.c.key, events.c.hash)
    .where(
        _of_experiment,
        events.c.seq >= sa.bindparam("first"),
        sa.func.length(events.c.key) > 0,
    )
    .order_by(events.c.seq)
)
_APPEND = events.insert()
_SAVE = (
    experiments.update()
    .where(experiments.c.id == sa.bindparam("of"))
    .values({name: sa.bindparam(name) for name in ("snapshot", "snapshot_digest")})
)
#: In the order that the foreign key allows.
_REMOVALS = (
    events.delete().where(_of_experiment),
    experiments.delete().where(experiments.c.id == sa.bindparam("of")),
)
_NOTE_REMOVAL = removed.insert()


class _Keys:
    """The keys of one experiment up to an event, as 8-byte hashes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Begin again."""
        self.seq, self.hash = 0, b""
        self.hashes = array("q")

    def add(self, rows: Sequence[tuple[int, str, bytes]]) -> None:
        """Add the keys of further events."""
        self.hashes.extend(hash(key) for _, key, _ in rows)
        if rows:
            self.seq, _, self.hash = rows[-1]


class KnownKeys:
    """The keys of the latest experiments, to check the index that finds them.

    With a damaged index a key would not be found, and its slot decided twice. So the keys are also
    read from the table of events: once, and later only those that were added since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._experiments: OrderedDict[int, _Keys] = OrderedDict()

    def may_have(
        self, experiment: int, key: str, read: Callable[[int], Sequence[tuple[int, str, bytes]]]
    ) -> bool:
        """Whether an experiment has a key; by mistake true for one in 2**64 other keys.

        Parameters
        ----------
        experiment
            The id of the experiment.
        key
            The key to look for.
        read
            Reads number, key and hash of all events that have a key, in order, from a number on.
        """
        with self._lock:
            known = self._experiments.setdefault(experiment, _Keys())
            self._experiments.move_to_end(experiment)
            while len(self._experiments) > _MAX_EXPERIMENTS:
                self._experiments.popitem(last=False)
        with known.lock:
            rows = read(known.seq)
            if known.seq and (not rows or (rows[0][0], rows[0][2]) != (known.seq, known.hash)):
                known.forget()  # another log: after a failed transaction, or a restored backup
                rows = read(0)
            known.add(rows[1:] if known.seq else rows)
            return bool(np.any(np.frombuffer(known.hashes, dtype=np.int64) == hash(key)))


class DatabaseLog(Log):
    """One experiment in a transaction."""

    def __init__(self, connection: sa.Connection, experiment: int, keys: KnownKeys) -> None:
        self._connection = connection
        self._experiment = experiment
        self._keys = keys

    def snapshot(self) -> Snapshot | None:
        text, digest = self._rows(_SNAPSHOT)[0]
        return None if text is None and digest is None else Snapshot(text, digest)

    def events(self, after: int, limit: int) -> Sequence[Event]:
        return [Event(*row) for row in self._rows(_EVENTS, after=after, most=limit)]

    def last_event(self) -> Event | None:
        return next((Event(*row) for row in self._rows(_LAST_EVENT)), None)

    def slot_events(self, first: int, stop: int) -> Sequence[tuple[Event, bytes | None]]:
        return [(Event(*row[:-1]), row[-1]) for row in self._rows(_ABOUT, first=first, stop=stop)]

    def find_by_key(self, key: str) -> tuple[Event, bytes | None] | None:
        for row in self._rows(_KEYED, key=key):
            return Event(*row[:-1]), row[-1]
        if self._keys.may_have(self._experiment, key, self._read_keys):
            for seq, other, _ in self._read_keys(0):
                if other == key:
                    raise CorruptionError(
                        f"event {seq} of the log has the key {key!r}, "
                        "but the index of keys does not find it"
                    )
        return None

    def append(self, event: Event) -> None:
        run(self._connection, _APPEND, {"experiment": self._experiment, **event._asdict()})

    def save(self, snapshot: Snapshot) -> None:
        given = {"snapshot": snapshot.text, "snapshot_digest": snapshot.digest}
        run(self._connection, _SAVE, {"of": self._experiment, **given})

    def remove(self, removed_at: str) -> None:
        for statement in _REMOVALS:
            run(self._connection, statement, {"of": self._experiment})
        given = {"experiment": self._experiment, "removed_at": removed_at}
        run(self._connection, _NOTE_REMOVAL, given)

    def _read_keys(self, first: int) -> Sequence[tuple[int, str, bytes]]:
        return cast(Sequence[tuple[int, str, bytes]], self._rows(_ALL_KEYED, first=first))

    def _rows(self, query: sa.Executable, **given: object) -> Sequence[Sequence[Any]]:
        return fetch(self._connection, query, {"of": self._experiment, **given})


_TOKENS = sa.select(*(tokens.c[name] for name in TokenRecord._fields), tokens.c.seal).order_by(
    tokens.c.id
)
_TOKEN = _TOKENS.where(tokens.c.digest == sa.bindparam("digest"))
_TOKEN_BY_ID = _TOKENS.where(tokens.c.id == sa.bindparam("token"))
_ANY_TOKEN = sa.select(tokens.c.id).limit(1)


class DatabaseTokens(TokenStorage):
    """The tokens in a table of a database."""

    @abstractmethod
    def _changing(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that may change the table."""

    @abstractmethod
    def _rows(
        self, query: sa.Select[Any], given: Mapping[str, object] | None = None
    ) -> Sequence[Sequence[Any]]:
        """The rows of a query; none where there are no tables yet."""

    def add_token(self, label: str, scope: str, created_at: str, digest: bytes) -> TokenRecord:
        with self._changing() as connection:
            given = {"label": label, "scope": scope, "created_at": created_at, "digest": digest}
            connection.execute(tokens.insert(), given)
            return _set_seal(connection, connection.execute(_TOKEN, {"digest": digest}).one())

    def tokens(self) -> list[TokenRecord]:
        return [_check_row(row) for row in self._rows(_TOKENS)]

    def token(self, digest: bytes) -> TokenRecord | None:
        found = self._rows(_TOKEN, {"digest": digest})
        return _check_row(found[0]) if found else None

    def has_tokens(self) -> bool:
        return bool(self._rows(_ANY_TOKEN))

    def revoke_token(self, token: int, revoked_at: str) -> TokenRecord | None:
        with self._changing() as connection:
            valid = (tokens.c.id == token) & tokens.c.revoked_at.is_(None)
            connection.execute(tokens.update().where(valid).values(revoked_at=revoked_at))
            found = fetch(connection, _TOKEN_BY_ID, {"token": token})
            # A damaged token gets a new seal, too: revoked, it gives no access whatever it says.
            return _set_seal(connection, found[0]) if found else None

    def examine(self) -> list[str]:
        """The damaged tokens."""
        return [str(damage) for damage in map(_find_damage, self._rows(_TOKENS)) if damage]


def _find_damage(row: Sequence[Any]) -> CorruptionError | None:
    """What is wrong with a row, whose last cell is the seal; None if it is as it was recorded."""
    try:
        intact = row[-1] == seal(*row[:-1])
    except (TypeError, AttributeError):  # a flipped bit can turn text into bytes, and back
        intact = False
    if intact:
        return None
    return CorruptionError(
        f"token {row[0]} is not what was recorded and gives no access: revoke it and create another"
    )


def _check_row(row: Sequence[Any]) -> TokenRecord:
    damage = _find_damage(row)
    if damage is not None:
        raise damage
    return TokenRecord(*row[:-1])


def _set_seal(connection: sa.Connection, row: Sequence[Any]) -> TokenRecord:
    """Give a row a seal, and its cells the right types where damage has changed them."""
    given = TokenRecord(*row[:-1])
    record = given._replace(
        label=_as_text(given.label),
        scope=_as_text(given.scope),
        digest=given.digest if isinstance(given.digest, bytes) else _as_text(given.digest).encode(),
        created_at=_as_text(given.created_at),
        revoked_at=None if given.revoked_at is None else _as_text(given.revoked_at),
    )
    values = {**record._asdict(), "seal": seal(*record)}
    connection.execute(tokens.update().where(tokens.c.id == record.id).values(values))
    return record


def _as_text(cell: object) -> str:
    return str(cell).encode("utf-8", "replace").decode()
