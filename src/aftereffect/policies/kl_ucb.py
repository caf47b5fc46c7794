"""The index of KL-UCB: how surprising an average is if the truth is higher, and the highest truth that it does not rule out.

Scalars use `math`, never `np`: then compiled and plain agree to the last bit.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from aftereffect.kernels import Matrix, Vector
from aftereffect.policies.averages import AVERAGE, PLAYS

#: ``spoilt(arms, own, arm, best)``: how many slots the noise at the edges of an arm's visits is worth, if the highest average
#: of all arms is `best`.
Spoilt: TypeAlias = Callable[[Matrix, Vector, int, float], float]
#: ``choose(arms, own, t)``: the arm with the highest index after t slots; all were played.
Choose: TypeAlias = Callable[[Matrix, Vector, int], int]

#: Halvings of [average, 1]: as fine as 1e-9.
_HALVINGS = 30


def bernoulli(p: float, q: float) -> float:
    """The Kullback-Leibler divergence of two Bernoulli laws with means p and q, 0 <= p <= 1 and 0 < q < 1.

    >>> round(bernoulli(0.5, 0.9), 4), bernoulli(0.3, 0.3), round(bernoulli(0.0, 0.5), 4)
    (0.5108, 0.0, 0.6931)
    """
    divergence = 0.0
    if p > 0.0:
        divergence += p * math.log(p / q)
    if p < 1.0:
        divergence += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return divergence


def poisson(p: float, q: float) -> float:
    """The same of two Poisson laws, p >= 0 and q > 0; never more than that of Bernoulli laws.

    >>> round(poisson(0.5, 0.9), 4)
    0.1061
    """
    divergence = q - p
    if p > 0.0:
        divergence += p * math.log(p / q)
    return divergence


def evidence(average: float, plays: float, against: float, spoilt: float) -> float:
    """What an average over so many slots says against a mean that is higher than it, in nats; at most all, if that is 1.

    Bernoulli's law is the widest on [0, 1] with that mean, and Poisson's the widest that totals of such rewards can have when
    each lands at a random lag. Over long visits the first law is right but for what is random at their edges: that is worth
    `spoilt` slots. Over short ones the second is. Whichever says more is right, as each is a lower bound.
    """
    if average >= against:
        return 0.0
    if against >= 1.0:
        return math.inf
    return max(bernoulli(average, against) * plays / (1.0 + spoilt / plays), poisson(average, against) * plays)


def highest_mean(average: float, plays: float, log: float, spoilt: float) -> float:
    """The index: the highest mean in [0, 1] against which there is no more evidence than `log`.

    >>> round(highest_mean(0.5, 100, 4.6, 0.0), 3)
    0.648
    """
    average = min(max(average, 0.0), 1.0)
    low, high = average, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if evidence(average, plays, middle, spoilt) > log:
            high = middle
        else:
            low = middle
    return low


def unspoilt(arms: Matrix, own: Vector, arm: int, best: float) -> float:
    """Where edges are not looked at."""
    return 0.0


def highest_average(arms: Matrix, but: int) -> float:
    """The highest average of the arms that were played, but for one; 0 if there is none."""
    best = 0.0
    for arm in range(arms.shape[1]):
        if arm != but and arms[PLAYS, arm] > 0.0:
            best = max(best, arms[AVERAGE, arm])
    return best


@cache
def most_promising(spoilt: Spoilt) -> Choose:
    """How to choose; ties go to the arm with the fewest plays, then to the first."""

    def choose(arms: Matrix, own: Vector, t: int) -> int:
        chosen, highest = 0, -1.0
        log = math.log(max(t, 1))
        best = highest_average(arms, -1)
        for arm in range(arms.shape[1]):
            average, plays = min(max(arms[AVERAGE, arm], 0.0), 1.0), arms[PLAYS, arm]
            lost = spoilt(arms, own, arm, best)
            if evidence(average, plays, highest, lost) > log:
                continue  # below the highest so far: how far does not matter
            index = highest_mean(average, plays, log, lost)
            if index > highest or (index == highest and plays < arms[PLAYS, chosen]):
                chosen, highest = arm, index
        return chosen

    return choose


def radii(arms: Matrix, own: Vector, t: int, spoilt: Spoilt) -> Vector:
    """By how much each arm's index is above its average; infinite for an arm that was not played."""
    log, best = math.log(max(t, 1)), highest_average(arms, -1)
    above = [
        highest_mean(arms[AVERAGE, arm], arms[PLAYS, arm], log, spoilt(arms, own, arm, best)) - arms[AVERAGE, arm]
        if arms[PLAYS, arm] > 0.0
        else math.inf
        for arm in range(arms.shape[1])
    ]
    return np.maximum(above, 0.0)
