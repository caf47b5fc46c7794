"""Spreads whose whole reward lands at one random lag.

Remembers a ring over future slots: what earlier pulls deliver in each. Table: the one that the lag
kernel reads, which begins with the reach.
"""

from functools import cache

import numpy as np

from aftereffect.environments.pulls import Pulls, Source, Whose
from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import RandomLag
from aftereffect.spreads.base import DrawLag


@recipe.register
def _(spread: RandomLag, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    kernel = at_random_lags(pulls, spread.lag_kernel())
    return Recipe(kernel, spread.lag_table(), spread.reach + 1)


@cache
def at_random_lags(pulls: Pulls, draw_lag: DrawLag) -> SpreadCollect:
    """The kernel for one way of drawing lags."""
    one, many = pulls.one, pulls.many

    def deliver(
        memory: Memory,
        laws: Matrix,
        row: int,
        source: Source,
        whose: Whose,
        slots: range,
        start: int,
        end: int,
        rng: np.random.Generator,
    ) -> float:
        """Draw some pulls: count what lands in the window, note what lands after it, drop what lands before."""
        size = int(laws[row, 0]) + 1
        counted = 0.0
        for slot in slots:
            pulled = one(source, whose, slot, rng)
            if pulled > 0.0:
                lands = slot + draw_lag(laws, row, rng)
                if lands > end:
                    memory[row, lands % size] += pulled
                elif lands >= start:
                    counted += pulled
        return counted

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
        end = t + slots - 1
        start = end - window + 1
        total = 0.0
        for slot in range(t, min(end, t + reach) + 1):
            here = slot % (reach + 1)
            if slot >= start:
                total += memory[row, here]
            memory[row, here] = 0.0
        edge = max(start, end - reach + 1)
        total += deliver(memory, laws, row, source, whose, range(max(t, start - reach), start), start, end, rng)
        total += deliver(memory, laws, row, source, whose, range(edge, end + 1), start, end, rng)
        return total + many(source, whose, start, edge - start, rng)

    return collect
