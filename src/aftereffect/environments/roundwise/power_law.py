"""The power law, as a sum of exponentials that is certified to miss less than 1e-10 of the tail in all.

Remembers one number per term, S_j = the sum over pulls of reward exp(-rate_j age); pending is the sum of weight_j S_j.
Nothing can be skipped: where every pull lies matters for ever, so each is drawn, and a replication costs O(T).

Where rewards are 0 or 1 the pulls are drawn eight at a time, and what any of the 256 outcomes adds to each S_j is looked up.

Table: the number of terms J, then J each of exp(-rate_j), weight_j and exp(-8 rate_j), then for each of the 256 outcomes the
number of ones in it and the J numbers that it adds.
"""

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
from aftereffect.spreads import PowerLaw
from aftereffect.spreads.exponential_fit import exponential_fit

#: Pulls in each of some slots; returns what they generated.
Play: TypeAlias = Callable[[Memory, Matrix, int, Source, Whose, int, int, np.random.Generator], float]


@recipe.register
def _(spread: PowerLaw, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    rates, weights = exponential_fit(spread, horizon)
    fades = np.exp(-rates)
    law = np.concatenate([[len(rates)], fades, weights, np.exp(-8 * rates), outcomes(fades).ravel()])
    return Recipe(fading_mixture(pulls), law, len(rates))


@cache
def pull_by_pull(one: OnePull) -> Play:
    """Plays any reward, pull by pull."""

    def play(
        memory: Memory, laws: Matrix, row: int, source: Source, whose: Whose, t: int, slots: int, rng: np.random.Generator
    ) -> float:
        generated = 0.0
        for slot in range(t, t + slots):
            pulled = one(source, whose, slot, rng)
            generated += pulled
            for term in range(int(laws[row, 0])):
                memory[row, term] = laws[row, term + 1] * memory[row, term] + pulled
        return generated

    return play


@cache
def eight_by_eight(one: OnePull, eight: EightPulls) -> Play:
    """Plays rewards of 0 or 1, eight pulls at a time as far as that goes."""
    rest = pull_by_pull(one)

    def play(
        memory: Memory, laws: Matrix, row: int, source: Source, whose: Whose, t: int, slots: int, rng: np.random.Generator
    ) -> float:
        terms = int(laws[row, 0])
        table = 1 + 3 * terms
        # Views, as only indices that plainly count from 0 become vector instructions.
        sums, fades = memory[row], laws[row, 1 + 2 * terms : table]
        generated = 0.0
        for _ in range(slots // 8):
            outcome = table + eight(source, whose, rng) * (terms + 1)
            generated += laws[row, outcome]
            added = laws[row, outcome + 1 : outcome + 1 + terms]
            for term in range(terms):
                sums[term] = fades[term] * sums[term] + added[term]
        return generated + rest(memory, laws, row, source, whose, t + slots - slots % 8, slots % 8, rng)

    return play


@cache
def fading_mixture(pulls: Pulls) -> SpreadCollect:
    """The kernel for any sum of exponentials."""
    play = pull_by_pull(pulls.one) if pulls.eight is None else eight_by_eight(pulls.one, pulls.eight)

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
        source: Source,
        whose: Whose,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        play(memory, laws, row, source, whose, t, slots - window, rng)
        before = pending(memory, laws, row)
        generated = play(memory, laws, row, source, whose, t + slots - window, window, rng)
        return max(generated + before - pending(memory, laws, row), 0.0)

    return collect
