"""Arm, round and total of every slot of an experiment, in memory."""

import math
import threading
from array import array
from typing import NamedTuple

from aftereffect.errors import CorruptionError
from aftereffect.live import (
    Event,
    Experiment,
    chain_start,
    check_log_end,
    read_arms,
    read_events,
    read_unit_totals,
)

#: In place of a total that did not arrive, and of the arm and round of a skipped slot.
_NO_TOTAL, _NO_ARM = math.nan, -1


class Piece(NamedTuple):
    """Some consecutive slots: mean and range of their totals, and pulls of each arm so far.

    `arm` and `round` are those of the last slot of the piece, or None if that slot was skipped.
    With several units, there is no `arm`, the total of a slot is the mean over its units, and each
    unit has a pull. `pulls` counts from the first slot of the experiment to the last slot of the
    piece.
    """

    first: int
    last: int
    arm: int | None
    round: int | None
    mean: float | None
    low: float | None
    high: float | None
    pulls: list[int]


class Timeline:
    """Arm, round and total of every slot, in memory, updated with what was recorded since.

    Every event is checked against the hash of the one before it, from the settings on. If the log
    is no longer the one that was read, for example after a backup was restored, it is read again
    from its start.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._lock = threading.Lock()
        self._begin()

    def summarize(self, max_pieces: int) -> tuple[int, int, list[Piece]]:
        """The number of slots, the slots per piece, and at most so many pieces."""
        with self._lock:
            self._catch_up()
            return self._split(max_pieces)

    def first_slots(self, count: int) -> "tuple[array[int], array[float]]":
        """Arms and totals of the first slots: arm -1 where a slot was skipped, NaN for no total."""
        with self._lock:
            self._catch_up()
            return self._arms[:count], self._totals[:count]

    def _begin(self) -> None:
        self._head = chain_start(self._experiment.record)
        self._arms, self._rounds, self._totals = array("i"), array("q"), array("d")
        #: With several units, the arm and the total of each, by slot.
        self._unit_arms: dict[int, list[int]] = {}
        self._unit_totals: dict[int, list[float]] = {}
        self._arm_count = len(self._experiment.settings.arms)

    def _catch_up(self) -> None:
        with self._experiment.read_log() as view:
            seq, known = self._head
            events = read_events(view, max(seq - 1, 0))
            if seq > 0:
                last = next(events, None)
                if last is None or last.hash != known:
                    self._begin()
                    events = read_events(view, 0)
            for event in events:
                head = self._head.follow(event)
                self._add(event)
                self._head = head
            check_log_end(view, self._head)

    def _add(self, event: Event) -> None:
        decided, slot = len(self._arms), event.slot
        is_next = event.kind in ("decision", "skip")
        if slot != decided if is_next else slot > decided - (event.kind == "total"):
            raise CorruptionError(
                f"event {event.seq} of the log is about slot {slot}, "
                f"but {decided} slots were decided before it"
            )
        if event.kind == "decision":
            if event.units is not None:
                self._unit_arms[slot] = list(read_arms(event.units))
            self._arms.append(_NO_ARM if event.units is not None else event.arm or 0)
            self._rounds.append(event.round or 0)
            self._totals.append(_NO_TOTAL)
        elif event.kind == "skip":
            gap = (event.until or 0) - slot + 1
            self._arms.extend([_NO_ARM] * gap)
            self._rounds.extend([_NO_ARM] * gap)
            self._totals.extend([_NO_TOTAL] * gap)
        elif event.kind == "total" and event.units is not None:
            self._add_units(event)
        elif event.kind == "total":
            self._totals[slot] = _NO_TOTAL if event.total is None else event.total
            if event.arm is not None and event.total is not None:
                self._arms[slot] = event.arm
        elif event.kind == "arm":
            self._arm_count = max(self._arm_count, (event.arm or 0) + 1)

    def _add_units(self, event: Event) -> None:
        """The total of a slot is the mean over the units that have one."""
        units = len(self._experiment.settings.units)
        arms = self._unit_arms.setdefault(event.slot, [_NO_ARM] * units)
        totals = self._unit_totals.setdefault(event.slot, [_NO_TOTAL] * units)
        for unit, arm, total, _ in read_unit_totals(event.units):
            totals[unit] = _NO_TOTAL if total is None else total
            arms[unit] = arms[unit] if arm is None or total is None else arm
        known = [total for total in totals if not math.isnan(total)]
        self._totals[event.slot] = sum(known) / len(known) if known else _NO_TOTAL

    def _split(self, max_pieces: int) -> tuple[int, int, list[Piece]]:
        slots = len(self._arms)
        width = max(1, -(-slots // max_pieces))
        pulls = [0] * self._arm_count
        pieces = []
        for first in range(0, slots, width):
            last = min(first + width, slots) - 1
            played = [*self._arms[first : last + 1]]
            for slot in range(first, last + 1):
                played += self._unit_arms.get(slot, ())
            for arm in played:
                if arm != _NO_ARM:
                    pulls[arm] += 1
            totals = [total for total in self._totals[first : last + 1] if not math.isnan(total)]
            pieces.append(
                Piece(
                    first,
                    last,
                    arm=None if self._arms[last] == _NO_ARM else self._arms[last],
                    round=None if self._rounds[last] == _NO_ARM else self._rounds[last],
                    mean=sum(totals) / len(totals) if totals else None,
                    low=min(totals, default=None),
                    high=max(totals, default=None),
                    pulls=list(pulls),
                )
            )
        return slots, width, pieces
