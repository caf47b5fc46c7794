"""What a request must be before anything looks at it, and what is noted about each."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aftereffect.service.metrics import Metrics
from aftereffect.service.problems import RefusalError, problem

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
        start = time.perf_counter()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                note["status"] = message["status"]
            await send(message)

        try:
            try:
                self._check(scope)
                await self._app(scope, await _received(scope, receive), noting)
            except RefusalError as refusal:
                await problem(refusal.status, refusal.message, refusal.field)(scope, receive, noting)
        finally:
            self._note(scope, note, time.perf_counter() - start)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if scope["method"] not in CHANGING:
            return
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc != host
        if foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise RefusalError(403, "pages of other origins may change nothing here")
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > LARGEST_BODY:
            raise RefusalError(413, f"a body may have {LARGEST_BODY:,} bytes at most, got {int(length):,}")
        has_body = length != "0" or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (has_body or kind) and kind != "application/json":
            raise RefusalError(415, f"the content type must be application/json, got {kind or 'none'}")

    def _note(self, scope: Scope, note: Note, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.note(note["method"], route, note["status"], seconds)
        client = scope.get("client") or ("",)
        _log.info("request", extra={"note": {**note, "ms": round(seconds * 1e3, 2), "client": client[0]}})


async def _received(scope: Scope, receive: Receive) -> Receive:
    """The body, all of it, within its limits; as if it came at once."""
    if scope["method"] not in CHANGING:
        return receive
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusalError(400, "the request ended before its body did")
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
                if sum(map(len, parts)) > LARGEST_BODY:
                    raise RefusalError(413, f"a body may have {LARGEST_BODY:,} bytes at most")
    except TimeoutError:
        raise RefusalError(408, f"the body did not come within {BODY_SECONDS:g} seconds") from None
    return _at_once(b"".join(parts), receive)


def _at_once(body: bytes, then: Receive) -> Callable[[], Awaitable[Message]]:
    sent = False

    async def received() -> Message:
        nonlocal sent
        if sent:
            return await then()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return received


class JsonLines(logging.Formatter):
    """A line of JSON for each thing that is logged; there is never a token, a query or a body in it."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage()}
        line |= getattr(record, "note", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
