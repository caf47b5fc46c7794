"""The application on one storage, the server that runs it, and limits on its connections.

Neither uvicorn nor its parser limits how many connections there may be, or the size and time of a
request's headers. A request beyond the limits is answered and its connection closed before anything
looks at a token; by then a few hundred kilobytes have arrived at most.
"""

import asyncio
import errno
import json
import logging
import resource
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath
from typing import Any, Protocol

import uvicorn
from fastapi import APIRouter, FastAPI, Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from aftereffect._core import __version__, check_int, parse
from aftereffect.errors import OutputError, ParameterError
from aftereffect.live import (
    DEFAULT_POLICY,
    MemoryStorage,
    Storage,
    open_storage,
    prepare_decide,
)
from aftereffect.policies import Policy
from aftereffect.service import _routes
from aftereffect.service._access import Guard, is_loopback
from aftereffect.service._cache import Scans
from aftereffect.service._errors import install_error_handlers
from aftereffect.service._experiments import OpenExperiments
from aftereffect.service._monitoring import Metrics, log_to_stderr
from aftereffect.service._worker import Worker

_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
#: The page may load only its own files, and talk only to this service.
_CONTENT_POLICY = (
    "default-src 'self'; style-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
#: Seconds for requests under way to finish, when the service is asked to stop.
_GRACE = 10
_BACKLOG = 2048
#: Seconds after which a service that has begun to answer compiles the default policy.
_PREPARE_AFTER = 3.0
_log = logging.getLogger("aftereffect.service")
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


def create_app(
    storage: Storage,
    scans: Scans | Worker,
    *,
    local: bool = True,
    plans: Sequence[dict[str, Any]] = (),
) -> FastAPI:
    """The application on a storage.

    Parameters
    ----------
    storage
        Where the experiments are stored; closed when the service stops.
    scans
        Reads long logs of the same storage; closed as well.
    local
        Whether only this machine can reach the service: then it is open until a token is created.
    plans
        Saved plans to show, as `Plan.lay_out` gives them.
    """
    metrics = Metrics()
    experiments = OpenExperiments(storage, metrics, scans, plans)

    @asynccontextmanager
    async def close_at_end(app: FastAPI) -> AsyncIterator[None]:
        yield
        experiments.close()

    app = FastAPI(
        title="aftereffect",
        summary="Live experiments whose rewards arrive late, spread over time, and anonymously.",
        version=__version__,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        lifespan=close_at_end,
        telemetry={  # /metrics has it all
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
        },
    )
    app.state.experiments, app.state.local = experiments, local
    routers = (_routes.router, _routes.scan_router, _routes.monitoring, _page_routes())
    for router in routers:
        app.include_router(router)
    install_error_handlers(app, [route for router in routers for route in router.routes])
    app.add_middleware(Guard, metrics=metrics)
    return app


def page_files() -> dict[str, tuple[str, bytes]]:
    """The files of the web page: media type and content by path."""
    return {
        "/" if file.name == "index.html" else f"/{file.name}": (
            f"{_MEDIA_TYPES[PurePath(file.name).suffix]}; charset=utf-8",
            file.read_bytes(),
        )
        for file in (files("aftereffect.service") / "page").iterdir()
        if PurePath(file.name).suffix in _MEDIA_TYPES
    }


def _page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    for path, (media_type, content) in page_files().items():
        router.add_api_route(path, _serve_file(content, media_type), methods=["GET"])
    return router


def _serve_file(content: bytes, media_type: str) -> Callable[[], Awaitable[Response]]:
    headers = {"Content-Security-Policy": _CONTENT_POLICY, "Cache-Control": "no-cache"}

    async def serve() -> Response:
        return Response(content, media_type=media_type, headers=headers)

    return serve


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at this address; on any free port if the port is 0."""
    check_int("port", port, at_most=65_535)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # early connections wait until the service is ready
    except OSError as error:
        listener.close()
        advice = ": choose another port" if error.errno == errno.EADDRINUSE else ""
        raise OutputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}{advice}"
        ) from None
    return listener


def server_for(
    storage: str,
    host: str,
    port: int,
    root_path: str = "",
    worker: Worker | None = None,
    plans: Sequence[dict[str, Any]] = (),
) -> tuple[uvicorn.Server, socket.socket]:
    """A server, and the socket that it listens on.

    Parameters
    ----------
    storage
        The URL of a storage.
    host, port
        Where to listen; port 0 stands for any free one.
    root_path
        The path under which a reverse proxy shows the service.
    worker
        Reads long logs of the same storage; started when it is needed if not given.
    plans
        Saved plans that the page shows, as `Plan.lay_out` gives them.

    Raises
    ------
    StorageError
        If the storage cannot be opened and written.
    ParameterError
        If other machines could reach the service, and there is no token.

    Examples
    --------
    >>> server, listener = server_for("memory://", "127.0.0.1", 0)
    >>> address_of(listener)[:17]
    'http://127.0.0.1:'
    >>> listener.close()
    """
    local = is_loopback(host)
    opened = open_storage(storage)
    try:
        opened.prepare()
        if not local and not any(token.revoked_at is None for token in opened.tokens()):
            raise ParameterError(
                f"other machines can reach {host}, so the service needs a token there: "
                "run aftereffect token create first"
            )
        listener = listen(host, port)
    except BaseException:
        opened.close()
        raise
    scans = Scans(opened) if isinstance(opened, MemoryStorage) else worker or Worker(storage)
    config = uvicorn.Config(
        create_app(opened, scans, local=local, plans=plans),
        http=protocol_for(Connections()),
        ws="none",
        root_path=root_path.rstrip("/"),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        backlog=_BACKLOG,
    )
    return uvicorn.Server(config), listener


def address_of(listener: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def prepare_default_policy() -> None:
    """Compile the default policy before anybody waits for it: once on a machine it takes long."""
    try:
        prepare_decide(parse(DEFAULT_POLICY, Policy))
    except Exception as error:  # whoever creates an experiment sees why
        _log.warning(
            "the default policy cannot be compiled", extra={"note": {"reason": str(error)}}
        )


def serve_until_stopped(
    storage: str,
    host: str,
    port: int,
    root_path: str,
    worker: Worker,
    plans: Sequence[dict[str, Any]] = (),
) -> None:
    """Run the service until it is asked to stop; requests under way are finished."""
    server, listener = server_for(storage, host, port, root_path, worker, plans)
    log_to_stderr()
    _log.info("listening", extra={"note": {"address": address_of(listener)}})
    preparation = threading.Timer(_PREPARE_AFTER, prepare_default_policy)
    preparation.daemon = True
    preparation.start()
    server.run(sockets=[listener])
