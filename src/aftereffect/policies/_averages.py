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


#: ``edge_noise_slots(state, arm, best)``: how many slots the noise at the edges of an arm's visits
#: is worth, if the highest average of all arms is `best`.
EdgeNoise: TypeAlias = Callable[[Any, int, float], float]
#: ``choose(averages, state, t)``: the arm with the highest index after t slots; all were played.
#: `state` is what the edge noise reads.
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


def evidence(average: float, pulls: float, mean: float, edge_noise: float) -> float:
    """Evidence (in nats) against a true mean that is higher than the average; infinite at mean 1.

    A Bernoulli law is the widest on [0, 1] with that mean. A Poisson law is the widest that totals
    of such rewards can have when each arrives at a random lag. Over long visits the first law is
    right except for the randomness at their edges, which is worth `edge_noise` slots. Over short
    visits the second law is right. Each gives a lower bound, so the larger one counts.
    """
    if average >= mean:
        return 0.0
    if mean >= 1.0:
        return math.inf
    return max(
        kl_bernoulli(average, mean) * pulls / (1.0 + edge_noise / pulls),
        kl_poisson(average, mean) * pulls,
    )


def highest_mean(average: float, pulls: float, log: float, edge_noise: float) -> float:
    """The index: the highest mean in [0, 1] against which the evidence is at most `log`.

    >>> round(highest_mean(0.5, 100, 4.6, 0.0), 3)
    0.648
    """
    average = min(max(average, 0.0), 1.0)
    low, high = average, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if evidence(average, pulls, middle, edge_noise) > log:
            high = middle
        else:
            low = middle
    return low


def no_edge_noise(state: Any, arm: int, best: float) -> float:
    """For policies that do not model the noise at the edges."""
    return 0.0


def highest_average(averages: Averages, excluded: int) -> float:
    """The highest average of the arms that were played, except one; 0 if there is none."""
    best = 0.0
    for arm in range(averages.pulls.shape[0]):
        if arm != excluded and averages.pulls[arm] > 0.0:
            best = max(best, averages.average[arm])
    return best


@cache
def kl_chooser(edge_noise_slots: EdgeNoise) -> Choose:
    """How to choose an arm; ties go to the arm with the fewest pulls, then to the first."""

    def choose(averages: Averages, state: Any, t: int) -> int:
        chosen, highest = 0, -1.0
        log = math.log(max(t, 1))
        best = highest_average(averages, -1)
        for arm in range(averages.pulls.shape[0]):
            average, pulls = min(max(averages.average[arm], 0.0), 1.0), averages.pulls[arm]
            edge_noise = edge_noise_slots(state, arm, best)
            if evidence(average, pulls, highest, edge_noise) > log:
                continue  # its index is below the highest so far; how far below does not matter
            index = highest_mean(average, pulls, log, edge_noise)
            if index > highest or (index == highest and pulls < averages.pulls[chosen]):
                chosen, highest = arm, index
        return chosen

    return choose
