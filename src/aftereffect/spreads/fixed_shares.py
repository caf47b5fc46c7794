"""Rewards that are cut into the same shares every time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aftereffect.checks import lag, shares
from aftereffect.errors import ParameterError
from aftereffect.kernels import Vector
from aftereffect.spec import register
from aftereffect.spreads.base import FixedShares, normalised


@register
@dataclass(frozen=True)
class Interval(FixedShares):
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

    @cached_property
    def shares(self) -> Vector:
        return normalised([0.0] * self.a + [1.0] * (self.b - self.a))


@register
@dataclass(frozen=True)
class LinearDecay(FixedShares):
    """Shares in proportion to d, d-1, ..., 1 at the lags 1, 2, ..., d.

    Parameters
    ----------
    d
        The last lag, at least 1.
    """

    d: int

    def __post_init__(self) -> None:
        self._set(d=lag("d", self.d, at_least=1))

    @cached_property
    def shares(self) -> Vector:
        return normalised(np.append(0.0, np.arange(self.d, 0, -1)))


@register
@dataclass(frozen=True)
class LinearRise(FixedShares):
    """Shares in proportion to 1, 2, ..., d at the lags 1, 2, ..., d.

    Parameters
    ----------
    d
        The last lag, at least 1.
    """

    d: int

    def __post_init__(self) -> None:
        self._set(d=lag("d", self.d, at_least=1))

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
