"""d1 and d2: how much reward, and how much of its variance, is on its way at the edge of a round.

::

    d1 = sum over x >= 0 of max_i E[the part of a reward of i that arrives after lag x]
    d2 = sum over x >= 0 of max_i Var[the part of a reward of i that arrives after lag x]

Sums over delays of finite reach are exact. A geometric tail ends where float64 does. The tail of a
power law is summed one by one for a while and then integrated (Euler and Maclaurin, Gauss and
Legendre). A sum that does not converge is infinite.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import MAX_LAG, Vector, shorten
from aftereffect.bandits import StochasticBandit
from aftereffect.delays import PowerLaw
from aftereffect.errors import ParameterError

#: ``term(lags)``: the largest over arms, lag by lag.
Term = Callable[[ArrayLike], Vector]
#: Lags that are summed one by one before the rest is integrated.
_SUMMED_LAGS = 10_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
#: From this lag on the integral is a geometric series.
_FAR_LAG = 1e12


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
