"""Rewards that come whole, after a random delay."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aftereffect.checks import lag, shares
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, Vector
from aftereffect.spec import register
from aftereffect.spreads.base import DrawLag, Formula, RandomLag, normalised


def uniform_lag(tables: Matrix, row: int, rng: np.random.Generator) -> int:
    """The table holds the largest lag, the smallest, and their number."""
    return int(tables[row, 1]) + int(rng.random() * tables[row, 2])


@register
@dataclass(frozen=True)
class UniformDelay(Formula, RandomLag):
    """The whole reward lands at one lag, drawn uniformly from a, a+1, ..., b.

    Parameters
    ----------
    a, b
        Whole numbers with 0 <= a <= b; both ends are possible.

    Examples
    --------
    >>> UniformDelay(10, 30).mean_lag
    20.0
    """

    a: int
    b: int

    def __post_init__(self) -> None:
        self._set(a=lag("a", self.a), b=lag("b", self.b))
        if self.b < self.a:
            raise ParameterError(f"the longest delay b must be at least the shortest a = {self.a}, got {self.b}")

    @property
    def reach(self) -> int:
        return self.b

    @property
    def mean_lag(self) -> float:
        return (self.a + self.b) / 2

    @property
    def lag_variance(self) -> float:
        return ((self.b - self.a + 1) ** 2 - 1) / 12

    @cached_property
    def shares(self) -> Vector:
        return normalised(np.repeat([0.0, 1 / (self.b - self.a + 1)], [self.a, self.b - self.a + 1]))

    def lag_kernel(self) -> DrawLag:
        return uniform_lag

    def lag_table(self) -> Vector:
        return np.array([self.b, self.a, self.b - self.a + 1], dtype=float)


def inverted_lag(tables: Matrix, row: int, rng: np.random.Generator) -> int:
    """The table holds the largest lag, then the distribution function: the first lag at which it passes a uniform number."""
    u = rng.random()
    low, high = 0, int(tables[row, 0])
    while low < high:
        middle = (low + high) // 2
        if tables[row, middle + 1] > u:
            high = middle
        else:
            low = middle + 1
    return low


@register
@dataclass(frozen=True)
class RandomDelay(RandomLag):
    """The whole reward lands at one lag, drawn from any law on finitely many lags.

    Parameters
    ----------
    pmf
        The probability of lag 0, 1, 2, ...; sums to one.

    Examples
    --------
    >>> RandomDelay([0, .5, .25, .25]).mean_lag
    1.75
    """

    pmf: tuple[float, ...]

    def __post_init__(self) -> None:
        self._set(pmf=shares("pmf", self.pmf))

    @cached_property
    def shares(self) -> Vector:
        return normalised(self.pmf)

    def lag_kernel(self) -> DrawLag:
        return inverted_lag

    def lag_table(self) -> Vector:
        return np.append(self.reach, np.cumsum(self.shares))
