"""d1 and d2: how much reward, and how much of its variance, can be on its way at the edge of a round.

::

    d1 = sum over x >= 0 of max_i E[what a pull of i delivers after lag x]
    d2 = sum over x >= 0 of max_i Var[what a pull of i delivers after lag x]

Sums over spreads of finite reach are exact; a geometric tail ends where float64 does; a power law's is summed one by one for
a while and then integrated (Euler and Maclaurin, Gauss and Legendre). Where a sum does not end it is infinite.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from aftereffect.checks import LONGEST_LAG, cut
from aftereffect.environments import StochasticBandit
from aftereffect.errors import ParameterError
from aftereffect.kernels import Vector
from aftereffect.spreads import Geometric, PowerLaw, RandomLag, Spread

#: ``term(lags)``: the largest over arms, lag by lag.
Term = Callable[[ArrayLike], Vector]

_ONE_BY_ONE = 10_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_FAR = 1e12


def d1(environment: StochasticBandit) -> float:
    """The expectation measure of Theorem 1; infinite if an arm's mean lag is."""
    arms = [(mean, spread) for mean, spread in zip(environment.means, environment.spreads, strict=True) if mean > 0]
    if any(math.isinf(spread.mean_lag) for _, spread in arms):
        return math.inf
    if len({spread for _, spread in arms}) == 1:
        return max(mean for mean, _ in arms) * arms[0][1].mean_lag
    return _summed(lambda lags: _largest([mean * spread.tail(lags) for mean, spread in arms]), environment)


def d2(environment: StochasticBandit) -> float:
    """The variance measure of Theorem 1; infinite for a power law with gamma up to 1.5."""
    variances = environment.reward.variance(np.array(environment.means))
    arms = list(zip(environment.means, variances, environment.spreads, strict=True))
    if any(isinstance(spread, PowerLaw) and spread.gamma <= 1.5 and variance > 0 for _, variance, spread in arms):
        return math.inf
    return _summed(lambda lags: _largest([_variance(*arm, lags) for arm in arms]), environment)


def _variance(mean: float, variance: float, spread: Spread, lags: ArrayLike) -> Vector:
    """Of what is delivered after each lag: a share of the reward, or all of it with that probability."""
    tail = spread.tail(lags)
    if isinstance(spread, RandomLag):
        return tail * (variance + mean**2) - (tail * mean) ** 2
    return tail**2 * variance


def _largest(by_arm: list[Vector]) -> Vector:
    largest: Vector = np.max(by_arm, axis=0, initial=0.0)
    return largest


def _summed(term: Term, environment: StochasticBandit) -> float:
    ends = [_end(spread) for spread in environment.spreads]
    last = int(max((end for end in ends if math.isfinite(end)), default=0))
    if last > LONGEST_LAG:
        raise ParameterError(
            f"d1 and d2 are summed lag by lag, over at most {LONGEST_LAG:,}, but {cut(str(environment.spread))} needs {last:,} "
            "of them: take a smaller gamma"
        )
    if not any(map(math.isinf, ends)):
        return math.fsum(term(np.arange(last + 1)))
    first = max(last, _ONE_BY_ONE)
    return math.fsum(term(np.arange(first))) + _rest(term, first)


def _end(spread: Spread) -> float:
    """The last lag that can be told from nothing."""
    return spread.resolution if isinstance(spread, Geometric) else spread.reach


def _rest(term: Term, first: int) -> float:
    """The sum from lag `first` on of a term that falls like a power in the end.

    Its integral in log time, e-fold by e-fold, half its first value and a twelfth of its first slope; from `_FAR` on e-folds
    are a geometric series.
    """
    here, after = term([first, first + 1])
    total = float(here / 2 + (here - after) / 12)
    start, before, part = float(first), 0.0, 0.0
    while start < _FAR:
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
