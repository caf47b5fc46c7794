"""The noise of demand, from what a season and arms leave of the totals of windows.

Residuals are logarithms; NaN where a total is missing. Everything is made of medians, or of
residuals that are cut, so that bursts count little. Nothing is allocated.
"""

import math

from aftereffect._core import Vector
from aftereffect.policies._demand_model import PERSISTENCE, VARIANCE, WANDER
from aftereffect.policies._season import find_median

#: The lags, in windows, over which it is measured how residuals go together.
LAGS = 24
#: A median absolute deviation of normal noise, times this, is its standard deviation.
_NORMAL = 1.48
#: The number of windows for which the noise of a place in the day counts as much as that of all.
_USUAL_WINDOWS = 20.0
#: The smallest and largest factor of a place in the day.
_MIN_FACTOR, _MAX_FACTOR = 0.04, 25.0
#: The least number of windows whose median says something of the level; the number of such
#: stretches from which on it is known how the level changes; and the part of that which is slow.
_STRETCH, _STRETCHES, _SLOW_PART = 42, 4, 0.3
#: The smallest variance that the mean gains per window.
MIN_DRIFT = 1e-5
#: Deviations at which residuals are cut.
_CUT = 2.0
#: The number of windows for which what is usual counts as much as what is found; and what is usual:
#: the persistence and the variance of the level, and the variance of noise.
_USUAL, _USUAL_NOISE = 20.0, (0.9, 0.0026, 0.001)
#: Values of the persistence of the level; the smallest variances; and the largest one of noise, as
#: a part of that of the level, where a delay spreads much.
_PERSISTENCES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_MIN_LEVEL, _MIN_VARIANCE, _MAX_PART = 1e-6, 1e-5, 0.5
#: What is added to the squares of the regression, as a part of them.
_RIDGE = 0.01


def find_factors(
    residuals: Vector, count: int, first: int, factors: Vector, scratch: Vector
) -> None:
    """Find how much larger the variance is at each place in the day.

    `first` is the place of the first residual.
    """
    per_day = factors.shape[0]
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
    days = count / per_day
    power = 2.0 * days / (days + _USUAL_WINDOWS)
    for place in range(per_day):
        factor = math.pow(factors[place] / usual, power)
        factors[place] = min(max(factor, _MIN_FACTOR), _MAX_FACTOR)


def take_out_weeks(residuals: Vector, count: int, weekly: int, scratch: Vector) -> float:
    """Subtract the median of each week; return the variance by which the mean drifts per window.

    Where a week has few windows, stretches of more windows are taken instead.
    """
    stretch = max(weekly, _STRETCH)
    stretches = count // stretch
    if stretches < _STRETCHES:
        return MIN_DRIFT
    begin = count - stretches * stretch
    for number in range(stretches):
        known = 0
        for window in range(begin + number * stretch, begin + (number + 1) * stretch):
            if not math.isnan(residuals[window]):
                scratch[2 * stretches + known] = residuals[window]
                known += 1
        scratch[number] = find_median(scratch, 2 * stretches, known) if known > 0 else 0.0
    for window in range(count):
        residuals[window] -= scratch[max(window - begin, 0) // stretch]
    for number in range(stretches - 1):
        scratch[stretches + number] = abs(scratch[number + 1] - scratch[number])
    step = _NORMAL * find_median(scratch, stretches, stretches - 1)
    return MIN_DRIFT + _SLOW_PART * step * step / stretch


def measure_together(
    residuals: Vector, count: int, first: int, factors: Vector, together: Vector, scratch: Vector
) -> None:
    """Measure the covariance of residuals that lie 0, 1, 2, ... windows apart.

    Residuals are divided by the factors of their places, and cut.
    """
    known, per_day = 0, factors.shape[0]
    for window in range(count):
        residuals[window] /= math.sqrt(factors[(first + window) % per_day])
        if not math.isnan(residuals[window]):
            scratch[known] = abs(residuals[window])
            known += 1
    limit = _CUT * _NORMAL * find_median(scratch, 0, known) if known > 0 else 0.0
    persistence, level, variance = _USUAL_NOISE
    for lag in range(LAGS):
        pairs = _USUAL
        total = _USUAL * (
            level * math.pow(persistence, float(lag)) + (variance if lag == 0 else 0.0)
        )
        for window in range(lag, count):
            one, other = residuals[window], residuals[window - lag]
            if not (math.isnan(one) or math.isnan(other)):
                total += min(max(one, -limit), limit) * min(max(other, -limit), limit)
                pairs += 1.0
        together[lag] = total / pairs


def match_noise(
    together: Vector, shares: Vector, ages: int, noise: Vector, overlap: Vector
) -> None:
    """Find the noise of demand that, delayed by the shares, explains how residuals go together.

    For each persistence, the variances of level and noise follow from a regression on what each
    would give. The persistence that explains most is taken. Writes into `noise`.
    """
    reach = min(ages, LAGS)
    for lag in range(reach):
        overlap[lag] = 0.0
        for age in range(ages - lag):
            overlap[lag] += shares[age] * shares[age + lag]
    # The more a delay spreads, the less noise can be told from the level.
    most = _MAX_PART * overlap[0] / max(overlap[1], 1e-3 * overlap[0]) if reach > 1 else 1e3
    lowest = math.inf
    for persistence in _PERSISTENCES:
        levels = variances = both = level_fit = variance_fit = 0.0
        for lag in range(LAGS):
            by_level, by_variance = 0.0, overlap[lag] if lag < reach else 0.0
            for apart in range(1 - reach, reach):
                by_level += overlap[abs(apart)] * math.pow(persistence, float(abs(lag - apart)))
            levels += by_level * by_level
            variances += by_variance * by_variance
            both += by_level * by_variance
            level_fit += by_level * together[lag]
            variance_fit += by_variance * together[lag]
        levels, variances = levels * (1.0 + _RIDGE), variances * (1.0 + _RIDGE)
        determinant = levels * variances - both * both
        level = max((level_fit * variances - variance_fit * both) / determinant, 0.0)
        variance = max((variance_fit * levels - level_fit * both) / determinant, 0.0)
        if variance > most * level:
            squares = levels + 2.0 * most * both + most * most * variances
            level = max((level_fit + most * variance_fit) / squares, 0.0)
            variance = most * level
        elif variance == 0.0:
            level = max(level_fit / levels, 0.0)
        error = level * level * levels + variance * variance * variances
        error += 2.0 * (level * variance * both - level * level_fit - variance * variance_fit)
        if error < lowest:
            lowest = error
            noise[PERSISTENCE] = persistence
            noise[WANDER] = max(level, _MIN_LEVEL) * (1.0 - persistence * persistence)
            noise[VARIANCE] = max(variance, _MIN_VARIANCE)
