"""The kernels of bandits with a demand of their own.

They play ::

    total(t) = sum over lags l of share(l) reward(t - l)      reward(t) = base(t) multiplier(arm(t))

Before slot 0 the first arm was played. What a run draws when it begins, the course of `base` and
the order of the arms, lies in the memory. `base` is divided by the largest reward that a pull of
the run could bring, so that rewards lie in [0, 1].
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import Feed, Memory, Vector, WorldKernels
from aftereffect.bandits._defects import DefectParams, spoil_total
from aftereffect.delays import ARM, REWARD, TOTAL, TRACE_ROWS

#: The first rows of the memory: single numbers; the multiplier of each arm; the base of each slot,
#: from `lead` slots before the first on; the sum of the base before each slot from 0 on.
DEMAND_ROWS = NUMBERS, MULTIPLIERS, BASE, SUMS = range(4)
#: The single numbers: whether the run has begun; the sum and the count of totals reported; and the
#: row of the covariates that belongs to the first slot in memory.
_COUNTERS = BEGUN, REPORTED, COUNT, ORIGIN = range(4)


class DemandWorld(NamedTuple):
    """What the kernels read. The source is what `base` comes from.

    ``history`` slots before the first are shown to policies, and ``lead`` of them are in memory.
    """

    source: Any
    multipliers: Vector
    shares: Vector
    defects: DefectParams
    horizon: int
    week: int
    history: int
    lead: int
    shuffle: bool
    history_delayed: bool


#: ``fill_base(memory, world, rng)``: draw the base of each slot of a run into its row.
FillBase: TypeAlias = Callable[[Memory, DemandWorld, np.random.Generator], None]


def memory_shape(arms: int, horizon: int, lead: int) -> tuple[int, int]:
    """The shape of the memory.

    >>> memory_shape(4, 1_000, 200)
    (7, 1201)
    """
    return len(DEMAND_ROWS) + len(TRACE_ROWS), max(lead + horizon + 1, arms, len(_COUNTERS))


def shuffle_arms(memory: Memory, world: DemandWorld, rng: np.random.Generator) -> None:
    """Put the multipliers into memory, in random order if the bandit says so."""
    for arm in range(world.multipliers.shape[0]):
        memory[MULTIPLIERS, arm] = world.multipliers[arm]
    if world.shuffle:
        for last in range(world.multipliers.shape[0] - 1, 0, -1):
            other = int(rng.random() * (last + 1))
            multiplier = memory[MULTIPLIERS, last]
            memory[MULTIPLIERS, last] = memory[MULTIPLIERS, other]
            memory[MULTIPLIERS, other] = multiplier


def change_base(memory: Memory, world: DemandWorld, rng: np.random.Generator) -> None:
    """Put a holiday and a drop into the base."""
    lead, horizon = world.lead, world.horizon
    if world.defects.holiday > 0:
        first = int(rng.random() * (max(horizon - world.week, 0) + 1))
        for slot in range(first, min(first + world.week, horizon)):
            memory[BASE, lead + slot] *= 0.5
    if world.defects.drop != 1.0:
        for slot in range(horizon // 2, horizon):
            memory[BASE, lead + slot] *= world.defects.drop


def scale_base(memory: Memory, world: DemandWorld) -> None:
    """Divide the base so that rewards lie in [0, 1], and sum it up."""
    best = find_best(memory, world)
    largest = 0.0
    for place in range(world.lead + world.horizon):
        largest = max(largest, memory[BASE, place])
    for place in range(world.lead + world.horizon):
        if largest > 0.0:
            memory[BASE, place] /= largest * best
    for slot in range(world.horizon):
        memory[SUMS, slot + 1] = memory[SUMS, slot] + memory[BASE, world.lead + slot]


def find_best(memory: Memory, world: DemandWorld) -> float:
    """The largest multiplier."""
    best = 0.0
    for arm in range(world.multipliers.shape[0]):
        best = max(best, memory[MULTIPLIERS, arm])
    return best


def sum_arrivals(memory: Memory, world: DemandWorld, slot: int) -> float:
    """What pulls bring in a slot, those before slot 0 among them."""
    total = 0.0
    for lag in range(world.shares.shape[0]):
        pull = slot - lag
        if world.shares[lag] > 0.0:
            if pull >= 0:
                total += world.shares[lag] * memory[REWARD, pull]
            else:
                reward = memory[BASE, world.lead + pull] * memory[MULTIPLIERS, 0]
                total += world.shares[lag] * reward
    return total


def count_lost_share(memory: Memory, world: DemandWorld, t: int, arm: int, slots: int) -> float:
    """How much of what the best arm would bring in all slots was lost in these, in percent."""
    best = find_best(memory, world)
    whole = best * memory[SUMS, world.horizon]
    if whole <= 0.0:
        return 0.0
    here: float = memory[SUMS, t + slots] - memory[SUMS, t]
    lost: float = 100.0 * here * (best - memory[MULTIPLIERS, arm]) / whole
    return lost


def count_history(world: DemandWorld) -> int:
    """The number of slots before the first that policies see."""
    return world.history


def count_late(world: DemandWorld) -> int:
    """The number of slots that totals come late."""
    return world.defects.late


def find_row(memory: Memory, world: DemandWorld, t: int) -> int:
    """The row of the covariates that belongs to a slot."""
    return int(memory[NUMBERS, ORIGIN]) + world.lead + t


@cache
def demand_kernels(fill_base: FillBase) -> WorldKernels:
    """The kernels for one source of demand."""

    def begin(memory: Memory, world: DemandWorld, rng: np.random.Generator) -> None:
        if memory[NUMBERS, BEGUN] == 0.0:
            memory[NUMBERS, BEGUN] = 1.0
            shuffle_arms(memory, world, rng)
            fill_base(memory, world, rng)
            change_base(memory, world, rng)
            scale_base(memory, world)

    def look_up(memory: Memory, world: DemandWorld, t: int, rng: np.random.Generator) -> float:
        begin(memory, world, rng)
        if t >= 0:
            played: float = memory[TOTAL, t]
            return played
        if world.history_delayed:
            total = sum_arrivals(memory, world, t)
        else:
            total = memory[BASE, world.lead + t] * memory[MULTIPLIERS, 0]
        return spoil_total(world.defects, total, rng)

    def collect(
        memory: Memory,
        world: DemandWorld,
        t: int,
        arm: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        begin(memory, world, rng)
        total, known = 0.0, 0
        for slot in range(t, t + slots):
            memory[ARM, slot] = arm
            memory[REWARD, slot] = memory[BASE, world.lead + slot] * memory[MULTIPLIERS, arm]
            arrived = sum_arrivals(memory, world, slot)
            reported = spoil_total(world.defects, arrived, rng)
            memory[TOTAL, slot] = reported
            if not math.isnan(reported):
                memory[NUMBERS, REPORTED] += reported
                memory[NUMBERS, COUNT] += 1.0
                if slot >= t + slots - window:
                    total += reported
                    known += 1
        if known == window:
            return total
        if known > 0:  # those that are missing count as the mean of the others
            return total * window / known
        average: float = memory[NUMBERS, REPORTED] / max(memory[NUMBERS, COUNT], 1.0)
        return window * average

    feed = Feed(count_history, count_late, look_up, find_row)
    return WorldKernels(collect, count_lost_share, feed)
