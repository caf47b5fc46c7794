"""Running the service."""

import ipaddress
import logging
import socket
import sys

import uvicorn

from aftereffect.checks import whole
from aftereffect.errors import OutputError, ParameterError
from aftereffect.live import open_storage
from aftereffect.service.app import create_app
from aftereffect.service.guard import LOCAL_NAMES, JsonLines

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8750
#: Seconds that requests which are under way get to end in, when the service is asked to stop.
_GRACE = 10


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


def listening(host: str, port: int) -> socket.socket:
    """A socket at that address; any free port if it is 0."""
    whole("port", port, at_most=65_535)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OutputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from None
    return listener


def server_for(storage: str, host: str, port: int, root_path: str = "") -> tuple[uvicorn.Server, socket.socket]:
    """A server, and the socket that it listens on.

    Raises
    ------
    ParameterError
        If others could reach it, and there is no token.
    """
    local = is_loopback(host)
    place = open_storage(storage)
    if not local and not any(token.revoked_at is None for token in place.tokens()):
        raise ParameterError(f"{host} can be reached from elsewhere: make a token first, with aftereffect token create")
    listener = listening(host, port)
    config = uvicorn.Config(
        create_app(place, local=local, root_path=root_path),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE,
        backlog=2048,
    )
    return uvicorn.Server(config), listener


def log_to_stderr() -> None:
    """Lines of JSON, one per request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("aftereffect.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
