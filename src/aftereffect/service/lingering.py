"""How long effects linger in an experiment, kept until there is enough more to tell."""

import threading

import numpy as np

from aftereffect.lag import LagEstimate, estimate_lag
from aftereffect.lag.estimate import MOST_SLOTS
from aftereffect.service.timeline import Timeline

#: An estimate is made anew when there are more totals by this share of those that it was made from.
GROWN = 1 / 20


class Lingering:
    """The last estimate of an experiment.

    It takes a second or a few of computing and changes slowly: so it is made anew only when the totals have grown by a
    twentieth since, and once however many ask for it at the same time; those who come meanwhile wait for it. A total that is
    revised in between is in the next one.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._lock = threading.Lock()
        self._told = 0
        self._estimate: LagEstimate | None = None

    def estimate(self) -> LagEstimate:
        """As the totals of now tell, or of a little before."""
        with self._lock:
            arms, totals = self._timeline.beginning(MOST_SLOTS)
            told = int(np.isfinite(totals).sum())
            if self._estimate is None or told - self._told >= max(1, GROWN * self._told):
                self._estimate, self._told = estimate_lag((arms, totals)), told
            return self._estimate
