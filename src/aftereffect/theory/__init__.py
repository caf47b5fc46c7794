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

d1 and d2 say how much reward, and how much of its variance, is on its way at the edge of a round::

    d1 = sum over x >= 0 of max_i E[the part of a reward of i that arrives after lag x]
    d2 = sum over x >= 0 of max_i Var[the part of a reward of i that arrives after lag x]

Sums over delays of finite reach are exact. A geometric tail ends where float64 does. The tail of a
power law is summed one by one for a while and then integrated (Euler and Maclaurin, Gauss and
Legendre). A sum that does not converge is infinite.

Theorem 2 and the appendix bound the regret of the adversarial algorithms::

    Theorem 2, ARS-EXP3:   regret <= 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1)
    appendix, ARS-CLW:     regret <= sum over phases with h >= d of 8 sqrt(h (4 N + 1) t ln N)
                                     + 2 h^-1(d)

K is the number of rounds; a phase has t slots and guesses h; h^-1(d) is the first T with h(T) >= d.
The second bound follows from Corollary 4 of the paper on CLW, without the O(d) per phase that the
corollary does not state.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import MAX_LAG, MAX_SLOTS, Vector, check_float, check_int, shorten
from aftereffect.bandits import StochasticBandit
from aftereffect.delays import Immediate, PowerLaw, RandomLag
from aftereffect.errors import ParameterError
from aftereffect.growth import Growth, Power
from aftereffect.policies import ArsClw, ArsExp3, ArsUcb, kl_bernoulli
from aftereffect.rewards import Bernoulli

__all__ = [
    "ArsClwBound",
    "Theorem1",
    "Theorem2",
    "ars_clw_bound",
    "censored_slope",
    "d1",
    "d2",
    "first_right_guess",
    "k0",
    "lai_robbins_slope",
    "theorem_1",
    "theorem_2",
]

#: ``term(lags)``: the largest over arms, lag by lag.
Term = Callable[[ArrayLike], Vector]
#: Lags that are summed one by one before the rest is integrated.
_SUMMED_LAGS = 10_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
#: From this lag on the integral is a geometric series.
_FAR_LAG = 1e12
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
    """The lowest regret per unit of ln T of any consistent policy, whatever the delay.

    It is a slope as T goes to infinity: a curve at a finite horizon may be below it. Lai and
    Robbins (1985) proved it for rewards that arrive at once. It holds as well for policies that see
    anonymous totals, and for oracles that learn from which pull each part of a total comes:

    Take a second bandit, in which a worse arm i has the mean m' and all else is as before. What a
    policy sees in T slots follows from the vectors of parts that its pulls bring, and from its own
    draws. So, by data processing, the divergence between the laws of what it sees in the two
    bandits is at most that between the laws of all vectors. By the chain rule this is
    E[N_i] kl(vector of i), where N_i counts the pulls of arm i. A vector is made of a reward and of
    lags that are drawn alike in both bandits, so kl(vector of i) <= kl(m_i, m'). Hence every event
    A that the policy can see has kl(P(A), P'(A)) <= E[N_i] kl(m_i, m'). Let m' be just above the
    best mean, and A say that arm i had fewer than T / 2 pulls. A policy is consistent if its regret
    grows slower than any power of T in every bandit. Then P(A) tends to 1 and P'(A) falls faster
    than T^(a - 1) for every a > 0, so the left side is ln T (1 - o(1)) and
    E[N_i] >= ln T / kl(m_i, m') (1 - o(1)). Each of these pulls costs the gap of arm i.

    Examples
    --------
    >>> from aftereffect import StochasticBandit
    >>> round(lai_robbins_slope(StochasticBandit([0.9, 0.5])), 3)
    0.783
    """
    return _find_slope(bandit, 1.0)


def censored_slope(bandit: StochasticBandit, window: int) -> float:
    """The same where nobody sees what arrives at lags above `window`: Vernade et al. (2017).

    With tau, the probability that a reward arrives in time, it is the sum of
    gap / kl(tau mean, tau best) over the worse arms. The paper counts only rewards that arrive in
    time, so its slope is tau times this one; here the regret is of all that is generated. If all
    arrives in time, both are `lai_robbins_slope`.

    Examples
    --------
    >>> from aftereffect import StochasticBandit, UniformDelay
    >>> bandit = StochasticBandit([0.9, 0.5], UniformDelay(1, 10))
    >>> round(censored_slope(bandit, window=5), 3), round(censored_slope(bandit, window=10), 3)
    (4.669, 0.783)
    """
    laws = set(bandit.delays)
    if len(laws) > 1 or not isinstance(law := laws.pop(), (RandomLag, Immediate)):
        raise ParameterError(
            "the slope is computed for one delay, after which rewards arrive whole, such as "
            f"uniform-delay(10, 30), got {bandit.delay}"
        )
    seen = 1.0 - float(law.tail(check_int("window", window, at_least=0, at_most=MAX_LAG)))
    return _find_slope(bandit, seen)


