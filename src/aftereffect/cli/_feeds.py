"""The commands that record totals, and ``notify``, which tells others of new decisions."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter

from aftereffect._core import check_float
from aftereffect.cli._formats import TOTALS
from aftereffect.cli._values import (
    Flag,
    Folder,
    Name,
    PrintFormat,
    RealNumber,
    SlotText,
    StorageUrl,
    read_by_name,
    read_number,
)
from aftereffect.errors import InputError, ParameterError, UnlikelyTotalError
from aftereffect.live import (
    DEFAULT_STORAGE,
    CommandHook,
    Experiment,
    FeedForm,
    FolderFeed,
    Notifier,
    Webhook,
    find_form,
    leave_out_unplayed,
    read_totals_file,
    read_totals_query,
)

Revise: TypeAlias = Annotated[
    Flag,
    Parameter(
        help="Replace what was recorded before. Past decisions stay; later ones use the new total."
    ),
]
Covariates: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="NAME=NUMBER,...",
        help="Numbers that come with the slot, by the names that the experiment was created with: "
        "temperature=3.5,rain=0. Those that are left out stay as they are.",
    ),
]
Guardrails: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="NAME=NUMBER,...",
        help="Numbers of the guardrails in the slot, by their names: complaints=3,refunds=0. They "
        "may come later than the total: tell it again with them.",
    ),
]
FeedColumns: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="COLUMN=NAME,...",
        help="What the columns slot, time, unit, total, arm and those of covariates and guardrails "
        "are called, where they have other names: time=Datum,total=Umsatz.",
    ),
]
FeedTimezone: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="NAME",
        help="The time zone of times without an offset, such as Europe/Berlin. By default, that of "
        "the experiment.",
    ),
]
UnitName: TypeAlias = Annotated[
    str, Parameter(metavar="NAME", help="The unit that the total is of, if there are several.")
]
IgnoreUnplayed: TypeAlias = Annotated[
    Flag,
    Parameter(
        help="Leave out rows of slots that were not played: those before the first slot, and those "
        "that were skipped."
    ),
]


def tell(
    name: Name,
    slot: SlotText | None = None,
    /,
    *totals: Annotated[str, Parameter(metavar="TOTAL")],
    unit: UnitName | None = None,
    arm: Annotated[str | None, Parameter(metavar="NAME")] = None,
    covariates: Covariates | None = None,
    guardrails: Guardrails | None = None,
    revise: Revise = False,
    yes: Flag = False,
    csv: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    sql: Annotated[str | None, Parameter(metavar="URL", env_var="AFTEREFFECT_SQL")] = None,
    query: Annotated[str | None, Parameter(metavar="SELECT")] = None,
    columns: FeedColumns | None = None,
    feed_timezone: FeedTimezone | None = None,
    ignore_unplayed: IgnoreUnplayed = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Record the total that was observed in a slot, or the totals in a file or a database.

    Parameters
    ----------
    slot
        The number of the slot, or the time at which it begins.
    totals
        Everything that was observed in the slot, whichever arms it came from: one number. With
        several units, the total of --unit, or totals by unit, such as north=37 south=12, of which
        one that is missing has no number: south=
    arm
        The arm that was really played, if it is not the one that "ask" gave.
    yes
        Record the total even if it is far from all earlier totals.
    csv
        A .csv, .csv.gz or .parquet file with the columns "slot" or "time", and "total"; with
        several units also "unit". The column "arm" is optional: it names the arm that was really
        played, if it is not the one that "ask" gave. An empty total marks the slot as missing. The
        columns of covariates and guardrails are optional too; empty cells are left out. Either all
        rows are recorded, or none. Cells may be separated by commas, semicolons or tabs; numbers
        may have decimal commas.
    sql
        The database that has the totals, such as sqlite:///shop.db: record what --query finds.
    query
        A SELECT with these columns in its answer. Nothing is changed in that database.
    """
    is_feed = csv is not None or query is not None
    is_one = not is_feed and slot is not None and len(totals) > 0
    is_bare = slot is None and not (unit or arm or covariates or guardrails)
    if not (is_one or (is_feed and is_bare)) or (csv is not None and query is not None):
        raise ParameterError(
            "tell needs either a slot and its total, or --csv FILE, or --sql URL --query SELECT"
        )
    read = _choose_reader(csv, sql, query)
    if not is_feed and (columns is not None or feed_timezone is not None or ignore_unplayed):
        raise ParameterError("--columns, --feed-timezone and --ignore-unplayed need --csv or --sql")
    numbers = _read_covariates(covariates)
    counts = _read_guardrails(guardrails)
    total = _read_totals(totals) if is_one else None
    with Experiment.open(name, storage=storage) as experiment:
        rows: Sequence[Any] = [(slot, total, arm, numbers, counts, unit)]
        if read is not None:
            rows = read(find_form(experiment, _read_columns(columns), feed_timezone))
        if ignore_unplayed:
            rows = leave_out_unplayed(experiment, rows)
        try:
            answer = experiment.tell_many(rows, revise=revise, confirm=yes)
        except UnlikelyTotalError as error:
            raise UnlikelyTotalError(f"{error}, with --yes") from None
    TOTALS.show(answer, format)


