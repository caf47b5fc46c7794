"""What one pull brings in all, before it is spread over time: a law on [0, 1] given by its mean."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from aftereffect.kernels import Vector
from aftereffect.spec import Spec, register

DrawOne: TypeAlias = Callable[[float, np.random.Generator], float]
DrawSum: TypeAlias = Callable[[int, float, np.random.Generator], float]


class RewardKernels(NamedTuple):
    """One pull's reward, ``one(mean, rng)``, and the sum of n independent ones, ``many(n, mean, rng)``."""

    one: DrawOne
    many: DrawSum


class Reward(Spec, ABC):
    """A law of one pull's whole reward, on [0, 1]."""

    kind = "reward law"

    @abstractmethod
    def kernels(self) -> RewardKernels:
        """The plain functions that draw it."""

    @abstractmethod
    def variance(self, means: Vector) -> Vector:
        """The variance of one reward, mean by mean."""


def bernoulli_one(mean: float, rng: np.random.Generator) -> float:
    """1 with probability `mean`, else 0."""
    return 1.0 if rng.random() < mean else 0.0


def bernoulli_many(n: int, mean: float, rng: np.random.Generator) -> float:
    """The number of ones among n, in one draw: this is what makes long rounds cheap."""
    if n == 1:
        return bernoulli_one(mean, rng)
    if n <= 0:
        return 0.0
    return float(rng.binomial(n, mean))


@register
@dataclass(frozen=True)
class Bernoulli(Reward):
    """1 with probability equal to the mean, else 0."""

    def kernels(self) -> RewardKernels:
        return RewardKernels(bernoulli_one, bernoulli_many)

    def variance(self, means: Vector) -> Vector:
        return means * (1 - means)
