"""The geometric spread.

Remembers one number: what all pulls so far have still to deliver. A pull's tail after x slots is gamma^x; pulls older than
`resolution` slots have less than 2^-53 of their reward left and are taken as delivered.

Table: gamma, resolution, gamma^8, then for each of the 256 outcomes of eight pulls the number of ones in it and what it adds.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from aftereffect.environments.pulls import EightPulls, OnePull, Pulls, Source, Whose
from aftereffect.environments.roundwise.eight import outcomes
from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import Geometric

GAMMA, RESOLUTION, GAMMA_8, OUTCOMES = range(4)
#: Pulls in each of some slots; returns what they generated, and what is pending then if so much was before.
Play: TypeAlias = Callable[[Matrix, int, Source, Whose, int, int, float, np.random.Generator], tuple[float, float]]


@recipe.register
def _(spread: Geometric, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    gamma = float(spread.gamma)
    law = np.concatenate([[gamma, spread.resolution, gamma**8], outcomes(np.array([gamma])).ravel()])
    return Recipe(fading(pulls), law, 1)


@cache
def pull_by_pull(one: OnePull) -> Play:
    """Plays any reward."""

    def play(
        laws: Matrix, row: int, source: Source, whose: Whose, t: int, slots: int, pending: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        generated, gamma = 0.0, laws[row, GAMMA]
        for slot in range(t, t + slots):
            pulled = one(source, whose, slot, rng)
            generated += pulled
            pending = gamma * pending + pulled
        return generated, pending

    return play


@cache
def eight_by_eight(one: OnePull, eight: EightPulls) -> Play:
    """Plays rewards of 0 or 1, eight pulls at a time as far as that goes."""
    rest = pull_by_pull(one)

    def play(
        laws: Matrix, row: int, source: Source, whose: Whose, t: int, slots: int, pending: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        generated, gamma_8 = 0.0, laws[row, GAMMA_8]
        for _ in range(slots // 8):
            outcome = OUTCOMES + 2 * eight(source, whose, rng)
            generated += laws[row, outcome]
            pending = gamma_8 * pending + laws[row, outcome + 1]
        few = slots % 8
        last, pending = rest(laws, row, source, whose, t + slots - few, few, pending, rng)
        return generated + last, pending

    return play


@cache
def fading(pulls: Pulls) -> SpreadCollect:
    """The kernel for any gamma."""
    one, many = pulls.one, pulls.many
    play = pull_by_pull(one) if pulls.eight is None else eight_by_eight(one, pulls.eight)

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
        gamma: float = laws[row, GAMMA]
        pending: float = memory[row, 0]
        if slots == window == 1:  # as the rest would do, without the power, which takes longer than all else
            memory[row, 0] = gamma * pending + one(source, whose, t, rng)
            return pending * (1.0 - gamma)
        resolution = int(laws[row, RESOLUTION])
        end = t + slots - 1
        start = end - window + 1
        first = max(t, start - resolution)
        _, pending = play(laws, row, source, whose, first, start - first, pending, rng)
        edge = max(start, end - resolution + 1)
        generated, later = play(laws, row, source, whose, edge, end + 1 - edge, 0.0, rng)
        kept = math.pow(gamma, float(window))  # float: an integer power is computed otherwise when compiled
        memory[row, 0] = pending * kept + later
        return pending * (1.0 - kept) + (generated - later) + many(source, whose, start, edge - start, rng)

    return collect
