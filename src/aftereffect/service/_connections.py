"""Limits on the connections of a service, and on what is sent before a request's body.

Neither uvicorn nor its parser limits how many connections there may be, or the size and time of a
request's headers. A request beyond the limits is answered and its connection closed before anything
looks at a token; by then a few hundred kilobytes have arrived at most.
"""

import asyncio
import json
import resource
from collections import Counter
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

#: Connections of one peer, which may be a proxy, and of all together; fewer where the system allows
#: few open files. More than all readers that may wait (see `LIMITS`), so there is room for writers.
MAX_PER_PEER, MAX_CONNECTIONS = 512, 2_048
#: Files that are left to the storage and everything else.
_OTHER_FILES = 96
#: Bytes of a request's address and headers together, bytes of the address, number of headers.
MAX_HEAD, MAX_URL, MAX_HEADERS = 32 << 10, 8 << 10, 100
#: Bytes that have arrived and belong neither to a body nor to complete headers. The parser copies
#: them again with every part that arrives.
MAX_PENDING = 256 << 10
#: Seconds from the start of a connection, or from the first byte of a later request, to the end of
#: the headers.
HEAD_SECONDS = 10.0
#: After a refusal, the seconds that the peer has to read the answer, and the bytes that it may
#: still send meanwhile; they are discarded.
_CLOSING_SECONDS, _MAX_DISCARDED = 0.5, 4 << 20


class Connection(Protocol):
    """One connection, for `Connections`."""

    def make_room(self) -> None:
        """Close it in favour of another."""


class Connections:
    """All connections of a service.

    When there are too many, the one that has been idle longest is closed in favour of the new one:
    half-sent requests and idle connections never shut others out. A new connection is refused only
    if every other one has a request that is being answered.
    """

    def __init__(self) -> None:
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max = (
            MAX_CONNECTIONS
            if open_files < 0
            else max(16, min(MAX_CONNECTIONS, open_files - _OTHER_FILES))
        )
        self._peers: dict[Connection, str] = {}
        self._per_peer: Counter[str] = Counter()
        #: In the order in which they became idle.
        self._idle: dict[Connection, str] = {}

    def add(self, connection: Connection, peer: str) -> bool:
        """Add an idle connection; False if there is no room for it."""
        if self._per_peer[peer] >= MAX_PER_PEER and not self._close_one(peer):
            return False
        if len(self._peers) >= self._max:
            largest = max(self._per_peer, key=self._per_peer.__getitem__)
            if not (self._close_one(largest) or self._close_one(None)):
                return False
        self._peers[connection] = peer
        self._per_peer[peer] += 1
        self.mark_idle(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection; a second call changes nothing."""
        self._idle.pop(connection, None)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._per_peer[peer] -= 1
            if not self._per_peer[peer]:
                del self._per_peer[peer]

    def mark_idle(self, connection: Connection) -> None:
        """All requests are answered: from now on the connection waits for its peer."""
        if connection in self._peers:
            self._idle[connection] = self._peers[connection]

    def mark_busy(self, connection: Connection) -> None:
        """The headers of a request are complete; the connection stays open until it is answered."""
        self._idle.pop(connection, None)

    def _close_one(self, peer: str | None) -> bool:
        """Close the longest idle connection, of one peer or of all; False if none is idle."""
        longest = next((each for each, whose in self._idle.items() if peer in (None, whose)), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.make_room()
        return True


class RefusedHeadError(Exception):
    """Stops the parsing of a request that was refused."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection within these limits."""

    #: Those of the service; set by `protocol_for`.
    all_connections: Connections

    # The base class, like asyncio, calls it with a Transport but declares the wider BaseTransport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A peer connects."""
        super().connection_made(transport)
        self._pending = 0
        self._in_head, self._refused = False, False
        self._timer: asyncio.TimerHandle | None = None
        if self.all_connections.add(self, self.client[0] if self.client else ""):
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_head)
        else:
            self._refuse(503, "too many connections: try again in a second")
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was closed, by either side."""
        self._stop_timer()
        self.all_connections.remove(self)
        super().connection_lost(exc)

    def make_room(self) -> None:
        """Close it in favour of another."""
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request arrived."""
        if self._refused:
            self._pending += len(data)
            if self._pending > MAX_PENDING + _MAX_DISCARDED:
                self.transport.close()
        if self._refused or self.transport.is_closing():
            return
        if self._pending > MAX_PENDING:
            self._refuse_large()
            return
        self._pending += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """The first byte of a request arrived."""
        super().on_message_begin()
        self._pending, self._in_head, self._size = 0, True, 0
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_head)

    def on_url(self, url: bytes) -> None:
        """Part of the address arrived."""
        super().on_url(url)
        self._size += len(url)
        if len(self.url) > MAX_URL:
            self._refuse(414, f"an address may have {MAX_URL:,} bytes at most")
            raise RefusedHeadError

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header arrived, or a trailer, which follows the body."""
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD or len(self.headers) >= MAX_HEADERS:
            self._refuse_large()
            raise RefusedHeadError
        if self._in_head:  # a trailer is never taken for a header, whatever its name
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The headers are complete, so the request will be answered."""
        self._stop_timer()
        self._pending, self._in_head = 0, False
        self.all_connections.mark_busy(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Part of the body arrived."""
        self._pending = max(0, self._pending - len(body))
        super().on_body(body)

    def on_response_complete(self) -> None:
        """A request was answered."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self.all_connections.mark_idle(self)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that cannot be parsed, unless it was refused already."""
        if not self._refused:
            self._refuse(400, "this is not a valid HTTP request")

    def _end_head(self) -> None:
        self._timer = None
        if self._is_answering():  # the next request has begun before this one was answered
            self._timer = self.loop.call_later(HEAD_SECONDS, self._end_head)
        elif self._in_head:
            self._refuse(408, f"the headers did not arrive within {HEAD_SECONDS:g} seconds")
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse_large(self) -> None:
        self._refuse(
            431, f"a request may have {MAX_HEADERS} headers and {MAX_HEAD:,} bytes of them at most"
        )

    def _refuse(self, status: int, message: str) -> None:
        """Answer, and close soon: closed at once, a peer that still sends would miss the answer."""
        self._refused = True
        self._stop_timer()
        if self._is_answering() or self.transport.is_closing():
            self.transport.close()
            return
        body = json.dumps(
            {"message": message, "field": None, "recorded": None, "given": None}
        ).encode()
        head = (
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.write_eof()
        self._timer = self.loop.call_later(_CLOSING_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def protocol_for(connections: Connections) -> type[LimitedProtocol]:
    """The protocol class of a service with these connections."""

    class ServiceProtocol(LimitedProtocol):
        """One of its connections."""

        all_connections = connections

    return ServiceProtocol
