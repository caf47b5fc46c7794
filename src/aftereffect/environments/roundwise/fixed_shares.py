"""Spreads that cut every reward into the same shares.

Remembers a ring over past slots, twice in a row so that the last `reach` pulls are always side by side: what each generated.
Table: the reach, the first lag that has a share, what is left to land from the lags reach .. 1 on, and the shares at the lags
reach .. 0: in the order of the ring.
`Immediate` remembers nothing and needs neither.
"""

from functools import cache

import numpy as np

from aftereffect.environments.pulls import Pulls, Source, Whose
from aftereffect.environments.roundwise.recipe import SpreadCollect, recipe
from aftereffect.environments.world import Recipe
from aftereffect.kernels import Matrix
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import FixedShares, Immediate

#: Where what is left to land begins in a table. The shares follow, after as many places as the reach.
LEFT = 2


@recipe.register
def _(spread: FixedShares, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    first = np.flatnonzero(spread.shares)[0]
    table = np.concatenate([[spread.reach, first], spread.tails[:-1][::-1], spread.shares[::-1]])
    return Recipe(in_shares(pulls), table, 2 * max(spread.reach, 1))


@recipe.register
def _(spread: Immediate, pulls: Pulls, horizon: int) -> Recipe[SpreadCollect]:
    return Recipe(at_once(pulls), np.zeros(1), 1)


def products(memory: Memory, laws: Matrix, row: int, pull: int, share: int, count: int) -> float:
    """The sum of that many pulls times shares, from these places on."""
    if count <= 0:
        return 0.0
    # Views, as indices that plainly count from 0 need no checks; four sums, as an addition waits for the one before it.
    pulls, shares = memory[row, pull : pull + count], laws[row, share : share + count]
    a = b = c = d = 0.0
    for four in range(count // 4):
        at = 4 * four
        a += pulls[at] * shares[at]
        b += pulls[at + 1] * shares[at + 1]
        c += pulls[at + 2] * shares[at + 2]
        d += pulls[at + 3] * shares[at + 3]
    for at in range(count // 4 * 4, count):
        a += pulls[at] * shares[at]
    return (a + b) + (c + d)


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
        reach, first = int(laws[row, 0]), int(laws[row, 1])
        size = max(reach, 1)
        end = t + slots - 1
        start = end - window + 1
        if window < slots:  # what is pulled before it, and may land in it
            for slot in range(max(t, start - reach), start):
                pulled = one(source, whose, slot, rng)
                memory[row, slot % size] = memory[row, slot % size + size] = pulled

        here = start % size  # dividing takes as long as all else in a round of one slot
        before = min(start, reach)
        oldest = here if before == reach else 0
        if window == 1:
            total = products(memory, laws, row, oldest, LEFT + 2 * reach - before, before - max(first, 1) + 1)
        else:
            left, ending = LEFT + reach - before, min(before, max(0, before + window - reach))
            total = products(memory, laws, row, oldest, left, ending)  # of pulls of which all lands by the end
            for pull in range(ending, before):
                total += memory[row, oldest + pull] * (laws[row, left + pull] - laws[row, left + pull - window])

        edge = max(start, end - reach + 1)
        place = here if edge == start else edge % size
        for slot in range(edge, end + 1):
            pulled = one(source, whose, slot, rng)
            memory[row, place] = memory[row, place + size] = pulled
            total += pulled * (1.0 - laws[row, LEFT + reach - (end - slot + 1)])
            place = place + 1 if place + 1 < size else 0
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
