"""Delays after which a reward arrives whole, at a random lag."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from aftereffect._core import (
    ArmKey,
    Matrix,
    Memory,
    RewardSource,
    Source,
    Vector,
    check_lag,
    check_shares,
    register,
)
from aftereffect.delays._engines import ARRIVALS, CollectRow, Deposit, Recipe, Size, normalise
from aftereffect.delays._parts import DrawLag, list_parts
from aftereffect.delays.base import ClosedForm, FiniteLagLaw
from aftereffect.errors import ParameterError


class RandomLag(FiniteLagLaw):
    """The whole reward arrives at one lag, drawn for every pull; the shares are probabilities.

    Examples
    --------
    >>> isinstance(UniformDelay(1, 4), RandomLag), UniformDelay(1, 4).shares.tolist()
    (True, [0.0, 0.25, 0.25, 0.25, 0.25])
    """

    @abstractmethod
    def lag_kernel(self) -> DrawLag:
        """The plain function that draws a lag."""

    @abstractmethod
    def lag_table(self) -> Vector:
        """What that function reads: the reach, then whatever it needs."""

    def share_variance(
        self, share: Vector, mean: float | Vector, variance: float | Vector
    ) -> Vector:
        return share * (variance + mean**2) - (share * mean) ** 2

    def roundwise_recipe(self, rewards: RewardSource, horizon: int) -> Recipe[CollectRow]:
        kernel = _collect_at_random_lags(rewards, self.lag_kernel())
        return Recipe(kernel, self.lag_table(), self.reach + 1)

    def roundwise_size(self, horizon: int) -> Size:
        return Size(len(self.lag_table()), self.reach + 1)

    def slotwise_recipe(self, horizon: int) -> Recipe[Deposit]:
        draw_lag, table = self.lag_kernel(), self.lag_table()
        first, parts = int(np.flatnonzero(self.shares)[0]), list_parts(draw_lag)
        return Recipe(_deposit_whole(draw_lag), table, self.reach + 1, first, parts)

    def slotwise_size(self, horizon: int) -> Size:
        return self.roundwise_size(horizon)


@cache
def _deposit_whole(draw_lag: DrawLag) -> Deposit:
    def deposit(
        memory: Memory,
        tables: Matrix,
        row: int,
        slot: int,
        reward: float,
        rng: np.random.Generator,
    ) -> None:
        memory[ARRIVALS, (slot + draw_lag(tables, row, rng)) % memory.shape[1]] += reward

    return deposit


@cache
def _collect_at_random_lags(rewards: RewardSource, draw_lag: DrawLag) -> CollectRow:
    """The roundwise kernel. It remembers what earlier pulls bring in future slots, in a ring."""
    one, many = rewards.one, rewards.many

    def pull(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        slots: range,
        start: int,
        end: int,
        rng: np.random.Generator,
    ) -> float:
        """Draw some pulls: add up what arrives in the window, remember what arrives after it."""
        size = int(tables[row, 0]) + 1
        total = 0.0
        for slot in slots:
            pulled = one(source, key, slot, rng)
            if pulled > 0.0:
                arrival = slot + draw_lag(tables, row, rng)
                if arrival > end:
                    memory[row, arrival % size] += pulled
                elif arrival >= start:
                    total += pulled
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
        reach = int(tables[row, 0])
        end = t + slots - 1
        start = end - window + 1
        total = 0.0
        for slot in range(t, min(end, t + reach) + 1):
            here = slot % (reach + 1)
            if slot >= start:
                total += memory[row, here]
            memory[row, here] = 0.0
        edge = max(start, end - reach + 1)
        before, last = range(max(t, start - reach), start), range(edge, end + 1)
        total += pull(memory, tables, row, source, key, before, start, end, rng)
        total += pull(memory, tables, row, source, key, last, start, end, rng)
        return total + many(source, key, start, edge - start, rng)

    return collect


class EvenLags(ClosedForm):
    """The lags first, first + 1, ..., last, all alike."""

    first: int
    last: int

    def __post_init__(self) -> None:
        self._set(first=check_lag("first", self.first), last=check_lag("last", self.last))
        if self.last < self.first:
            raise ParameterError(
                f"the last lag must be at least the first, {self.first}, got {self.last}"
            )

    @property
    def reach(self) -> int:
        return self.last

    @property
    def mean_lag(self) -> float:
        return (self.first + self.last) / 2

    @property
    def lag_variance(self) -> float:
        return ((self.last - self.first + 1) ** 2 - 1) / 12


@register
@dataclass(frozen=True)
class UniformDelay(EvenLags, RandomLag):
    """The whole reward arrives at one lag, drawn evenly from first, first + 1, ..., last.

    Parameters
    ----------
    first, last
        Whole numbers with 0 <= first <= last.

    Examples
    --------
    >>> UniformDelay(10, 30).mean_lag
    20.0
    """

    first: int
    last: int

    @cached_property
    def shares(self) -> Vector:
        count = self.last - self.first + 1
        return normalise(np.repeat([0.0, 1 / count], [self.first, count]))

    def lag_kernel(self) -> DrawLag:
        return _draw_evenly

    def lag_table(self) -> Vector:
        return np.array([self.last, self.first, self.last - self.first + 1], dtype=float)


def _draw_evenly(tables: Matrix, row: int, rng: np.random.Generator) -> int:
    """The table holds the last lag, the first, and their number."""
    return int(tables[row, 1]) + int(rng.random() * tables[row, 2])


@register
@dataclass(frozen=True)
class RandomDelay(RandomLag):
    """The whole reward arrives at one lag, drawn from any law on finitely many lags.

    Parameters
    ----------
    pmf
        The probabilities of the lags 0, 1, 2, ...; they sum to one.

    Examples
    --------
    >>> RandomDelay([0, .5, .25, .25]).mean_lag
    1.75
    """

    pmf: tuple[float, ...]

    def __post_init__(self) -> None:
        self._set(pmf=check_shares("pmf", self.pmf))

    @cached_property
    def shares(self) -> Vector:
        return normalise(self.pmf)

    def lag_kernel(self) -> DrawLag:
        return _draw_by_inversion

    def lag_table(self) -> Vector:
        return np.append(self.reach, np.cumsum(self.shares))


def _draw_by_inversion(tables: Matrix, row: int, rng: np.random.Generator) -> int:
    """The table holds the reach, then the distribution function; find where it passes a number."""
    u = rng.random()
    low, high = 0, int(tables[row, 0])
    while low < high:
        middle = (low + high) // 2
        if tables[row, middle + 1] > u:
            high = middle
        else:
            low = middle + 1
    return low
