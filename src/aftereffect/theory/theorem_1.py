"""Theorem 1: the regret bound of ARS-UCB, term by term.

::

    regret <= sum over worse arms of 8 alpha ln T / gap_i + 2 T* + 8 N + N F(k0)
    T* = max(t1, t2),  t1 = exp((4 d1 / (sqrt(alpha) - 2))^2),  t2 = exp(N(d2) / alpha) + N (F(k0) + 2 N(d2))

F(k) = f(1) + ... + f(k); k0 is the last k with F(k) < f(k+1); N(d2) the last F(K) at which 12 d2 K / F(K) still exceeds
((sqrt(alpha) - 2) / 2)^2. T* is astronomical for every setting of the paper, so it is kept as a logarithm: the constant says
that the regret is logarithmic in the end, not how large it is.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect.checks import MOST_SLOTS, whole
from aftereffect.environments import StochasticBandit
from aftereffect.growth import Growth
from aftereffect.policies import ArsUcb
from aftereffect.theory.measures import d1, d2

#: Rounds looked at for k0. For k^p the last violation is near 1.5 p, and p is at most 100.
_ROUNDS = 1_000
#: Rounds looked at for N(d2), which grows without bound as alpha falls to 4 and where rounds hardly grow.
_MOST_ROUNDS = 200_000


@dataclass(frozen=True)
class Theorem1:
    """The bound and all that it is made of; ``log_`` fields are natural logarithms."""

    d1: float
    d2: float
    k0: int
    logarithmic: float
    log_t1: float
    log_t2: float
    rounds: float

    @property
    def log_t_star(self) -> float:
        """The logarithm of T*."""
        return max(self.log_t1, self.log_t2)

    @property
    def log_constant(self) -> float:
        """The logarithm of 2 T* + 8 N + N F(k0)."""
        return float(np.logaddexp(math.log(2) + self.log_t_star, math.log(self.rounds)))

    @property
    def log_total(self) -> float:
        """The logarithm of the bound."""
        return float(np.logaddexp(math.log(self.logarithmic), self.log_constant)) if self.logarithmic else self.log_constant


def k0(growth: Growth) -> int:
    """The last k with f(1) + ... + f(k) < f(k+1), as Theorem 1 wants none from some k on; 0 if there is none.

    A callable that still violates it at k = 1,000 gets 1,000.
    """
    played, last = 0, 0
    for k in range(1, _ROUNDS + 1):
        played += growth(k)
        if played < growth(k + 1):
            last = k
    return last


def theorem_1(policy: ArsUcb, environment: StochasticBandit, horizon: int) -> Theorem1:
    """The bound for a policy in an environment.

    Its constant is infinite for alpha <= 4, where d1 or d2 is, and where N(d2) takes more than 200,000 rounds.
    """
    slots = whole("horizon", horizon, at_least=1, at_most=MOST_SLOTS)
    gaps = environment.gaps[environment.gaps > 0]
    expectation, variance = d1(environment), d2(environment)
    last = k0(policy.growth)
    played = sum(policy.growth(k) for k in range(1, last + 1))
    slack = math.sqrt(policy.alpha) - 2
    log_t1 = log_t2 = math.inf
    if slack > 0 and math.isfinite(expectation + variance):
        log_t1 = (4 * expectation / slack) ** 2
        enough = _plays_until(policy.growth, 12 * variance / (slack / 2) ** 2)
        log_t2 = float(np.logaddexp(enough / policy.alpha, math.log(max(environment.arms * (played + 2 * enough), 1))))
    return Theorem1(
        expectation,
        variance,
        last,
        float((8 * policy.alpha * math.log(slots) / gaps).sum()),
        log_t1,
        log_t2,
        environment.arms * (8 + played),
    )


def _plays_until(growth: Growth, most: float) -> float:
    """The last F(K) with F(K) < most K; infinite, which bounds it as well, if that takes more than `_MOST_ROUNDS`."""
    played = 0
    for k in range(1, _MOST_ROUNDS + 1):
        before = played
        played += growth(k)
        if played >= most * k and growth(k + 1) >= most:
            return before
    return math.inf
