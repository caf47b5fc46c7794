"""Who may do what, request by request."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live import Storage
from aftereffect.service.addresses import LOCAL_NAMES, named_host
from aftereffect.service.desk import Desk
from aftereffect.service.problems import RefusalError
from aftereffect.service.tokens import SCOPES, Scope, scope_of

_bearer = HTTPBearer(auto_error=False, description="A token of `aftereffect token create`.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
#: Headers that proxies add. Whoever comes through one comes from this machine, and may be anybody.
_OF_PROXIES = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")


def allowed(scope: Scope) -> Callable[[Request, HTTPAuthorizationCredentials | None], Awaitable[Desk]]:
    """The desk, for who may do what takes this scope; others are refused.

    Without any token, ever, a service that only this machine can reach is open, to those who call it by a name of the machine:
    a page of another site can make its own name lead here. Tokens are looked up at every request: a revoked one is so at once.
    """

    async def check(request: Request, credentials: Credentials) -> Desk:
        desk: Desk = request.app.state.desk
        token, local = credentials.credentials if credentials else None, request.app.state.local
        opened, is_open = await desk.pools["access"].run(lambda: _looked_up(desk.storage, token, local=local))
        if is_open:
            _check_local(request)
        elif opened is None:
            raise RefusalError(401, "this needs a token that is valid: Authorization: Bearer ...")
        elif SCOPES.index(opened) < SCOPES.index(scope):
            raise RefusalError(403, f"this needs the scope {scope}, and the token has {opened}")
        return desk

    return check


def _looked_up(storage: Storage, token: str | None, *, local: bool) -> tuple[Scope | None, bool]:
    """What a token opens, and whether the service is open to who has none."""
    try:
        opened = scope_of(token, storage) if token else None
        return opened, opened is None and local and not storage.has_tokens()
    except StorageError as error:  # nobody has shown a token yet, so nobody is told what is wrong
        message = "the storage cannot be reached or read: try again; the log of the service says why"
        status = 500 if isinstance(error, CorruptionError) else 503
        raise RefusalError(status, message, reason=" ".join(str(error).split())) from None


def _check_local(request: Request) -> None:
    """Refuse, as long as the service is open, what may not come from this machine."""
    if named_host(request.headers.getlist("host")) not in LOCAL_NAMES:
        raise RefusalError(403, "without tokens this service is for this machine alone: call it 127.0.0.1 or localhost")
    if any(name in request.headers for name in _OF_PROXIES):
        raise RefusalError(403, "a proxy is in front of this service, which is open as it has no token: make one first")
