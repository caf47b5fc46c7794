"""State and arithmetic of policies that average what each arm collected.

Scalars use `math`, never `np`: then compiled and plain agree to the last bit.
"""

import math

import numpy as np

from aftereffect.kernels import Matrix, Vector

ROWS = PLAYS, COLLECTED, ROUNDS, AVERAGE, BREADTH = range(5)


def blank(arms: int) -> Matrix:
    """No arm played yet."""
    return np.zeros((len(ROWS), arms))


def credit(arms: Matrix, arm: int, slots: int, total: float) -> None:
    """Credit a round's total to the arm that was played in it, whichever arms it came from."""
    arms[PLAYS, arm] += slots
    arms[COLLECTED, arm] += total
    arms[ROUNDS, arm] += 1
    arms[AVERAGE, arm] = arms[COLLECTED, arm] / arms[PLAYS, arm]
    arms[BREADTH, arm] = 1.0 / math.sqrt(arms[PLAYS, arm])


def next_unplayed(arms: Matrix, after: int) -> int:
    """The next arm after one, in a circle, that was not played yet; -1 if all were."""
    count = int(arms.shape[1])
    for step in range(1, count + 1):
        arm = (after + step) % count
        if arms[PLAYS, arm] == 0.0:
            return arm
    return -1


def width(alpha: float, t: int) -> float:
    """The part of a radius that all arms share, sqrt(alpha ln t); with their breadth, 1 / sqrt(plays), it is the whole."""
    return math.sqrt(alpha * math.log(max(t, 1)))


def optimism(arms: Matrix, arm: int, width: float) -> float:
    """The upper confidence index of an arm: its average and a radius; no root for arms that were not played since."""
    index: float = arms[AVERAGE, arm] + width * arms[BREADTH, arm]
    return index


def radii(arms: Matrix, alpha: float, t: int) -> Vector:
    """The radius of each arm; infinite for one that was not played."""
    return np.where(arms[PLAYS] > 0.0, width(alpha, t) * arms[BREADTH], math.inf)
