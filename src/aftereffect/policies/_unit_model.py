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

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.policies._delay_shapes import DelayShapes
from aftereffect.policies._unit_noise import Cube, Noise, Series, apply_filter, learn_noise
from aftereffect.policies._unit_windows import Windows, find_shares, spread_arms

#: The prior standard deviation of the logarithm of a lift; lifts are relative to the first arm.
_PRIOR_LIFT = 0.08
#: The prior of a shape of delay falls with this power of its mean lag, and how much likelihood
#: counts: noise is never quite as it is modelled.
_LAG_POWER, _EVIDENCE = 0.5, 0.5
#: How much larger variances are taken than the regression says. The first few deals may agree with
#: the levels of units by chance; with less, more runs stay with a wrong arm.
_WIDER = 3.0
#: Shapes are compared by so many units at most; lifts are learned from all units, for the shapes
#: whose posterior probability is at least this part of that of the best.
_MAX_COMPARED, _PLAUSIBLE = 32, 0.02


class Posterior(NamedTuple):
    """The probability of each shape of delay; and by shape, mean and covariance of lifts.

    Shapes without a probability have the prior of lifts.
    """

    weights: Vector
    means: Matrix
    covariances: Cube


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
    compared = [spread_arms(windows, find_shares(windows, shapes, row), few) for row in range(rows)]
    fitted = np.zeros_like(windows.values)
    for _ in range(2):  # noise is learned from what the first fit leaves
        aims = _make_aims(learn_noise(windows.values, fitted), fitted)
        of_few = aims.of_units(few)
        evidence = np.array([_regress(of_few, parts, prior)[2] for parts in compared])
        weights = _normalise(logarithms + _EVIDENCE * evidence)
        best = int(np.argmax(weights))
        parts = spread_arms(windows, find_shares(windows, shapes, best), np.arange(units))
        fitted = np.zeros_like(windows.values)
        fitted[len(fitted) - len(parts) :] = parts @ _regress(aims, parts, prior)[0]
    aims = _make_aims(learn_noise(windows.values, fitted), fitted)
    weights = np.where(weights >= _PLAUSIBLE * weights.max(), weights, 0.0)
    for row in map(int, np.flatnonzero(weights)):
        parts = spread_arms(windows, find_shares(windows, shapes, row), np.arange(units))
        means[row], covariances[row], _ = _regress(aims, parts, prior)
    return Posterior(weights / weights.sum(), means, covariances)


def _normalise(logarithms: Vector) -> Vector:
    weights = np.exp(logarithms - logarithms.max())
    total: Vector = weights / weights.sum()
    return total


class Aim(NamedTuple):
    """White series that lifts shall explain: `pulls` are weights times values less their level."""

    filter: Vector
    weights: Matrix
    sums: Vector
    pulls: Matrix
    squares: Vector

    def add_up(self, parts: Cube) -> tuple[Matrix, Vector, float]:
        """Sums of squares and products; parts begin with slot 0, and are 0 before."""
        rows, begin = apply_filter(self.filter, parts), len(self.weights) - len(parts)
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
    weights, white = series.weights, apply_filter(series.filter, values)
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
