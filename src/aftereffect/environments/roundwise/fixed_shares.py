"""Spreads that cut every reward into the same shares.

Remembers a ring over past slots: what each of the last `reach` pulls generated. Table: the reach, then the tail at the lags
0 .. reach. `Immediate` remembers nothing and needs neither.
"""

from functools import cache

import numpy as np

from aftereffect.environments.pulls import Pulls, Source, Whose
from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import FixedShares, Immediate


@recipe.register
def _(spread: FixedShares, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    return Recipe(in_shares(pulls), np.append(spread.reach, spread.tails), max(spread.reach, 1))


@recipe.register
def _(spread: Immediate, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    return Recipe(at_once(pulls), np.zeros(1), 1)


@cache
def in_shares(pulls: Pulls) -> SpreadCollect:
    """The kernel for any shares."""
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
        reach = int(laws[row, 0])
        size = max(reach, 1)
        end = t + slots - 1
        start = end - window + 1
        for slot in range(max(t, start - reach), start):
            memory[row, slot % size] = one(source, whose, slot, rng)
        total = 0.0
        first = max(0, start - reach)
        place = first % size  # dividing at every slot would take most of the time
        for slot in range(first, start):
            lands = laws[row, start - slot] - laws[row, min(end - slot, reach) + 1]
            total += memory[row, place] * lands
            place += 1
            if place == size:
                place = 0
        edge = max(start, end - reach + 1)
        for slot in range(edge, end + 1):
            pulled = one(source, whose, slot, rng)
            memory[row, slot % size] = pulled
            total += pulled * (1.0 - laws[row, end - slot + 1])
        return total + many(source, whose, start, edge - start, rng)

    return collect


@cache
def at_once(pulls: Pulls) -> SpreadCollect:
    """The kernel where nothing is ever pending."""
    many = pulls.many

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
        return many(source, whose, t + slots - window, window, rng)

    return collect
