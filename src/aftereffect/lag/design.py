"""The totals of a history as a linear model: which arms were played at which lags before each slot.

With the share w_b of a reward that lands in the bin b of lags, spread evenly over it, and the mean s_k of arm k ::

    total(t) = sum over b, k of  w_b s_k x(t, b, k) + noise        x: the share of slots in bin b before t that played arm k

Nothing is in flight before the first slot. Where every reward is cut into the same shares the noise of neighbouring slots is
alike; `Whitened` takes from each slot what the one before it foretells.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from aftereffect.kernels import Matrix, Slots, Vector
from aftereffect.lag.seen import Seen


def bins(reach: int, most: int) -> Slots:
    """The edges of at most so many bins of about equal width for the lags 0, 1, ..., reach."""
    return np.unique(np.linspace(0, reach + 1, min(most, reach + 1) + 1).round().astype(np.int64))


def shares_played(history: Seen, edges: Slots) -> Matrix:
    """A row per slot: x(t, b, k), the arms of a bin side by side."""
    slots, arms = len(history.arm), history.arms
    played = np.zeros((slots + 1, arms))
    played[np.arange(1, slots + 1), history.arm] = 1
    before = np.cumsum(played, axis=0)  # how often each arm was played before a slot
    t = np.arange(slots)
    columns = [
        (before[np.maximum(t - first + 1, 0)] - before[np.maximum(t - end + 1, 0)]) / (end - first)
        for first, end in pairwise(edges.tolist())
    ]
    return np.concatenate(columns, axis=1)


class Whitened(NamedTuple):
    """Rows and totals less `echo` times those of the slot before; only slots whose totals are known."""

    rows: Matrix
    totals: Vector


def whitened(rows: Matrix, totals: Vector, echo: float) -> Whitened:
    """What is new in each slot."""
    if echo == 0:
        known = np.isfinite(totals)
        return Whitened(rows[known], totals[known])
    new = totals[1:] - echo * totals[:-1]
    known = np.isfinite(new)
    return Whitened((rows[1:] - echo * rows[:-1])[known], new[known])
