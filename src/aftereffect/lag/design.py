"""The totals of a history as a linear model: which arms were played at which lags before each slot.

With the share w_b of a reward that lands in the bin b of lags, spread evenly over it, and the mean s_k of arm k ::

    total(t) = sum over b, k of  w_b s_k x(t, b, k) + noise        x: the share of slots in bin b before t that played arm k

Nothing is in flight before the first slot.
"""

from itertools import pairwise

import numpy as np

from aftereffect.kernels import Matrix, Slots
from aftereffect.lag.seen import Seen


def bins(reach: int, most: int) -> Slots:
    """The edges of at most so many bins of about equal width for the lags 0, 1, ..., reach."""
    return np.unique(np.linspace(0, reach + 1, min(most, reach + 1) + 1).round().astype(np.int64))


def shares_played(history: Seen, edges: Slots) -> Matrix:
    """A row per slot whose total is known: x(t, b, k), the arms of a bin side by side."""
    slots, arms = len(history.arm), history.arms
    played = np.zeros((slots + 1, arms))
    played[np.arange(1, slots + 1), history.arm] = 1
    before = np.cumsum(played, axis=0)  # how often each arm was played before a slot
    t = np.flatnonzero(np.isfinite(history.total))
    columns = [
        (before[np.maximum(t - first + 1, 0)] - before[np.maximum(t - end + 1, 0)]) / (end - first)
        for first, end in pairwise(edges.tolist())
    ]
    return np.concatenate(columns, axis=1)
