"""``aftereffect serve | token | demo``: the service."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from aftereffect.checks import whole
from aftereffect.cli.live import StorageUrl
from aftereffect.cli.live_formats import formats
from aftereffect.cli.simulate import Format
from aftereffect.cli.values import Number
from aftereffect.columns import aligned
from aftereffect.extras import require
from aftereffect.live import DEFAULT_STORAGE, open_storage
from aftereffect.live.storage import TokenRecord
from aftereffect.service.addresses import DEFAULT_HOST, DEFAULT_PORT
from aftereffect.service.tokens import Scope, create_token, revoke_token

GROUP = "The service"
token = App(name="token", help="Who may use the service: make, list and revoke tokens.", group=GROUP)


def serve(
    *,
    host: str = DEFAULT_HOST,
    port: Number = DEFAULT_PORT,
    root_path: Annotated[str, Parameter(metavar="PATH")] = "",
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Run live experiments as a service, with a page to watch them.

    On this machine alone it needs no set-up; bound to any other address it wants a token first.

    Parameters
    ----------
    host
        The address to listen on.
    port
        The port; 0 for any that is free.
    root_path
        The path under which a reverse proxy shows it, such as /experiments.
    """
    require("service")
    from aftereffect.service.worker import Worker

    with Worker(storage) as worker:  # which loads while the service does
        from aftereffect.service.run import serve_until_stopped

        serve_until_stopped(storage, host, port, root_path, worker)


def demo(*, port: Number = 0, folder: Path | None = None, speed: Number = 20) -> None:
    """Watch experiments on a simulated world: starts the service and plays against it until stopped.

    Parameters
    ----------
    port
        The port; any that is free by default.
    folder
        Where the experiments are kept, made if it is not there; a temporary one by default, removed at the end.
    speed
        Slots per second, in each experiment.
    """
    require("service")
    from aftereffect.demo import play_until_stopped

    play_until_stopped(whole("port", port, at_most=65_535), folder, whole("speed", speed, at_least=1, at_most=1_000))


@token.command
def create(*, scope: Scope, label: str = "", storage: StorageUrl = DEFAULT_STORAGE) -> None:
    """Make a token and print it: it is shown this once, and the storage keeps only a digest of it.

    Parameters
    ----------
    scope
        read: look. write: also ask and tell. admin: also begin, end and delete experiments.
    label
        For whom it is.
    """
    with open_storage(storage) as place:
        made, record = create_token(place, scope, label)
    print(made)
    print(f"token {record.id}, scope {record.scope}: keep it, it is not shown again", file=sys.stderr)


@token.command(name="list")
def list_tokens(*, storage: StorageUrl = DEFAULT_STORAGE, format: Format = "table") -> None:
    """List tokens; of each its number, label, scope, and when it was made and revoked.

    Parameters
    ----------
    format
        How they are printed.
    """
    with open_storage(storage) as place:
        known = place.tokens()
    TOKENS[format](known)


@token.command
def revoke(number: Number, /, *, storage: StorageUrl = DEFAULT_STORAGE) -> None:
    """End a token, for good and at once.

    Parameters
    ----------
    number
        As listed.
    """
    with open_storage(storage) as place:
        record = revoke_token(place, whole("number", number, at_least=1))
    print(f"token {record.id} is revoked since {record.revoked_at}")


_COLUMNS = tuple(name for name in TokenRecord._fields if name != "digest")


def _rows(known: list[TokenRecord]) -> list[dict[str, object]]:
    return [{name: getattr(record, name) for name in _COLUMNS} for record in known]


def _table(known: list[TokenRecord]) -> str:
    cells = [[str(cell or "-") for cell in row.values()] for row in _rows(known)]
    return aligned([_COLUMNS, *cells], left=len(_COLUMNS))


TOKENS = formats(_table, _rows, _rows, _COLUMNS)
COMMANDS = (serve, demo)
