"""Seals of tokens: a hash over the whole row, so that a row that was changed by accident opens nothing."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from aftereffect.errors import CorruptionError
from aftereffect.live.storage.base import TokenRecord


def seal(number: int, label: str, scope: str, digest: bytes, created_at: str, revoked_at: str | None) -> bytes:
    """The hash of everything that a row of the tokens holds."""
    fields = (number, label, scope, digest.hex(), created_at, revoked_at)
    return hashlib.sha256(json.dumps(fields).encode()).digest()


def damage_of(row: Sequence[Any]) -> CorruptionError | None:
    """What is wrong with a row, of which the last cell is the seal; None if it is as it was recorded."""
    try:
        whole = row[-1] == seal(*row[:-1])
    except (TypeError, AttributeError):  # a flipped bit can turn text into bytes, or bytes into text
        whole = False
    if whole:
        return None
    return CorruptionError(f"token {row[0]} is not what was recorded and opens nothing: revoke it and make another")


def proved(row: Sequence[Any]) -> TokenRecord:
    """The token of a row, if it is as it was recorded."""
    damage = damage_of(row)
    if damage is not None:
        raise damage
    return TokenRecord(*row[:-1])


def mended(row: Sequence[Any]) -> TokenRecord:
    """The token of a row as far as it can be read, in types that can be kept."""
    given = TokenRecord(*row[:-1])
    return given._replace(
        label=_text(given.label),
        scope=_text(given.scope),
        digest=given.digest if isinstance(given.digest, bytes) else _text(given.digest).encode(),
        created_at=_text(given.created_at),
        revoked_at=None if given.revoked_at is None else _text(given.revoked_at),
    )


def _text(cell: object) -> str:
    return str(cell).encode("utf-8", "replace").decode()
