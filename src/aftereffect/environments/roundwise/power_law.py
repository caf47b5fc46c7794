"""The power law, as a sum of exponentials that is certified to miss less than 1e-10 of the tail in all.

Remembers one number per term, S_j = the sum over pulls of reward exp(-rate_j age); pending is the sum of weight_j S_j.
Table: the number of terms, exp(-rate_j), weight_j. Nothing can be skipped: where every pull lies matters for ever, so each is
drawn, and a replication costs O(T).
"""

from functools import cache

import numpy as np

from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix, Vector
from aftereffect.kernels import Matrix as Memory
from aftereffect.rewards import RewardKernels
from aftereffect.spreads import PowerLaw
from aftereffect.spreads.exponential_fit import exponential_fit


@recipe.register
def _(spread: PowerLaw, reward: RewardKernels, horizon: int) -> Recipe[SpreadCollect]:
    rates, weights = exponential_fit(spread, horizon)
    return Recipe(fading_mixture(reward), np.concatenate([[len(rates)], np.exp(-rates), weights]), len(rates))


@cache
def fading_mixture(reward: RewardKernels) -> SpreadCollect:
    """The kernel for any sum of exponentials."""
    one, _ = reward

    def play(
        memory: Memory, laws: Matrix, row: int, params: Vector, mean: float, slots: int, rng: np.random.Generator
    ) -> float:
        """Pull in each slot; returns what was generated."""
        generated = 0.0
        for _ in range(slots):
            pulled = one(params, mean, rng)
            generated += pulled
            for term in range(int(laws[row, 0])):
                memory[row, term] = laws[row, term + 1] * memory[row, term] + pulled
        return generated

    def pending(memory: Memory, laws: Matrix, row: int) -> float:
        terms = int(laws[row, 0])
        total = 0.0
        for term in range(terms):
            total += laws[row, terms + term + 1] * memory[row, term]
        return total

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
        play(memory, laws, row, params, mean, slots - window, rng)
        before = pending(memory, laws, row)
        generated = play(memory, laws, row, params, mean, window, rng)
        return max(generated + before - pending(memory, laws, row), 0.0)

    return collect
