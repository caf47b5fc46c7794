"""How long effects linger in an experiment, kept until there is enough more to tell."""

import threading
from dataclasses import replace

import numpy as np

from aftereffect.lag import LagEstimate, estimate_lag
from aftereffect.lag.estimate import MOST_SLOTS
from aftereffect.service.timeline import Timeline

#: An estimate is made anew when there are more totals by this share of those that it was made from.
GROWN = 1 / 20
#: Time and memory of an estimate grow with slots times arms, and with the square of the arms. With more than these it would
#: take half a minute or gigabytes from those who ask and tell; up to five arms an estimate reads as much as it ever does.
MOST_ARMS, MOST_CELLS = 32, 100_000


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
        number = self._timeline.number_of_arms
        if number > MOST_ARMS:
            why = f"{number:,} arms are too many for an estimate by the service, which makes them for {MOST_ARMS} at most"
            return replace(estimate_lag(((), ())), reason=why)
        with self._lock:
            arms, totals = self._timeline.beginning(min(MOST_SLOTS, MOST_CELLS // number))
            told = int(np.isfinite(totals).sum())
            if self._estimate is None or told - self._told >= max(1, GROWN * self._told):
                self._estimate, self._told = estimate_lag((arms, totals)), told
            return self._estimate
