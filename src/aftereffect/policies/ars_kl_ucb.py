"""ARS-UCB's rounds with the index of KL-UCB (Garivier, Cappe, 2011).

It shows how much of the advantage of `SettleUcb` comes from the index alone::

    play every arm once, in order, for f(1) slots
    repeat: u_i = max { q : N_i kl(M_i / N_i, q) <= ln t }          t slots played so far
            play the arm with the highest u_i for f(k_i) slots      ties: smallest N_i, then index
            N_i += slots, M_i += the total of these slots, k_i += 1

kl is the divergence of Bernoulli laws. There is no theorem for this policy: that of ARS-UCB needs
its wider radius.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from aftereffect._core import PolicyKernels, Vector, register
from aftereffect.growth import Growth, Power, SlotsOfRound, as_growth
from aftereffect.policies._averages import (
    Averages,
    blank_averages,
    credit,
    kl_chooser,
    next_unplayed,
    no_edge_noise,
)
from aftereffect.policies.base import Policy


class ArsKlUcbParams(NamedTuple):
    """What the growth's kernel reads."""

    growth: Vector


@register
@dataclass(frozen=True)
class ArsKlUcb(Policy):
    """ARS-UCB with a KL-UCB index in place of its radius; knows nothing of the delay.

    Parameters
    ----------
    growth
        The length of an arm's k-th round: a growth, its spec string, or any callable of k = 1, 2,
        ...

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(ArsKlUcb(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    4.0
    """

    growth: Growth = Power(2)

    def __post_init__(self) -> None:
        self._set(growth=as_growth(self.growth))

    def kernels(self) -> PolicyKernels:
        return ars_kl_ucb_kernels(self.growth.kernel())

    def initial(self, arms: int) -> Averages:
        return blank_averages(arms)

    def params(self, arms: int, horizon: int) -> ArsKlUcbParams:
        return ArsKlUcbParams(self.growth.params(horizon))


@cache
def ars_kl_ucb_kernels(slots_of_round: SlotsOfRound) -> PolicyKernels:
    """The rule for one growth."""
    choose = kl_chooser(no_edge_noise)

    def decide(
        state: Averages, params: ArsKlUcbParams, t: int, rng: np.random.Generator
    ) -> tuple[int, int, int]:
        chosen = next_unplayed(state, -1)
        if chosen < 0:
            chosen = choose(state, state, t)
        slots = slots_of_round(params.growth, int(state.rounds[chosen]) + 1)
        return chosen, slots, slots

    def absorb(
        state: Averages, params: ArsKlUcbParams, arm: int, window: int, total: float
    ) -> None:
        credit(state, arm, window, total)

    return PolicyKernels(decide, absorb)
