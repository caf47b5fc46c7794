"""Shapes of delays that a model compares: each a few stretches of lags with a share of the effect.

A stretch from lag 4 to lag 7 with the share .5 says that half of an effect arrives evenly over
these lags. With sums of weights over slots, what arrived from an arm takes a few subtractions,
however long the stretch is.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Vector

#: The most stretches of one shape.
MAX_STRETCHES = 4
#: Lags that a geometric shape is cut at, in mean lags, and the share before each.
_CUTS = (0.0, 0.5, 1.2, 2.4, 5.0)
#: Slots in which nothing arrives, and the mean lag after them of what then fades.
_FADING = (
    *((0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (0, 32), (1, 1), (1, 3), (1, 7), (1, 15)),
    *((4, 4), (4, 12), (12, 12)),
)
_WIDTHS = (3, 6, 12, 24, 48, 96)
#: The same, and the slots after them over which all arrives evenly.
_DEAD_TIMES = (
    *((1, 1), (2, 2), (4, 1), (4, 4), (4, 8), (8, 1), (8, 8), (8, 16), (12, 12), (12, 24)),
    *((16, 1), (16, 16), (16, 32), (24, 8), (24, 24), (32, 16), (32, 32), (48, 48)),
)


class DelayShapes(NamedTuple):
    """Shapes by row; the columns of the matrices are stretches, those not used have no share."""

    first: Matrix
    stop: Matrix
    share: Matrix
    mean_lags: Vector


def list_shapes() -> DelayShapes:
    """List the shapes: at once, fading, even, and even after a dead time.

    >>> shapes = list_shapes()
    >>> len(shapes.mean_lags), shapes.mean_lags.max().item()
    (38, 71.5)
    """
    shapes = [[(0, 1, 1.0)]]
    shapes += [_fading(dead, mean) for dead, mean in _FADING]
    shapes += [[(0, width, 1.0)] for width in _WIDTHS]
    shapes += [[(dead, dead + width, 1.0)] for dead, width in _DEAD_TIMES]
    size = (len(shapes), MAX_STRETCHES)
    first, stop, share = np.zeros(size), np.ones(size), np.zeros(size)
    for row, stretches in enumerate(shapes):
        for column, stretch in enumerate(stretches):
            first[row, column], stop[row, column], share[row, column] = stretch
    mean_lags = (share * (first + stop - 1) / 2).sum(axis=1)
    return DelayShapes(first, stop, share, mean_lags)


def _fading(dead: int, mean: int) -> list[tuple[int, int, float]]:
    """Cut a geometric shape, after a dead time, into stretches."""
    ratio = mean / (1 + mean)
    cuts = sorted({round(cut * mean) for cut in _CUTS} | {0})
    cuts[-1] = max(cuts[-1], cuts[-2] + 1) if len(cuts) > 1 else 1
    stretches = [(first, stop, ratio**first - ratio**stop) for first, stop in pairwise(cuts)]
    whole = sum(share for _, _, share in stretches)
    return [(dead + first, dead + stop, share / whole) for first, stop, share in stretches]
