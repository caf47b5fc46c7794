"""What the service computes from logs and keeps in memory: timeline, lag, results, verification."""

import math
import threading
import time
from array import array
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aftereffect.errors import AftereffectError, CorruptionError
from aftereffect.inference import Results
from aftereffect.lag import MAX_SLOTS, LagEstimate, estimate_lag
from aftereffect.live import (
    Event,
    Experiment,
    Verification,
    chain_start,
    check_log_end,
    read_events,
)

#: In place of a total that did not arrive, and of the arm and round of a skipped slot.
_NO_TOTAL, _NO_ARM = math.nan, -1
#: A lag estimate is renewed when there are more totals by this share.
RENEWAL_SHARE = 1 / 20
#: Seconds that the request which starts a renewal waits for it; after that, it gets the last one.
MAX_WAIT = 2.0
#: Seconds after which a verification is repeated though nothing was recorded: the storage medium
#: may have been damaged since.
MAX_AGE = 60.0


class Piece(NamedTuple):
    """Some consecutive slots: mean and range of their totals, and pulls of each arm so far.

    `arm` and `round` are those of the last slot of the piece, or None if that slot was skipped.
    `pulls` counts from the first slot of the experiment to the last slot of the piece.
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
            self._arms.append(event.arm or 0)
            self._rounds.append(event.round or 0)
            self._totals.append(_NO_TOTAL)
        elif event.kind == "skip":
            gap = (event.until or 0) - slot + 1
            self._arms.extend([_NO_ARM] * gap)
            self._rounds.extend([_NO_ARM] * gap)
            self._totals.extend([_NO_TOTAL] * gap)
        elif event.kind == "total":
            self._totals[slot] = _NO_TOTAL if event.total is None else event.total
            if event.arm is not None and event.total is not None:
                self._arms[slot] = event.arm

    def _split(self, max_pieces: int) -> tuple[int, int, list[Piece]]:
        slots = len(self._arms)
        width = max(1, -(-slots // max_pieces))
        pulls = [0] * len(self._experiment.settings.arms)
        pieces = []
        for first in range(0, slots, width):
            last = min(first + width, slots) - 1
            for arm in self._arms[first : last + 1]:
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


class LagCache:
    """The last lag estimate of an experiment.

    An estimate takes a few seconds and changes slowly. So it is renewed only when the number of
    totals has grown by a twentieth, in the background, while requests get the last one. Requests
    wait for the first estimate, which is made once however many wait; and the request that starts
    a renewal waits a moment for it. A total that is revised in between counts in the next one.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._first = threading.Lock()
        self._renewing = threading.Lock()
        self._last: tuple[LagEstimate, int] | None = None

    def estimate(self) -> LagEstimate:
        """The estimate from the totals of now, or of a little before."""
        with self._first:
            if self._last is None:
                self._last = self._compute()
            estimate, used = self._last
        grown = self._count_totals() - used >= max(1, RENEWAL_SHARE * used)
        if grown and self._renewing.acquire(blocking=False):
            renewal = threading.Thread(target=self._renew, name="lag", daemon=True)
            renewal.start()
            renewal.join(MAX_WAIT)
            last = self._last
            return estimate if last is None else last[0]
        return estimate

    def _count_totals(self) -> int:
        return int(np.isfinite(self._timeline.first_slots(MAX_SLOTS)[1]).sum())

    def _compute(self) -> tuple[LagEstimate, int]:
        arms, totals = self._timeline.first_slots(MAX_SLOTS)
        return estimate_lag(arms, totals), int(np.isfinite(totals).sum())

    def _renew(self) -> None:
        try:
            self._last = self._compute()
        except AftereffectError:
            self._last = None  # the next request computes it again, and gets the error
        finally:
            self._renewing.release()


class _Found(NamedTuple):
    begun: float
    head: bytes | None
    results: Results


class ResultsCache:
    """The last results of an experiment by level.

    Results of a long log take seconds, and a running experiment records something every moment. So
    results are computed once for all requests that came before that began; and they are cached
    while the log ends with the same event.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._lock = threading.Lock()
        self._last: dict[float, _Found] = {}

    def find(self, level: float, since: float) -> Results:
        """The results of the log as it was at this moment of `time.monotonic`, or later."""
        with self._lock:
            last = self._last.get(level)
            if last is not None and last.begun >= since:
                return last.results
            begun = time.monotonic()
            with self._experiment.read_log() as view:
                event = view.last_event()
            head = None if event is None else event.hash
            if last is None or last.head != head:
                last = _Found(begun, head, self._experiment.results(level=level))
            self._last[level] = last._replace(begun=begun)
            return last.results


class _Verified(NamedTuple):
    begun: float
    verification: Verification
    head: bytes | None


class VerificationCache:
    """The last verification of an experiment.

    A verification reads the whole log, so one at a time is made, for all requests that came before
    it began; and it is cached while the log ends with the same event.
    """

    def __init__(self, open_again: Callable[[], Experiment]) -> None:
        self._open = open_again
        self._lock = threading.Lock()
        self._last: _Verified | None = None

    def verify(self, since: float) -> Verification:
        """The result for the log as it was at this moment of `time.monotonic`, or later."""
        with self._lock:
            experiment = self._open()  # also a damaged one
            last = self._last
            if last is not None and (last.begun >= since or self._still_holds(experiment, last)):
                return last.verification
            begun = time.monotonic()
            verification = experiment.verify()
            head = self._hash_of(experiment, verification.events)
            self._last = _Verified(begun, verification, head)
            return verification

    def _still_holds(self, experiment: Experiment, last: _Verified) -> bool:
        if not last.verification.whole or time.monotonic() - last.begun > MAX_AGE:
            return False
        count = last.verification.events
        with experiment.read_log() as view:
            tail = view.events(max(count - 1, 0), 2)
        return [(event.seq, event.hash) for event in tail] == (
            [(count, last.head)] if count else []
        )

    @staticmethod
    def _hash_of(experiment: Experiment, count: int) -> bytes | None:
        """The hash of the event with this number."""
        with experiment.read_log() as view:
            return next(
                (event.hash for event in view.events(max(count - 1, 0), 1) if event.seq == count),
                None,
            )
