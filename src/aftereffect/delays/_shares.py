"""Shares of a reward by lag: tables, and kernels that cut every reward into the same shares."""

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import (
    ArmKey,
    Matrix,
    Memory,
    RewardSource,
    Slots,
    Source,
    Vector,
    short_repr,
)
from aftereffect.delays._engines import ARRIVALS, CollectRow
from aftereffect.errors import ParameterError

#: Where the tails begin in a table of the roundwise kernel. As many shares as the reach and one
#: more follow.
TAILS = 2


def normalise(weights: ArrayLike) -> Vector:
    """Divide weights by their sum, and leave out the zeros at the end."""
    given = np.asarray(weights, dtype=float)
    given = given[: np.flatnonzero(given)[-1] + 1]
    return given / math.fsum(given)


def as_lags(lags: ArrayLike) -> Slots:
    """Lags as an array of whole numbers."""
    given = np.asarray(lags)
    whole = given.astype(np.int64)
    if not np.array_equal(given, whole):
        raise ParameterError(f"lags must be whole numbers, got {short_repr(lags)}")
    return whole


def look_up(table: Vector, lags: ArrayLike, before: float) -> Vector:
    """The entries of a table at these lags: `before` below 0, and 0 beyond its end."""
    at = as_lags(lags)
    inside = table[np.clip(at, 0, len(table) - 1)]
    found: Vector = np.where(at < 0, before, np.where(at < len(table), inside, 0.0))
    return found


def share_table(shares: Vector, tails: Vector) -> Vector:
    """The table of the roundwise kernel, from the shares and tails at the lags 0 .. reach.

    It holds the reach, the first lag with a share, the tails at the lags reach - 1 .. 0 and the
    shares at the lags reach .. 0, in the order in which the kernel's ring has the pulls.
    """
    first = np.flatnonzero(shares)[0]
    return np.concatenate([[len(shares) - 1, first], tails[:-1][::-1], shares[::-1]])


def deposit_shares(
    memory: Memory, tables: Matrix, row: int, slot: int, reward: float, rng: np.random.Generator
) -> None:
    """Add a fixed share of the reward at each lag; the table holds the reach, then the shares."""
    if reward > 0.0:
        here, lags = slot % memory.shape[1], int(tables[row, 0]) + 1
        straight = min(lags, memory.shape[1] - here)  # before the ring begins anew
        _add_shares(memory, tables, row, here, 1, straight, reward)
        _add_shares(memory, tables, row, 0, 1 + straight, lags - straight, reward)


def _add_shares(
    memory: Memory, tables: Matrix, row: int, cell: int, share: int, count: int, reward: float
) -> None:
    """Add so many shares, from this one on, to as many cells."""
    # Views: indices that plainly count from 0 are added several at a time.
    arrivals, shares = memory[ARRIVALS, cell : cell + count], tables[row, share : share + count]
    for at in range(count):
        arrivals[at] += reward * shares[at]


def _sum_products(
    memory: Memory, tables: Matrix, row: int, pull: int, share: int, count: int
) -> float:
    """The sum of so many pulls times shares, from these columns on."""
    if count <= 0:
        return 0.0
    # Views: indices that plainly count from 0 need no checks. Four sums: an addition waits for the
    # one before it.
    pulls, shares = memory[row, pull : pull + count], tables[row, share : share + count]
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
def collect_shares(rewards: RewardSource) -> CollectRow:
    """The roundwise kernel.

    It remembers the reward of each of the last `reach` pulls in a ring, twice in a row, so that
    they are always side by side.
    """
    one, many = rewards.one, rewards.many

    def collect(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        reach, first = int(tables[row, 0]), int(tables[row, 1])
        size = max(reach, 1)
        end = t + slots - 1
        start = end - window + 1
        if window < slots:  # pulls before the window that may arrive in it
            for slot in range(max(t, start - reach), start):
                pulled = one(source, key, slot, rng)
                memory[row, slot % size] = memory[row, slot % size + size] = pulled

        here = start % size  # dividing takes as long as all else in a round of one slot
        before = min(start, reach)
        oldest = here if before == reach else 0
        if window == 1:
            shares = TAILS + 2 * reach - before
            total = _sum_products(memory, tables, row, oldest, shares, before - max(first, 1) + 1)
        else:
            tails, done = TAILS + reach - before, min(before, max(0, before + window - reach))
            # The pulls that have arrived wholly by the end, then the others.
            total = _sum_products(memory, tables, row, oldest, tails, done)
            for pull in range(done, before):
                arrives = tables[row, tails + pull] - tables[row, tails + pull - window]
                total += memory[row, oldest + pull] * arrives

        edge = max(start, end - reach + 1)
        cell = here if edge == start else edge % size
        for slot in range(edge, end + 1):
            pulled = one(source, key, slot, rng)
            memory[row, cell] = memory[row, cell + size] = pulled
            total += pulled * (1.0 - tables[row, TAILS + reach - (end - slot + 1)])
            cell = cell + 1 if cell + 1 < size else 0
        return total + many(source, key, start, edge - start, rng)

    return collect