def _find_slope(bandit: StochasticBandit, seen: float) -> float:
    """The slope if each reward is seen with this probability."""
    if not isinstance(bandit.reward_law, Bernoulli):
        raise ParameterError(
            f"the slope is computed for Bernoulli rewards only, got {bandit.reward_law}"
        )
    best = max(bandit.means)
    if seen == 0.0:
        return math.inf if best > min(bandit.means) else 0.0
    if seen * best == 1.0:
        return 0.0
    return math.fsum(
        (best - mean) / kl_bernoulli(seen * mean, seen * best)
        for mean in bandit.means
        if mean < best
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


def d1(bandit: StochasticBandit) -> float:
    """The expectation measure of Theorem 1; infinite if the mean lag of an arm is.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> round(d1(StochasticBandit([0.9, 0.5], Interval(10, 19))), 2)
    13.05
    """
    arms = [
        (mean, delay) for mean, delay in zip(bandit.means, bandit.delays, strict=True) if mean > 0
    ]
    if any(math.isinf(delay.mean_lag) for _, delay in arms):
        return math.inf
    if len({delay for _, delay in arms}) == 1:
        return max(mean for mean, _ in arms) * arms[0][1].mean_lag
    return _sum_terms(
        lambda lags: _largest([mean * delay.tail(lags) for mean, delay in arms]), bandit
    )


def d2(bandit: StochasticBandit) -> float:
    """The variance measure of Theorem 1; infinite for a power law with gamma up to 1.5.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> round(d2(StochasticBandit([0.9, 0.5], Interval(10, 19))), 4)
    3.2125
    """
    variances = bandit.reward_law.variance(np.array(bandit.means))
    arms = list(zip(bandit.means, variances, bandit.delays, strict=True))
    if any(
        isinstance(delay, PowerLaw) and delay.gamma <= 1.5 and variance > 0
        for _, variance, delay in arms
    ):
        return math.inf
    return _sum_terms(
        lambda lags: _largest(
            [law.share_variance(law.tail(lags), mean, variance) for mean, variance, law in arms]
        ),
        bandit,
    )


def _largest(by_arm: list[Vector]) -> Vector:
    largest: Vector = np.max(by_arm, axis=0, initial=0.0)
    return largest


def _sum_terms(term: Term, bandit: StochasticBandit) -> float:
    ends = [delay.effective_reach for delay in bandit.delays]
    last = int(max((end for end in ends if math.isfinite(end)), default=0))
    if last > MAX_LAG:
        raise ParameterError(
            f"d1 and d2 are sums over at most {MAX_LAG:,} lags, "
            f"but {shorten(str(bandit.delay))} has {last:,}: use a smaller gamma"
        )
    if not any(map(math.isinf, ends)):
        return math.fsum(term(np.arange(last + 1)))
    first = max(last, _SUMMED_LAGS)
    return math.fsum(term(np.arange(first))) + _rest(term, first)


def _rest(term: Term, first: int) -> float:
    """The sum from lag `first` on of a term that falls like a power in the end.

    Its integral in log time, e-fold by e-fold, half its first value and a twelfth of its first
    slope; from `_FAR_LAG` on e-folds are a geometric series.
    """
    here, after = term([first, first + 1])
    total = float(here / 2 + (here - after) / 12)
    start, before, part = float(first), 0.0, 0.0
    while start < _FAR_LAG:
        lags = start * np.exp((_NODES + 1) / 2)
        before, part = part, float(_smooth(term, lags) * lags @ _WEIGHTS) / 2
        total += part
        start *= math.e
    return total + (part * part / (before - part) if part else 0.0)


def _smooth(term: Term, lags: Vector) -> Vector:
    """A term between whole lags."""
    below = np.floor(lags)
    low, high = term(below), term(below + 1)
    between: Vector = low * (high / low) ** (lags - below)
    return between
