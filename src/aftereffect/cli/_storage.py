"""The commands about a whole storage: its experiments, its tokens, a service for it, and a demo."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import App, Parameter

from aftereffect._core import check_int, check_writable, require_extra, text_table
from aftereffect.cli._formats import Printer, format_time
from aftereffect.cli._shared import confirm
from aftereffect.cli._values import Files, Flag, Folder, Name, Number, PrintFormat, StorageUrl
from aftereffect.errors import ParameterError
from aftereffect.live import (
    DEFAULT_STORAGE,
    LOG_SUFFIXES,
    Experiment,
    Record,
    Storage,
    TokenRecord,
    check_absent,
    delete_experiment,
    find_record,
    is_text,
    open_storage,
)
from aftereffect.service import DEFAULT_HOST, DEFAULT_PORT, Scope, create_token, revoke_token

token = App(name="token", help="Create, list and revoke the tokens that give access to a service.")


def experiments(*, storage: StorageUrl = DEFAULT_STORAGE, format: PrintFormat = "table") -> None:
    """List all experiments: policy, state, arms, slots, totals received, and the last event.

    Damaged experiments are listed too, with a message that says what is wrong. The exit status is
    0 even then.
    """
    with open_storage(storage) as opened:
        overviews = [_read_overview(opened, record) for record in opened.records()]
    OVERVIEWS.show(overviews, format)


def delete(
    name: Name,
    /,
    *,
    export: Annotated[Path, Parameter(metavar="FILE")],
    yes: Annotated[Flag, Parameter(help="Do not ask for confirmation.")] = False,
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Delete an experiment for good, even a damaged one, after saving its whole log to a file.

    Parameters
    ----------
    export
        A new .jsonl file for the log: a line with the settings, then a line for each event.
    """
    with open_storage(storage) as opened:
        find_record(opened, name)
        check_absent(check_writable(export, LOG_SUFFIXES))
        if not yes:
            question = (
                f"Delete experiment {name!r} from {opened.url}, "
                f"after writing its log to {export}? [y/N] "
            )
            last_question = "This cannot be undone. Type the name of the experiment to delete it: "
            if not confirm("delete", question, last_question, name):
                raise ParameterError(f"experiment {name!r} was not deleted")
        count = delete_experiment(opened, name, export)
    print(f"{name}: deleted; its {count:,} events are in {export}")


def serve(
    *,
    host: Annotated[str, Parameter(metavar="ADDRESS")] = DEFAULT_HOST,
    port: Number = DEFAULT_PORT,
    root_path: Annotated[str, Parameter(metavar="PATH", show_default=False)] = "",
    plan: Files = (),
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
    plan
        A plan that "aftereffect plan --out FILE.json" has saved: the page shows it. Repeat the
        option for several.
    """
    require_extra("service")
    plans = _lay_out_plans(plan)
    from aftereffect.service import Worker

    with Worker(storage) as worker:  # which starts while the service is still being imported
        from aftereffect.service import serve_until_stopped

        serve_until_stopped(storage, host, port, root_path, worker, plans)


def _lay_out_plans(paths: tuple[Path, ...]) -> list[dict[str, Any]]:
    if not paths:
        return []
    from aftereffect.planning import Plan  # which loads the simulation

    return [Plan.load(path).lay_out() for path in paths]


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


class Overview(NamedTuple):
    """One experiment of a storage in one row.

    For a damaged one `problem` says what is wrong, and its numbers are None.
    """

    name: str
    policy: str | None
    arms: int | None
    slots: int | None
    received: int | None
    state: str
    last_event_at: str | None
    problem: str | None


def _read_overview(storage: Storage, record: Record) -> Overview:
    """Read the status of an experiment; whatever is wrong with it is the problem of its row."""
    name = record.name if is_text(record.name) else ascii(record.name)
    last = None
    try:
        with storage.reading(record.id) as view:
            event = view.last_event()
        last = event.at if event is not None and is_text(event.at) else None
        status = Experiment(storage, record).status()
    except Exception as error:  # whatever is wrong with one of them, the others are listed
        problem = " ".join(str(error).split())
        return Overview(name, None, None, None, None, "damaged", last, problem)
    counts = len(status.arms), status.slots, status.received
    return Overview(name, status.policy, *counts, status.state, last, None)


def _format_overviews(overviews: Sequence[Overview]) -> str:
    if not overviews:
        return "no experiments"
    rows = [("name", "policy", "state", "arms", "slots", "received", "last event")]
    for each in overviews:
        arms, slots, received = (
            "-" if number is None else f"{number:,}"
            for number in (each.arms, each.slots, each.received)
        )
        last = format_time(each.last_event_at)
        rows.append((each.name, each.policy or "-", each.state, arms, slots, received, last))
    damaged = [f"{each.name} is damaged: {each.problem}" for each in overviews if each.problem]
    return "\n".join([text_table(rows, left=3), *damaged])


OVERVIEWS = Printer[Sequence[Overview]](
    _format_overviews,
    lambda overviews: [each._asdict() for each in overviews],
    lambda overviews: (Overview._fields, overviews),
)


_TOKEN_COLUMNS = tuple(name for name in TokenRecord._fields if name != "digest")


def _token_rows(records: list[TokenRecord]) -> list[list[object]]:
    return [[getattr(record, name) for name in _TOKEN_COLUMNS] for record in records]


def _format_tokens(records: list[TokenRecord]) -> str:
    cells = [[str(cell or "-") for cell in row] for row in _token_rows(records)]
    return text_table([_TOKEN_COLUMNS, *cells], left=len(_TOKEN_COLUMNS))


TOKENS = Printer[list[TokenRecord]](
    _format_tokens,
    lambda records: [dict(zip(_TOKEN_COLUMNS, row, strict=True)) for row in _token_rows(records)],
    lambda records: (_TOKEN_COLUMNS, _token_rows(records)),
)
