"""Theorem 1 bounds the regret of ARS-UCB, term by term.

::

    regret <= sum over worse arms of 8 alpha ln T / gap_i + 2 T* + 8 N + N F(k0)
    T* = max(t1, t2)
    t1 = exp((4 d1 / (sqrt(alpha) - 2))^2)
    t2 = exp(N(d2) / alpha) + N (F(k0) + 2 N(d2))

F(k) = f(1) + ... + f(k); k0 is the last k with F(k) < f(k+1); N(d2) is the last F(K) at which
12 d2 K / F(K) still exceeds ((sqrt(alpha) - 2) / 2)^2. T* is astronomical for every setting of the
paper, so it is stored as a logarithm. The constant says that the regret is logarithmic in the end,
not how large it is.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect._core import MAX_SLOTS, check_int
from aftereffect.bandits import StochasticBandit
from aftereffect.growth import Growth
from aftereffect.policies import ArsUcb
from aftereffect.theory._measures import d1, d2

#: Rounds that are tried for k0. For k^p the last violation is near 1.5 p, and p is at most 100.
_K0_ROUNDS = 1_000
#: Rounds that are tried for N(d2), which grows without bound as alpha falls to 4, and if rounds
#: hardly grow.
_MAX_ROUNDS = 200_000


@dataclass(frozen=True)
class Theorem1:
    """The bound and its terms; ``log_`` fields are natural logarithms.

    Examples
    --------
    >>> from aftereffect import ArsUcb, Interval, StochasticBandit
    >>> bandit = StochasticBandit([0.9, 0.5], Interval(10, 19))
    >>> round(theorem_1(ArsUcb(alpha=5), bandit, horizon=10**6).d1, 2)
    13.05
    """

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
        return (
            float(np.logaddexp(math.log(self.logarithmic), self.log_constant))
            if self.logarithmic
            else self.log_constant
        )


def k0(growth: Growth) -> int:
    """The last k with f(1) + ... + f(k) < f(k+1); 0 if there is none. Theorem 1 needs a last one.

    A callable for which this still holds at k = 1,000 gets 1,000.

    Examples
    --------
    >>> from aftereffect.growth import Power
    >>> k0(Power(2))
    3
    """
    played, last = 0, 0
    for k in range(1, _K0_ROUNDS + 1):
        played += growth(k)
        if played < growth(k + 1):
            last = k
    return last


def theorem_1(policy: ArsUcb, bandit: StochasticBandit, horizon: int) -> Theorem1:
    """The bound of Theorem 1 for a policy and a bandit.

    Its constant is infinite for alpha <= 4, if d1 or d2 is, and if N(d2) needs more than 200,000
    rounds.

    Examples
    --------
    >>> from aftereffect import ArsUcb, StochasticBandit
    >>> bound = theorem_1(ArsUcb(alpha=5), StochasticBandit([0.9, 0.5]), horizon=10**6)
    >>> round(bound.logarithmic)
    1382
    """
    slots = check_int("horizon", horizon, at_least=1, at_most=MAX_SLOTS)
    gaps = bandit.gaps[bandit.gaps > 0]
    expectation, variance = d1(bandit), d2(bandit)
    last = k0(policy.growth)
    played = sum(policy.growth(k) for k in range(1, last + 1))
    slack = math.sqrt(policy.alpha) - 2
    log_t1 = log_t2 = math.inf
    if slack > 0 and math.isfinite(expectation + variance):
        log_t1 = (4 * expectation / slack) ** 2
        enough = _pulls_until(policy.growth, 12 * variance / (slack / 2) ** 2)
        log_t2 = float(
            np.logaddexp(
                enough / policy.alpha, math.log(max(bandit.arms * (played + 2 * enough), 1))
            )
        )
    return Theorem1(
        d1=expectation,
        d2=variance,
        k0=last,
        logarithmic=float((8 * policy.alpha * math.log(slots) / gaps).sum()),
        log_t1=log_t1,
        log_t2=log_t2,
        rounds=bandit.arms * (8 + played),
    )


def _pulls_until(growth: Growth, most: float) -> float:
    """The last F(K) with F(K) < most K; infinite if that takes more than `_MAX_ROUNDS`."""
    played = 0
    for k in range(1, _MAX_ROUNDS + 1):
        before = played
        played += growth(k)
        if played >= most * k and growth(k + 1) >= most:
            return before
    return math.inf
