"""Which keys a log has, beside the index that finds them: a damaged index must not have a slot decided twice."""

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

#: Experiments whose keys are remembered; those of others are read again.
_MAX_EXPERIMENTS = 256


class _Keys:
    """The keys of one experiment up to an event, 8 bytes each."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self.seq, self.hash = 0, b""
        self.hashes = array("q")

    def take(self, rows: Sequence[tuple[int, str, bytes]]) -> None:
        self.hashes.extend(hash(key) for _, key, _ in rows)
        if rows:
            self.seq, _, self.hash = rows[-1]


class KnownKeys:
    """Keys by experiment, read from the table of events itself, and once: later only what was added since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._experiments: OrderedDict[int, _Keys] = OrderedDict()

    def may_have(self, experiment: int, key: str, read: Callable[[int], Sequence[tuple[int, str, bytes]]]) -> bool:
        """Whether an experiment has a key; true, once in 2**64, also for one that it has not.

        Parameters
        ----------
        experiment
            Its number.
        key
            What to look for.
        read
            Gives number, key and hash of the events that have a key, in their order, from a number on.
        """
        with self._lock:
            known = self._experiments.setdefault(experiment, _Keys())
            self._experiments.move_to_end(experiment)
            while len(self._experiments) > _MAX_EXPERIMENTS:
                self._experiments.popitem(last=False)
        with known.lock:
            rows = read(known.seq)
            if known.seq and (not rows or (rows[0][0], rows[0][2]) != (known.seq, known.hash)):
                known.forget()  # another log: a transaction that failed, or a back-up that was restored
                rows = read(0)
            known.take(rows[1:] if known.seq else rows)
            return bool(np.any(np.frombuffer(known.hashes, dtype=np.int64) == hash(key)))
