"""Rewards that were fixed before the play: what every arm would bring in every slot.

Kernels read them from a table: the reward of one slot, and sums over any slots. Sums are stored for
every 64th slot and added up between: a sum costs at most 126 steps, and memory is little more than
the rewards themselves.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aftereffect._core import (
    Matrix,
    OnePull,
    RewardSource,
    Spec,
    Vector,
    as_float,
    as_spec,
    check_int,
    check_means,
    check_shares,
    register,
    short_repr,
)
from aftereffect.errors import ParameterError

#: The paying arm of each slot, or a table with a row per slot and a column per arm.
Rows: TypeAlias = NDArray[Any]

_MAX_SEED = 2**63 - 1
#: So many numbers are drawn at a time, so that little more than the result is in memory.
_PIECE = 1_000_000
#: Of what was drawn, and of the sums over every 64 slots that go with it.
MAX_DRAWN_BYTES = 1_000_000_000


class Schedule(Spec, ABC):
    """The reward of every arm in every slot, in [0, 1].

    Examples
    --------
    >>> schedule = DrawnArm([0.5, 0.3, 0.2], seed=1)
    >>> schedule.arms, schedule.rows(5).tolist()
    (3, [1, 2, 0, 2, 0])
    """

    kind = "schedule"

    @property
    @abstractmethod
    def arms(self) -> int:
        """The number of arms."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many slots there are."""

    @abstractmethod
    def rows(self, slots: int) -> Rows:
        """The first slots: the paying arm of each, if one pays 1; else a table by slot and arm."""


def as_schedule(value: Any) -> Schedule:
    """A schedule from a schedule, its spec string, or an array, which `Recorded` checks."""
    if isinstance(value, (Schedule, str)):
        return as_spec(value, Schedule)
    return Recorded(value)


