"""State and arithmetic of policies that average the totals of each arm.

Scalars use `math`, never `np`: then compiled and plain code agree to the last bit.
"""

import math
from typing import NamedTuple

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


def ucb_radii(averages: Averages, alpha: float, t: int) -> Vector:
    """The radius of each arm; infinite for one that was not played."""
    return np.where(averages.pulls > 0.0, shared_width(alpha, t) * averages.breadth, math.inf)
