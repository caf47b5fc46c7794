"""The totals of a history as a linear model: which arms were played at which lags before each slot.

With the share w_b of a reward that lands in the bin b of lags, spread evenly over it, and what arm k brings, s_k ::

    total(t) = level + sum over b, k of  w_b s_k x(t, b, k) + noise    x: the share of slots in bin b before t that played k

The slots before the first are played by an arm of their own, "before", whose s is fitted like that of any other: so whatever
was in flight at the beginning is explained, an empty shop and one that has run for years alike. Slots in which no arm was
played are one more arm, "none". Since x sums to 1 over all of these, only contrasts between arms and the level can be told.
"""

import math
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect.kernels import Slots
from aftereffect.lag.seen import NO_ARM, Seen

#: An array by slot, bin and arm.
Cube: TypeAlias = NDArray[np.float64]

#: Bins are one slot wide at first and then grow by this, or by more if there would be too many.
GROWTH = 1.12


def lag_edges(reach: int, most: int) -> Slots:
    """The edges of at most so many bins for the lags 0, 1, ..., reach; far lags share wide bins."""
    growth = GROWTH
    while True:
        edges = [0]
        while edges[-1] <= reach:
            edges.append(max(edges[-1] + 1, math.ceil(growth * edges[-1])))
        if len(edges) - 1 <= most:
            return np.array([*edges[:-1], reach + 1])
        growth *= 1.03


def shares_played(history: Seen, edges: Slots) -> Cube:
    """x(t, b, k): for each arm, then for "none" if it occurs, then for "before"."""
    slots = len(history.arm)
    arm = np.where(history.arm == NO_ARM, history.arms, history.arm)
    played = np.zeros((slots + 1, int(arm.max()) + 1))
    played[np.arange(1, slots + 1), arm] = 1
    so_far = np.cumsum(played, axis=0)
    t = np.arange(slots)
    by_bin = [
        (so_far[np.maximum(t - first + 1, 0)] - so_far[np.maximum(t - end + 1, 0)]) / (end - first)
        for first, end in pairwise(edges.tolist())
    ]
    shares = np.stack(by_bin, axis=1)
    return np.concatenate([shares, 1 - shares.sum(axis=2, keepdims=True)], axis=2)


def fill_gaps(rows: Cube, known: Slots) -> Cube:
    """Slots without a total, interpolated between those with one.

    Totals and columns are filled alike, so that the model holds for what is filled in, too; it only carries noise over gaps.
    """
    slots = np.arange(len(rows))
    after = np.clip(np.searchsorted(known, slots), 0, len(known) - 1)
    before = np.maximum(after - (known[after] > slots), 0)
    width = np.maximum(known[after] - known[before], 1)
    part = np.clip((slots - known[before]) / width, 0.0, 1.0).reshape(-1, *[1] * (rows.ndim - 1))
    filled: Cube = rows[known[before]] * (1 - part) + rows[known[after]] * part
    return filled
