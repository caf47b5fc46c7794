"""The bounds of the paper as numbers: delay measures, its theorems, and a lower bound to compare.

>>> from aftereffect import ArsUcb, Geometric, StochasticBandit
>>> bandit = StochasticBandit([.9, .5], Geometric(.8))
>>> round(d1(bandit), 6), round(d2(bandit), 6)
(4.5, 0.694444)
>>> bound = theorem_1(ArsUcb(alpha=5), bandit, horizon=10**6)
>>> round(bound.logarithmic), round(bound.log_t_star)
(1382, 5814)

Theorem 1 bounds the regret of ARS-UCB, term by term::

    regret <= sum over worse arms of 8 alpha ln T / gap_i + 2 T* + 8 N + N F(k0)
    T* = max(t1, t2)
    t1 = exp((4 d1 / (sqrt(alpha) - 2))^2)
    t2 = exp(N(d2) / alpha) + N (F(k0) + 2 N(d2))

F(k) = f(1) + ... + f(k); k0 is the last k with F(k) < f(k+1); N(d2) is the last F(K) at which
12 d2 K / F(K) still exceeds ((sqrt(alpha) - 2) / 2)^2. T* is astronomical for every setting of the
paper, so it is stored as a logarithm. The constant says that the regret is logarithmic in the end,
not how large it is.

Theorem 2 and the appendix bound the regret of the adversarial algorithms::

    Theorem 2, ARS-EXP3:   regret <= 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1)
    appendix, ARS-CLW:     regret <= sum over phases with h >= d of 8 sqrt(h (4 N + 1) t ln N)
                                     + 2 h^-1(d)

K is the number of rounds; a phase has t slots and guesses h; h^-1(d) is the first T with h(T) >= d.
The second bound follows from Corollary 4 of the paper on CLW, without the O(d) per phase that the
corollary does not state.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect._core import MAX_SLOTS, check_float, check_int
from aftereffect.bandits import StochasticBandit
from aftereffect.errors import ParameterError
from aftereffect.growth import Growth, Power
from aftereffect.policies import ArsClw, ArsExp3, ArsUcb, kl_bernoulli
from aftereffect.rewards import Bernoulli
from aftereffect.theory._measures import d1, d2

__all__ = [
    "ArsClwBound",
    "Theorem1",
    "Theorem2",
    "ars_clw_bound",
    "d1",
    "d2",
    "first_right_guess",
    "k0",
    "lai_robbins_slope",
    "theorem_1",
    "theorem_2",
]

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


def lai_robbins_slope(bandit: StochasticBandit) -> float:
    """The lowest regret per unit of ln T of any consistent policy, if rewards arrived at once.

    It is a slope as T goes to infinity: a curve at a finite horizon may be below it.

    Examples
    --------
    >>> from aftereffect import StochasticBandit
    >>> round(lai_robbins_slope(StochasticBandit([0.9, 0.5])), 3)
    0.783
    """
    if not isinstance(bandit.reward_law, Bernoulli):
        raise ParameterError(
            f"the slope is computed for Bernoulli rewards only, got {bandit.reward_law}"
        )
    best = max(bandit.means)
    if best == 1:
        return 0.0
    return math.fsum(
        (best - mean) / kl_bernoulli(mean, best) for mean in bandit.means if mean < best
    )


@dataclass(frozen=True)
class Theorem2:
    """The bound of ARS-EXP3: the cost of learning, of delay, and of the slots after the last round.

    Examples
    --------
    >>> theorem_2(ArsExp3(), arms=3, d=10, horizon=10**7).longest_round
    247
    """

    rounds: int
    longest_round: int
    learning: float
    delay: float
    rest: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.learning + self.delay + self.rest


@dataclass(frozen=True)
class ArsClwBound:
    """The bound of ARS-CLW: the cost of learning, and of the slots before the guess reaches d.

    Examples
    --------
    >>> ars_clw_bound(ArsClw(), arms=3, d=10, horizon=10**7).guessing
    118100
    """

    learning: float
    guessing: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.learning + self.guessing


def theorem_2(policy: ArsExp3, arms: int, d: float, horizon: int) -> Theorem2:
    """The bound for rewards that arrive within d slots, however delays are chosen.

    Examples
    --------
    >>> bound = theorem_2(ArsExp3(), arms=3, d=10, horizon=10**7)
    >>> bound.rounds, round(bound.total)
    (60698, 1545634)
    """
    count, slots, reach = _check(arms, d, horizon)
    rounds = policy.rounds(slots)
    growth = Power(policy.beta)
    longest = growth(rounds)
    learning = 3 * longest * math.sqrt(count * math.log(count) * rounds)
    return Theorem2(rounds, longest, learning, 2 * reach * rounds, growth(rounds + 1))


def ars_clw_bound(policy: ArsClw, arms: int, d: float, horizon: int) -> ArsClwBound:
    """The bound for rewards that arrive within d slots, if delays do not depend on the arms played.

    Examples
    --------
    >>> round(ars_clw_bound(ArsClw(), arms=3, d=10, horizon=10**7).total)
    1198994
    """
    count, slots, reach = _check(arms, d, horizon)
    learning, start, end = 0.0, 0, policy.first_phase
    while start < slots:
        guess = policy.guess(end)
        if guess >= reach:
            learning += 8 * math.sqrt(
                guess * (4 * count + 1) * (min(end, slots) - start) * math.log(count)
            )
        start, end = end, 2 * end
    return ArsClwBound(learning, 2 * first_right_guess(policy, reach))


def first_right_guess(policy: ArsClw, d: float) -> float:
    """h^-1(d): the first T with h(T) >= d; infinite if no run is that long.

    Examples
    --------
    >>> first_right_guess(ArsClw(), d=10)
    59050
    """
    high = 2
    while policy.guess(high) < d:
        if high > MAX_SLOTS:
            return math.inf
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if policy.guess(middle) < d else (low, middle)
    return high


def _check(arms: int, d: float, horizon: int) -> tuple[int, int, float]:
    return (
        check_int("arms", arms, at_least=2, at_most=MAX_SLOTS),
        check_int("horizon", horizon, at_least=1, at_most=MAX_SLOTS),
        check_float("d", d, at_least=0),
    )
