"""The geometric delay: shares that fall by the same factor in every slot, without an end.

The roundwise kernel remembers one number: what all pulls so far still bring. The tail of a pull
after x slots is gamma^x. Pulls older than the effective reach have less than 2^-53 of their reward
left and count as delivered.

Where rewards are 0 or 1, eight pulls are drawn at a time, as the bits of a byte, and what each of
the 256 bytes adds to the sum is looked up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import (
    ArmKey,
    BytePulls,
    Matrix,
    Memory,
    OnePull,
    RewardSource,
    Source,
    Vector,
    check_float,
    register,
)
from aftereffect.delays._engines import CollectRow, Recipe, Size, as_lags
from aftereffect.delays.base import LagLaw

#: The table: gamma, the effective reach, gamma^8, then for each byte the number of ones in it and
#: what it adds.
GAMMA, REACH, GAMMA_8, BYTES = range(4)
#: Pulls in some slots; returns what they generate, and what is pending after them.
Play: TypeAlias = Callable[
    [Matrix, int, Source, ArmKey, int, int, float, np.random.Generator], tuple[float, float]
]


@register
@dataclass(frozen=True)
class Geometric(LagLaw):
    """Shares (1 - gamma) gamma^(lag-1) at the lags 1, 2, 3, ... without an end.

    Parameters
    ----------
    gamma
        The factor from one slot to the next, above 0 and below 1.

    Examples
    --------
    >>> Geometric(0.75).mean_lag
    4.0
    """

    gamma: float

    def __post_init__(self) -> None:
        self._set(gamma=check_float("gamma", self.gamma, above=0, below=1))

    @property
    def reach(self) -> float:
        return math.inf

    @property
    def effective_reach(self) -> int:
        return math.ceil(-53 * math.log(2) / math.log(self.gamma))

    @property
    def mean_lag(self) -> float:
        return 1 / (1 - self.gamma)

    @property
    def lag_variance(self) -> float:
        return self.gamma / (1 - self.gamma) ** 2

    def share(self, lags: ArrayLike) -> Vector:
        at = as_lags(lags)
        return np.where(at < 1, 0.0, (1 - self.gamma) * self.gamma ** np.maximum(at - 1, 0))

    def tail(self, lags: ArrayLike) -> Vector:
        at = as_lags(lags)
        return np.where(at < 1, 1.0, self.gamma ** np.maximum(at, 0))

    def roundwise_recipe(self, rewards: RewardSource, horizon: int) -> Recipe[CollectRow]:
        gamma = float(self.gamma)
        byte_table = tabulate_bytes(np.array([gamma])).ravel()
        table = np.concatenate([[gamma, self.effective_reach, gamma**8], byte_table])
        return Recipe(_collect_fading(rewards), table, 1)

    def roundwise_size(self, horizon: int) -> Size:
        return Size(3 + 256 * 2, 1)


def tabulate_bytes(fades: Vector) -> Matrix:
    """For each byte: how many ones it has, and what they add to sums that fade so much per slot."""
    ones = np.array([[byte >> 7 - pull & 1 for pull in range(8)] for byte in range(256)])
    ages = np.arange(7, -1, -1)[:, np.newaxis]
    return np.column_stack([ones.sum(axis=1), ones @ fades**ages])


@cache
def _play_pulls(one: OnePull) -> Play:
    """Play any rewards, pull by pull."""

    def play(
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        pending: float,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        generated, gamma = 0.0, tables[row, GAMMA]
        for slot in range(t, t + slots):
            pulled = one(source, key, slot, rng)
            generated += pulled
            pending = gamma * pending + pulled
        return generated, pending

    return play


@cache
def _play_bytes(one: OnePull, byte: BytePulls) -> Play:
    """Play rewards of 0 or 1, eight pulls at a time as far as possible."""
    play_rest = _play_pulls(one)

    def play(
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        pending: float,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        generated, gamma_8 = 0.0, tables[row, GAMMA_8]
        for _ in range(slots // 8):
            drawn = BYTES + 2 * byte(source, key, rng)
            generated += tables[row, drawn]
            pending = gamma_8 * pending + tables[row, drawn + 1]
        few = slots % 8
        last, pending = play_rest(tables, row, source, key, t + slots - few, few, pending, rng)
        return generated + last, pending

    return play


@cache
def _collect_fading(rewards: RewardSource) -> CollectRow:
    one, many = rewards.one, rewards.many
    play = _play_pulls(one) if rewards.byte is None else _play_bytes(one, rewards.byte)

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
        gamma: float = tables[row, GAMMA]
        pending: float = memory[row, 0]
        if slots == window == 1:  # the same without the power, which takes longer than all else
            memory[row, 0] = gamma * pending + one(source, key, t, rng)
            return pending * (1.0 - gamma)
        reach = int(tables[row, REACH])
        end = t + slots - 1
        start = end - window + 1
        first = max(t, start - reach)
        _, pending = play(tables, row, source, key, first, start - first, pending, rng)
        edge = max(start, end - reach + 1)
        generated, later = play(tables, row, source, key, edge, end + 1 - edge, 0.0, rng)
        # float: compiled code computes an integer power in another way.
        remains = math.pow(gamma, float(window))
        memory[row, 0] = pending * remains + later
        between = many(source, key, start, edge - start, rng)
        return pending * (1.0 - remains) + (generated - later) + between

    return collect
