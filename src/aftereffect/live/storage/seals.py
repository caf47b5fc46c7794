"""Seals of tokens: a hash over the whole row, so that a row that was changed by accident opens nothing."""

import hashlib
import json


def seal(number: int, label: str, scope: str, digest: bytes, created_at: str, revoked_at: str | None) -> bytes:
    """The hash of everything that a row of the tokens holds."""
    fields = (number, label, scope, bytes(digest).hex(), created_at, revoked_at)
    return hashlib.sha256(json.dumps(fields).encode()).digest()


def is_sealed(kept: bytes | None, *fields: object) -> bool:
    """Whether that is the seal of those fields."""
    try:
        return kept == seal(*fields)  # type: ignore[arg-type]
    except TypeError:  # a flipped bit can turn text into bytes, or bytes into text
        return False
