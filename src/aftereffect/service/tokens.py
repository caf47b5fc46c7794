"""Tokens: who may do what. A token is shown once, when it is made; the storage keeps a digest of it."""

import hashlib
import secrets
from typing import Literal, get_args

from aftereffect.checks import shown
from aftereffect.errors import NotFoundError, ParameterError
from aftereffect.live.events import now
from aftereffect.live.storage import Storage, TokenRecord

#: Each includes those before it: look; ask and tell; begin and end experiments.
Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_BEGINNING = "ae_"
_LONGEST_LABEL = 100


def create_token(storage: Storage, scope: Scope, label: str = "") -> tuple[str, TokenRecord]:
    """A new token, and what is kept of it."""
    if scope not in SCOPES:
        raise ParameterError(f"a scope is one of {', '.join(SCOPES)}, got {shown(scope)}")
    if not isinstance(label, str) or len(label) > _LONGEST_LABEL or not label.isprintable():
        raise ParameterError(f"a label must be at most {_LONGEST_LABEL} printable characters, got {shown(label)}")
    token = _BEGINNING + secrets.token_urlsafe(32)
    return token, storage.add_token(label, scope, now(), _digest(token))


def revoke_token(storage: Storage, number: int) -> TokenRecord:
    """End a token, for good."""
    revoked = storage.revoke_token(number, now())
    if revoked is None:
        raise NotFoundError(f"there is no token {number} in {storage.url}")
    return revoked


def scope_of(token: str, storage: Storage) -> Scope | None:
    """What a token opens; None if there is none like it, or it was revoked.

    It is looked up by its digest: how long that takes says nothing about the token itself.
    """
    record = storage.token(_digest(token))
    if record is None or record.revoked_at is not None:
        return None
    return next((scope for scope in SCOPES if scope == record.scope), None)


def _digest(token: str) -> bytes:
    # Tokens are 256 random bits, so that nobody can try them all out: a plain hash is enough.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
