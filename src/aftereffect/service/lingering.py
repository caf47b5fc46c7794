"""How long effects linger in an experiment, kept until there is enough more to tell."""

import threading

import numpy as np

from aftereffect.errors import AftereffectError
from aftereffect.lag import LagEstimate, estimate_lag
from aftereffect.lag.estimate import MOST_SLOTS
from aftereffect.service.timeline import Timeline

#: An estimate is made anew when there are more totals by this share of those that it was made from.
GROWN = 1 / 20
#: Seconds that who asks for a new one waits for it, before the last one is told.
MAX_WAIT = 2.0


class Lingering:
    """The last estimate of an experiment.

    It takes a second or a few of computing and changes slowly: so it is made anew only when the totals have grown by a
    twentieth since, in the background, while those who ask get the last one. Only for the first one they wait, and it is made
    once however many do; and who is the first to ask for a new one waits a moment, as most are made in less. A total that is
    revised in between is in the next one.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._first = threading.Lock()
        self._renewing = threading.Lock()
        self._last: tuple[LagEstimate, int] | None = None

    def estimate(self) -> LagEstimate:
        """As the totals tell, of now or of a little before."""
        with self._first:
            if self._last is None:
                self._last = self._made()
            estimate, counted = self._last
        if self._told() - counted >= max(1, GROWN * counted) and self._renewing.acquire(blocking=False):
            renewal = threading.Thread(target=self._renew, name="lag", daemon=True)
            renewal.start()
            renewal.join(MAX_WAIT)
            last = self._last
            return estimate if last is None else last[0]
        return estimate

    def _told(self) -> int:
        return int(np.isfinite(self._timeline.beginning(MOST_SLOTS)[1]).sum())

    def _made(self) -> tuple[LagEstimate, int]:
        arms, totals = self._timeline.beginning(MOST_SLOTS)
        return estimate_lag((arms, totals)), int(np.isfinite(totals).sum())

    def _renew(self) -> None:
        try:
            self._last = self._made()
        except AftereffectError:
            self._last = None  # who asks next is told
        finally:
            self._renewing.release()
