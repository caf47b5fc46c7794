"""Rewards that are cut into the same shares every time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aftereffect.checks import lag, shares
from aftereffect.errors import ParameterError
from aftereffect.kernels import Vector
from aftereffect.spec import register
from aftereffect.spreads.base import FixedShares, Formula, normalised


@register
@dataclass(frozen=True)
class Interval(Formula, FixedShares):
    """Equal shares at the lags a, a+1, ..., b-1.

    Parameters
    ----------
    a, b
        Whole numbers with 0 <= a < b.

    Examples
    --------
    >>> spread = Interval(30, 40)
    >>> spread.reach, spread.mean_lag
    (39, 34.5)
    """

    a: int
    b: int

    def __post_init__(self) -> None:
        self._set(a=lag("a", self.a), b=lag("b", self.b))
        if self.b <= self.a:
            raise ParameterError(f"the end b must be above the first lag a = {self.a}, got {self.b}")

    @property
    def bound(self) -> int:
        return self.b

    @property
    def reach(self) -> int:
        return self.b - 1

    @property
    def mean_lag(self) -> float:
        return (self.a + self.b - 1) / 2

    @property
    def lag_variance(self) -> float:
        return ((self.b - self.a) ** 2 - 1) / 12

    @cached_property
    def shares(self) -> Vector:
        return normalised(np.repeat([0.0, 1.0], [self.a, self.b - self.a]))


@register
@dataclass(frozen=True)
class LinearDecay(Formula, FixedShares):
    """Shares in proportion to d, d-1, ..., 1 at the lags 1, 2, ..., d.

    Parameters
    ----------
    d
        The last lag, at least 1.
    """

    d: int

    def __post_init__(self) -> None:
        self._set(d=lag("d", self.d, at_least=1))

    @property
    def reach(self) -> int:
        return self.d

    @property
    def mean_lag(self) -> float:
        return (self.d + 2) / 3

    @property
    def lag_variance(self) -> float:
        return (self.d + 2) * (self.d - 1) / 18

    @cached_property
    def shares(self) -> Vector:
        return normalised(np.append(0.0, np.arange(self.d, 0, -1)))


@register
@dataclass(frozen=True)
class LinearRise(Formula, FixedShares):
    """Shares in proportion to 1, 2, ..., d at the lags 1, 2, ..., d.

    Parameters
    ----------
    d
        The last lag, at least 1.
    """

    d: int

    def __post_init__(self) -> None:
        self._set(d=lag("d", self.d, at_least=1))

    @property
    def reach(self) -> int:
        return self.d

    @property
    def mean_lag(self) -> float:
        return (2 * self.d + 1) / 3

    @property
    def lag_variance(self) -> float:
        return (self.d + 2) * (self.d - 1) / 18

    @cached_property
    def shares(self) -> Vector:
        return normalised(np.arange(self.d + 1))


@register
@dataclass(frozen=True)
class Shape(FixedShares):
    """Any shares at finitely many lags, the same for every pull.

    Parameters
    ----------
    weights
        The share at lag 0, 1, 2, ...; sums to one. Put a 0 first for lags that start at 1, as in the paper.

    Examples
    --------
    >>> Shape([0, .5, .25, .25]).mean_lag
    1.75
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        self._set(weights=shares("weights", self.weights))

    @cached_property
    def shares(self) -> Vector:
        return normalised(self.weights)
