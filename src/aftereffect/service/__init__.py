"""Live experiments over HTTP: the service, its access tokens and its web page.

Serving needs the extra ``service``, and its libraries are loaded only when something that serves is
named. Constants and tokens are here at once.

>>> from aftereffect.service import DEFAULT_PORT, create_token
>>> from aftereffect.live import open_storage
>>> with open_storage("memory://") as storage:
...     token, record = create_token(storage, "read", "dashboard")
>>> DEFAULT_PORT, token[:3], record.scope
(8750, 'ae_', 'read')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aftereffect.service._tokens import SCOPES, Scope, create_token, find_scope, revoke_token

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

#: Where names are that load more than the standard library and `live`.
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
