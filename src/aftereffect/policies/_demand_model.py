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
"""

import math
from typing import NamedTuple

from aftereffect._core import Matrix, Vector

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
