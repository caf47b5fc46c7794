"""The geometric spread.

Remembers one number: what all pulls so far have still to deliver. A pull's tail after x slots is gamma^x; pulls older than
`resolution` slots have less than 2^-53 of their reward left and are taken as delivered. Table: gamma, resolution.
"""

import math
from functools import cache

import numpy as np

from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix, Vector
from aftereffect.kernels import Matrix as Memory
from aftereffect.rewards import RewardKernels
from aftereffect.spreads import Geometric


@recipe.register
def _(spread: Geometric, reward: RewardKernels, horizon: int) -> Recipe[SpreadCollect]:
    return Recipe(fading(reward), np.array([spread.gamma, float(spread.resolution)]), 1)


@cache
def fading(reward: RewardKernels) -> SpreadCollect:
    """The kernel for any gamma."""
    one, many, _ = reward

    def collect(
        memory: Memory,
        laws: Matrix,
        row: int,
        params: Vector,
        mean: float,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        gamma, resolution = laws[row, 0], int(laws[row, 1])
        end = t + slots - 1
        start = end - window + 1
        pending: float = memory[row, 0]
        for _ in range(max(t, start - resolution), start):
            pending = gamma * pending + one(params, mean, rng)
        edge = max(start, end - resolution + 1)
        drawn = later = 0.0
        for _ in range(edge, end + 1):
            pulled = one(params, mean, rng)
            drawn += pulled
            later = gamma * later + pulled
        kept = math.pow(gamma, float(window))  # float: an integer power is computed otherwise when compiled
        memory[row, 0] = pending * kept + later
        return pending * (1.0 - kept) + (drawn - later) + many(params, edge - start, mean, rng)

    return collect
