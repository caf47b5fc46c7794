"""Live experiments over HTTP: the service, its access tokens and its web page.

Serving needs the extra ``service``, and its libraries are loaded only when something that serves is
named. Constants and tokens are here at once. A token is shown once, when it is created; the storage
has only its digest.

>>> from aftereffect.service import DEFAULT_PORT, create_token
>>> from aftereffect.live import open_storage
>>> with open_storage("memory://") as storage:
...     token, record = create_token(storage, "read", "dashboard")
>>> DEFAULT_PORT, token[:3], record.scope
(8750, 'ae_', 'read')
"""

import hashlib
import secrets
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from aftereffect._core import short_repr
from aftereffect.errors import NotFoundError, ParameterError
from aftereffect.live import Storage, TokenRecord, now

if TYPE_CHECKING:
    from aftereffect.service._server import address_of, serve_until_stopped, server_for
    from aftereffect.service._worker import Worker

__all__ = [
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "SCOPES",
    "Scope",
    "Worker",
    "address_of",
    "create_token",
    "find_scope",
    "revoke_token",
    "serve_until_stopped",
    "server_for",
]


DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8750

#: The modules of the names that need more than the standard library and `live`.
_LAZY = {
    "Worker": "_worker",
    "address_of": "_server",
    "serve_until_stopped": "_server",
    "server_for": "_server",
}


def __getattr__(name: str) -> Any:
    """Load the module of a name when the name is used."""
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


#: Each scope includes those before it. read: look. write: ask and tell. admin: create, end, delete.
Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
_PREFIX = "ae_"
_MAX_LABEL = 100


def create_token(storage: Storage, scope: Scope, label: str = "") -> tuple[str, TokenRecord]:
    """Create a token; returns the token itself, and its record in the storage.

    Examples
    --------
    >>> from aftereffect.live import open_storage
    >>> token, record = create_token(open_storage("memory://"), "write", "shop")
    >>> record.id, record.scope, record.label
    (1, 'write', 'shop')
    """
    if scope not in SCOPES:
        raise ParameterError(f"scope must be one of {', '.join(SCOPES)}, got {short_repr(scope)}")
    if not isinstance(label, str) or len(label) > _MAX_LABEL or not label.isprintable():
        raise ParameterError(
            f"label must be at most {_MAX_LABEL} printable characters, got {short_repr(label)}"
        )
    token = _PREFIX + secrets.token_urlsafe(32)
    return token, storage.add_token(label, scope, now(), _digest(token))


def revoke_token(storage: Storage, number: int) -> TokenRecord:
    """Revoke a token for good.

    Examples
    --------
    >>> from aftereffect.live import open_storage
    >>> storage = open_storage("memory://")
    >>> token, record = create_token(storage, "read")
    >>> revoke_token(storage, record.id).revoked_at is None, find_scope(token, storage)
    (False, None)
    """
    revoked = storage.revoke_token(number, now())
    if revoked is None:
        raise NotFoundError(f"there is no token {number} in {storage.url}")
    return revoked


def find_scope(token: str, storage: Storage) -> Scope | None:
    """The scope of a token; None if the storage does not know the token, or it was revoked.

    The token is looked up by its digest. The time that takes may reveal something about stored
    digests, but a digest reveals nothing about its token.

    Examples
    --------
    >>> from aftereffect.live import open_storage
    >>> storage = open_storage("memory://")
    >>> find_scope(create_token(storage, "admin")[0], storage), find_scope("ae_wrong", storage)
    ('admin', None)
    """
    record = storage.token(_digest(token))
    if record is None or record.revoked_at is not None:
        return None
    return next((scope for scope in SCOPES if scope == record.scope), None)


def _digest(token: str) -> bytes:
    # A token has 256 random bits, too many to try out: a plain hash is enough.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
