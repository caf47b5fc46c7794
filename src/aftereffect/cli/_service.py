"""The commands of the service: ``serve``, ``token`` and ``demo``."""

import sys
from typing import Annotated

from cyclopts import App, Parameter

from aftereffect._core import check_int, require_extra, text_table
from aftereffect.cli._formats import Printer
from aftereffect.cli._live import PrintFormat, StorageUrl
from aftereffect.cli._shared import Folder, Number
from aftereffect.live import DEFAULT_STORAGE, TokenRecord, open_storage
from aftereffect.service import DEFAULT_HOST, DEFAULT_PORT, Scope, create_token, revoke_token

token = App(name="token", help="Create, list and revoke the tokens that give access to a service.")


def serve(
    *,
    host: Annotated[str, Parameter(metavar="ADDRESS")] = DEFAULT_HOST,
    port: Number = DEFAULT_PORT,
    root_path: Annotated[str, Parameter(metavar="PATH", show_default=False)] = "",
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Serve live experiments over HTTP, with a web page that shows them.

    To use the service from this machine only, you need no token. To reach it from other machines,
    create at least one token first: see "aftereffect token create".

    Parameters
    ----------
    host
        The address to listen on. 0.0.0.0 means all addresses of this machine.
    port
        The port to listen on. 0 means any free port.
    root_path
        The path under which a reverse proxy offers the service, such as /experiments.
    """
    require_extra("service")
    from aftereffect.service import Worker

    with Worker(storage) as worker:  # which starts while the service is still being imported
        from aftereffect.service import serve_until_stopped

        serve_until_stopped(storage, host, port, root_path, worker)


def demo(*, port: Number = 0, folder: Folder | None = None, speed: Number = 20) -> None:
    """Start a service and simulate live experiments on it, until you press Ctrl-C.

    Parameters
    ----------
    port
        The port to listen on. 0 means any free port.
    folder
        The folder for the experiments. It is created if needed. The default is a temporary folder,
        which is removed at the end.
    speed
        How many slots each experiment decides per second.
    """
    require_extra("service")
    from aftereffect.demo import play_until_stopped

    play_until_stopped(
        check_int("port", port, at_most=65_535),
        folder,
        check_int("speed", speed, at_least=1, at_most=1_000),
    )


@token.command
def create(
    *,
    scope: Scope,
    label: Annotated[str, Parameter(metavar="TEXT", show_default=False)] = "",
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Create a token and print it. It cannot be printed again: only its digest is stored.

    Parameters
    ----------
    scope
        What the token allows. "read": look at experiments. "write": also ask and tell. "admin":
        also create, end and delete experiments.
    label
        A note on who uses the token.
    """
    with open_storage(storage) as opened:
        secret, record = create_token(opened, scope, label)
    print(secret)
    print(
        f"token {record.id}, scope {record.scope}: save it now, it is not shown again",
        file=sys.stderr,
    )


@token.command(name="list")
def list_tokens(*, storage: StorageUrl = DEFAULT_STORAGE, format: PrintFormat = "table") -> None:
    """List all tokens: number, label, scope, and when each was created and revoked."""
    with open_storage(storage) as opened:
        records = opened.tokens()
    TOKENS.show(records, format)


@token.command
def revoke(number: Number, /, *, storage: StorageUrl = DEFAULT_STORAGE) -> None:
    """Revoke a token at once and for good.

    Parameters
    ----------
    number
        The number of the token (see "aftereffect token list").
    """
    with open_storage(storage) as opened:
        record = revoke_token(opened, check_int("number", number, at_least=1))
    print(f"token {record.id} was revoked at {record.revoked_at}")


_COLUMNS = tuple(name for name in TokenRecord._fields if name != "digest")


def _to_rows(records: list[TokenRecord]) -> list[list[object]]:
    return [[getattr(record, name) for name in _COLUMNS] for record in records]


def _to_text(records: list[TokenRecord]) -> str:
    cells = [[str(cell or "-") for cell in row] for row in _to_rows(records)]
    return text_table([_COLUMNS, *cells], left=len(_COLUMNS))


TOKENS = Printer[list[TokenRecord]](
    _to_text,
    lambda records: [dict(zip(_COLUMNS, row, strict=True)) for row in _to_rows(records)],
    lambda records: (_COLUMNS, _to_rows(records)),
)
