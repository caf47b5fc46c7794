"""Removing an experiment for good, after its whole log was written to a file.

Nothing here looks at what the log says: it must also work for an experiment that is damaged, or whose policy nobody knows.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from aftereffect.errors import ConflictError, CorruptionError, NotFoundError, OutputError
from aftereffect.live.events import now
from aftereffect.live.reading import events_after
from aftereffect.live.storage import Record, Storage, View
from aftereffect.outputs import replacing, writable
from aftereffect.provenance import __version__
from aftereffect.spec import nearest

#: How a file with a log ends.
LOG_SUFFIXES = (".jsonl",)
#: Below any number of an event, also one that a flipped bit made negative.
_BEFORE_ALL = -(2**63)


def delete_experiment(storage: Storage, name: str, export_to: str | os.PathLike[str]) -> int:
    """Write the whole log of an experiment to a new file, then remove the experiment; how many events it had.

    Nobody writes to the experiment meanwhile, so that the file has everything. Whatever fails, the experiment stays.

    Parameters
    ----------
    storage
        Where it is kept.
    name
        As it was created.
    export_to
        A .jsonl file that does not exist: a line of JSON for the experiment with its settings, and one for each event, with
        its hash.

    Raises
    ------
    NotFoundError
        If there is none of that name.
    OutputError
        If the file exists, or cannot be written.
    """
    target = writable(export_to, LOG_SUFFIXES)
    check_new(target)
    record = find_record(storage, name)
    with storage.writing(record.id) as log:
        events = _write_log(record, log, target)
        log.remove(now())
    return events


def export_log(storage: Storage, name: str, path: str | os.PathLike[str]) -> int:
    """Write the whole log of an experiment to a .jsonl file, as `delete_experiment` does, and leave the experiment as it is."""
    record = find_record(storage, name)
    with storage.reading(record.id) as view:
        return _write_log(record, view, writable(path, LOG_SUFFIXES))


def remove_exported(storage: Storage, name: str, last: str) -> None:
    """Remove an experiment whose log somebody has: `last` is the hash in the last line of what `export_log` wrote.

    Raises
    ------
    ConflictError
        If the log ends otherwise: something was recorded since, or `last` is of another log.
    """
    record = find_record(storage, name)
    with storage.writing(record.id) as log:
        kept = _last_hash(record, log)
        if last != kept:
            message = f"the log of experiment {name!r} does not end with {last!r}: nothing was removed, export it again"
            raise ConflictError(message, {"last": kept}, {"last": last})
        log.remove(now())


def check_new(target: Path) -> None:
    """Refuse to write over a file: it may be the log of an experiment that is nowhere else."""
    if target.exists():
        raise OutputError(f"cannot write {target}: it exists, and may be the log of another experiment: name a new file")


def last_hash_in(text: str) -> str:
    """The hash in the last line of a log that was exported."""
    line = json.loads(text[text.rstrip().rfind("\n") + 1 :])
    return str(line["hash"] if "hash" in line else line["digest"])


def find_record(storage: Storage, name: str) -> Record:
    """An experiment as it lies in a storage; it may be damaged."""
    record = storage.find(name)
    if record is None:
        raise NotFoundError(f"there is no experiment {name!r} in {storage.url}: {nearest(name, storage.names())}")
    return record


def _last_hash(record: Record, view: View) -> str:
    last = view.last_event()
    return _hex(record.digest if last is None else last.hash)


def _write_log(record: Record, view: View, target: Path) -> int:
    """All lines, safely on the disk when this returns; how many events there are."""
    count = 0
    with replacing(target) as draft, draft.open("w", encoding="utf-8") as file:
        about = {"name": record.name, "settings": record.settings, "created_at": record.created_at}
        file.write(_line({"aftereffect": __version__, **about, "digest": _hex(record.digest)}))
        last = _hex(record.digest)
        for event in events_after(view, _BEFORE_ALL):
            last, count = _hex(event.hash), count + 1
            file.write(_line({**event._asdict(), "hash": last}))
        if last != _last_hash(record, view):  # a damaged page can end the reading of a table early
            raise CorruptionError(f"the log of experiment {record.name!r} cannot be read to its end: restore a backup")
        file.flush()
        os.fsync(file.fileno())
    with suppress(OSError):  # not every system syncs folders
        folder = os.open(target.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return count


def _line(fields: dict[str, Any]) -> str:
    return json.dumps({name: _plain(field) for name, field in fields.items()}) + "\n"


def _plain(cell: object) -> object:
    """Where a flipped bit has turned text into bytes, these."""
    return {"hex": cell.hex()} if isinstance(cell, bytes) else cell


def _hex(cell: object) -> str:
    return cell.hex() if isinstance(cell, bytes) else str(cell)
