"""Rewards that fade like a power of time, for ever."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from aftereffect.checks import real
from aftereffect.kernels import Vector
from aftereffect.spec import register
from aftereffect.spreads.base import Lags, Spread, whole_lags

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 12


def hurwitz_zeta(s: float, start: ArrayLike) -> Vector:
    """The sum over k >= 0 of (start + k)^-s, for s > 1 and start > 0, by Euler and Maclaurin to about 1e-15."""
    a = np.asarray(start, dtype=float)
    head = sum((a + k) ** -s for k in range(_SHIFT))
    b = a + _SHIFT
    total = head + b ** (1 - s) / (s - 1) + b**-s / 2
    factor = s * b ** (-s - 1) / 2
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = total + bernoulli * factor
        factor = factor * (s + 2 * j - 1) * (s + 2 * j) / ((2 * j + 1) * (2 * j + 2) * b**2)
    zeta: Vector = total
    return zeta


@register
@dataclass(frozen=True)
class PowerLaw(Spread):
    """Shares in proportion to lag^-gamma at the lags 1, 2, 3, ... for ever.

    Parameters
    ----------
    gamma
        The exponent, above 1. Up to 2 the mean lag is infinite, and Theorem 1 says nothing.

    Examples
    --------
    >>> round(PowerLaw(3).mean_lag, 6)
    1.368433
    """

    gamma: float

    def __post_init__(self) -> None:
        self._set(gamma=real("gamma", self.gamma, above=1, at_most=50))

    @cached_property
    def _norm(self) -> float:
        return float(hurwitz_zeta(self.gamma, 1))

    @property
    def reach(self) -> float:
        return math.inf

    @property
    def mean_lag(self) -> float:
        return math.inf if self.gamma <= 2 else float(hurwitz_zeta(self.gamma - 1, 1)) / self._norm

    @property
    def lag_variance(self) -> float:
        if self.gamma <= 3:
            return math.inf
        return float(hurwitz_zeta(self.gamma - 2, 1)) / self._norm - self.mean_lag**2

    def share(self, lags: ArrayLike) -> Vector:
        at = whole_lags(lags)
        return np.where(at < 1, 0.0, np.maximum(at, 1).astype(float) ** -self.gamma / self._norm)

    def tail(self, lags: ArrayLike) -> Vector:
        at = whole_lags(lags)
        return np.where(at < 1, 1.0, hurwitz_zeta(self.gamma, np.maximum(at, 0) + 1) / self._norm)

    def landing(self, rng: np.random.Generator, slots: int) -> tuple[Lags, Vector]:
        lags = np.arange(1, slots + 1)
        return lags, self.share(lags)
