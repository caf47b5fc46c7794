"""A model of totals: a season, a level that wanders, lifts of arms that arrive late, and noise.

Totals are added up over windows of a few slots. The logarithm of a window, less its season, is ::

    level + mean + sum over arms of (share of the arm) x (lift of the arm) + noise

The shares follow from the arms played and from a shape of delay. The level is an AR(1) process. A
Kalman filter folds window after window. Real totals have bursts: a surprise counts as noise, and
its weight falls with its size. So that an early burst does not decide for ever what a surprise is,
a fit begins with a first pass whose weights fall slowly, and weighs the second by its result.
"""

import math
from typing import NamedTuple

from aftereffect._core import Matrix, Vector
from aftereffect.policies._season import find_median

#: The first entries of the state of a filter; the lifts of all arms but the first follow.
LEVEL, MEAN, LIFTS = range(3)
#: How a pass weighs surprises: falling with their size as they come, falling slowly, or falling
#: with the size that they have under given lifts.
AS_THEY_COME, SLOWLY, BY_LIFTS = range(3)

#: Deviations from which on a surprise has less weight.
_SURPRISE, _SLOW_SURPRISE = 1.2, 1.5
#: The part of the square of a surprise by which the level may have jumped.
_JUMP = 0.1
#: The variance that the mean gains per window.
_DRIFT = 1e-5
#: The most that one window counts against a model, in squared deviations.
_MAX_SQUARE = 9.0
#: The number of windows for which the noise of a place in the day counts as much as that of all;
#: and the smallest standard deviation of noise.
_USUAL_WINDOWS, _MIN_NOISE = 20.0, 0.005


class Filter(NamedTuple):
    """The posterior of one model, and scratch space."""

    mean: Vector
    covariance: Matrix
    products: Vector
    gains: Vector


def fold_window(
    model: Filter,
    noise: Vector,
    factor: float,
    value: float,
    shares: Vector,
    season: Vector,
    mode: int,
    reference: Vector,
) -> float:
    """Fold one window into a filter; return its log likelihood.

    `noise` holds the persistence of the level, the variance of its steps and the variance of noise,
    which is `factor` times as large in this window. `shares` are those of the arms but the first.
    `season` are the entries of the filter for the season of this window, -1 for none. `reference`
    are the lifts that weigh surprises in the mode `BY_LIFTS`. A value of NaN is missing.
    """
    mean, covariance, products, gains = model
    entries, lifts = mean.shape[0], shares.shape[0]
    mean[LEVEL] *= noise[0]
    for entry in range(entries):
        covariance[LEVEL, entry] *= noise[0]
    for entry in range(entries):
        covariance[entry, LEVEL] *= noise[0]
    covariance[LEVEL, LEVEL] += noise[1]
    covariance[MEAN, MEAN] += _DRIFT
    if math.isnan(value):
        return 0.0
    expected = mean[LEVEL] + mean[MEAN]
    for entry in range(entries):
        products[entry] = covariance[entry, LEVEL] + covariance[entry, MEAN]
    for part in range(season.shape[0]):
        place = int(season[part])
        if place >= 0:
            expected += mean[place]
            for entry in range(entries):
                products[entry] += covariance[entry, place]
    without_lifts = expected
    for arm in range(lifts):
        if shares[arm] != 0.0:
            expected += shares[arm] * mean[LIFTS + arm]
            for entry in range(entries):
                products[entry] += shares[arm] * covariance[entry, LIFTS + arm]
    variance = products[LEVEL] + products[MEAN] + noise[2] * factor
    for arm in range(lifts):
        variance += shares[arm] * products[LIFTS + arm]
    for part in range(season.shape[0]):
        if season[part] >= 0.0:
            variance += products[int(season[part])]
    surprise = value - expected
    weighed = surprise
    if mode == BY_LIFTS:
        weighed = value - without_lifts
        for arm in range(lifts):
            weighed -= shares[arm] * reference[arm]
    spread = variance
    limit = (_SLOW_SURPRISE if mode == SLOWLY else _SURPRISE) * math.sqrt(variance)
    if abs(weighed) > limit:
        excess = abs(weighed) / limit
        spread = variance * (excess if mode == SLOWLY else excess * excess)
    likelihood: float = -0.5 * (math.log(spread) + min(surprise * surprise / spread, _MAX_SQUARE))
    if spread > variance:
        jump = _JUMP * weighed * weighed
        covariance[LEVEL, LEVEL] += jump
        products[LEVEL] += jump
        spread += jump
    for entry in range(entries):
        gains[entry] = products[entry] / spread
    for entry in range(entries):
        mean[entry] += gains[entry] * surprise
    for row in range(entries):
        for column in range(entries):
            covariance[row, column] -= gains[row] * products[column]
    return likelihood


#: The grid of `fit_noise`: persistence per window, standard deviation of the level, and the
#: variance of noise relative to that of the residuals.
_PERSISTENCES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
_LEVELS = (0.01, 0.02, 0.03, 0.06, 0.1, 0.15, 0.2)
_VARIANCES = (0.02, 0.05, 0.1, 0.3, 1.0)


def fit_noise(
    residuals: Vector,
    count: int,
    per_day: int,
    first: int,
    noise: Vector,
    factors: Vector,
    scratch: Vector,
) -> None:
    """Estimate noise from what season and arms leave of the windows; NaN where one is missing.

    Writes persistence, wander and variance into `noise`, and how much larger the variance is in
    each window of the day into `factors`. `first` is the place in the day of the first residual.
    """
    for place in range(per_day):
        found = 0
        for window in range((place - first) % per_day, count, per_day):
            if not math.isnan(residuals[window]):
                scratch[found] = abs(residuals[window])
                found += 1
        factors[place] = max(find_median(scratch, 0, found), 1e-9) if found > 0 else 1e-9
    for place in range(per_day):
        scratch[place] = factors[place]
    usual = find_median(scratch, 0, per_day)
    for place in range(per_day):
        known = count / per_day
        power = 2.0 * known / (known + _USUAL_WINDOWS)
        factors[place] = min(max(math.pow(factors[place] / usual, power), 0.04), 25.0)
    square = max(1.48 * usual, _MIN_NOISE) * max(1.48 * usual, _MIN_NOISE)
    best = -math.inf
    for persistence in _PERSISTENCES:
        for deviation in _LEVELS:
            for part in _VARIANCES:
                wander = deviation * deviation * (1.0 - persistence * persistence)
                variance = part * square
                likelihood = _likelihood(
                    residuals, count, per_day, first, factors, persistence, wander, variance
                )
                if likelihood > best:
                    best = likelihood
                    noise[0], noise[1], noise[2] = persistence, wander, variance


def _likelihood(
    residuals: Vector,
    count: int,
    per_day: int,
    first: int,
    factors: Vector,
    persistence: float,
    wander: float,
    variance: float,
) -> float:
    """The log likelihood of residuals, with noise of Student's t with three degrees of freedom."""
    mean, spread = 0.0, wander / (1.0 - persistence * persistence)
    total = 0.0
    for window in range(count):
        mean *= persistence
        spread = spread * persistence * persistence + wander
        if math.isnan(residuals[window]):
            continue
        whole = spread + variance * factors[(first + window) % per_day]
        surprise = residuals[window] - mean
        square = surprise * surprise / whole
        total -= 0.5 * math.log(whole) + 2.0 * math.log(1.0 + square / 3.0)
        if square > 1.0:
            whole *= (3.0 + square) / 4.0
        gain = spread / whole
        mean += gain * surprise
        spread *= 1.0 - gain
    return total
