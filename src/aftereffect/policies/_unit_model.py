"""How UnitSwitchback learns: a regression of what sets units apart on the arms that they played.

The value of a unit in a window is the logarithm of its totals over what is usual. In a window ::

    value = common + level of the unit + sum over blocks b of  K(window, b) lift(arm in b) + noise

where K is the share of what arrives in the window that pulls of the block b have brought. The mean
of all units in a window is a series of its own, with a noise of its own: what is common to all
units changes only that series. What is left of each unit is free of it. Both series are made white
by a filter that is learned, surprises count less (Huber's weights), and both are regressed on the
same lifts. So lifts are known from the differences between units as well as these allow, and from
the mean of all units as well as the common drift allows. Everything is learned anew from all totals
at each decision, so nothing depends on when they came.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.policies._delay_shapes import DelayShapes

#: What stands for a total of 0, as a part of what is usual.
_FLOOR = 0.02
#: The prior standard deviation of the logarithm of a lift; lifts are relative to the first arm.
_PRIOR_LIFT = 0.08
#: The prior of a shape of delay falls with this power of its mean lag, and how much likelihood
#: counts: noise is never quite as it is modelled.
_LAG_POWER, _EVIDENCE = 0.5, 0.5
#: How much larger the variance of lifts is taken than the regression says.
_WIDER = 1.3
#: Shapes are compared by so many units at most; lifts are learned from all units, for the shapes
#: whose posterior probability is at least this part of that of the best.
_MAX_COMPARED, _PLAUSIBLE = 32, 0.02
#: Residuals beyond so many deviations are cut before a filter is learned, and surprises beyond
#: `_SURPRISE` count less.
_CUT, _SURPRISE = 4.0, 1.5
#: The windows by which noise is predicted, and for each of them so many are needed.
_ORDER, _PER_ORDER = 4, 8
#: For how many windows what is usual of noise counts: its standard deviation, the part that is a
#: level, and the persistence of that. And the smallest standard deviation,
#: and what is added to covariances, as a part of the variance.
_USUAL, _USUAL_SPREAD, _USUAL_LEVEL, _PERSISTENCE = 20.0, 0.06, 0.7, 0.9
_MIN_SPREAD, _RIDGE = 0.003, 0.01
#: A median of absolute values, times this, is the standard deviation of normal numbers.
_NORMAL = 1.4826

Cube: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


class Windows(NamedTuple):
    """What is known of the windows, the first of which lie before slot 0.

    `values` are by window and unit, NaN where most slots are not known. `blocks` are the numbers of
    the blocks by slot from 0 on, `played` says which arm but the first a unit played in each block,
    and `demand` is what is usual at the slots from `lead` before slot 0 on, averaged over units.
    """

    values: Matrix
    blocks: Slots
    played: Cube
    demand: Vector
    window: int

    @property
    def slots(self) -> int:
        """The number of slots from 0 on."""
        return len(self.blocks)


class Posterior(NamedTuple):
    """The probability of each shape of delay; and by shape, mean and covariance of lifts.

    Shapes without a probability have the prior of lifts.
    """

    weights: Vector
    means: Matrix
    covariances: Cube


class Series(NamedTuple):
    """Series side by side, by time and column: the filter that makes them white, and weights."""

    filter: Vector
    weights: Matrix


def describe_windows(
    totals: Matrix,
    usual: Matrix,
    arms: Matrix,
    demand: Vector,
    window: int,
    lifts: int,
) -> Windows:
    """Add up slots to windows. Arms are those from slot 0 on, and totals begin earlier."""
    units, known = totals.shape[1], ~np.isnan(totals)
    shape = len(totals) // window, window, units
    sums = np.where(known, totals, 0.0).reshape(shape).sum(axis=1)
    bases = np.where(known, usual, 0.0).reshape(shape).sum(axis=1)
    enough = 2 * known.reshape(shape).sum(axis=1) >= window
    ratios = np.where(enough, sums / np.where(bases > 0, bases, 1.0), np.nan)
    # Of no consequence but where a total is nearly 0: each unit has a level of its own.
    counts = np.maximum(enough.sum(axis=0), 1)
    scales = np.where(enough, np.maximum(ratios, 0.0), 0.0).sum(axis=0) / counts
    scales = np.where(scales > 0, scales, 1.0)
    with np.errstate(invalid="ignore"):
        values = np.log(np.maximum(ratios / scales, _FLOOR))
    begins = np.ones(len(arms), bool)
    begins[1:] = (arms[1:] != arms[:-1]).any(axis=1)
    played = arms[begins][:, :, None] == np.arange(1, lifts + 1)
    return Windows(values, np.cumsum(begins) - 1, played.astype(float), demand, window)


def learn_lifts(windows: Windows, shapes: DelayShapes, lifts: int) -> Posterior:
    """The posterior of shapes of delay and lifts, given all windows."""
    prior = (_PRIOR_LIFT**2) * (np.eye(lifts) + 1.0)
    rows = len(shapes.mean_lags)
    logarithms = -_LAG_POWER * np.log1p(shapes.mean_lags)
    means, covariances = np.zeros((rows, lifts)), np.tile(prior, (rows, 1, 1))
    weights = _normalise(logarithms)
    if windows.slots == 0 or lifts == 0 or np.isnan(windows.values).all():
        return Posterior(weights, means, covariances)
    units = windows.values.shape[1]
    few = np.unique(np.linspace(0, units - 1, min(units, _MAX_COMPARED)).astype(int))
    compared = [_spread(windows, _find_shares(windows, shapes, row), few) for row in range(rows)]
    fitted = np.zeros_like(windows.values)
    for _ in range(2):  # noise is learned from what the first fit leaves
        aims = _make_aims(_learn_noise(windows.values, fitted), fitted)
        of_few = aims.of_units(few)
        evidence = np.array([_regress(of_few, parts, prior)[2] for parts in compared])
        weights = _normalise(logarithms + _EVIDENCE * evidence)
        best = int(np.argmax(weights))
        parts = _spread(windows, _find_shares(windows, shapes, best), np.arange(units))
        fitted = np.zeros_like(windows.values)
        fitted[len(fitted) - len(parts) :] = parts @ _regress(aims, parts, prior)[0]
    aims = _make_aims(_learn_noise(windows.values, fitted), fitted)
    weights = np.where(weights >= _PLAUSIBLE * weights.max(), weights, 0.0)
    for row in map(int, np.flatnonzero(weights)):
        parts = _spread(windows, _find_shares(windows, shapes, row), np.arange(units))
        means[row], covariances[row], _ = _regress(aims, parts, prior)
    return Posterior(weights / weights.sum(), means, covariances)


def _normalise(logarithms: Vector) -> Vector:
    weights = np.exp(logarithms - logarithms.max())
    total: Vector = weights / weights.sum()
    return total


def _find_shares(windows: Windows, shapes: DelayShapes, row: int) -> Matrix:
    """The share of what arrives in a window, from slot 0 on, that each block has brought."""
    shares, slots = shapes.by_lag[row, : int(shapes.lags[row])], windows.slots
    lead, blocks = len(windows.demand) - slots, int(windows.blocks[-1]) + 1
    lags = np.flatnonzero(shares)
    pulled = np.arange(slots)[:, None] - lags
    brought = shares[lags] * windows.demand[np.maximum(lead + pulled, 0)]
    window = np.broadcast_to(np.arange(slots)[:, None] // windows.window, pulled.shape)
    count, ours = slots // windows.window, pulled >= 0
    cells = window[ours] * blocks + windows.blocks[pulled[ours]]
    by_block = np.bincount(cells, brought[ours], count * blocks).reshape(count, blocks)
    whole = brought.sum(axis=1).reshape(count, windows.window).sum(axis=1)
    found: Matrix = by_block / np.maximum(whole, 1e-300)[:, None]
    return found


def _spread(windows: Windows, shares: Matrix, units: Slots) -> Cube:
    """The part of each arm but the first in what arrives, by window from 0 on, unit and arm."""
    blocks, _, lifts = windows.played.shape
    played = windows.played[:, units].reshape(blocks, -1)
    return (shares @ played).reshape(len(shares), -1, lifts)


class Noise(NamedTuple):
    """What is known of the noise of units apart from their mean, and of the noise of that mean.

    `mixing` are the weights of units in the mean, by window. Of both series, what a fit has left is
    here without levels and bursts.
    """

    mixing: Matrix
    apart: Series
    apart_left: Matrix
    common: Series
    common_left: Matrix


def _learn_noise(values: Matrix, fitted: Matrix) -> Noise:
    """Learn noise from what a fit leaves of the values."""
    known = ~np.isnan(values)
    left = np.where(known, values - fitted, 0.0)
    mixing = known / np.maximum(known.sum(axis=1, keepdims=True), 1)
    for _ in range(2):  # all units alike, then by how precise they are
        common = (mixing * left).sum(axis=1, keepdims=True)
        apart_left = _take_out_levels(np.where(known, left - common, 0.0), known)
        apart, spreads = _whiten(apart_left, known)
        mixing = known / spreads**2
        mixing /= np.maximum(mixing.sum(axis=1, keepdims=True), 1e-300)
    some = np.asarray(known.any(axis=1))[:, None]
    common_left = _take_out_levels(common, some)
    units = values.shape[1]
    # Differences from the mean of all units are smaller than noise, and depend on each other.
    apart = apart._replace(weights=apart.weights * (1 - 1 / units))
    return Noise(mixing, apart, apart_left, _whiten(common_left, some)[0], common_left)


def _take_out_levels(left: Matrix, known: Mask) -> Matrix:
    """Subtract the median of each column; cut bursts; 0 where nothing is known."""
    some = np.where(known, left, np.nan)
    some[:, ~known.any(axis=0)] = 0.0
    some = some - np.nanmedian(some, axis=0)
    limit = _CUT * np.maximum(_NORMAL * np.nanmedian(np.abs(some), axis=0), _MIN_SPREAD)
    return np.where(known, np.clip(some, -limit, limit), 0.0)


def _whiten(left: Matrix, known: Mask) -> tuple[Series, Vector]:
    """The filter that makes columns white, weights of their values, and their deviations."""
    counts = known.sum(axis=0)
    spreads = np.sqrt((_USUAL * _USUAL_SPREAD**2 + (left**2).sum(axis=0)) / (_USUAL + counts))
    scaled = left / spreads
    lags = np.arange(_ORDER + 1)
    together = _USUAL * (_USUAL_LEVEL * _PERSISTENCE**lags + (1 - _USUAL_LEVEL) * (lags == 0))
    for lag in range(min(_ORDER + 1, len(left))):
        together[lag] += (scaled[lag:] * scaled[: len(left) - lag]).sum()
    order = min(_ORDER, len(left) // _PER_ORDER)
    matrix = together[np.abs(lags[:order, None] - lags[:order])]
    matrix = matrix + _RIDGE * together[0] * np.eye(order)
    weights = np.linalg.solve(matrix, together[1 : order + 1])
    whitener = np.append(1.0, -weights)
    white = _apply(whitener, left)
    part = math.sqrt(max(1.0 - weights @ together[1 : order + 1] / together[0], 1e-3))
    usual = _USUAL_SPREAD * part
    magnitudes = np.where(known, np.abs(white), np.nan)
    magnitudes[:, counts == 0] = usual / _NORMAL
    medians = _NORMAL * np.nanmedian(magnitudes, axis=0)
    found = np.sqrt((_USUAL * usual**2 + counts * medians**2) / (_USUAL + counts))
    found = np.maximum(found, _MIN_SPREAD)
    surprises = np.maximum(np.abs(white) / (_SURPRISE * found), 1.0)
    return Series(whitener, known / (surprises * found**2)), found


def _apply(whitener: Vector, rows: Cube) -> Cube:
    """The filter along the first axis."""
    white = rows.copy()
    for lag in range(1, min(len(whitener), len(rows))):
        white[lag:] += whitener[lag] * rows[:-lag]
    return white


class Aim(NamedTuple):
    """White series that lifts shall explain: `pulls` are weights times values less their level."""

    filter: Vector
    weights: Matrix
    sums: Vector
    pulls: Matrix
    squares: Vector

    def add_up(self, parts: Cube) -> tuple[Matrix, Vector, float]:
        """Sums of squares and products; parts begin with slot 0, and are 0 before."""
        rows, begin = _apply(self.filter, parts), len(self.weights) - len(parts)
        weighted = rows * self.weights[begin:, :, None]
        # The level of each series is taken out.
        levels = weighted.sum(axis=0)
        lifts = parts.shape[2]
        matrix = weighted.reshape(-1, lifts).T @ rows.reshape(-1, lifts)
        matrix = matrix - levels.T @ (levels / self.sums[:, None])
        target = rows.reshape(-1, lifts).T @ self.pulls[begin:].ravel()
        return matrix, target, float(self.squares.sum())


class Aims(NamedTuple):
    """The series of units apart from their mean, and that of the mean; see `Noise`."""

    mixing: Matrix
    apart: Aim
    common: Aim

    def of_units(self, units: Slots) -> "Aims":
        """The same for some of the units."""
        mixing, (whitener, *rest) = self.mixing[:, units], self.apart
        mixing = mixing / np.maximum(mixing.sum(axis=1, keepdims=True), 1e-300)
        apart = Aim(whitener, *(each[..., units] for each in rest))
        return Aims(mixing, apart, self.common)


def _make_aims(noise: Noise, fitted: Matrix) -> Aims:
    """What is left of the values, and what is fitted: what lifts shall explain."""
    common = (noise.mixing * fitted).sum(axis=1, keepdims=True)
    return Aims(
        noise.mixing,
        _make_aim(noise.apart, fitted - common + noise.apart_left),
        _make_aim(noise.common, common + noise.common_left),
    )


def _make_aim(series: Series, values: Matrix) -> Aim:
    weights, white = series.weights, _apply(series.filter, values)
    sums = np.maximum(weights.sum(axis=0), 1e-300)
    white = white - (weights * white).sum(axis=0) / sums
    pulls = weights * white
    return Aim(series.filter, weights, sums, pulls, (pulls * white).sum(axis=0))


def _regress(aims: Aims, parts: Cube, prior: Matrix) -> tuple[Vector, Matrix, float]:
    """The posterior mean and covariance of lifts, and the log evidence, for one shape."""
    mixing = aims.mixing[len(aims.mixing) - len(parts) :]
    common = mixing[:, None] @ parts
    apart, mean_of_all = aims.apart.add_up(parts - common), aims.common.add_up(common)
    matrix = (apart[0] + mean_of_all[0]) / _WIDER
    target = (apart[1] + mean_of_all[1]) / _WIDER
    squares = (apart[2] + mean_of_all[2]) / _WIDER
    precision = np.linalg.inv(prior)
    covariance = np.linalg.inv(matrix + precision)
    mean = covariance @ target
    _, volume = np.linalg.slogdet(covariance @ precision)
    return mean, covariance, float(0.5 * (volume + target @ mean - squares))


def draw_order(posterior: Posterior, count: int) -> Iterable[tuple[int, int]]:
    """How often to draw from each shape, so that there are `count` draws in all."""
    ends = np.floor(count * np.cumsum(posterior.weights) + 0.5).astype(int)
    return enumerate(np.diff(ends, prepend=0).tolist())
