"""Averages of the totals of each arm, and the indices made from them: those of UCB and of KL-UCB.

The index of KL-UCB is the highest mean that an arm's average does not rule out.

Scalars use `math`, never `np`: then compiled and plain code agree to the last bit.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import Vector


class Averages(NamedTuple):
    """By arm: pulls looked at, their total, rounds, the average total, and 1 / sqrt(pulls)."""

    pulls: Vector
    total: Vector
    rounds: Vector
    average: Vector
    breadth: Vector


def blank_averages(arms: int) -> Averages:
    """The averages before the first slot."""
    return Averages(*(np.zeros(arms) for _ in Averages._fields))


def credit(averages: Averages, arm: int, window: int, total: float) -> None:
    """Credit a round's total to the arm that was played, whichever arms it came from."""
    averages.pulls[arm] += window
    averages.total[arm] += total
    averages.rounds[arm] += 1
    averages.average[arm] = averages.total[arm] / averages.pulls[arm]
    averages.breadth[arm] = 1.0 / math.sqrt(averages.pulls[arm])


def next_unplayed(averages: Averages, after: int) -> int:
    """The first arm after this one, in a circle, that was not played yet; -1 if all were."""
    count = int(averages.pulls.shape[0])
    for step in range(1, count + 1):
        arm = (after + step) % count
        if averages.pulls[arm] == 0.0:
            return arm
    return -1


def shared_width(alpha: float, t: int) -> float:
    """sqrt(alpha ln t): the radius of an arm is this times its breadth."""
    return math.sqrt(alpha * math.log(max(t, 1)))


def upper_bound(averages: Averages, arm: int, width: float) -> float:
    """The upper confidence bound of an arm: its average plus its radius."""
    bound: float = averages.average[arm] + width * averages.breadth[arm]
    return bound


#: ``noise_of(state, arm)``: the variance of what else than an arm's rewards is in its total.
NoiseOf: TypeAlias = Callable[[Any, int], float]
#: ``choose(averages, state, t)``: the arm with the highest index after t slots; all were played.
#: `state` is what `noise_of` reads.
Choose: TypeAlias = Callable[[Averages, Any, int], int]

#: Halvings of [average, 1], so that the index is exact to 1e-9.
_HALVINGS = 30


def kl_bernoulli(p: float, q: float) -> float:
    """The Kullback-Leibler divergence of Bernoulli laws with means 0 <= p <= 1 and 0 < q < 1.

    >>> round(kl_bernoulli(0.5, 0.9), 4), kl_bernoulli(0.3, 0.3), round(kl_bernoulli(0.0, 0.5), 4)
    (0.5108, 0.0, 0.6931)
    """
    divergence = 0.0
    if p > 0.0:
        divergence += p * math.log(p / q)
    if p < 1.0:
        divergence += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return divergence


def kl_poisson(p: float, q: float) -> float:
    """The same for Poisson laws, p >= 0 and q > 0; never more than that of Bernoulli laws.

    >>> round(kl_poisson(0.5, 0.9), 4)
    0.1061
    """
    divergence = q - p
    if p > 0.0:
        divergence += p * math.log(p / q)
    return divergence


def weigh(average: float, pulls: float, mean: float, noise: float) -> float:
    """Nats of evidence that the true mean is not this one, whether it is higher or lower.

    A Bernoulli law is the widest on [0, 1] with that mean. If the total has a noise of its own,
    with this variance, the evidence is the harmonic sum of that without this noise and that without
    any other.

    >>> round(weigh(0.5, 20, 0.9, 0.0), 2), round(weigh(0.5, 20, 0.9, 4.0), 2)
    (10.22, 4.49)
    """
    inner = min(max(average, 0.0), 1.0)
    if mean >= 1.0 or mean <= 0.0:
        own = math.inf if inner != mean else 0.0
    else:
        own = kl_bernoulli(inner, mean) * pulls
    if noise <= 0.0 or own <= 0.0:
        return own
    distance = pulls * (mean - average)
    other = distance * distance / (2.0 * noise)
    if other <= 0.0 or own == math.inf:
        return other
    return own * other / (own + other)


def highest_mean(average: float, pulls: float, log: float, noise: float) -> float:
    """The index: the highest mean in [0, 1] against which the evidence is at most `log`.

    >>> round(highest_mean(0.5, 100, 4.6, 0.0), 3)
    0.648
    """
    low, high = min(max(average, 0.0), 1.0), 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if average < middle and weigh(average, pulls, middle, noise) > log:
            high = middle
        else:
            low = middle
    return low


def no_noise(state: Any, arm: int) -> float:
    """For policies that take totals for those of the arm's rewards alone."""
    return 0.0


def highest_average(averages: Averages, excluded: int) -> float:
    """The highest average of the arms that were played, except one; 0 if there is none."""
    best = 0.0
    for arm in range(averages.pulls.shape[0]):
        if arm != excluded and averages.pulls[arm] > 0.0:
            best = max(best, averages.average[arm])
    return best


@cache
def kl_chooser(noise_of: NoiseOf) -> Choose:
    """How to choose an arm; ties go to the arm with the fewest pulls, then to the first."""

    def choose(averages: Averages, state: Any, t: int) -> int:
        chosen, highest = 0, -1.0
        log = math.log(max(t, 1))
        for arm in range(averages.pulls.shape[0]):
            average, pulls = averages.average[arm], averages.pulls[arm]
            noise = noise_of(state, arm)
            if average < highest and weigh(average, pulls, highest, noise) > log:
                continue  # its index is below the highest so far; how far below does not matter
            index = highest_mean(average, pulls, log, noise)
            if index > highest or (index == highest and pulls < averages.pulls[chosen]):
                chosen, highest = arm, index
        return chosen

    return choose
