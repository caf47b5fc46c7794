"""The power-law delay: shares that fall like a power of the lag, without an end.

The roundwise kernel uses a sum of exponentials that misses less than 1e-10 of the tail in all (see
`aftereffect.delays._exponential_fit`). It remembers one number per term, S_j = the sum over pulls
of reward exp(-rate_j age); what is pending is the sum of weight_j S_j. The slot of every pull
matters for ever, so each is drawn, and a replication costs O(T).

Where rewards are 0 or 1, eight pulls are drawn at a time, as the bits of a byte, and what each of
the 256 bytes adds to each S_j is looked up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
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
from aftereffect.delays._engines import CollectRow, Recipe, Size
from aftereffect.delays._exponential_fit import MAX_TERMS, fit_exponentials, hurwitz_zeta
from aftereffect.delays.base import LagLaw, as_lags
from aftereffect.delays.geometric import tabulate_bytes

#: Pulls in some slots; returns what they generate.
Play: TypeAlias = Callable[
    [Memory, Matrix, int, Source, ArmKey, int, int, np.random.Generator], float
]


@register
@dataclass(frozen=True)
class PowerLaw(LagLaw):
    """Shares in proportion to lag^-gamma at the lags 1, 2, 3, ... without an end.

    Parameters
    ----------
    gamma
        The exponent, above 1. Up to 2 the mean lag is infinite, and Theorem 1 says nothing.

    Examples
    --------
    >>> round(PowerLaw(3).mean_lag, 6)
    1.368433
    """

    gamma: float

    def __post_init__(self) -> None:
        self._set(gamma=check_float("gamma", self.gamma, above=1, at_most=50))

    @cached_property
    def _norm(self) -> float:
        return float(hurwitz_zeta(self.gamma, 1))

    @property
    def reach(self) -> float:
        return math.inf

    @property
    def mean_lag(self) -> float:
        if self.gamma <= 2:
            return math.inf
        return float(hurwitz_zeta(self.gamma - 1, 1)) / self._norm

    @property
    def lag_variance(self) -> float:
        if self.gamma <= 3:
            return math.inf
        return float(hurwitz_zeta(self.gamma - 2, 1)) / self._norm - self.mean_lag**2

    def share(self, lags: ArrayLike) -> Vector:
        at = as_lags(lags)
        return np.where(at < 1, 0.0, np.maximum(at, 1).astype(float) ** -self.gamma / self._norm)

    def tail(self, lags: ArrayLike) -> Vector:
        at = as_lags(lags)
        later = hurwitz_zeta(self.gamma, np.maximum(at, 0) + 1) / self._norm
        return np.where(at < 1, 1.0, later)

    def roundwise_recipe(self, rewards: RewardSource, horizon: int) -> Recipe[CollectRow]:
        rates, weights = fit_exponentials(self.gamma, horizon)
        fades = np.exp(-rates)
        # The number of terms J, then J each of exp(-rate_j), weight_j and exp(-8 rate_j), then for
        # each byte the number of ones in it and the J numbers that it adds.
        table = np.concatenate(
            [[len(rates)], fades, weights, np.exp(-8 * rates), tabulate_bytes(fades).ravel()]
        )
        return Recipe(_collect_mixture(rewards), table, len(rates))

    def roundwise_size(self, horizon: int) -> Size:
        return Size(1 + 3 * MAX_TERMS + 256 * (1 + MAX_TERMS), MAX_TERMS)


@cache
def _play_pulls(one: OnePull) -> Play:
    """Play any rewards, pull by pull."""

    def play(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        rng: np.random.Generator,
    ) -> float:
        generated = 0.0
        for slot in range(t, t + slots):
            pulled = one(source, key, slot, rng)
            generated += pulled
            for term in range(int(tables[row, 0])):
                memory[row, term] = tables[row, term + 1] * memory[row, term] + pulled
        return generated

    return play


@cache
def _play_bytes(one: OnePull, byte: BytePulls) -> Play:
    """Play rewards of 0 or 1, eight pulls at a time as far as possible."""
    play_rest = _play_pulls(one)

    def play(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        rng: np.random.Generator,
    ) -> float:
        terms = int(tables[row, 0])
        first = 1 + 3 * terms
        # Views: only indices that plainly count from 0 become vector instructions.
        sums, fades = memory[row], tables[row, 1 + 2 * terms : first]
        generated = 0.0
        for _ in range(slots // 8):
            drawn = first + byte(source, key, rng) * (terms + 1)
            generated += tables[row, drawn]
            added = tables[row, drawn + 1 : drawn + 1 + terms]
            for term in range(terms):
                sums[term] = fades[term] * sums[term] + added[term]
        few = slots % 8
        return generated + play_rest(memory, tables, row, source, key, t + slots - few, few, rng)

    return play


@cache
def _collect_mixture(rewards: RewardSource) -> CollectRow:
    one = rewards.one
    play = _play_pulls(one) if rewards.byte is None else _play_bytes(one, rewards.byte)

    def sum_pending(memory: Memory, tables: Matrix, row: int) -> float:
        terms = int(tables[row, 0])
        total = 0.0
        for term in range(terms):
            total += tables[row, terms + term + 1] * memory[row, term]
        return total

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
        play(memory, tables, row, source, key, t, slots - window, rng)
        before = sum_pending(memory, tables, row)
        generated = play(memory, tables, row, source, key, t + slots - window, window, rng)
        return max(generated + before - sum_pending(memory, tables, row), 0.0)

    return collect
