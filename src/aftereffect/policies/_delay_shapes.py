"""Shapes of delays that a model compares: the share of an effect that arrives at each lag."""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.delays import LagLaw
from aftereffect.errors import ParameterError

#: Slots in which nothing arrives, and the mean lag after them of what then fades.
_FADING = (
    *((0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (0, 32), (1, 1), (1, 3), (1, 7), (1, 15)),
    *((4, 4), (4, 12), (12, 12)),
)
#: The mean lags after which what fades is cut.
_FADED = 5
_WIDTHS = (3, 6, 12, 24, 48, 96)
#: Slots in which nothing arrives, and the slots after them over which all arrives evenly.
_DEAD_TIMES = (
    *((1, 1), (2, 2), (4, 1), (4, 4), (4, 8), (8, 1), (8, 8), (8, 16), (12, 12), (12, 24)),
    *((16, 1), (16, 16), (16, 32), (24, 8), (24, 24), (32, 16), (32, 32), (48, 48)),
)
#: More of both: where windows are slots, these can be told apart. A week takes the season out of
#: totals, so other widths look quite different.
_FINE_WIDTHS = (2, 4, 5, 7, 8, 10, 14)
_FINE_DEAD_TIMES = tuple(
    (dead, width) for dead in (1, 2, 3, 4, 6, 8) for width in (*range(1, 5), 6, 8, 12)
)
#: The largest mean lag of a shape, in windows: a run is too short to learn of longer ones.
_MAX_LAG = 18
#: A delay that is given is cut where so little of it is left; and the most lags that may remain.
_TAIL, _MAX_LAGS = 0.005, 2_000


class DelayShapes(NamedTuple):
    """Shapes by row: shares by lag in slots, and by age in windows; and the mean lag in slots.

    A row has `lags` shares by lag, and `ages` shares by age. Further columns are 0.
    """

    by_lag: Matrix
    lags: Vector
    by_age: Matrix
    ages: Vector
    mean_lags: Vector


def list_shapes(window: int, delay: LagLaw | None = None, *, is_fine: bool = False) -> DelayShapes:
    """List the shapes: at once, fading, even, and even after a dead time; or only the given one.

    Effects arrive over slots, but are seen in windows of some slots. The share by age is the mean
    over the slots of a window in which an effect may begin. `is_fine` adds widths, and short dead
    times with widths after them.

    >>> shapes = list_shapes(window=4)
    >>> len(shapes.mean_lags), shapes.mean_lags.max().item()
    (38, 71.5)
    >>> shapes.by_age[14, :2].round(3)  # evenly over the lags 0, 1 and 2
    array([0.75, 0.25])
    >>> len(list_shapes(window=1, is_fine=True).mean_lags)
    68
    """
    shapes = _list_usual(window, is_fine) if delay is None else [cut_delay(delay)]
    lags = np.array([len(shape) for shape in shapes])
    ages = (lags + window - 2) // window + 1
    by_lag, by_age = np.zeros((len(shapes), lags.max())), np.zeros((len(shapes), ages.max()))
    for row, shape in enumerate(shapes):
        by_lag[row, : len(shape)] = shape
        for late in range(window):  # the slots since the begin of the window
            windows = (np.arange(len(shape)) - late + window - 1) // window
            np.add.at(by_age[row], windows, shape / window)
    mean_lags = by_lag @ np.arange(by_lag.shape[1])
    return DelayShapes(by_lag, lags.astype(float), by_age, ages.astype(float), mean_lags)


def cut_delay(delay: LagLaw) -> Vector:
    """The shares of a delay at the lags 0, 1, ..., without a tail that hardly counts.

    >>> from aftereffect import Interval
    >>> cut_delay(Interval(1, 2))
    array([0. , 0.5, 0.5])
    """
    lags = np.arange(_MAX_LAGS)
    tails = delay.tail(lags)
    if tails[-1] > _TAIL:
        raise ParameterError(
            f"adaptive-switchback takes a delay of at most {_MAX_LAGS:,} slots, and {delay} is "
            "longer: use longer slots"
        )
    shares = delay.share(lags[: int(np.argmax(tails <= _TAIL)) + 1])
    parts: Vector = shares / shares.sum()
    return parts


def _list_usual(window: int, is_fine: bool) -> list[Vector]:
    """The shapes to compare if none is given."""
    widths = sorted({*_WIDTHS, *(_FINE_WIDTHS if is_fine else ())})
    dead_times = sorted({*_DEAD_TIMES, *(_FINE_DEAD_TIMES if is_fine else ())})
    shapes = [np.ones(1)]
    shapes += [_fade(dead, mean) for dead, mean in _FADING]
    shapes += [_spread(0, width) for width in widths]
    shapes += [_spread(dead, width) for dead, width in dead_times]
    return [shape for shape in shapes if shape @ np.arange(len(shape)) <= _MAX_LAG * window]


def _fade(dead: int, mean: int) -> Vector:
    """A geometric shape after a dead time."""
    shares = (mean / (1 + mean)) ** np.arange(_FADED * mean)
    return np.concatenate([np.zeros(dead), shares / shares.sum()])


def _spread(dead: int, width: int) -> Vector:
    """An even shape after a dead time."""
    return np.concatenate([np.zeros(dead), np.full(width, 1 / width)])
