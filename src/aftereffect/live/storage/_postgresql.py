"""Experiments in PostgreSQL: for many processes and machines."""

import sqlalchemy as sa

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live.storage._database import DatabaseStorage
from aftereffect.live.storage._schema import experiments, run

#: The advisory lock of whoever creates tables or experiments: a number that nobody else uses.
_SETUP_LOCK = 0x_AF7E_EFFE_C7

#: The time after which a server counts as unreachable, in seconds (the last one in milliseconds).
#: Parameters of the URL override these.
_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
#: The time that a statement may take, apart from waiting for a lock.
_STATEMENT_MILLISECONDS = 60_000

_ONE_MOMENT = sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
#: Schemas on the search path that have our tables but that the user may not use: PostgreSQL ignores
#: them silently.
_FORBIDDEN = sa.text("""
    SELECT n.nspname FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'aftereffect_schema' AND c.relkind = 'r'
    AND NOT has_schema_privilege(n.oid, 'USAGE')
    AND n.nspname = ANY (SELECT replace(btrim(place, ' "'), '$user', current_user)
                         FROM unnest(string_to_array(current_setting('search_path'), ',')) place)
""")
_LOCK = sa.select(experiments.c.id).where(experiments.c.id == sa.bindparam("of")).with_for_update()

#: Explanations of PostgreSQL's errors, by the beginning of their codes.
_EXPLANATIONS: dict[str, tuple[type[StorageError], str]] = {
    "53100": (
        StorageError,
        "the server's disk is full; nothing was recorded: make room and try again",
    ),
    "57014": (StorageError, "the server took too long; nothing was recorded: try again"),
    "55P03": (
        StorageError,
        "another client has been writing for too long; nothing was recorded: try again",
    ),
    "23": (StorageError, "this is already stored; nothing was recorded"),
    "25006": (StorageError, "the server accepts no writes (it may be a standby)"),
    "42501": (
        StorageError,
        "this user may not do that: grant it rights on the tables aftereffect_*",
    ),
    "XX001": (CorruptionError, "the server found damaged data: restore a backup"),
    "XX002": (CorruptionError, "the server found a damaged index: run REINDEX, then verify"),
}


class PostgresqlStorage(DatabaseStorage):
    """``postgresql+psycopg://user:password@host/database``; a writer locks the experiment's row."""

    def __init__(self, url: sa.URL, lock_timeout: float = 60.0) -> None:
        super().__init__(url, lock_timeout)
        self.single = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    def _make_engine(self, url: sa.URL) -> sa.Engine:
        # pre_ping notices a restarted server before a transaction begins.
        engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            max_overflow=-1,
            isolation_level="READ COMMITTED",
            connect_args={
                name: value for name, value in _TIMEOUTS.items() if name not in url.query
            },
        )
        sa.event.listen(engine, "connect", self._configure)
        return engine

    def _configure(self, connection: sa.engine.interfaces.DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        milliseconds = max(1, round(self.lock_timeout * 1000))
        cursor.execute(f"SET lock_timeout = {milliseconds}")
        cursor.execute(f"SET statement_timeout = {milliseconds + _STATEMENT_MILLISECONDS}")
        # An acknowledged total must be on the disk, whatever the server's default.
        cursor.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
        cursor.close()
        connection.commit()

    def _begin_reading(self, connection: sa.Connection) -> None:
        run(connection, _ONE_MOMENT, {})

    def _lock(self, connection: sa.Connection, experiment: int) -> None:
        if run(connection, _LOCK, {"of": experiment}).fetchone() is None:
            raise self._not_found(experiment)

    def _lock_all(self, connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))

    def _check_rights(self, connection: sa.Connection) -> None:
        forbidden = connection.execute(_FORBIDDEN).scalars().all()
        if forbidden:
            raise StorageError(
                f"its tables are in the schema {forbidden[0]!r}, which this user may not use: "
                f"GRANT USAGE ON SCHEMA {forbidden[0]}"
            )

    def _explain(self, error: Exception) -> StorageError:
        state = getattr(error, "sqlstate", None) or ""
        for beginning, (kind, explanation) in _EXPLANATIONS.items():
            if state.startswith(beginning):
                return kind(explanation)
        text = " ".join(str(error).split())
        if not state or state.startswith("57P"):
            return StorageError(f"the server cannot be reached, or the connection broke: {text}")
        return StorageError(text)
