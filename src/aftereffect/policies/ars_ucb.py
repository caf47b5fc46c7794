"""ARS-UCB, Algorithm 1 of the paper: adaptive round sizes for stochastic bandits.

::

    play every arm once, in order, for f(1) slots
    repeat: u_i = min(M_i / N_i + sqrt(alpha ln t / N_i), 1)        t slots played so far
            play the arm with the highest u_i for f(k_i) slots      ties: smallest N_i, then smallest index
            N_i += slots, M_i += all that was seen, k_i += 1

Seen from a round, rewards of earlier arms leak in and its own leak out, but not more than the spread can hold. Rounds that
grow make that leak vanish against what was collected, without knowing anything about the spread.

Guarantee (Theorem 1): for alpha > 4, a non-decreasing growth f with f(k+1) <= f(1) + ... + f(k) from some k on, and a
spread whose constants d1 (of the lag) and d2 (of the variance) are finite, the regret is at most the sum over arms of
8 alpha ln T / gap_i, plus a constant. The cap at 1 and the tie rule are part of the proof: they make every arm be played
often enough.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from aftereffect.checks import real
from aftereffect.growth import Growth, Power, SlotsOfRound, as_growth
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.averages import PLAYS, ROUNDS, blank, credit, optimism, radii, width
from aftereffect.policies.base import Policy, State
from aftereffect.spec import register

ALPHA, GROWTH = range(2)
#: So that alpha ln t is a number.
MAX_ALPHA = 1e300


@register
@dataclass(frozen=True)
class ArsUcb(Policy):
    """ARS-UCB: rounds that grow, and the highest capped confidence bound; knows nothing of the spread.

    Parameters
    ----------
    alpha
        The width of the confidence bound, above 0. Theorem 1 needs more than 4; the paper's experiments use 4, and smaller
        values often do better in practice.
    growth
        The length of an arm's k-th round: a growth, its spec string, or any callable of k = 1, 2, ...

    Examples
    --------
    >>> print(ArsUcb(alpha=4, growth=Power(2)))
    ars-ucb(alpha=4, growth=power(2))
    """

    alpha: float = 4.0
    growth: Growth = Power(2)

    def __post_init__(self) -> None:
        alpha = real("alpha", real("alpha", self.alpha, above=0), at_most=MAX_ALPHA)
        self._set(alpha=alpha, growth=as_growth(self.growth))

    def kernels(self) -> PolicyKernels:
        return kernels(self.growth.kernel())

    def initial(self, arms: int) -> State:
        return State(blank(arms), np.zeros(1))

    def params(self, arms: int, horizon: int) -> Vector:
        return np.append(self.alpha, self.growth.params(horizon))

    def radii(self, state: State, params: Vector, t: int) -> Vector:
        return radii(state.arms, self.alpha, t)


@cache
def kernels(slots_of_round: SlotsOfRound) -> PolicyKernels:
    """Algorithm 1 for one growth."""

    def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
        chosen, highest = 0, -math.inf
        shared = width(params[ALPHA], t)
        for arm in range(arms.shape[1]):
            if arms[PLAYS, arm] == 0.0:
                chosen = arm
                break
            index = min(optimism(arms, arm, shared), 1.0)
            if index > highest or (index == highest and arms[PLAYS, arm] < arms[PLAYS, chosen]):
                chosen, highest = arm, index
        slots = slots_of_round(params[GROWTH:], int(arms[ROUNDS, chosen]) + 1)
        return chosen, slots, slots

    def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
        credit(arms, arm, slots, total)

    return PolicyKernels(decide, absorb)
