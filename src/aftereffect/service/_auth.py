"""Access control: which request may do what."""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live import Storage
from aftereffect.service import SCOPES, Scope, find_scope
from aftereffect.service._errors import RefusalError
from aftereffect.service._experiments import OpenExperiments

#: The names of this machine, for itself.
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
#: Headers that proxies add. A request through a proxy comes from this machine, whoever sent it.
_PROXY_HEADERS = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)
#: A name or an IPv4 address, or an IPv6 address in brackets; then perhaps a port.
_HOST = re.compile(
    r"(?:(?P<name>[A-Za-z0-9._-]{1,255})|\[(?P<address>[0-9A-Fa-f:.]{2,45})\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)

_bearer = HTTPBearer(
    auto_error=False, description="A token from `aftereffect token create`, as a bearer token."
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def require_scope(
    scope: Scope,
) -> Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[OpenExperiments]]:
    """A dependency that requires this scope and returns the open experiments.

    As long as no token was ever created, a service that only this machine can reach is open, but
    only to requests that call it by a local name: a page of another site can make its own host name
    resolve to this machine. Tokens are looked up at every request, so a revocation takes effect
    immediately.
    """

    async def check(request: Request, credentials: Credentials) -> OpenExperiments:
        experiments: OpenExperiments = request.app.state.experiments
        token, local = credentials.credentials if credentials else None, request.app.state.local
        found, is_open = await experiments.pools["access"].run(
            lambda: _look_up(experiments.storage, token, local=local)
        )
        if is_open:
            _check_local(request)
        elif found is None:
            raise RefusalError(401, "a valid token is needed: send Authorization: Bearer TOKEN")
        elif SCOPES.index(found) < SCOPES.index(scope):
            raise RefusalError(403, f"this needs the scope {scope}, the token has {found}")
        return experiments

    return check


ReadAccess = Annotated[OpenExperiments, Depends(require_scope("read"))]
WriteAccess = Annotated[OpenExperiments, Depends(require_scope("write"))]
AdminAccess = Annotated[OpenExperiments, Depends(require_scope("admin"))]


def _look_up(storage: Storage, token: str | None, *, local: bool) -> tuple[Scope | None, bool]:
    """The scope of a token, and whether the service is open to requests without one."""
    try:
        scope = find_scope(token, storage) if token else None
        return scope, scope is None and local and not storage.has_tokens()
    except StorageError as error:  # not authenticated yet, so the answer has no details
        message = (
            "the storage cannot be reached or read: try again; the service's log has the reason"
        )
        status = 500 if isinstance(error, CorruptionError) else 503
        raise RefusalError(status, message, reason=" ".join(str(error).split())) from None


def _check_local(request: Request) -> None:
    """While the service is open, refuse requests that may not come from this machine."""
    if read_host(request.headers.getlist("host")) not in LOCAL_NAMES:
        raise RefusalError(
            403,
            "without tokens the service answers this machine only: use 127.0.0.1 or localhost",
        )
    if any(name in request.headers for name in _PROXY_HEADERS):
        raise RefusalError(
            403,
            "without tokens the service refuses requests through a proxy: create a token first",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


def read_host(headers: Sequence[str]) -> str | None:
    """The host that the Host headers of a request name, in lower case and without its port.

    None unless there is exactly one header and it is well formed.
    """
    found = _HOST.fullmatch(headers[0]) if len(headers) == 1 else None
    return (found["name"] or found["address"]).lower() if found else None
