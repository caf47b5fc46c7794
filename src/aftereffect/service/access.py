"""Who may do what, request by request."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from aftereffect.service.addresses import LOCAL_NAMES
from aftereffect.service.desk import Desk
from aftereffect.service.problems import RefusalError
from aftereffect.service.tokens import SCOPES, Scope, scope_of

_bearer = HTTPBearer(auto_error=False, description="A token of `aftereffect token create`.")
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def allowed(scope: Scope) -> Callable[[Request, HTTPAuthorizationCredentials | None], Desk]:
    """The desk, for who may do what takes this scope; others are refused.

    Without any token, ever, a service that only this machine can reach is open, to those who call it by a name of the machine:
    a page of another site can make its own name lead here. Tokens are looked up at every request: a revoked one is so at once.
    """

    def check(request: Request, credentials: Credentials) -> Desk:
        desk: Desk = request.app.state.desk
        if request.app.state.local and not desk.storage.has_tokens():
            if request.url.hostname not in LOCAL_NAMES:
                raise RefusalError(403, "without tokens this service is for this machine alone: call it 127.0.0.1 or localhost")
            return desk
        opened = scope_of(credentials.credentials, desk.storage) if credentials else None
        if opened is None:
            raise RefusalError(401, "this needs a token that is valid: Authorization: Bearer ...")
        if SCOPES.index(opened) < SCOPES.index(scope):
            raise RefusalError(403, f"this needs the scope {scope}, and the token has {opened}")
        return desk

    return check
