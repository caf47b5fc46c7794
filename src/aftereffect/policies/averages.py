"""State and arithmetic of policies that average what each arm collected.

Scalars use `math`, never `np`: then compiled and plain agree to the last bit.
"""

import math

import numpy as np

from aftereffect.kernels import Matrix

ROWS = PLAYS, COLLECTED, ROUNDS = range(3)


def blank(arms: int) -> Matrix:
    """No arm played yet."""
    return np.zeros((len(ROWS), arms))


def credit(arms: Matrix, arm: int, slots: int, total: float) -> None:
    """Credit a round's total to the arm that was played in it, whichever arms it came from."""
    arms[PLAYS, arm] += slots
    arms[COLLECTED, arm] += total
    arms[ROUNDS, arm] += 1


def optimism(collected: float, plays: float, alpha: float, log_t: float) -> float:
    """The upper confidence index of an arm: its average and a radius."""
    return collected / plays + math.sqrt(alpha * log_t / plays)
