"""Checking a whole experiment: every hash, every decision, the snapshot, and the medium."""

import json
from typing import Any, NamedTuple

from aftereffect.errors import CorruptionError
from aftereffect.live.ledger import Difference, Ledger
from aftereffect.live.reading import check_end, events_after, start_of
from aftereffect.live.settings import Settings
from aftereffect.live.snapshot import Snapshot, taken
from aftereffect.live.storage import Record, Storage, View
from aftereffect.provenance import __version__


class Verification(NamedTuple):
    """What was found: how much of the log holds, and every problem.

    A `difference` is no damage: the log is whole, but from that slot on today's code would have decided otherwise than the
    version that did. What was played and learned stays as it is recorded.
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

    def plain(self) -> dict[str, Any]:
        """By name, in the types that JSON has."""
        return self._asdict() | {
            "whole": self.whole,
            "problems": list(self.problems),
            "difference": self.difference and self.difference._asdict(),
        }

    def __str__(self) -> str:
        checked = f"{self.events:,} events, {self.slots:,} slots, {self.rounds:,} rounds"
        if self.problems:
            return "\n".join([f"{self.name}: damaged, {checked} could be checked", *self.problems])
        if self.difference:
            slot, version = self.difference
            return (
                f"{self.name}: whole, {checked}; decided by version {version}: "
                f"today's code, version {__version__}, would differ from slot {slot} on"
            )
        return f"{self.name}: whole, {checked}, every decision derived again"


def verified(storage: Storage, record: Record, settings: Settings, view: View) -> Verification:
    """Check everything there is of an experiment."""
    problems = storage.examine()
    ledger = Ledger(settings, start_of(record))
    snapshot, seq = view.snapshot(), 0
    try:
        seq = _place(snapshot)
    except CorruptionError as error:
        problems.append(str(error))
    try:
        for event in events_after(view, 0):
            ledger.fold(event)
            if event.seq == seq and ledger.difference is None:
                _compare(ledger, snapshot)
        check_end(view, ledger.place)
        if seq > ledger.place.seq:
            raise CorruptionError(f"the log ends with event {ledger.place.seq}, but the snapshot was taken at event {seq}")
    except CorruptionError as error:
        problems.append(str(error))
    rounds = ledger.ahead().rounds
    return Verification(record.name, ledger.place.seq, ledger.next_slot, rounds, tuple(problems), ledger.difference)


def _place(snapshot: Snapshot | None) -> int:
    """The event at which a snapshot was taken."""
    if snapshot is None:
        return 0
    snapshot.check()
    return int(json.loads(snapshot.text)["seq"])


def _compare(ledger: Ledger, snapshot: Snapshot | None) -> None:
    """A snapshot of this version must be the fold of the log."""
    if snapshot and json.loads(snapshot.text)["version"] == __version__ and snapshot != taken(ledger):
        raise CorruptionError(f"the snapshot taken at event {ledger.place.seq} is not the fold of the log")
