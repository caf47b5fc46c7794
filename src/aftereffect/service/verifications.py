"""Verifications of an experiment, kept as long as its log stays as it is."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from aftereffect.live import Experiment, Verification

#: Seconds after which a verification is made anew though nothing was recorded: the medium may have been damaged since.
MAX_AGE = 60.0


class _Result(NamedTuple):
    begun: float
    verification: Verification
    head: bytes | None


class Verifying:
    """The last verification of an experiment.

    It reads the whole log, so it is made once for all who asked before it began, and kept while the log ends with the same
    event: one at a time, however many ask.
    """

    def __init__(self, open_anew: Callable[[], Experiment]) -> None:
        self._open = open_anew
        self._lock = threading.Lock()
        self._last: _Result | None = None

    def verify(self, asked: float) -> Verification:
        """As the log stood at that moment of `time.monotonic` or later."""
        with self._lock:
            experiment = self._open()  # also one that is damaged
            last = self._last
            if last is not None and (last.begun >= asked or self._still_holds(experiment, last)):
                return last.verification
            begun = time.monotonic()
            verification = experiment.verify()
            head = self._head(experiment, verification.events)
            self._last = _Result(begun, verification, head)
            return verification

    def _still_holds(self, experiment: Experiment, last: _Result) -> bool:
        if not last.verification.whole or time.monotonic() - last.begun > MAX_AGE:
            return False
        count = last.verification.events
        with experiment.viewing() as view:
            tail = view.events(max(count - 1, 0), 2)
        return [(event.seq, event.hash) for event in tail] == ([(count, last.head)] if count else [])

    @staticmethod
    def _head(experiment: Experiment, count: int) -> bytes | None:
        """The hash of the last event that was verified."""
        with experiment.viewing() as view:
            return next((event.hash for event in view.events(max(count - 1, 0), 1) if event.seq == count), None)