def follow(
    name: Name,
    folder: Folder,
    /,
    *,
    every: RealNumber = 10,
    once: Flag = False,
    revise: Revise = False,
    yes: Flag = False,
    columns: FeedColumns | None = None,
    feed_timezone: FeedTimezone | None = None,
    ignore_unplayed: IgnoreUnplayed = False,
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Record the totals of all files that come into a folder, each file once, until Ctrl-C.

    The files are such as "tell --csv" takes. The log keeps which files were recorded: after a crash
    none is lost, and none is recorded twice. Files are taken in the order of their names. A file
    that is refused is tried again, as its slots may be decided later; a line says why.

    Parameters
    ----------
    folder
        The folder. Files whose names begin with a dot are left alone, and so is one that was
        changed in the last two seconds.
    every
        How many seconds to wait before looking again.
    once
        Look once and end. The exit status is 2 if a file was refused.
    yes
        Record totals even if they are far from all earlier totals.
    """
    pause = check_float("every", every, at_least=0.1, at_most=86_400)
    with Experiment.open(name, storage=storage) as experiment:
        feed = FolderFeed(
            experiment,
            folder,
            columns=_read_columns(columns),
            timezone=feed_timezone,
            ignore_unplayed=ignore_unplayed,
            revise=revise,
            confirm=yes,
        )
        said: dict[str, str] = {}
        while True:
            refused = 0
            for report in feed.tell_new():
                refused += report.problem is not None
                if said.get(report.name) != str(report):
                    said[report.name] = str(report)
                    place = sys.stdout if report.problem is None else sys.stderr
                    print(report, file=place, flush=True)
            if once:
                break
            time.sleep(pause)
    if refused:
        raise InputError(f"files in {folder} that were refused: {refused}")


def notify(
    name: Name,
    /,
    *,
    url: str | None = None,
    command: str | None = None,
    secret: Annotated[
        str | None, Parameter(env_var="AFTEREFFECT_HOOK_SECRET", show_default=False)
    ] = None,
    every: RealNumber = 10,
    once: Flag = False,
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Tell a web address or a command when the arm changes, and when the rule says stop.

    Each notice is delivered at least once: what fails is tried again until it is delivered, and
    the log keeps which notices were. A new hook is first told which arm is played now.

    Parameters
    ----------
    url
        The address: it gets a POST request with JSON, as Standard Webhooks defines it, and must
        answer with a status of 2xx.
    command
        The command, which gets the same JSON on its standard input and must end with the exit
        status 0. It is run without a shell.
    secret
        What requests are signed with, by HMAC-SHA256. Other users of the machine can see options of
        a command, so use the environment variable.
    every
        How many seconds to wait before looking again.
    once
        Deliver what there is and end. The exit status is 2 if something cannot be delivered.
    """
    pause = check_float("every", every, at_least=0.1, at_most=86_400)
    hook: Webhook | CommandHook
    if url is not None and command is None:
        hook = Webhook(url, secret)
    elif command is not None and url is None:
        hook = CommandHook(command)
    else:
        raise ParameterError("notify needs either --url ADDRESS or --command COMMAND")
    with Experiment.open(name, storage=storage) as experiment:
        notifier = Notifier(experiment, hook)
        if once:
            for notice in notifier.deliver_new():
                print(notice, flush=True)
            return
        notifier.run(pause, lambda line: print(line, flush=True))


def mark_missing(
    name: Name,
    slot: SlotText,
    /,
    *,
    unit: UnitName | None = None,
    covariates: Covariates | None = None,
    guardrails: Guardrails | None = None,
    revise: Revise = False,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: PrintFormat = "table",
) -> None:
    """Record that the total of a slot will never be known.

    Parameters
    ----------
    slot
        The number of the slot, or the time at which it begins.
    """
    numbers = _read_covariates(covariates)
    counts = _read_guardrails(guardrails)
    with Experiment.open(name, storage=storage) as experiment:
        answer = [
            experiment.mark_missing(
                slot, unit=unit, covariates=numbers, guardrails=counts, revise=revise
            )
        ]
    TOTALS.show(answer, format)


def _choose_reader(
    csv: Path | None, sql: str | None, query: str | None
) -> Callable[[FeedForm], Sequence[Any]] | None:
    """How to read the totals of a file or a database; None if neither is given."""
    if csv is not None:
        return partial(read_totals_file, csv)
    if query is None:
        return None
    if sql is None:
        raise ParameterError("--query needs the database that has the totals: give --sql URL")
    return partial(read_totals_query, sql, query)


def _read_totals(texts: Sequence[str]) -> float | dict[str, float | None]:
    """One total, or totals by unit."""
    if len(texts) == 1 and "=" not in texts[0]:
        return read_number(texts[0])
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or name.strip() in found:
            raise ParameterError(
                "expected one total, such as 37, or totals by unit, once each, such as north=37 "
                f"south=12, got {' '.join(texts)!r}"
            )
        found[name.strip()] = read_number(number) if number.strip() else None
    return found


def _read_covariates(text: str | None) -> dict[str, float] | None:
    return read_by_name("covariates", "temperature=3.5,rain=0", text, read_number)


def _read_guardrails(text: str | None) -> dict[str, float] | None:
    return read_by_name("guardrails", "complaints=3,refunds=0", text, read_number)


def _read_columns(text: str | None) -> dict[str, str] | None:
    return read_by_name("columns", "time=Datum,total=Umsatz", text, str.strip)
