"""The commands about all experiments in a storage: ``experiments`` and ``delete``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from aftereffect._core import check_writable, text_table
from aftereffect.cli._formats import Printer, format_time
from aftereffect.cli._live import Name, PrintFormat, StorageUrl
from aftereffect.cli._shared import Flag, confirm
from aftereffect.errors import ParameterError
from aftereffect.live import (
    DEFAULT_STORAGE,
    LOG_SUFFIXES,
    Experiment,
    Record,
    Storage,
    check_absent,
    delete_experiment,
    find_record,
    is_text,
    open_storage,
)


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
    """Delete an experiment for good, after saving its whole log to a file.

    This works for damaged experiments too.

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


def _read_overview(storage: Storage, record: Record) -> Overview:
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
    state = "ended" if status.ended else "running" if status.next else "all decided"
    return Overview(
        name, status.policy, len(status.arms), status.slots, status.received, state, last, None
    )


def _to_text(overviews: Sequence[Overview]) -> str:
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
    _to_text,
    lambda overviews: [each._asdict() for each in overviews],
    lambda overviews: (Overview._fields, overviews),
)
