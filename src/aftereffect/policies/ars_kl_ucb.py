"""ARS-UCB's rounds with the index of KL-UCB: shows how much of what `SettleUcb` gains comes from the index alone.

::

    play every arm once, in order, for f(1) slots
    repeat: u_i = max { q : N_i kl(M_i / N_i, q) <= ln t }                 kl of Bernoulli laws, t slots played so far
            play the arm with the highest u_i for f(k_i) slots             ties: smallest N_i, then smallest index
            N_i += slots, M_i += all that was seen, k_i += 1

There is no theorem for it here: that of ARS-UCB needs its wider radius.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from aftereffect.growth import Growth, Power, SlotsOfRound, as_growth
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.averages import ROUNDS, blank, credit, next_unplayed
from aftereffect.policies.base import Policy, State
from aftereffect.policies.kl_ucb import most_promising, radii, unspoilt
from aftereffect.spec import register


@register
@dataclass(frozen=True)
class ArsKlUcb(Policy):
    """ARS-UCB with a KL-UCB index in place of its radius; knows nothing of the spread.

    Parameters
    ----------
    growth
        The length of an arm's k-th round: a growth, its spec string, or any callable of k = 1, 2, ...

    Examples
    --------
    >>> print(ArsKlUcb())
    ars-kl-ucb(growth=power(2))
    """

    growth: Growth = Power(2)

    def __post_init__(self) -> None:
        self._set(growth=as_growth(self.growth))

    def kernels(self) -> PolicyKernels:
        return kernels(self.growth.kernel())

    def initial(self, arms: int) -> State:
        return State(blank(arms), np.zeros(1))

    def params(self, arms: int, horizon: int) -> Vector:
        return self.growth.params(horizon)

    def radii(self, state: State, params: Vector, t: int) -> Vector:
        return radii(state.arms, state.own, t, unspoilt)


@cache
def kernels(slots_of_round: SlotsOfRound) -> PolicyKernels:
    """The rule for one growth."""
    choose = most_promising(unspoilt)

    def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
        chosen = next_unplayed(arms, -1)
        if chosen < 0:
            chosen = choose(arms, own, t)
        slots = slots_of_round(params, int(arms[ROUNDS, chosen]) + 1)
        return chosen, slots, slots

    def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
        credit(arms, arm, slots, total)

    return PolicyKernels(decide, absorb)
