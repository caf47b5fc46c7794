"""PatientBandits written apart from the package, and as literally as possible: it keeps all arrivals and sums them anew."""

import math


class Patient:
    """Manegueu et al., with slots from 1 on; `told` is the largest lag of which anything is told."""

    def __init__(self, arms, horizon, told, alpha=None, least_alpha=None, c=None, mu=None):
        self.arms, self.horizon, self.told, self.alpha = arms, horizon, told, alpha
        self.least_alpha, self.c, self.mu = least_alpha, c, mu
        self.pulls = []
        self.arrivals = []

    def hear(self, slot, lag, amount):
        """A part of the pull of a slot."""
        self.arrivals.append((slot, lag, amount))

    def arrived_within(self, slots, lag):
        """What the pulls of some slots brought at lags up to this one."""
        return sum(amount for slot, at, amount in self.arrivals if slot in slots and at <= lag)

    def pulled(self, arm):
        """The slots in which an arm was pulled."""
        return {slot for slot, each in enumerate(self.pulls, 1) if each == arm}

    def mean_within(self, arm, lag):
        """M_{t, lag}: over the pulls of which that much has been seen at the end of the last slot."""
        slots = {slot for slot in self.pulled(arm) if slot + lag <= len(self.pulls)}
        return self.arrived_within(slots, lag) / len(slots) if slots else 0.0

    def find_means(self):
        """M_D and M_d of the arm with the most pulls."""
        most = max(range(self.arms), key=lambda arm: len(self.pulled(arm)))
        long = min(len(self.pulled(most)) // 2, self.told)
        short = math.floor((self.c / 2) ** (1 / self.least_alpha) * long)
        return most, self.mean_within(most, long), self.mean_within(most, short)

    def find_alpha(self):
        """The alpha of this slot."""
        if self.alpha is not None:
            return min(self.alpha, 0.5)
        most, long, short = self.find_means()
        log = math.log(len(self.pulled(most)))
        plain = min(-math.log(long - short) / log, 0.5) if long > short else 0.5
        inner = math.sqrt(math.log(2 * self.arms * self.horizon**3))
        return max(plain - math.log(24 * inner / (self.c * self.mu)) / log, 0)

    def choose(self):
        """Pull an arm."""
        t = len(self.pulls)
        first = self.arms if self.alpha is not None else 2 * self.arms
        if t < first:
            self.pulls.append(t % self.arms)
            return self.pulls[-1]
        alpha, indices = self.find_alpha(), []
        for arm in range(self.arms):
            slots = self.pulled(arm)
            n = len(slots)
            mean = self.arrived_within(slots, math.inf) / n
            width = math.sqrt(2 * math.log(2 * self.arms * self.horizon**3) / n)
            indices.append(mean + width + 2 * n**-alpha)
        self.pulls.append(indices.index(max(indices)))
        return self.pulls[-1]
