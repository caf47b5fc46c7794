"""Laws of a reward: what one pull brings in all, on [0, 1], given by its mean."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import RewardSource, Spec, Vector, check_float, register

DrawOne: TypeAlias = Callable[[Vector, float, int, np.random.Generator], float]
DrawSum: TypeAlias = Callable[[Vector, float, int, int, np.random.Generator], float]
DrawByte: TypeAlias = Callable[[Vector, float, np.random.Generator], int]


class RewardKernels(NamedTuple):
    """How to draw rewards of one law.

    ``one(params, mean, slot, rng)`` is one reward, ``many(params, mean, first, n, rng)`` the sum of
    n. Laws ignore the slot; tables of rewards have the same signature and need it. A mean of 0 must
    give 0, as arms that rest have that mean. Where rewards are 0 or 1, ``byte(params, mean, rng)``
    draws eight pulls in a row as the bits of a number, the first pull as the highest bit.
    """

    one: DrawOne
    many: DrawSum
    byte: DrawByte | None = None


class RewardLaw(Spec, ABC):
    """A law of one pull's whole reward, on [0, 1], given by its mean.

    Examples
    --------
    >>> import numpy as np
    >>> Bernoulli().variance(np.array([0.5, 0.9])).round(2).tolist()
    [0.25, 0.09]
    """

    kind = "reward law"

    @abstractmethod
    def kernels(self) -> RewardKernels:
        """The plain functions that draw it."""

    @abstractmethod
    def variance(self, means: Vector) -> Vector:
        """The variance of one reward, mean by mean."""

    def params(self) -> Vector:
        """What the kernels read."""
        return np.zeros(1)


@cache
def reward_source(law: RewardKernels) -> RewardSource:
    """Independent rewards of one law; the key of an arm is its mean."""
    return RewardSource(law.one, law.many, _mean_of, 0.0, law.byte)


def _mean_of(world: Any, arm: int) -> float:
    mean: float = world.means[arm]
    return mean


def bernoulli_one(params: Vector, mean: float, slot: int, rng: np.random.Generator) -> float:
    """1 with probability `mean`, else 0."""
    return 1.0 if rng.random() < mean else 0.0


def bernoulli_many(
    params: Vector, mean: float, first: int, n: int, rng: np.random.Generator
) -> float:
    """The number of ones among n, in one draw: this is what makes long rounds cheap."""
    if n == 1:
        return bernoulli_one(params, mean, first, rng)
    if n <= 0:
        return 0.0
    return float(rng.binomial(n, mean))


#: The numbers below 256 by how many of their bits are set, and how many numbers have as many.
_BY_BITS_SET = np.array(sorted(range(256), key=int.bit_count))
_ALIKE = np.array([math.comb(8, count) for count in range(9)])


def bernoulli_byte(params: Vector, mean: float, rng: np.random.Generator) -> int:
    """By inversion of one random number: how many of eight are the rarer result, then which."""
    rare = min(mean, 1.0 - mean)
    left = rng.random()
    twice = (1.0 - rare) * (1.0 - rare)
    chance = twice * twice * twice * twice
    first = count = 0
    while left >= chance and count < 8:
        left -= chance
        first += _ALIKE[count]
        chance *= rare / (1.0 - rare) * (8 - count) / (count + 1)
        count += 1
    # Rounding may leave a little more than the last chance.
    which = min(int(left / chance * _ALIKE[count]), _ALIKE[count] - 1) if chance > 0.0 else 0
    bits = int(_BY_BITS_SET[first + which])
    return 255 - bits if mean > 0.5 else bits


@register
@dataclass(frozen=True)
class Bernoulli(RewardLaw):
    """1 with probability equal to the mean, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> Bernoulli().variance(np.array([0.5, 0.9])).round(4).tolist()
    [0.25, 0.09]
    """

    def kernels(self) -> RewardKernels:
        return RewardKernels(bernoulli_one, bernoulli_many, bernoulli_byte)

    def variance(self, means: Vector) -> Vector:
        return means * (1 - means)


def constant_one(params: Vector, mean: float, slot: int, rng: np.random.Generator) -> float:
    """The mean."""
    return mean


def constant_many(
    params: Vector, mean: float, first: int, n: int, rng: np.random.Generator
) -> float:
    """The mean, n times."""
    return n * mean


@register
@dataclass(frozen=True)
class Constant(RewardLaw):
    """Always the mean: rewards have no noise.

    Examples
    --------
    >>> import numpy as np
    >>> Constant().variance(np.array([0.5, 0.9])).round(4).tolist()
    [0.0, 0.0]
    """

    def kernels(self) -> RewardKernels:
        return RewardKernels(constant_one, constant_many)

    def variance(self, means: Vector) -> Vector:
        return np.zeros_like(means)


@cache
def sum_draws(one: DrawOne) -> DrawSum:
    """The sum of n draws, one by one, for laws whose sum cannot be drawn at once."""

    def many(params: Vector, mean: float, first: int, n: int, rng: np.random.Generator) -> float:
        total = 0.0
        for slot in range(first, first + n):
            total += one(params, mean, slot, rng)
        return total

    return many


def uniform_one(params: Vector, mean: float, slot: int, rng: np.random.Generator) -> float:
    """Uniform on the widest interval within [0, 1] that has the mean in its middle."""
    return mean + min(mean, 1.0 - mean) * (2.0 * rng.random() - 1.0)


@register
@dataclass(frozen=True)
class Uniform(RewardLaw):
    """Uniform on [mean - h, mean + h] with h as large as [0, 1] allows.

    Examples
    --------
    >>> import numpy as np
    >>> Uniform().variance(np.array([0.5, 0.9])).round(4).tolist()
    [0.0833, 0.0033]
    """

    def kernels(self) -> RewardKernels:
        return RewardKernels(uniform_one, sum_draws(uniform_one))

    def variance(self, means: Vector) -> Vector:
        variance: Vector = np.minimum(means, 1 - means) ** 2 / 3
        return variance


#: Below this concentration numba's sampler repeats its draws, more often the smaller it is.
_FEW_TRIES = 1e-4
#: Below this a parameter of a beta law is as good as 0, and the law is that of a coin.
_LEAST_PARAMETER = 1e-300


def extreme_beta(a: float, b: float, rng: np.random.Generator) -> float:
    """Beta(a, b) for small a and b, by the method of Johnk in logarithms.

    U^(1/a) / (U^(1/a) + V^(1/b)), drawn again until that sum is at most 1.
    """
    while True:
        x, y = math.log(1.0 - rng.random()) / a, math.log(1.0 - rng.random()) / b
        if max(x, y) < -1.0 or math.exp(x) + math.exp(y) <= 1.0:
            return 1.0 / (1.0 + math.exp(min(y - x, 700.0)))


def beta_one(params: Vector, mean: float, slot: int, rng: np.random.Generator) -> float:
    """``params`` holds the concentration."""
    if mean <= 0.0 or mean >= 1.0:
        return mean
    a, b = params[0] * mean, params[0] * (1.0 - mean)
    if min(a, b) < _LEAST_PARAMETER:
        return bernoulli_one(params, mean, slot, rng)
    if params[0] < _FEW_TRIES:
        return extreme_beta(a, b, rng)
    drawn: float = rng.beta(a, b)
    return drawn


@register
@dataclass(frozen=True)
class Beta(RewardLaw):
    """Beta(c mean, c (1 - mean)): the larger the concentration c, the closer to the mean.

    Parameters
    ----------
    concentration
        Above 0, at most 1e100; the variance is mean (1 - mean) / (c + 1).

    Examples
    --------
    >>> import numpy as np
    >>> Beta(4).variance(np.array([0.5, 0.9])).round(4).tolist()
    [0.05, 0.018]
    """

    concentration: float

    def __post_init__(self) -> None:
        self._set(
            concentration=check_float("concentration", self.concentration, above=0, at_most=1e100)
        )

    def kernels(self) -> RewardKernels:
        return RewardKernels(beta_one, sum_draws(beta_one))

    def variance(self, means: Vector) -> Vector:
        variance: Vector = means * (1 - means) / (self.concentration + 1)
        return variance

    def params(self) -> Vector:
        return np.array([self.concentration])
