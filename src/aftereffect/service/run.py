"""Running the service."""

import logging
import socket

import uvicorn

from aftereffect.checks import whole
from aftereffect.errors import OutputError, ParameterError
from aftereffect.live import open_storage
from aftereffect.live.storage import MemoryStorage
from aftereffect.service.addresses import is_loopback
from aftereffect.service.app import create_app
from aftereffect.service.connections import Connections
from aftereffect.service.logs import log_to_stderr
from aftereffect.service.protocol import protocol_for
from aftereffect.service.scans import Scans
from aftereffect.service.worker import Worker

#: Seconds that requests which are under way get to end in, when the service is asked to stop.
_GRACE = 10
_BACKLOG = 2048
_log = logging.getLogger("aftereffect.service")


def listening(host: str, port: int) -> socket.socket:
    """A socket at that address; any free port if it is 0."""
    whole("port", port, at_most=65_535)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # who comes before the service is ready waits for it
    except OSError as error:
        listener.close()
        raise OutputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listener


def server_for(
    storage: str, host: str, port: int, root_path: str = "", worker: Worker | None = None
) -> tuple[uvicorn.Server, socket.socket]:
    """A server, and the socket that it listens on; the worker, if it is given, reads long logs of the same storage.

    Raises
    ------
    StorageError
        If the storage cannot be opened and written.
    ParameterError
        If others could reach it, and there is no token.
    """
    local = is_loopback(host)
    place = open_storage(storage)
    try:
        place.prepare()
        if not local and not any(token.revoked_at is None for token in place.tokens()):
            raise ParameterError(f"{host} can be reached from elsewhere: make a token first, with aftereffect token create")
        listener = listening(host, port)
    except BaseException:
        place.close()
        raise
    scans = Scans(place) if isinstance(place, MemoryStorage) else worker or Worker(storage)
    config = uvicorn.Config(
        create_app(place, scans, local=local),
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
    """Where people find what listens there."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def serve_until_stopped(storage: str, host: str, port: int, root_path: str, worker: Worker) -> None:
    """Run the service until it is asked to stop; requests that are under way come to their end."""
    server, listener = server_for(storage, host, port, root_path, worker)
    log_to_stderr()
    _log.info("listening", extra={"note": {"address": address_of(listener)}})
    server.run(sockets=[listener])
