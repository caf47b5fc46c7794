"""How kernels read rewards that were fixed beforehand: that of one slot, and sums over any slots.

Sums are stored for every 64th slot and added up between: a sum costs at most 126 steps, and memory
is little more than the rewards themselves.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import Matrix, OnePull, RewardSource, Vector
from aftereffect.rewards.schedules import Rows

#: Sums are stored for every slot with a number that this divides.
BLOCK = 64


class PayingArms(NamedTuple):
    """The arm that pays 1 in each slot, and how often each paid before every 64th slot."""

    paying: Rows
    sums: Matrix


class Table(NamedTuple):
    """Rewards by slot and arm, and their sums before every 64th slot."""

    values: Rows
    sums: Matrix


RewardTable: TypeAlias = PayingArms | Table


def prepare_rewards(rows: Rows, arms: int) -> RewardTable:
    """The arrays that kernels read."""
    if rows.ndim == 1:
        return PayingArms(rows, np.column_stack([_sums(rows == arm) for arm in range(arms)]))
    return Table(rows, np.column_stack([_sums(column) for column in rows.T]))


def table_source(table: RewardTable) -> RewardSource:
    """How kernels read such arrays; the key of an arm is its number."""
    return _SOURCES[type(table)]


def sum_by_arm(rows: Rows, arms: int) -> Vector:
    """What each arm brings in all."""
    if rows.ndim == 1:
        return np.bincount(rows, minlength=arms).astype(float)
    total: Vector = rows.sum(axis=0, dtype=float)
    return total


def _sums(column: np.ndarray) -> Vector:
    """The sum before each 64th slot, from slot 0 on."""
    blocks = len(column) // BLOCK
    inside = column[: blocks * BLOCK].reshape(blocks, BLOCK).sum(axis=1, dtype=float)
    return np.concatenate([[0.0], np.cumsum(inside)])


def paying_one(source: PayingArms, arm: int, slot: int, rng: np.random.Generator) -> float:
    """1 if this arm is the one that pays."""
    return 1.0 if source.paying[slot] == arm else 0.0


def table_one(source: Table, arm: int, slot: int, rng: np.random.Generator) -> float:
    """What the arm brings; no arm brings nothing."""
    return float(source.values[slot, arm]) if arm >= 0 else 0.0


@cache
def sum_blocks(one: OnePull) -> Callable[[Any, int, int, int, np.random.Generator], float]:
    """The sum over some slots of what one gives."""

    def many(source: Any, arm: int, first: int, n: int, rng: np.random.Generator) -> float:
        total = 0.0
        if n <= 0 or arm < 0:
            return total
        if n == 1:
            return one(source, arm, first, rng)
        end = first + n
        low, high = (first + BLOCK - 1) // BLOCK, end // BLOCK
        upto, since = end, end
        if low < high:
            total += source.sums[high, arm] - source.sums[low, arm]
            upto, since = low * BLOCK, high * BLOCK
        for slot in range(first, upto):
            total += one(source, arm, slot, rng)
        for slot in range(since, end):
            total += one(source, arm, slot, rng)
        return total

    return many


def _arm_itself(world: Any, arm: int) -> int:
    """What identifies an arm whose rewards are read."""
    return arm


_SOURCES: dict[type[RewardTable], RewardSource] = {
    kind: RewardSource(one, sum_blocks(one), _arm_itself, -1)
    for kind, one in ((PayingArms, paying_one), (Table, table_one))
}
