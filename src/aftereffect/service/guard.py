"""What a request must be before anything looks at it, and what is noted about each."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aftereffect.checks import shown
from aftereffect.service.addresses import named_host
from aftereffect.service.metrics import Metrics
from aftereffect.service.problems import REASON, RefusalError, problem

LARGEST_BODY = 1 << 20
BODY_SECONDS = 10.0
CHANGING = ("POST", "PUT", "PATCH", "DELETE")

_log = logging.getLogger("aftereffect.service")
Note: TypeAlias = MutableMapping[str, Any]


class Guard:
    """Refuses bodies that are too large, too slow or of another kind, and what pages of other sites send; notes the rest.

    There are no cookies here, so that another site's page has nothing to borrow; but a service may be open to this machine.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note: Note = {"method": scope["method"], "path": scope["path"], "status": 499}
        if scope["method"] == "HEAD":  # as GET, and the server leaves the body out
            scope = {**scope, "method": "GET"}
        start, answered = time.perf_counter(), False

        async def noting(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                note["status"], answered = message["status"], True
                headers = MutableHeaders(scope=message)
                headers.setdefault("X-Content-Type-Options", "nosniff")
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            try:
                _check(scope)
                await self._app(scope, await _received(scope, receive), noting)
            except RefusalError as refusal:
                scope[REASON] = refusal.reason
                await problem(refusal.status, refusal.message, refusal.field)(scope, receive, noting)
            except Exception:
                _log.exception("a request failed")
                if not answered:
                    await problem(500, "the service failed: its log says how")(scope, receive, noting)
        finally:
            self._note(scope, note, time.perf_counter() - start)

    def _note(self, scope: Scope, note: Note, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.note(note["method"], route, note["status"], seconds)
        client = scope.get("client") or ("",)
        level = logging.INFO if note["status"] < 500 else logging.WARNING if note["status"] == 503 else logging.ERROR
        if level > logging.INFO and REASON in scope:
            note["reason"] = scope[REASON]
        _log.log(level, "request", extra={"note": {**note, "ms": round(seconds * 1e3, 2), "client": client[0]}})


def _check(scope: Scope) -> None:
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if named_host(hosts) is None and (hosts or scope["http_version"] != "1.0"):
        raise RefusalError(400, f"a request must have one Host header with a name, got {shown(hosts) if hosts else 'none'}")
    if scope["method"] not in CHANGING:
        return
    origin = headers.get("origin")
    foreign = origin is not None and _place(origin) != hosts[0].lower() if hosts else origin is not None
    if foreign or headers.get("sec-fetch-site", "").strip().lower() in ("cross-site", "same-site"):
        raise RefusalError(403, "pages of other origins may change nothing here")
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise RefusalError(413, f"a body may have {LARGEST_BODY:,} bytes at most, got {int(length):,}")
    has_body = length != "0" or "transfer-encoding" in headers
    kind, _, further = headers.get("content-type", "").partition(";")
    if (has_body or kind) and kind.strip().lower() != "application/json":
        raise RefusalError(415, f"the content type must be application/json, got {kind.strip().lower() or 'none'}")
    if "charset" in further.lower() and "utf-8" not in further.lower():
        raise RefusalError(415, "a body must be written in UTF-8")


def _place(origin: str) -> str:
    """Host and port of an origin; nothing that a host is called where there is none to be read."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def _received(scope: Scope, receive: Receive) -> Receive:
    """The body, all of it, within its limits; as if it came at once."""
    if scope["method"] not in CHANGING:
        return receive
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusalError(400, "the request ended before its body did")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > LARGEST_BODY:
                    raise RefusalError(413, f"a body may have {LARGEST_BODY:,} bytes at most")
    except TimeoutError:
        raise RefusalError(408, f"the body did not come within {BODY_SECONDS:g} seconds") from None
    if b"\0" in body:  # there is none in JSON; in UTF-16 and UTF-32 there are many, and Python's reader would take those too
        raise RefusalError(400, "a body must be JSON written in UTF-8")
    return _at_once(bytes(body), receive)


def _at_once(body: bytes, then: Receive) -> Callable[[], Awaitable[Message]]:
    sent = False

    async def received() -> Message:
        nonlocal sent
        if sent:
            return await then()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received
