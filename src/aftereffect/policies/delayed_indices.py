"""Oracles with an index per arm, which learn from pulls whose whole reward they know.

Delayed-UCB1 (Joulani, György and Szepesvári, 2013, section 4) and KL-UCB learn from complete pulls
only; the latter may also know a whole reward from its first part. S_i counts those of arm i, and
m_i is the average of their rewards::

    play the arm with the highest  m_i + sqrt(2 ln t / S_i)             Delayed-UCB1
    play the arm with the highest  max{q : S_i kl(m_i, q) <= ln t}      attributed KL-UCB
    first, arms with S_i = 0: the one with the fewest pulls

The regret of Delayed-UCB1 is at most sum_i (8 ln T / gap_i + 3.5 gap_i) + sum_i gap_i G_i, where
G_i is the expected number of pulls of arm i that are pending at a time, at most.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from aftereffect._core import AttributedKernels, Params, Vector, as_spec, register
from aftereffect.delays import ArmwiseDelay, Delay
from aftereffect.errors import ParameterError
from aftereffect.policies._averages import (
    Averages,
    blank_averages,
    credit,
    shared_width,
    upper_bound,
)
from aftereffect.policies._indices import choose_bernoulli, find_fewest
from aftereffect.policies.base import AttributedPolicy

#: The width of UCB1's bound.
_ALPHA = 2.0
#: The part of a pull from which its reward is read.
Reads = Literal["last", "first"]


class CompleteState(NamedTuple):
    """The averages of complete pulls, and all pulls by arm."""

    averages: Averages
    pulls: Vector


def arrive_complete(
    state: CompleteState,
    params: Params,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Credit a pull once its last part has arrived."""
    if not math.isnan(reward):
        credit(state.averages, arm, 1, reward)


def decide_delayed_ucb1(
    state: CompleteState, params: Params, t: int, rng: np.random.Generator
) -> int:
    """The arm with the highest index of UCB1."""
    chosen = find_fewest(state.pulls, state.averages.pulls)
    if chosen < 0:
        width, highest = shared_width(_ALPHA, t), -math.inf
        for arm in range(state.pulls.shape[0]):
            index = upper_bound(state.averages, arm, width)
            if index > highest:
                chosen, highest = arm, index
    state.pulls[chosen] += 1.0
    return chosen


def decide_attributed_kl_ucb(
    state: CompleteState, params: Params, t: int, rng: np.random.Generator
) -> int:
    """The arm with the highest index of KL-UCB."""
    chosen = find_fewest(state.pulls, state.averages.pulls)
    if chosen < 0:
        averages, log = state.averages, math.log(max(t, 1))
        chosen = choose_bernoulli(averages.total, averages.pulls, averages.pulls, log)
    state.pulls[chosen] += 1.0
    return chosen


class _FromCompletePulls(AttributedPolicy):
    """An oracle that learns from complete pulls."""

    def initial_within(self, arms: int, pending: int) -> CompleteState:
        return CompleteState(blank_averages(arms), np.zeros(arms))


@register
@dataclass(frozen=True)
class DelayedUcb1(_FromCompletePulls):
    """UCB1 that counts a pull once its whole reward has arrived: an oracle.

    Without delay it is `Ucb1`.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(["delayed-ucb1", "ucb1"], bandit, horizon=1_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [25, 96]
    """

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_delayed_ucb1, arrive_complete)


class EarlyParams(NamedTuple):
    """By arm the first lag at which parts arrive, and their share; -1 to wait for the last part."""

    first: Vector
    share: Vector


def arrive_early(
    state: CompleteState,
    params: EarlyParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Credit a pull when its first part says what the whole is, or else with its last one."""
    if params.first[arm] < 0.0:
        arrive_complete(state, params, t, pulled, arm, amount, reward)
    elif t - pulled == params.first[arm]:
        credit(state.averages, arm, 1, amount / params.share[arm])


@register
@dataclass(frozen=True)
class AttributedKlUcb(_FromCompletePulls):
    """KL-UCB that counts a pull once its whole reward has arrived: an oracle.

    Parameters
    ----------
    reads
        ``last``: a pull counts once its last part has arrived. ``first``: it counts at its first
        part if the delay cuts every reward into the same shares, since that part then says what the
        whole is. Prices of anonymity are relative to this one.
    delay
        The delay, for ``first``. A simulation fills it in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> policies = ["attributed-kl-ucb", "attributed-kl-ucb(first)", "settle-ucb"]
    >>> study = ae.simulate(policies, bandit, horizon=1_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [7, 6, 15]
    """

    reads: Reads = "last"
    delay: ArmwiseDelay | None = None

    def __post_init__(self) -> None:
        self._check_choices(reads=Reads)
        if self.delay is not None:
            self._set(delay=as_spec(self.delay, ArmwiseDelay))

    def with_delay(self, delay: Delay, arms: int) -> "AttributedKlUcb":
        if self.reads == "last" or self.delay is not None or not isinstance(delay, ArmwiseDelay):
            return self
        return replace(self, delay=delay)

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_attributed_kl_ucb, arrive_early)

    def params(self, arms: int, horizon: int) -> EarlyParams:
        first, share = np.full(arms, -1.0), np.ones(arms)
        if self.reads == "first":
            if self.delay is None:
                raise ParameterError(f"{self} must know the delay: pass delay=...")
            for arm, law in enumerate(self.delay.by_arm(arms)):
                if law.cuts_all_alike:
                    shares = law.share(np.arange(law.known_reach + 1))
                    first[arm] = np.flatnonzero(shares)[0]
                    share[arm] = shares[int(first[arm])]
        return EarlyParams(first, share)
