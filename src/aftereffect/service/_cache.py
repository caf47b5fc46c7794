"""Answers that are kept while they hold: the last lag estimate, results and verification."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aftereffect.errors import AftereffectError
from aftereffect.inference import Results
from aftereffect.lag import MAX_SLOTS, LagEstimate, estimate_lag
from aftereffect.live import Experiment, Verification
from aftereffect.service._timeline import Timeline

#: A lag estimate is renewed when there are more totals by this share.
RENEWAL_SHARE = 1 / 20
#: Seconds that the request which starts a renewal waits for it; after that, it gets the last one.
MAX_WAIT = 2.0
#: Seconds after which a verification is repeated though nothing was recorded: the storage medium
#: may have been damaged since.
MAX_AGE = 60.0


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
