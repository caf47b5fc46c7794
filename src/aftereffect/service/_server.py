"""The application on one storage, and the server that runs it."""

import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import PurePath

import uvicorn
from fastapi import APIRouter, FastAPI, Response

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
from aftereffect.service import _read_routes, _routes
from aftereffect.service._access import Guard, is_loopback
from aftereffect.service._connections import Connections, protocol_for
from aftereffect.service._errors import install_error_handlers
from aftereffect.service._experiments import OpenExperiments
from aftereffect.service._monitoring import Metrics, log_to_stderr
from aftereffect.service._scans import Scans
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


def create_app(storage: Storage, scans: Scans | Worker, *, local: bool = True) -> FastAPI:
    """The application on a storage.

    Parameters
    ----------
    storage
        Where the experiments are stored; closed when the service stops.
    scans
        Reads long logs of the same storage; closed as well.
    local
        Whether only this machine can reach the service: then it is open until a token is created.
    """
    metrics = Metrics()
    experiments = OpenExperiments(storage, metrics, scans)

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
    routers = (_routes.router, _read_routes.router, _read_routes.monitoring, _page_routes())
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
        raise OutputError(
            f"cannot listen on {host} port {port}: {error.strerror or error}"
        ) from None
    return listener


def server_for(
    storage: str, host: str, port: int, root_path: str = "", worker: Worker | None = None
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
        create_app(opened, scans, local=local),
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
    except Exception as error:  # whoever creates an experiment is told
        _log.warning(
            "the default policy cannot be compiled", extra={"note": {"reason": str(error)}}
        )


def serve_until_stopped(storage: str, host: str, port: int, root_path: str, worker: Worker) -> None:
    """Run the service until it is asked to stop; requests under way are finished."""
    server, listener = server_for(storage, host, port, root_path, worker)
    log_to_stderr()
    _log.info("listening", extra={"note": {"address": address_of(listener)}})
    preparation = threading.Timer(_PREPARE_AFTER, prepare_default_policy)
    preparation.daemon = True
    preparation.start()
    server.run(sockets=[listener])
