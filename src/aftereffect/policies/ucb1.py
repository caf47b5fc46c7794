"""UCB1, blind to delay.

UCB1 (Auer, Cesa-Bianchi, Fischer, 2002)::

    play every arm once, in order
    repeat: play the arm with the highest M_i / N_i + sqrt(2 ln t / N_i)     ties: smallest index

N_i counts the pulls of arm i and M_i adds up the totals of their slots, as if every reward arrived
at once. With immediate rewards its regret is logarithmic. With delayed rewards it is good at short
reach, while at long reach it settles on a wrong arm in some runs.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Params, PolicyKernels, register
from aftereffect.policies._averages import (
    Averages,
    blank_averages,
    credit,
    shared_width,
    upper_bound,
)
from aftereffect.policies.base import Policy

#: The width of UCB1's bound.
_ALPHA = 2.0


@register
@dataclass(frozen=True)
class Ucb1(Policy):
    """UCB1 that credits each slot's total to the arm just played, blind to delay: a baseline.

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate(Ucb1(), ae.StochasticBandit([0.9, 0.5]), horizon=1_000, seed=1)
    >>> round(float(study["ucb1"].final.mean()), 1)
    21.2
    """

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_ucb1, absorb_ucb1)

    def initial(self, arms: int) -> Averages:
        return blank_averages(arms)


def decide_ucb1(
    state: Averages, params: Params, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The arm with the highest index, for one slot."""
    chosen, highest = 0, -math.inf
    width = shared_width(_ALPHA, t)
    for arm in range(state.pulls.shape[0]):
        if state.pulls[arm] == 0.0:
            return arm, 1, 1
        index = upper_bound(state, arm, width)
        if index > highest:
            chosen, highest = arm, index
    return chosen, 1, 1


def absorb_ucb1(state: Averages, params: Params, arm: int, window: int, total: float) -> None:
    """Credit the slot's total to the arm just played."""
    credit(state, arm, window, total)
