"""Rewards that fade by the same factor every slot, for ever."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aftereffect.checks import real
from aftereffect.kernels import Vector
from aftereffect.spec import register
from aftereffect.spreads.base import Lags, Spread, whole_lags


@register
@dataclass(frozen=True)
class Geometric(Spread):
    """Shares (1 - gamma) gamma^(lag-1) at the lags 1, 2, 3, ... for ever.

    Parameters
    ----------
    gamma
        The factor from one slot to the next, above 0 and below 1.

    Examples
    --------
    >>> Geometric(0.75).mean_lag
    4.0
    """

    gamma: float

    def __post_init__(self) -> None:
        self._set(gamma=real("gamma", self.gamma, above=0, below=1))

    @property
    def reach(self) -> float:
        return math.inf

    @property
    def mean_lag(self) -> float:
        return 1 / (1 - self.gamma)

    @property
    def lag_variance(self) -> float:
        return self.gamma / (1 - self.gamma) ** 2

    @property
    def resolution(self) -> int:
        """The lag after which less than 2^-53 of a reward is still to come, which float64 cannot tell from nothing."""
        return math.ceil(-53 * math.log(2) / math.log(self.gamma))

    def share(self, lags: ArrayLike) -> Vector:
        at = whole_lags(lags)
        return np.where(at < 1, 0.0, (1 - self.gamma) * self.gamma ** np.maximum(at - 1, 0))

    def tail(self, lags: ArrayLike) -> Vector:
        at = whole_lags(lags)
        return np.where(at < 1, 1.0, self.gamma ** np.maximum(at, 0))

    def landing(self, rng: np.random.Generator, slots: int) -> tuple[Lags, Vector]:
        lags = np.arange(1, min(self.resolution, slots) + 1)
        return lags, self.share(lags)
