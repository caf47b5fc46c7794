"""``aftereffect experiments | delete``: all experiments of a storage."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter

from aftereffect.cli.live import GROUP, Name, StorageUrl
from aftereffect.cli.live_formats import formats
from aftereffect.cli.simulate import Format
from aftereffect.columns import aligned
from aftereffect.errors import ParameterError
from aftereffect.live import DEFAULT_STORAGE, Experiment, Storage, open_storage
from aftereffect.live.deletion import LOG_SUFFIXES, check_new, delete_experiment, find_record
from aftereffect.live.storage import Record
from aftereffect.live.storage.base import is_text
from aftereffect.outputs import writable


class Listed(NamedTuple):
    """One experiment of a storage; of a damaged one, what is wrong with it instead of how it stands."""

    name: str
    policy: str | None
    arms: int | None
    slots: int | None
    told: int | None
    state: str
    last_event_at: str | None
    problem: str | None


def experiments(
    *,
    storage: StorageUrl = DEFAULT_STORAGE,
    format: Annotated[Format, Parameter(help="How they are printed.")] = "table",
) -> None:
    """List all experiments: policy, arms, slots decided, totals told, state, and when something was last recorded.

    The exit status is 0 also where one of them is damaged: the list says so, and verify tells more.
    """
    with open_storage(storage) as place:
        listed = [_listed(place, record) for record in place.records()]
    LISTS[format](listed)


def delete(
    name: Name,
    /,
    *,
    export: Annotated[Path, Parameter(metavar="FILE")],
    yes: Annotated[bool, Parameter(negative=())] = False,
    storage: StorageUrl = DEFAULT_STORAGE,
) -> None:
    """Remove an experiment for good, also one that is damaged, after writing its whole log to a file.

    Parameters
    ----------
    export
        A new .jsonl file: a line for the experiment with its settings, and one for each event.
    yes
        Do not ask.
    """
    with open_storage(storage) as place:
        find_record(place, name)
        check_new(writable(export, LOG_SUFFIXES))
        if not yes:
            _confirm(name, place, export)
        count = delete_experiment(place, name, export)
    print(f"{name}: deleted; its {count:,} events are in {export}")


def _confirm(name: str, place: Storage, export: Path) -> None:
    """Ask twice."""
    if not sys.stdin.isatty():
        raise ParameterError("delete asks before it removes anything, and there is no terminal: say --yes")
    try:
        first = input(f"Delete experiment {name!r} from {place.url}, after writing its log to {export}? [y/N] ")
        second = input("Nothing brings it back. Type its name to go on: ") if first.strip().lower() in ("y", "yes") else ""
    except EOFError:
        second = ""
    if second.strip() != name:
        raise ParameterError("nothing was deleted")


def _listed(place: Storage, record: Record) -> Listed:
    name = record.name if is_text(record.name) else ascii(record.name)
    last = None
    try:
        with place.reading(record.id) as view:
            event = view.last_event()
        last = event.at if event is not None and is_text(event.at) else None
        status = Experiment(place, record).status()
    except Exception as error:  # whatever is wrong with one of them, the others are listed
        return Listed(name, None, None, None, None, "damaged", last, " ".join(str(error).split()))
    state = "closed" if status.closed else "open" if status.next else "all decided"
    return Listed(name, status.policy, len(status.arms), status.slots, status.told, state, last, None)


def _table(listed: Sequence[Listed]) -> str:
    rows: list[Sequence[str]] = [("name", "policy", "state", "arms", "slots", "told", "last event")]
    for each in listed:
        numbers = ("-" if number is None else f"{number:,}" for number in (each.arms, each.slots, each.told))
        last = "-" if each.last_event_at is None else each.last_event_at[:19].replace("T", " ")
        rows.append((each.name, each.policy or "-", each.state, *numbers, last))
    damaged = [f"{each.name} is damaged: {each.problem}" for each in listed if each.problem]
    return "\n".join([aligned(rows, left=3), *damaged]) if listed else "no experiments"


def _rows(listed: Sequence[Listed]) -> list[dict[str, object]]:
    return [each._asdict() for each in listed]


LISTS = formats(_table, _rows, _rows, Listed._fields)
COMMANDS = (experiments, delete)
__all__ = ["COMMANDS", "GROUP", "Listed", "delete", "experiments"]
