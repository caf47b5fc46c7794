"""ARS-UCB, which plays rounds that grow, with its own index or that of KL-UCB.

ARS-UCB, Algorithm 1 of Wang, Wang and Huang (2021), and ARS-KL-UCB::

    play every arm once, in order, for f(1) slots
    repeat: play the arm with the highest u_i for f(k_i) slots      ties: smallest N_i, then index
            N_i += slots, M_i += the total of these slots, k_i += 1

    ARS-UCB     u_i = min(M_i / N_i + sqrt(alpha ln t / N_i), 1)    t slots played so far
    ARS-KL-UCB  u_i = max { q : N_i kl(M_i / N_i, q) <= ln t }      kl of Bernoulli laws

Rewards of earlier arms leak into a round and its own rewards leak out of it, but no more than the
delay can hold back. As rounds grow, this leak becomes small against the round's total. The policies
need to know nothing about the delay.

Guarantee of ARS-UCB (Theorem 1): for alpha > 4, a non-decreasing growth f with
f(k+1) <= f(1) + ... + f(k) from some k on, and a delay whose constants d1 (of the lag) and d2 (of
the variance) are finite, the regret is at most the sum over arms of 8 alpha ln T / gap_i, plus a
constant. The cap at 1 and the tie rule are part of the proof: they make sure that every arm is
played often enough.

There is no theorem for the index of KL-UCB (Garivier, Cappe, 2011): the proof needs the wider
radius. It shows how much of the advantage of `SettleUcb` comes from the index alone.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from aftereffect._core import PolicyKernels, Vector, check_float, register
from aftereffect.growth import Growth, Power, SlotsOfRound, as_growth
from aftereffect.policies._averages import (
    Averages,
    blank_averages,
    credit,
    kl_chooser,
    next_unplayed,
    no_noise,
    shared_width,
    upper_bound,
)
from aftereffect.policies.base import Policy

#: So that alpha ln t is finite.
MAX_ALPHA = 1e300


class ArsUcbParams(NamedTuple):
    """The width of the confidence bound, and what the growth's kernel reads."""

    alpha: float
    growth: Vector


@register
@dataclass(frozen=True)
class ArsUcb(Policy):
    """ARS-UCB: growing rounds and the highest capped confidence bound; knows nothing of the delay.

    Parameters
    ----------
    alpha
        The width of the confidence bound, above 0. Theorem 1 needs more than 4; the paper's
        experiments use 4, and smaller values often do better in practice.
    growth
        The length of an arm's k-th round: a growth, its spec string, or any callable of k = 1, 2,
        ...

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(ArsUcb(alpha=4), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    100.3
    """

    alpha: float = 4.0
    growth: Growth = Power(2)

    def __post_init__(self) -> None:
        alpha = check_float("alpha", check_float("alpha", self.alpha, above=0), at_most=MAX_ALPHA)
        self._set(alpha=alpha, growth=as_growth(self.growth))

    def kernels(self) -> PolicyKernels:
        return ars_ucb_kernels(self.growth.kernel())

    def initial(self, arms: int) -> Averages:
        return blank_averages(arms)

    def params(self, arms: int, horizon: int) -> ArsUcbParams:
        return ArsUcbParams(self.alpha, self.growth.params(horizon))


@cache
def ars_ucb_kernels(slots_of_round: SlotsOfRound) -> PolicyKernels:
    """Algorithm 1 for one growth."""

    def decide(
        state: Averages, params: ArsUcbParams, t: int, rng: np.random.Generator
    ) -> tuple[int, int, int]:
        chosen, highest = 0, -math.inf
        width = shared_width(params.alpha, t)
        for arm in range(state.pulls.shape[0]):
            if state.pulls[arm] == 0.0:
                chosen = arm
                break
            index = min(upper_bound(state, arm, width), 1.0)
            if index > highest or (index == highest and state.pulls[arm] < state.pulls[chosen]):
                chosen, highest = arm, index
        slots = slots_of_round(params.growth, int(state.rounds[chosen]) + 1)
        return chosen, slots, slots

    def absorb(state: Averages, params: ArsUcbParams, arm: int, window: int, total: float) -> None:
        credit(state, arm, window, total)

    return PolicyKernels(decide, absorb)


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
    choose = kl_chooser(no_noise)

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
