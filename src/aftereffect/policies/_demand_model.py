"""A model of totals: demand with a season, a level that wanders and lifts of arms, arriving late.

Slots are added up into windows. The logarithm of the demand of a window, over what is usual, is ::

    level + mean + season + sum over arms of (share of the arm) x (lift of the arm) + noise

The level is an AR(1) process, and the mean a slow random walk. What arrives in a window comes from
its own demand and from that of windows before, by the shares of a delay. So the noise of demand is
delayed as well. A Kalman filter has the demand of the last windows in its state, one cell for each.
The total of a window is the sum of what arrives; its logarithm is taken as linear around what the
filter expects.

Real totals have bursts. A surprise counts as noise, and its weight falls with its size. So that an
early burst does not decide for ever what a surprise is, a fit begins with a pass whose weights fall
slowly. The lifts that it finds say how surprising each window is.

The noise of demand is found from residuals: what a season and arms leave of the totals. They are
logarithms; NaN where a total is missing. Everything is made of medians, or of residuals that are
cut, so that bursts count little. Nothing is allocated.
"""

import math
from typing import NamedTuple

from aftereffect._core import Matrix, Vector
from aftereffect.policies._season import find_median

#: The first entries of the state of a filter; the lifts of all arms but the first follow.
LEVEL, MEAN, LIFTS = range(3)
#: What is known of the noise of demand: the persistence of the level, the variance of its steps,
#: the variance of the steps of the mean, and the variance of noise.
NOISE_PARTS = PERSISTENCE, WANDER, DRIFT, VARIANCE = range(4)
#: How a pass weighs surprises: falling with their size; falling slowly; falling with their size,
#: which is written down; and by what was written down.
AS_THEY_COME, SLOWLY, WRITING, WRITTEN = range(4)

#: Deviations from which on a surprise has less weight.
_SURPRISE, _SLOW_SURPRISE = 1.2, 1.5
#: The part of the square of a surprise by which the level may have jumped, and the largest jump. If
#: the load of the newest demand is smaller than the third number, a total says nothing of a jump.
_JUMP, _MAX_JUMP, _MIN_LOAD = 0.01, 0.1, 1e-3
#: The degrees of freedom of Student's t, by which the likelihood of a surprise is computed. It is a
#: density: a model that expects too little noise does not gain by it.
_FREEDOM = 4.0
#: The most that one window counts where noise is measured, and its mean for normal noise.
_CUT, _CUT_MEAN = 4.0, 0.774

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
_CUT_RESIDUAL = 2.0
#: The number of windows for which what is usual counts as much as what is found; and what is usual:
#: the persistence and the variance of the level, and the variance of noise.
_USUAL, _USUAL_NOISE = 20.0, (0.9, 0.0026, 0.001)
#: Values of the persistence of the level; the smallest variances; and the largest one of noise, as
#: a part of that of the level, where a delay spreads much.
_PERSISTENCES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_MIN_LEVEL, _MIN_VARIANCE, _MAX_PART = 1e-6, 1e-5, 0.5
#: What is added to the squares of the regression, as a part of them.
_RIDGE = 0.01


class Filter(NamedTuple):
    """The posterior of one model, and scratch space. Loads say how a total depends on entries.

    Only the first `size` entries are in use.
    """

    size: int
    mean: Vector
    covariance: Matrix
    loads: Vector
    products: Vector
    gains: Vector


def enter_demand(
    model: Filter,
    noise: Vector,
    factor: float,
    entries: Vector,
    parts: Vector,
    count: int,
    cell: int,
) -> None:
    """Let the level wander for a window, and put the demand of the window into a cell.

    Demand is the level, plus the first `count` of the `entries`, times their `parts`, plus noise
    with `factor` times the usual variance.
    """
    size, mean, covariance, _, products, _ = model
    mean[LEVEL] *= noise[PERSISTENCE]
    for entry in range(size):
        covariance[LEVEL, entry] *= noise[PERSISTENCE]
    for entry in range(size):
        covariance[entry, LEVEL] *= noise[PERSISTENCE]
    covariance[LEVEL, LEVEL] += noise[WANDER]
    covariance[MEAN, MEAN] += noise[DRIFT]
    demand = mean[LEVEL]
    for entry in range(size):
        products[entry] = covariance[LEVEL, entry]
    for number in range(count):
        place, part = int(entries[number]), parts[number]
        demand += part * mean[place]
        for entry in range(size):
            products[entry] += part * covariance[place, entry]
    variance = products[LEVEL] + noise[VARIANCE] * factor
    for number in range(count):
        variance += parts[number] * products[int(entries[number])]
    mean[cell] = demand
    for entry in range(size):
        covariance[cell, entry] = covariance[entry, cell] = products[entry]
    covariance[cell, cell] = variance


def learn_total(
    model: Filter, surprise: float, noise: float, newest: int, mode: int, weights: Vector, here: int
) -> float:
    """Learn from the surprise of a window; return its log likelihood.

    ``model.loads`` say how the logarithm of the total depends on the entries; `noise` is the
    variance of what is reported wrongly. `newest` is the cell of the latest demand in the total.
    ``weights[here]`` is where the weight of the window is written down. In the mode `WRITING`,
    returns instead how large the surprise is: its square over its variance, 1 in the mean.
    """
    size, mean, covariance, loads, products, gains = model
    for entry in range(size):
        products[entry] = 0.0
    for other in range(size):
        if loads[other] != 0.0:
            for entry in range(size):
                products[entry] += loads[other] * covariance[other, entry]
    variance = noise
    for entry in range(size):
        variance += loads[entry] * products[entry]
    limit = (_SLOW_SURPRISE if mode == SLOWLY else _SURPRISE) * math.sqrt(variance)
    excess = max(abs(surprise) / limit, 1.0)
    if mode == WRITING:
        weights[here] = excess
    elif mode == WRITTEN:
        excess = weights[here]
    spread = variance * (excess if mode == SLOWLY else excess * excess)
    square = surprise * surprise / variance
    found = -0.5 * (math.log(variance) + (_FREEDOM + 1.0) * math.log1p(square / _FREEDOM))
    if mode == WRITING:
        found = min(square, _CUT) / _CUT_MEAN
    load = loads[newest]
    if excess > 1.0 and load > _MIN_LOAD:
        jump = min(_JUMP * excess * excess * variance / (load * load), _MAX_JUMP)
        covariance[LEVEL, LEVEL] += jump
        covariance[LEVEL, newest] += jump
        covariance[newest, LEVEL] += jump
        covariance[newest, newest] += jump
        products[LEVEL] += jump * load
        products[newest] += jump * load
        spread += jump * load * load
    for entry in range(size):
        gains[entry] = products[entry] / spread
        mean[entry] += gains[entry] * surprise
    for row in range(size):
        gain = gains[row]
        for column in range(size):
            covariance[row, column] -= gain * products[column]
    return found


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
    limit = _CUT_RESIDUAL * _NORMAL * find_median(scratch, 0, known) if known > 0 else 0.0
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
