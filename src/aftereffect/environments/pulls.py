"""Where the rewards of pulls come from: here drawn from a law; `ledger` reads them from a table.

A kernel asks for the rewards of pulls by slot, and says *whose* they are by a number that the source understands: the mean of
an arm where rewards are drawn, the arm itself where they are read.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect.environments.world import StochasticWorld
from aftereffect.kernels import World
from aftereffect.rewards import RewardKernels

#: The part of a world that rewards come from, and a mean or an arm.
Source: TypeAlias = Any
Whose: TypeAlias = Any
OnePull: TypeAlias = Callable[[Source, Whose, int, np.random.Generator], float]
ManyPulls: TypeAlias = Callable[[Source, Whose, int, int, np.random.Generator], float]
EightPulls: TypeAlias = Callable[[Source, Whose, np.random.Generator], int]


class Pulls(NamedTuple):
    """How rewards are had.

    ``one(source, whose, slot, rng)`` is the reward of one pull, ``many(source, whose, first, n, rng)`` the sum of n from slot
    `first` on. ``world.source`` and ``whose(world, arm)`` are what they are asked with; with `nobody`, for arms that rest,
    both give 0. Where rewards are drawn, and are 0 or 1, ``eight(source, whose, rng)`` draws eight at once, as bits.
    """

    one: OnePull
    many: ManyPulls
    whose: Callable[[World, int], Whose]
    nobody: Whose
    eight: EightPulls | None = None


def mean_of(world: StochasticWorld, arm: int) -> float:
    """What identifies an arm whose rewards are drawn."""
    mean: float = world.means[arm]
    return mean


@cache
def drawn(reward: RewardKernels) -> Pulls:
    """Independent rewards of one law; the source is what the law reads."""
    return Pulls(reward.one, reward.many, mean_of, 0.0, reward.eight)
