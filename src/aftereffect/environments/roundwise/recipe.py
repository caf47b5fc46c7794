"""What a recipe is, and how the totals of several spreads add up."""

from collections.abc import Callable
from functools import cache, singledispatch
from typing import TypeAlias

import numpy as np

from aftereffect.environments.pulls import Pulls, Source, Whose
from aftereffect.environments.world import Group, Recipe
from aftereffect.kernels import Collect, Matrix, World
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import Spread

#: ``kernel(memory, laws, row, source, whose, t, slots, window, rng)``: one spread's part of a window's total, its pulls being
#: those of an arm or of nobody. It is given whole matrices and its row in them, as views cost more than rounds.
SpreadCollect: TypeAlias = Callable[[Memory, Matrix, int, Source, Whose, int, int, int, np.random.Generator], float]


@singledispatch
def recipe(spread: Spread, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    """The recipe of a spread; every family registers its own."""
    raise TypeError(f"no roundwise recipe is registered for {type(spread).__name__}")


@cache
def collected(groups: tuple[Group[SpreadCollect], ...], pulls: Pulls) -> Collect:
    """The total over all spreads: one is pulled, the others deliver what they owe."""
    (kernel, first, end), *rest = groups
    whose, nobody = pulls.whose, pulls.nobody

    def collect(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        total = 0.0
        for row in range(first, end):
            pulled = whose(world, arm) if world.rows[arm] == row else nobody
            total += kernel(memory, world.laws, row, world.source, pulled, t, slots, window, rng)
        return total

    if not rest:
        return collect
    others = collected(tuple(rest), pulls)

    def collect_all(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        total = collect(memory, world, t, arm, slots, window, rng)
        return total + others(memory, world, t, arm, slots, window, rng)

    return collect_all
