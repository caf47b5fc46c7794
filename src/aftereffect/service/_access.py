"""Access: checks that every request passes before the routes see it, and which may do what."""

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette import types as asgi
from starlette.datastructures import Headers, MutableHeaders

from aftereffect._core import short_repr
from aftereffect.errors import CorruptionError, StorageError
from aftereffect.live import Storage
from aftereffect.service import SCOPES, Scope, find_scope
from aftereffect.service._errors import (
    REASON,
    RefusalError,
    error_response,
    refuse_for_storage,
)
from aftereffect.service._experiments import OpenExperiments
from aftereffect.service._monitoring import Metrics

MAX_BODY = 1 << 20
BODY_SECONDS = 10.0
CHANGING_METHODS = ("POST", "PUT", "PATCH", "DELETE")
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

_log = logging.getLogger("aftereffect.service")
Note: TypeAlias = MutableMapping[str, Any]
_bearer = HTTPBearer(
    auto_error=False, description="A token from `aftereffect token create`, as a bearer token."
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


class Guard:
    """Refuses bodies that are too large, too slow or not JSON, and cross-origin changes.

    The service uses no cookies, so a page of another site has no credentials to misuse. But a
    service without tokens is open to this machine, and with it to every page that its browser
    shows.
    """

    def __init__(self, app: asgi.ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note: Note = {"method": scope["method"], "path": scope["path"], "status": 499}
        if scope["method"] == "HEAD":  # handled as GET; the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, answered = time.perf_counter(), False

        async def send_noted(message: asgi.Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                note["status"], answered = message["status"], True
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            try:
                _check_headers(scope)
                await self._app(scope, await _read_body(scope, receive), send_noted)
            except RefusalError as refusal:
                scope[REASON] = refusal.reason
                response = error_response(refusal.status, refusal.message, refusal.field)
                await response(scope, receive, send_noted)
            except Exception:
                _log.exception("a request failed")
                if not answered:
                    response = error_response(500, "the service failed: see its log")
                    await response(scope, receive, send_noted)
        finally:
            self._log_request(scope, note, time.perf_counter() - start)

    def _log_request(self, scope: asgi.Scope, note: Note, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.count_request(note["method"], route, note["status"], seconds)
        client = scope.get("client") or ("",)
        level = (
            logging.INFO
            if note["status"] < 500
            else logging.WARNING
            if note["status"] == 503
            else logging.ERROR
        )
        if level > logging.INFO and REASON in scope:
            note["reason"] = scope[REASON]
        _log.log(
            level,
            "request",
            extra={"note": {**note, "ms": round(seconds * 1e3, 2), "client": client[0]}},
        )


def _check_headers(scope: asgi.Scope) -> None:
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if read_host(hosts) is None and (hosts or scope["http_version"] != "1.0"):
        raise RefusalError(
            400,
            "a request needs one Host header with a valid name, "
            f"got {short_repr(hosts) if hosts else 'none'}",
        )
    if scope["method"] not in CHANGING_METHODS:
        return
    origin = headers.get("origin")
    foreign = origin is not None and (not hosts or _host_of(origin) != hosts[0].lower())
    if foreign or headers.get("sec-fetch-site", "").strip().lower() in ("cross-site", "same-site"):
        raise RefusalError(403, "cross-origin requests may not change data")
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY:
        raise RefusalError(413, f"a body may have {MAX_BODY:,} bytes at most, got {int(length):,}")
    has_body = length != "0" or "transfer-encoding" in headers
    kind, _, further = headers.get("content-type", "").partition(";")
    if (has_body or kind) and kind.strip().lower() != "application/json":
        raise RefusalError(
            415, f"the content type must be application/json, got {kind.strip().lower() or 'none'}"
        )
    if "charset" in further.lower() and "utf-8" not in further.lower():
        raise RefusalError(415, "a body must be encoded in UTF-8")


def _host_of(origin: str) -> str:
    """Host and port of an origin; an empty text, which is never a host, if it cannot be read."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def _read_body(scope: asgi.Scope, receive: asgi.Receive) -> asgi.Receive:
    """Read the whole body within its limits; returns a `receive` that gives it in one piece."""
    if scope["method"] not in CHANGING_METHODS:
        return receive
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusalError(400, "the connection was closed before the body was sent")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MAX_BODY:
                    raise RefusalError(413, f"a body may have {MAX_BODY:,} bytes at most")
    except TimeoutError:
        raise RefusalError(
            408, f"the body did not arrive within {BODY_SECONDS:g} seconds"
        ) from None
    # JSON in UTF-8 has no zero byte. UTF-16 and UTF-32 have many, and Python's parser accepts both.
    if b"\0" in body:
        raise RefusalError(400, "a body must be JSON encoded in UTF-8")
    return _receive_once(bytes(body), receive)


def _receive_once(body: bytes, then: asgi.Receive) -> Callable[[], Awaitable[asgi.Message]]:
    is_sent = False

    async def receive() -> asgi.Message:
        nonlocal is_sent
        if is_sent:
            return await then()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


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
        status = 500 if isinstance(error, CorruptionError) else 503
        raise refuse_for_storage(status, error) from None


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
