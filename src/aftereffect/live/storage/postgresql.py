"""Experiments in PostgreSQL: for many processes and machines."""

import sqlalchemy as sa

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.storage.database import DatabaseStorage
from aftereffect.live.storage.schema import experiments
from aftereffect.live.storage.statements import run

#: Any number that nobody else uses: whoever makes tables or experiments holds this lock.
_SETUP_LOCK = 0x_AF7E_EFFE_C7

#: When a server that cannot be reached counts as gone, in seconds (the last: milliseconds); a URL may say otherwise.
_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: What a statement may take beside waiting for others who write.
_STATEMENT_MILLISECONDS = 60_000

_ONE_MOMENT = sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
#: Schemas on the search path that have our tables and that the user may not look into: PostgreSQL passes over them silently.
_CLOSED = sa.text("""
    SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'aftereffect_schema' AND c.relkind = 'r' AND NOT has_schema_privilege(n.oid, 'USAGE')
    AND n.nspname = ANY (SELECT replace(btrim(place, ' "'), '$user', current_user)
                         FROM unnest(string_to_array(current_setting('search_path'), ',')) place)
""")
_LOCK = sa.select(experiments.c.id).where(experiments.c.id == sa.bindparam("of")).with_for_update()

#: What PostgreSQL's errors mean, by the beginning of their codes.
_EXPLANATIONS: dict[str, tuple[type[StorageError], str]] = {
    "53100": (StorageError, "the server's disk is full: nothing of this was recorded, make room and try again"),
    "57014": (StorageError, "the server took too long: nothing of this was recorded, try again"),
    "55P03": (StorageError, "another client has been writing for too long: nothing of this was recorded, try again"),
    "23": (StorageError, "what was to be recorded is there already: nothing of this was recorded"),
    "25006": (StorageError, "the server takes no writes (a standby, perhaps)"),
    "42501": (StorageError, "this user may not do that: grant rights on the tables aftereffect_*"),
    "XX001": (CorruptionError, "the server found damaged data: restore a backup"),
    "XX002": (CorruptionError, "the server found a damaged index: REINDEX, and verify"),
}


class PostgresqlStorage(DatabaseStorage):
    """``postgresql+psycopg://user:password@host/database``: a row lock on the experiment."""

    def __init__(self, url: sa.URL, patience: float = 60.0) -> None:
        super().__init__(url, patience)
        self.single = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    def _engine(self, url: sa.URL) -> sa.Engine:
        # pre_ping: a server that was started again is noticed before a transaction, not by it.
        engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            max_overflow=-1,
            isolation_level="READ COMMITTED",
            connect_args={name: value for name, value in _TIMEOUTS.items() if name not in url.query},
        )
        sa.event.listen(engine, "connect", self._settle)
        return engine

    def _settle(self, connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        patience = max(1, round(self.patience * 1000))
        cursor.execute(f"SET lock_timeout = {patience}")
        cursor.execute(f"SET statement_timeout = {patience + _STATEMENT_MILLISECONDS}")
        # An acknowledged outcome must be on the disk, whatever the server's default.
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        cursor.close()
        connection.commit()

    def _hold_still(self, connection: sa.Connection) -> None:
        run(connection, _ONE_MOMENT, {})

    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        if run(connection, _LOCK, {"of": experiment}).fetchone() is None:
            raise self._gone(experiment)

    def _lock_all(self, connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))

    def _check_rights(self, connection: sa.Connection) -> None:
        closed = connection.execute(_CLOSED).scalars().all()
        if closed:
            raise StorageError(
                f"its tables are in the schema {closed[0]!r}, and this user may not use it: GRANT USAGE ON SCHEMA {closed[0]}"
            )

    def _explained(self, error: Exception) -> StorageError:
        state = getattr(error, "sqlstate", None) or ""
        for beginning, (kind, explanation) in _EXPLANATIONS.items():
            if state.startswith(beginning):
                return kind(explanation)
        said = " ".join(str(error).split())
        if not state or state.startswith("57P"):
            return StorageError(f"the server cannot be reached, or the connection broke: {said}")
        return StorageError(said)