class _Drawn(Schedule):
    """A schedule without an end, drawn by a seed of its own; more slots begin with the same."""

    seed: int

    @property
    def length(self) -> int:
        return int(MAX_DRAWN_BYTES // max(self._slot_bytes, self.arms / 8))

    @property
    @abstractmethod
    def _slot_bytes(self) -> int:
        """What a row of one slot takes."""

    @property
    @abstractmethod
    def _draws(self) -> int:
        """How many numbers a slot takes."""

    def rows(self, slots: int) -> Rows:
        return _draw_rows(self, slots)

    @abstractmethod
    def _piece(self, rng: np.random.Generator, slots: int) -> Rows:
        """The next slots."""

    def _pieces(self, slots: int) -> Iterator[Rows]:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        piece = max(_PIECE // self._draws, 1)
        for first in range(0, slots, piece):
            yield self._piece(rng, min(piece, slots - first))


@lru_cache(maxsize=2)  # all policies of a study play the same
def _draw_rows(schedule: _Drawn, slots: int) -> Rows:
    rows = np.concatenate(list(schedule._pieces(slots)))
    rows.setflags(write=False)  # it is cached, and shared
    return rows


@register
@dataclass(frozen=True)
class DrawnArm(_Drawn):
    """One arm pays 1 in each slot, drawn beforehand with these shares; the others pay nothing.

    Parameters
    ----------
    shares
        How often each arm is the one that pays; they sum to 1.
    seed
        Which of all such schedules.

    Examples
    --------
    >>> DrawnArm([.5, .3, .2], seed=1).paying(8).tolist()
    [1, 2, 0, 2, 0, 0, 2, 0]
    """

    shares: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        given = check_shares("shares", self.shares)
        if not 2 <= len(given) <= np.iinfo(np.int16).max:
            raise ParameterError(
                f"shares must be at least two numbers, one per arm, got {short_repr(self.shares)}"
            )
        self._set(shares=tuple(given), seed=check_int("seed", self.seed, at_most=_MAX_SEED))

    @property
    def arms(self) -> int:
        return len(self.shares)

    @property
    def _slot_bytes(self) -> int:
        return self._type.itemsize

    @property
    def _draws(self) -> int:
        return 1

    @property
    def _type(self) -> np.dtype[Any]:
        return np.min_scalar_type(-self.arms)

    def paying(self, slots: int) -> Rows:
        """The arm that pays in each of the first slots."""
        return self.rows(slots)

    def _piece(self, rng: np.random.Generator, slots: int) -> Rows:
        bounds = np.cumsum(self.shares)[:-1]
        return np.searchsorted(bounds, rng.random(slots), side="right").astype(self._type)


@register
@dataclass(frozen=True)
class DrawnRewards(_Drawn):
    """Each arm pays 1 or nothing in each slot, drawn beforehand and independently with these means.

    Parameters
    ----------
    means
        How often each arm pays.
    seed
        Which of all such schedules.

    Examples
    --------
    >>> DrawnRewards([.5, .3], seed=1).rows(3).shape
    (3, 2)
    """

    means: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        self._set(
            means=check_means(self.means), seed=check_int("seed", self.seed, at_most=_MAX_SEED)
        )

    @property
    def arms(self) -> int:
        return len(self.means)

    @property
    def _slot_bytes(self) -> int:
        return self.arms

    @property
    def _draws(self) -> int:
        return self.arms

    def _piece(self, rng: np.random.Generator, slots: int) -> Rows:
        return (rng.random((slots, self.arms)) < self.means).astype(np.uint8)


@register
@dataclass(frozen=True)
class MultiScaleWalk(Schedule):
    """The losses of Dekel, Ding, Koren and Peres (2014): one arm is better by little, all drift.

    The loss of every arm in slot t is W_t + 1/2, cut off at 0 and 1, where t counts from 1 and W is
    a walk in steps of all scales: W_t is W_s plus a normal step, where s is t without the lowest 1
    among its binary digits. One arm loses less, by a gap of K^(1/3) T^(-1/3) / (9 log2 T); steps
    have a standard deviation of 1 / (9 log2 T). Rewards are 1 minus losses.

    The average drifts, so that an arm must be compared with another one soon after it. Where each
    such comparison costs something, no policy can keep its regret below the order of
    T^(2/3) / log T. The constants were noted from memory and not compared with the paper.

    Parameters
    ----------
    slots
        T, how many slots there are.
    arms
        K, the number of arms.
    best
        The arm that is better; drawn by the seed if not given.
    seed
        Which of all such schedules.

    Examples
    --------
    >>> MultiScaleWalk(1_000, best=1).rows(3).round(3).tolist()
    [[0.501, 0.503], [0.493, 0.494], [0.492, 0.493]]
    """

    slots: int
    arms: int = 2
    best: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        arms = check_int("arms", self.arms, at_least=2, at_most=np.iinfo(np.int16).max)
        self._set(
            slots=check_int("slots", self.slots, at_least=2, at_most=MAX_DRAWN_BYTES // (8 * arms)),
            arms=arms,
            seed=check_int("seed", self.seed, at_most=_MAX_SEED),
        )
        if self.best is not None:
            self._set(best=check_int("best", self.best, at_most=arms - 1))

    @property
    def length(self) -> int:
        return self.slots

    @property
    def step(self) -> float:
        """The standard deviation of the steps."""
        return 1 / (9 * math.log2(self.slots))

    @property
    def gap(self) -> float:
        """How much less the best arm loses in each slot, unless that is cut off."""
        return math.cbrt(self.arms / self.slots) * self.step

    def rows(self, slots: int) -> Rows:
        return _draw_walk(self)[:slots]


@lru_cache(maxsize=2)
def _draw_walk(schedule: MultiScaleWalk) -> Rows:
    """The rewards of all slots."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(schedule.seed)))
    drawn = int(rng.integers(schedule.arms))
    walk = np.zeros(schedule.slots + 1)
    rng.standard_normal(out=walk[1:])
    walk *= schedule.step
    for digit in reversed(range(schedule.slots.bit_length())):
        lowest = 2**digit  # the lowest 1 of all these slots; they follow those where it is higher
        ends = walk[lowest :: 2 * lowest]
        ends += walk[: schedule.slots + 1 - lowest : 2 * lowest]
    walk += 0.5
    rows: Rows = np.empty((schedule.slots, schedule.arms))  # in place: new tables take longer
    rows[:] = walk[1:, None]
    rows[:, drawn if schedule.best is None else schedule.best] -= schedule.gap
    np.clip(rows, 0.0, 1.0, out=rows)
    np.subtract(1.0, rows, out=rows)
    rows.setflags(write=False)  # it is cached, and shared
    return rows


@dataclass(frozen=True, repr=False)
class Recorded(Schedule):
    """Rewards from an array. It has a label, but no spec string that could be read back.

    Parameters
    ----------
    values
        A table of rewards in [0, 1] with a row per slot and a column per arm, or the arm that pays
        1 in each slot.
    paying_arms
        In the latter case, how many arms there are; one more than the highest number in it if not
        given.

    Examples
    --------
    >>> Recorded([[0, 1], [.5, 1], [1, 0]]).length
    3
    """

    values: Rows = field(compare=False)
    paying_arms: int | None = None
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        values = _check_values(self.values)
        if values.ndim == 1:
            arms = int(values.max()) + 1
            wanted = (
                max(arms, 2)
                if self.paying_arms is None
                else check_int("paying_arms", self.paying_arms, at_least=2)
            )
            if arms > wanted:
                raise ParameterError(
                    f"paying arms must be numbers from 0 to {wanted - 1}, got {arms - 1}"
                )
            self._set(paying_arms=wanted)
        elif self.paying_arms is not None:
            raise ParameterError(
                "paying_arms can be given only with a list of paying arms, got a table of rewards"
            )
        digest = hashlib.sha256(
            f"{values.shape}{values.dtype}".encode() + values.tobytes()
        ).hexdigest()[:12]
        values.setflags(write=False)
        self._set(values=values, digest=digest)

    def __str__(self) -> str:
        """A label."""
        return f"recorded({self.length} slots of {self.arms} arms, {self.digest})"

    __repr__ = __str__

    @property
    def arms(self) -> int:
        return self.paying_arms or self.values.shape[1]

    @property
    def length(self) -> int:
        return len(self.values)

    def rows(self, slots: int) -> Rows:
        return self.values[:slots]


def _check_values(values: ArrayLike) -> Rows:
    """A copy in the smallest type that holds it."""
    try:
        given = np.array(values)
    except ValueError:
        given = np.array(None)
    if given.dtype == bool:
        given = given.astype(np.uint8)
    elif given.dtype == object:  # from a database, say
        numbers = [as_float(each) for each in given.flat]
        given = (
            given if None in numbers else np.array(numbers, dtype=np.float64).reshape(given.shape)
        )
    whole_numbers = np.issubdtype(given.dtype, np.integer)
    if (
        given.size == 0
        or not (whole_numbers or np.issubdtype(given.dtype, np.floating))
        or given.ndim not in (1, 2)
    ):
        wanted = "a table with a row per slot and a column per arm, or the paying arm of each slot"
        raise ParameterError(f"rewards must be {wanted}, got {short_repr(values)}")
    if given.ndim == 1:
        if not whole_numbers or given.min() < 0 or given.max() >= np.iinfo(np.int16).max:
            raise ParameterError(
                f"paying arms must be whole numbers from 0 on, got {short_repr(values)}"
            )
        return given.astype(np.min_scalar_type(-int(given.max()) - 1))
    if given.shape[1] < 2:
        raise ParameterError(
            f"a table of rewards must have at least two columns, one per arm, got {given.shape[1]}"
        )
    if not (np.isfinite(given).all() and given.min() >= 0 and given.max() <= 1):
        wrong = given[~((given >= 0) & (given <= 1))][0]
        raise ParameterError(f"rewards must be numbers from 0 to 1, got {wrong:g}")
    binary = whole_numbers or bool(np.isin(given, (0, 1)).all())
    return np.ascontiguousarray(given, dtype=np.uint8 if binary else np.float64)


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
