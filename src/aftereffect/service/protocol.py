"""Requests up to the end of their headers: how large they may be, and how long they may take.

Neither uvicorn nor its parser has limits for these. Who goes beyond them is answered and cut off, before anything looks at a
token; what has come by then is a few hundred kilobytes at most.
"""

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from aftereffect.service.connections import Connections

#: Bytes of a request's address and headers together, bytes of the address, and how many headers there may be.
MAX_HEAD, MAX_URL, MAX_HEADERS = 32 << 10, 8 << 10, 100
#: Bytes that have come and are neither part of a body nor of a head that is whole; the parser copies them again and again.
MAX_PENDING = 256 << 10
#: Seconds from the beginning of a connection, or from the first byte of a later request, to the end of the headers.
HEAD_SECONDS = 10.0
#: Seconds that who is refused has to read why, and bytes that it may still send meanwhile; they are thrown away.
_LINGER_SECONDS, _MAX_LINGER = 0.5, 4 << 20


class RefusedHeadError(Exception):
    """Ends the parsing of a request that was refused."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection within these limits."""

    #: Those of the service; set by `protocol_for`.
    all_connections: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects."""
        super().connection_made(transport)
        self._pending = 0
        self._in_head, self._refused = False, False
        self._timer: asyncio.TimerHandle | None = None
        if self.all_connections.add(self, self.client[0] if self.client else ""):
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_head)
        else:
            self._refuse(503, "too many connections: try again in a moment")
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed, by whomever."""
        self._stop_timer()
        self.all_connections.remove(self)
        super().connection_lost(exc)

    def leave(self) -> None:
        """Close it for somebody else."""
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        if self._refused:
            self._pending += len(data)
            if self._pending > MAX_PENDING + _MAX_LINGER:
                self.transport.close()
        if self._refused or self.transport.is_closing():
            return
        if self._pending > MAX_PENDING:
            self._refuse_large()
            return
        self._pending += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._pending, self._in_head, self._size = 0, True, 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_head)

    def on_url(self, url: bytes) -> None:
        """Some of its address."""
        super().on_url(url)
        self._size += len(url)
        if len(self.url) > MAX_URL:
            self._refuse(414, f"an address may have {MAX_URL:,} bytes at most")
            raise RefusedHeadError

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers, or one that follows the body."""
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD or len(self.headers) >= MAX_HEADERS:
            self._refuse_large()
            raise RefusedHeadError
        if self._in_head:  # what follows a body is no header, whatever it is called
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its headers are there: somebody will answer it."""
        self._stop_timer()
        self._pending, self._in_head = 0, False
        self.all_connections.note_answering(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        self._pending = max(0, self._pending - len(body))
        super().on_body(body)

    def on_response_complete(self) -> None:
        """It is answered."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self.all_connections.note_waiting(self)

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read, unless it was answered."""
        if not self._refused:
            self._refuse(400, "this is no HTTP request that can be read")

    def _end_head(self) -> None:
        self._timer = None
        if self._answering():  # the next request has begun to come before this one was answered
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_head)
        elif self._in_head:
            self._refuse(408, f"the headers did not come within {HEAD_SECONDS:g} seconds")
        else:
            self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_large(self) -> None:
        self._refuse(431, f"a request may have {MAX_HEADERS} headers and {MAX_HEAD:,} bytes of them at most")

    def _refuse(self, status: int, message: str) -> None:
        """Answer, and close soon: at once, who is still sending would not get to see the answer."""
        self._refused = True
        self._stop_timer()
        if self._answering() or self.transport.is_closing():
            self.transport.close()
            return
        body = json.dumps({"message": message, "field": None, "recorded": None, "given": None}).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol_for(connections: Connections) -> type[LimitedProtocol]:
    """The protocol of a service with these connections."""

    class OfService(LimitedProtocol):
        """One of its connections."""

        all_connections = connections

    return OfService
