"""Whole experiments: verify one, export its log, delete it.

Export and deletion do not interpret the log. They work for a damaged experiment too, and for one
whose policy is not known.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from aftereffect._core import __version__, atomic_write, check_writable, suggest
from aftereffect.errors import ConflictError, CorruptionError, NotFoundError, OutputError
from aftereffect.live._reading import chain_start, check_log_end, fold_event, read_events
from aftereffect.live._snapshots import take_snapshot
from aftereffect.live._state import Difference
from aftereffect.live._unit_state import make_state
from aftereffect.live.events import now
from aftereffect.live.records import count_noun
from aftereffect.live.settings import Settings
from aftereffect.live.storage import Record, Storage, View

#: The suffixes of files that a log can be written to.
LOG_SUFFIXES = (".jsonl",)
#: Below any event number, even one that a flipped bit made negative.
_BEFORE_ALL = -(2**63)


class Verification(NamedTuple):
    """The result of a check of a whole experiment: how much of it is intact, and all problems.

    A `difference` is no damage: the log is intact, but from that slot on the current code decides
    differently from the version that recorded the log. The recorded decisions stay valid.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> slot = exp.ask(0)
    >>> exp.verify().whole, exp.verify().events
    (True, 1)
    """

    name: str
    events: int
    slots: int
    rounds: int
    problems: tuple[str, ...]
    difference: Difference | None

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict() | {
            "whole": self.whole,
            "problems": list(self.problems),
            "difference": self.difference and self.difference._asdict(),
        }

    def __str__(self) -> str:
        counts = (self.events, "event"), (self.slots, "slot"), (self.rounds, "round")
        checked = ", ".join(count_noun(*each) for each in counts)
        if self.problems:
            return "\n".join([f"{self.name}: damaged; {checked} passed the check", *self.problems])
        if self.difference:
            slot, version = self.difference
            return (
                f"{self.name}: whole, {checked}; version {version} decided, "
                f"and this version, {__version__}, would differ from slot {slot} on"
            )
        return f"{self.name}: whole, {checked}, every decision derived again"


def verify_experiment(
    storage: Storage, record: Record, settings: Settings, view: View
) -> Verification:
    """Check every hash, every decision, the snapshot, and the medium itself."""
    problems = storage.examine()
    state = make_state(settings, chain_start(record))
    snapshot, taken_at, version = view.snapshot(), 0, ""
    try:
        if snapshot is not None:
            snapshot.check()
            fields = json.loads(snapshot.text)
            taken_at, version = int(fields["seq"]), fields["version"]
    except CorruptionError as error:
        problems.append(str(error))
    try:
        for event in read_events(view, 0):
            fold_event(state, record, view, event)
            if (
                event.seq == taken_at
                and state.difference is None
                and version == __version__
                and snapshot != take_snapshot(state)
            ):
                raise CorruptionError(
                    f"the snapshot that was taken at event {taken_at} does not agree with the log"
                )
        check_log_end(view, state.head)
        if taken_at > state.head.seq:
            raise CorruptionError(
                f"the log ends with event {state.head.seq}, "
                f"but the snapshot was taken at event {taken_at}"
            )
    except CorruptionError as error:
        problems.append(str(error))
    rounds = state.look_ahead().rounds
    return Verification(
        record.name, state.head.seq, state.next_slot, rounds, tuple(problems), state.difference
    )


def find_record(storage: Storage, name: str) -> Record:
    """Find the record of an experiment, which may be damaged.

    >>> from aftereffect import open_storage
    >>> storage = open_storage("memory://")
    >>> created = storage.create("banner", "{}", "today", b"digest")
    >>> find_record(storage, "baner")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    aftereffect.errors.NotFoundError: ... no experiment 'baner' ... did you mean 'banner'?
    """
    record = storage.find(name)
    if record is None:
        raise NotFoundError(
            f"there is no experiment {name!r} in {storage.url}: {suggest(name, storage.names())}"
        )
    return record


def delete_experiment(storage: Storage, name: str, export_to: str | os.PathLike[str]) -> int:
    """Write the whole log of an experiment to a new file, then delete the experiment for good.

    Nobody can write to the experiment meanwhile, so the file has everything. If anything fails, the
    experiment stays.

    Parameters
    ----------
    storage
        The storage that has it.
    name
        The name of the experiment.
    export_to
        A .jsonl file that does not exist yet. Its first line has the settings of the experiment,
        and each further line one event with its hash.

    Returns
    -------
    int
        The number of events in the log.

    Raises
    ------
    NotFoundError
        If there is no experiment of that name.
    OutputError
        If the file exists or cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from aftereffect import Experiment, delete_experiment, open_storage
    >>> storage = open_storage("memory://")
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage=storage
    ... )
    >>> slot, total = exp.ask(0).slot, exp.tell(0, 4).total
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     delete_experiment(storage, "banner", f"{folder}/banner.jsonl")
    2
    >>> storage.names()
    []
    """
    target = check_writable(export_to, LOG_SUFFIXES)
    check_absent(target)
    record = find_record(storage, name)
    with storage.writing(record.id) as log:
        events = _write_log(record, log, target)
        log.remove(now())
    return events


def export_log(storage: Storage, name: str, path: str | os.PathLike[str]) -> int:
    """Write the whole log of an experiment to a .jsonl file, and return the number of events.

    >>> import tempfile
    >>> from aftereffect import open_storage
    >>> storage = open_storage("memory://")
    >>> created = storage.create("banner", "{}", "today", b"digest")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_log(storage, "banner", f"{folder}/banner.jsonl")
    0
    """
    record = find_record(storage, name)
    with storage.reading(record.id) as view:
        return _write_log(record, view, check_writable(path, LOG_SUFFIXES))


def remove_exported(storage: Storage, name: str, last: str) -> None:
    """Delete an experiment for good, whose log the caller has exported.

    Parameters
    ----------
    storage
        The storage that has it.
    name
        The name of the experiment.
    last
        The hash in the last line that `export_log` wrote; it shows that the caller has the log.

    Raises
    ------
    ConflictError
        If the log does not end with that hash, because it has grown since or is another log.

    Examples
    --------
    >>> from aftereffect import open_storage
    >>> storage = open_storage("memory://")
    >>> created = storage.create("banner", "{}", "today", b"digest")
    >>> remove_exported(storage, "banner", b"digest".hex())
    >>> len(storage.names())
    0
    """
    record = find_record(storage, name)
    with storage.writing(record.id) as log:
        recorded = _find_last_hash(record, log)
        if last != recorded:
            message = (
                f"the log of experiment {name!r} does not end with {last!r}: "
                "nothing was deleted, export it again"
            )
            raise ConflictError(message, {"last": recorded}, {"last": last})
        log.remove(now())


def check_absent(target: Path) -> None:
    """Refuse to overwrite a file: it may be the only log of another experiment.

    >>> check_absent(Path("no-such-file.jsonl"))
    """
    if target.exists():
        raise OutputError(
            f"cannot write {target}: the file exists and may be the log of another experiment; "
            "name a new file"
        )


def read_last_hash(text: str) -> str:
    r"""Read the hash in the last line of an exported log.

    >>> read_last_hash('{"digest": "00"}\n{"hash": "4b"}\n')
    '4b'
    """
    line = json.loads(text[text.rstrip().rfind("\n") + 1 :])
    return str(line["hash"] if "hash" in line else line["digest"])


def _find_last_hash(record: Record, view: View) -> str:
    last = view.last_event()
    return _hex(record.digest if last is None else last.hash)


def _write_log(record: Record, view: View, target: Path) -> int:
    """Write all lines and sync them to the disk; return the number of events."""
    count, last = 0, _hex(record.digest)
    first = {"aftereffect": __version__, "name": record.name, "settings": record.settings}
    with atomic_write(target) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(_make_line({**first, "created_at": record.created_at, "digest": last}))
        for event in read_events(view, _BEFORE_ALL):
            last, count = _hex(event.hash), count + 1
            file.write(_make_line({**event._asdict(), "hash": last}))
        if last != _find_last_hash(record, view):  # a damaged page can end the reading early
            raise CorruptionError(
                f"the log of experiment {record.name!r} cannot be read to its end: restore a backup"
            )
        file.flush()
        os.fsync(file.fileno())
    with suppress(OSError):  # not every system syncs folders
        folder = os.open(target.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return count


def _make_line(fields: dict[str, Any]) -> str:
    """One line of JSON, with bytes in hexadecimal: a flipped bit can turn text into bytes."""
    plain = {
        name: {"hex": field.hex()} if isinstance(field, bytes) else field
        for name, field in fields.items()
    }
    return json.dumps(plain) + "\n"


def _hex(field: object) -> str:
    return field.hex() if isinstance(field, bytes) else str(field)
