"""What the page draws: an experiment from its beginning to now, in a few hundred pieces however long it is."""

import threading
from array import array
from typing import Any

from aftereffect.live import Experiment

#: Events that are read at a time.
_PIECE = 20_000
_UNTOLD = float("nan")


class Timeline:
    """Arm, round and total of every slot, kept in memory and brought up to date with what was recorded since."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._lock = threading.Lock()
        self._seq = 0
        self._arms, self._rounds, self._totals = array("i"), array("q"), array("d")

    def summary(self, pieces: int) -> dict[str, Any]:
        """Totals and shares in at most so many pieces of equally many slots, and where rounds begin."""
        with self._lock:
            self._catch_up()
            return self._summed(pieces)

    def _catch_up(self) -> None:
        with self._experiment.viewing() as view:
            while events := view.events(self._seq, _PIECE):
                for event in events:
                    if event.kind == "decision":
                        self._arms.append(event.arm or 0)
                        self._rounds.append(event.round or 0)
                        self._totals.append(_UNTOLD)
                    elif event.kind == "outcome":
                        self._totals[event.slot] = _UNTOLD if event.value is None else event.value
                self._seq = events[-1].seq

    def _summed(self, pieces: int) -> dict[str, Any]:
        slots = len(self._arms)
        width = max(1, -(-slots // pieces))
        plays = [0] * len(self._experiment.settings.arms)
        summed: list[dict[str, Any]] = []
        for first in range(0, slots, width):
            stop = min(first + width, slots)
            for arm in self._arms[first:stop]:
                plays[arm] += 1
            told = [total for total in self._totals[first:stop] if total == total]
            summed.append(
                {
                    "first": first,
                    "last": stop - 1,
                    "arm": self._arms[stop - 1],
                    "round": self._rounds[stop - 1],
                    "mean": sum(told) / len(told) if told else None,
                    "least": min(told, default=None),
                    "most": max(told, default=None),
                    "plays": list(plays),
                }
            )
        return {"slots": slots, "width": width, "pieces": summed}
