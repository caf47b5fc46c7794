"""The geometric spread.

Remembers one number: what all pulls so far have still to deliver. A pull's tail after x slots is gamma^x; pulls older than
`resolution` slots have less than 2^-53 of their reward left and are taken as delivered. Table: gamma, resolution.
"""

import math
from functools import cache

import numpy as np

from aftereffect.environments.pulls import Pulls, Source, Whose
from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import Geometric


@recipe.register
def _(spread: Geometric, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    return Recipe(fading(pulls), np.array([spread.gamma, float(spread.resolution)]), 1)


@cache
def fading(pulls: Pulls) -> SpreadCollect:
    """The kernel for any gamma."""
    one, many = pulls.one, pulls.many

    def collect(
        memory: Memory,
        laws: Matrix,
        row: int,
        source: Source,
        whose: Whose,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        gamma, resolution = laws[row, 0], int(laws[row, 1])
        end = t + slots - 1
        start = end - window + 1
        pending: float = memory[row, 0]
        for slot in range(max(t, start - resolution), start):
            pending = gamma * pending + one(source, whose, slot, rng)
        edge = max(start, end - resolution + 1)
        drawn = later = 0.0
        for slot in range(edge, end + 1):
            pulled = one(source, whose, slot, rng)
            drawn += pulled
            later = gamma * later + pulled
        kept = math.pow(gamma, float(window))  # float: an integer power is computed otherwise when compiled
        memory[row, 0] = pending * kept + later
        return pending * (1.0 - kept) + (drawn - later) + many(source, whose, start, edge - start, rng)

    return collect
