"""UCB1, naively: every slot's total is credited to the arm just played, as if nothing came late.

::

    play every arm once, in order
    repeat: play the arm with the highest M_i / N_i + sqrt(2 ln t / N_i)        ties: smallest index

With immediate rewards this is UCB1 and its regret logarithmic. With late ones it is a yardstick: good at short reach, and at
long reach it can settle on a wrong arm.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.averages import PLAYS, blank, credit, optimism, radii, width
from aftereffect.policies.base import Policy, State
from aftereffect.spec import register

ALPHA = 2.0


@register
@dataclass(frozen=True)
class Ucb1(Policy):
    """UCB1 that credits each slot's total to the arm just played, blind to delay: a yardstick."""

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> State:
        return State(blank(arms), np.zeros(1))

    def params(self, arms: int, horizon: int) -> Vector:
        return np.zeros(1)

    def radii(self, state: State, params: Vector, t: int) -> Vector:
        return radii(state.arms, ALPHA, t)


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """The arm with the highest index, for one slot."""
    chosen, highest = 0, -math.inf
    shared = width(ALPHA, t)
    for arm in range(arms.shape[1]):
        if arms[PLAYS, arm] == 0.0:
            return arm, 1, 1
        index = optimism(arms, arm, shared)
        if index > highest:
            chosen, highest = arm, index
    return chosen, 1, 1


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """The slot's total, to the arm just played."""
    credit(arms, arm, slots, total)
