"""Access tokens in a database: each row has a seal, so a row that was changed gives no access."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa

from aftereffect.errors import CorruptionError
from aftereffect.live.storage._connections import fetch
from aftereffect.live.storage._schema import seal, tokens
from aftereffect.live.storage.contract import TokenRecord, TokenStorage

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
