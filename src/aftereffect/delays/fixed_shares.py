"""Delays that cut every reward into the same shares."""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from aftereffect._core import (
    ArmKey,
    Matrix,
    Memory,
    RewardSource,
    Source,
    Vector,
    check_lag,
    check_shares,
    register,
)
from aftereffect.delays._engines import CollectRow, Recipe, Size, normalise
from aftereffect.delays.base import ClosedForm, FiniteLagLaw
from aftereffect.delays.random_lag import EvenLags


@register
@dataclass(frozen=True)
class Immediate(FiniteLagLaw):
    """No delay: the whole reward arrives in the slot of the pull itself.

    Examples
    --------
    >>> Immediate().mean_lag
    0.0
    """

    @property
    def shares(self) -> Vector:
        return np.ones(1)

    def roundwise_recipe(self, rewards: RewardSource, horizon: int) -> Recipe[CollectRow]:
        return Recipe(_collect_at_once(rewards), np.zeros(1), 1)

    def roundwise_size(self, horizon: int) -> Size:
        return Size(1, 1)


@cache
def _collect_at_once(rewards: RewardSource) -> CollectRow:
    many = rewards.many

    def collect(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        return many(source, key, t + slots - window, window, rng)

    return collect


@register
@dataclass(frozen=True)
class Interval(EvenLags):
    """Equal shares at the lags first, first + 1, ..., last.

    Parameters
    ----------
    first, last
        Whole numbers with 0 <= first <= last.

    Examples
    --------
    >>> delay = Interval(30, 39)
    >>> delay.reach, delay.mean_lag
    (39, 34.5)
    """

    first: int
    last: int

    @property
    def stated_reach(self) -> int:
        return self.last + 1

    @cached_property
    def shares(self) -> Vector:
        return normalise(np.repeat([0.0, 1.0], [self.first, self.last - self.first + 1]))


@register
@dataclass(frozen=True)
class LinearDecay(ClosedForm):
    """Shares in proportion to last, last - 1, ..., 1 at the lags 1, 2, ..., last.

    Parameters
    ----------
    last
        The last lag, at least 1.

    Examples
    --------
    >>> LinearDecay(4).share([1, 2, 3, 4]).tolist()
    [0.4, 0.3, 0.2, 0.1]
    """

    last: int

    def __post_init__(self) -> None:
        self._set(last=check_lag("last", self.last, at_least=1))

    @property
    def reach(self) -> int:
        return self.last

    @property
    def mean_lag(self) -> float:
        return (self.last + 2) / 3

    @property
    def lag_variance(self) -> float:
        return (self.last + 2) * (self.last - 1) / 18

    @cached_property
    def shares(self) -> Vector:
        return normalise(np.append(0.0, np.arange(self.last, 0, -1)))


@register
@dataclass(frozen=True)
class LinearRise(ClosedForm):
    """Shares in proportion to 1, 2, ..., last at the lags 1, 2, ..., last.

    Parameters
    ----------
    last
        The last lag, at least 1.

    Examples
    --------
    >>> LinearRise(4).share([1, 2, 3, 4]).tolist()
    [0.1, 0.2, 0.3, 0.4]
    """

    last: int

    def __post_init__(self) -> None:
        self._set(last=check_lag("last", self.last, at_least=1))

    @property
    def reach(self) -> int:
        return self.last

    @property
    def mean_lag(self) -> float:
        return (2 * self.last + 1) / 3

    @property
    def lag_variance(self) -> float:
        return (self.last + 2) * (self.last - 1) / 18

    @cached_property
    def shares(self) -> Vector:
        return normalise(np.arange(self.last + 1))


@register
@dataclass(frozen=True)
class Shape(FiniteLagLaw):
    """Any shares at finitely many lags, the same for every pull.

    Parameters
    ----------
    weights
        The shares at the lags 0, 1, 2, ...; they sum to one. Put a 0 first for lags that start at
        1, as in the paper.

    Examples
    --------
    >>> Shape([0, .5, .25, .25]).mean_lag
    1.75
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        self._set(weights=check_shares("weights", self.weights))

    @cached_property
    def shares(self) -> Vector:
        return normalise(self.weights)
