"""The server that runs the application: where it listens, and until when it runs."""

import errno
import logging
import socket
import threading
from collections.abc import Sequence
from typing import Any

import uvicorn

from aftereffect._core import check_int, parse
from aftereffect.errors import OutputError, ParameterError
from aftereffect.live import DEFAULT_POLICY, MemoryStorage, open_storage, prepare_decide
from aftereffect.policies import Policy
from aftereffect.service._access import is_loopback
from aftereffect.service._app import create_app
from aftereffect.service._connections import Connections, protocol_for
from aftereffect.service._monitoring import log_to_stderr
from aftereffect.service._scans import Scans
from aftereffect.service._worker import Worker

#: Seconds for requests under way to finish, when the service is asked to stop.
_GRACE = 10
_BACKLOG = 2048
#: Seconds after which a service that has begun to answer compiles the default policy.
_PREPARE_AFTER = 3.0
_log = logging.getLogger("aftereffect.service")


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
