"""Indices of KL-UCB by Newton's method, for Bernoulli and Poisson laws, and a choice by them.

They are found to the last digits at every slot, as oracles play every slot (`_averages` halves an
interval, which does for policies of rounds).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from aftereffect._core import Vector
from aftereffect.policies._averages import kl_bernoulli, kl_poisson

#: Newton's method for an index: its steps at most, the step at which it stops, and where it begins
#: at the highest, as the divergence is infinite at 1.
_MAX_STEPS, _TINY, _HIGHEST = 60, 1e-12, 1.0 - 1e-9

#: ``divergence(p, q)``: the evidence of one pull with average p against the mean q.
Divergence: TypeAlias = Callable[[float, float], float]
#: ``index_of(average, pulls, log)``: the highest mean with evidence of at most `log`.
IndexOf: TypeAlias = Callable[[float, float, float], float]
#: ``choose(total, information, pulls, log)``: the arm with the highest index.
ChooseArm: TypeAlias = Callable[[Vector, Vector, Vector, float], int]


def find_fewest(pulls: Vector, information: Vector) -> int:
    """The arm with the fewest pulls among those without information; -1 if there is none."""
    fewest = -1
    for arm in range(pulls.shape[0]):
        if information[arm] == 0.0 and (fewest < 0 or pulls[arm] < pulls[fewest]):
            fewest = arm
    return fewest


def bernoulli_index(average: float, pulls: float, log: float) -> float:
    """The highest mean in [0, 1] against which the evidence of Bernoulli rewards is at most `log`.

    >>> round(bernoulli_index(0.5, 100, 4.6), 3)
    0.648
    """
    # The divergence is convex and at least 2 (q - p)^2: Newton's method falls from there to q.
    mean = min(average + math.sqrt(log / (2.0 * pulls)), _HIGHEST)
    for _ in range(_MAX_STEPS):
        excess = kl_bernoulli(average, mean) - log / pulls
        if excess <= 0.0:
            break
        step = excess * mean * (1.0 - mean) / max(mean - average, _TINY)
        mean -= step
        if step <= _TINY:
            break
    return max(mean, average)


def poisson_index(average: float, pulls: float, log: float) -> float:
    """The highest mean in [0, 1] against which the evidence of Poisson rewards is at most `log`.

    >>> round(poisson_index(0.5, 100, 4.6), 3)
    0.746
    """
    mean = 1.0
    for _ in range(_MAX_STEPS):
        excess = kl_poisson(average, mean) - log / pulls
        if excess <= 0.0:
            break
        step = excess * mean / max(mean - average, _TINY)
        mean -= step
        if step <= _TINY:
            break
    return max(mean, average)


@cache
def choose_by(divergence: Divergence, index_of: IndexOf) -> ChooseArm:
    """How to choose the arm with the highest index; ties go to the arm with the fewest pulls."""

    def choose(total: Vector, information: Vector, pulls: Vector, log: float) -> int:
        chosen, highest = 0, -1.0
        for arm in range(pulls.shape[0]):
            average = min(max(total[arm] / information[arm], 0.0), 1.0)
            if average < highest < 1.0 and divergence(average, highest) * information[arm] > log:
                continue  # its index is below the highest so far; how far below does not matter
            index = index_of(average, information[arm], log)
            if index > highest or (index == highest and pulls[arm] < pulls[chosen]):
                chosen, highest = arm, index
        return chosen

    return choose


choose_bernoulli = choose_by(kl_bernoulli, bernoulli_index)
choose_poisson = choose_by(kl_poisson, poisson_index)
