"""Checks that every request passes before the routes see it, and a log line about each."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aftereffect._core import short_repr
from aftereffect.service._auth import read_host
from aftereffect.service._errors import REASON, RefusalError, error_response
from aftereffect.service._monitoring import Metrics

MAX_BODY = 1 << 20
BODY_SECONDS = 10.0
CHANGING_METHODS = ("POST", "PUT", "PATCH", "DELETE")

_log = logging.getLogger("aftereffect.service")
Note: TypeAlias = MutableMapping[str, Any]


class Guard:
    """Refuses bodies that are too large, too slow or not JSON, and cross-origin changes.

    The service uses no cookies, so a page of another site has no credentials to misuse. But a
    service without tokens is open to this machine, and with it to every page that its browser
    shows.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note: Note = {"method": scope["method"], "path": scope["path"], "status": 499}
        if scope["method"] == "HEAD":  # handled as GET; the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, answered = time.perf_counter(), False

        async def send_noted(message: Message) -> None:
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

    def _log_request(self, scope: Scope, note: Note, seconds: float) -> None:
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


def _check_headers(scope: Scope) -> None:
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


async def _read_body(scope: Scope, receive: Receive) -> Receive:
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


def _receive_once(body: bytes, then: Receive) -> Callable[[], Awaitable[Message]]:
    is_sent = False

    async def receive() -> Message:
        nonlocal is_sent
        if is_sent:
            return await then()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
