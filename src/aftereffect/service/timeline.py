"""What the page draws: an experiment from its beginning to now, in a few hundred pieces however long it is."""

import math
import threading
from array import array
from typing import NamedTuple

from aftereffect.errors import CorruptionError
from aftereffect.live import Experiment
from aftereffect.live.events import Event
from aftereffect.live.reading import check_end, events_after, start_of

_UNTOLD = math.nan
#: In place of an arm and a round where a slot was skipped.
_NONE = -1


class Piece(NamedTuple):
    """Some slots that follow each other: their totals, the arm and round of the last, and plays of each arm up to there.

    Arm and round are None where the last slot was skipped.
    """

    first: int
    last: int
    arm: int | None
    round: int | None
    mean: float | None
    least: float | None
    most: float | None
    plays: list[int]


class Timeline:
    """Arm, round and total of every slot, kept in memory and brought up to date with what was recorded since.

    Every event is proved by the hash of the one before it, from the settings on. Where the log is no longer the one that was
    read, as after a back-up was restored, it is read anew.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._lock = threading.Lock()
        self._begin()

    def summary(self, pieces: int) -> tuple[int, int, list[Piece]]:
        """How many slots there are, how many a piece has, and at most so many pieces."""
        with self._lock:
            self._catch_up()
            return self._summed(pieces)

    def beginning(self, slots: int) -> "tuple[array[int], array[float]]":
        """Arms and totals of the first so many slots: -1 where nothing was played, not a number where none is told."""
        with self._lock:
            self._catch_up()
            return self._arms[:slots], self._totals[:slots]

    def _begin(self) -> None:
        self._place = start_of(self._experiment.record)
        self._arms, self._rounds, self._totals = array("i"), array("q"), array("d")

    def _catch_up(self) -> None:
        with self._experiment.viewing() as view:
            seq, known = self._place
            events = events_after(view, max(seq - 1, 0))
            if seq > 0:
                last = next(events, None)
                if last is None or last.hash != known:
                    self._begin()
                    events = events_after(view, 0)
            for event in events:
                after = self._place.follow(event)
                self._take(event)
                self._place = after
            check_end(view, self._place)

    def _take(self, event: Event) -> None:
        begun, slot = len(self._arms), event.slot
        if not (slot == begun if event.kind in ("decision", "skip") else slot <= begun - (event.kind == "outcome")):
            raise CorruptionError(f"event {event.seq} of the log is about slot {slot}, and {begun} were decided by then")
        if event.kind == "decision":
            self._arms.append(event.arm or 0)
            self._rounds.append(event.round or 0)
            self._totals.append(_UNTOLD)
        elif event.kind == "skip":
            gap = (event.until or 0) - slot + 1
            self._arms.extend([_NONE] * gap)
            self._rounds.extend([_NONE] * gap)
            self._totals.extend([_UNTOLD] * gap)
        elif event.kind == "outcome":
            self._totals[slot] = _UNTOLD if event.value is None else event.value
            if event.arm is not None and event.value is not None:
                self._arms[slot] = event.arm

    def _summed(self, most: int) -> tuple[int, int, list[Piece]]:
        slots = len(self._arms)
        width = max(1, -(-slots // most))
        plays = [0] * len(self._experiment.settings.arms)
        pieces = []
        for first in range(0, slots, width):
            last = min(first + width, slots) - 1
            for played in self._arms[first : last + 1]:
                if played != _NONE:
                    plays[played] += 1
            told = [total for total in self._totals[first : last + 1] if not math.isnan(total)]
            mean = sum(told) / len(told) if told else None
            least, greatest = min(told, default=None), max(told, default=None)
            arm, number = (None if each[last] == _NONE else each[last] for each in (self._arms, self._rounds))
            pieces.append(Piece(first, last, arm, number, mean, least, greatest, list(plays)))
        return slots, width, pieces
