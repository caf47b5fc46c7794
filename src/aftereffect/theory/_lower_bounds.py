"""Slopes of regret that no consistent policy stays below."""

import math

from aftereffect._core import MAX_LAG, check_int
from aftereffect.bandits import StochasticBandit
from aftereffect.delays import Immediate, RandomLag
from aftereffect.errors import ParameterError
from aftereffect.policies import kl_bernoulli
from aftereffect.rewards import Bernoulli


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
