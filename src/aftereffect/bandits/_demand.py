"""What bandits with a demand of their own share: arms, a delay, a calendar, and defects.

Regret is the lost share in percent: the difference between what the best arm would have brought by
the horizon and what the pulled arms brought, divided by the former.

Their kernels play ::

    total(t) = sum over lags l of share(l) reward(t - l)      reward(t) = base(t) multiplier(arm(t))

Before slot 0 the first arm was played. What a run draws when it begins, the course of `base` and
the order of the arms, lies in the memory. `base` is divided by the largest reward that a pull of
the run could bring, so that rewards lie in [0, 1].
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import (
    MAX_LAG,
    Calendar,
    Engine,
    Feed,
    Matrix,
    Memory,
    Spec,
    Vector,
    WorldKernels,
    as_spec,
    check_choice,
    check_flag,
    check_float,
    check_int,
    check_sequence,
    readable_bytes,
    register,
)
from aftereffect.bandits.base import MAX_TABLE_BYTES, Bandit, EngineName, check_horizon
from aftereffect.delays import ARM, REWARD, TOTAL, TRACE_ROWS, Delay, LagLaw
from aftereffect.errors import ParameterError
from aftereffect.rewards import SLOT_LENGTHS, SlotName

#: The first rows of the memory: single numbers; the multiplier of each arm; the base of each slot,
#: from `lead` slots before the first on; the sum of the base before each slot from 0 on.
DEMAND_ROWS = NUMBERS, MULTIPLIERS, BASE, SUMS = range(4)
#: The single numbers: whether the run has begun; the sum and the count of totals reported; and the
#: row of the covariates that belongs to the first slot in memory.
_COUNTERS = BEGUN, REPORTED, COUNT, ORIGIN = range(4)
#: How much too high a spike is.
SPIKE = 10.0


class DefectParams(NamedTuple):
    """What is wrong with totals: the sums of the first one, two and three shares; and the rest."""

    missing: float
    up_to_zeros: float
    up_to_spikes: float
    late: int
    holiday: int
    drop: float


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


def spoil_total(params: DefectParams, total: float, rng: np.random.Generator) -> float:
    """The total as it is reported; NaN if it is missing.

    >>> from aftereffect import Defects
    >>> spoil_total(Defects(zeros=1).params, 5.0, np.random.default_rng(1))
    0.0
    """
    if params.up_to_spikes == 0.0:
        return total
    place = rng.random()
    if place < params.missing:
        return math.nan
    if place < params.up_to_zeros:
        return 0.0
    return SPIKE * total if place < params.up_to_spikes else total


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


#: Of what arrives after the last lag that counts.
MAX_TAIL = 1e-6
#: The largest lag that counts; every slot adds up so many shares.
MAX_REACH = 2_000
MAX_WEEKS = 1_000
MAX_LIFT = 1_000.0
#: By how much demand may drop or rise in the middle of a run.
MAX_DROP = 100.0


@register
@dataclass(frozen=True)
class Defects(Spec):
    """Totals that are missing, wrong or late, and demand that breaks its pattern.

    The totals of a history have the first three defects too.

    Parameters
    ----------
    missing, zeros, spikes
        The share of slots whose total is missing, reported as 0, or reported ten times too high.
    late
        How many slots totals come late, to policies that look at every slot. Others get the total
        of a round when it ends.
    holiday
        If 1, demand is half as large in one week of the run, drawn at random.
    drop
        Demand is multiplied by this from the middle of the run on.

    Examples
    --------
    >>> Defects(missing=.02, late=48).late
    48
    """

    kind = "defects"

    missing: float = 0.0
    zeros: float = 0.0
    spikes: float = 0.0
    late: int = 0
    holiday: int = 0
    drop: float = 1.0

    def __post_init__(self) -> None:
        shares = {
            name: check_float(name, getattr(self, name), at_least=0, at_most=1)
            for name in ("missing", "zeros", "spikes")
        }
        if math.fsum(shares.values()) > 1:
            raise ParameterError(
                "missing, zeros and spikes must sum to at most 1, "
                f"got {math.fsum(shares.values()):g}: make them smaller"
            )
        self._set(
            **shares,
            late=check_int("late", self.late, at_most=MAX_LAG),
            holiday=check_int("holiday", self.holiday, at_most=1),
            drop=check_float("drop", check_float("drop", self.drop, above=0), at_most=MAX_DROP),
        )

    @property
    def params(self) -> DefectParams:
        """What kernels read."""
        zeros = self.missing + self.zeros
        return DefectParams(
            self.missing, zeros, zeros + self.spikes, self.late, self.holiday, self.drop
        )


class DemandBandit(Bandit):
    """Arms that multiply a demand. Every pull's reward arrives in the expected shares of the delay.

    Both engines are the same: they play slot by slot.
    """

    lifts: tuple[float, ...]
    slot: SlotName
    weeks_before: int
    shuffle: bool
    feed: Defects

    def _check_shared(self) -> None:
        """Check and store the parameters that all of these bandits have."""
        given = check_sequence("lifts", self.lifts)
        if len(given) < 2:
            raise ParameterError(
                f"lifts must hold at least two arms, got {len(given)}: give 0 for the control"
            )
        lifts = tuple(
            check_float(
                f"the lift of arm {arm}", check_float("a lift", lift, above=-1), at_most=MAX_LIFT
            )
            for arm, lift in enumerate(given)
        )
        check_choice("slot", self.slot, SLOT_LENGTHS)
        self._set(
            lifts=lifts,
            delay=as_spec(self.delay, Delay),
            weeks_before=check_int("weeks_before", self.weeks_before, at_most=MAX_WEEKS),
            shuffle=check_flag("shuffle", self.shuffle),
            feed=as_spec(self.feed, Defects),
        )
        spread_shares(self.delay, len(lifts))

    @property
    def arms(self) -> int:
        return len(self.lifts)

    @property
    def calendar(self) -> Calendar:
        return Calendar(SLOT_LENGTHS[self.slot][1])

    @property
    def history_slots(self) -> int:
        return self.weeks_before * self.calendar.slots_per_week

    @property
    def has_delayed_history(self) -> bool:
        """Whether the totals of the history came with the same delay."""
        return True

    def check(self, engine: EngineName, horizon: int) -> None:
        check_horizon(self, horizon)
        rows, columns = memory_shape(self.arms, horizon, self._lead)
        needed = 8 * rows * columns
        if needed > MAX_TABLE_BYTES:
            raise ParameterError(
                f"{horizon:,} slots need {readable_bytes(needed)} of memory, but at most "
                f"{readable_bytes(MAX_TABLE_BYTES)} are allowed: choose a shorter horizon"
            )

    def engine(self, name: EngineName, horizon: int) -> Engine:
        self.check(name, horizon)
        fill_base, source = self._source(horizon)
        world = DemandWorld(
            source=source,
            multipliers=1.0 + np.array(self.lifts),
            shares=spread_shares(self.delay, self.arms),
            defects=self.feed.params,
            horizon=horizon,
            week=self.calendar.slots_per_week,
            history=self.history_slots,
            lead=self._lead,
            shuffle=self.shuffle,
            history_delayed=self.has_delayed_history,
        )
        shape = memory_shape(self.arms, horizon, self._lead)
        return Engine(demand_kernels(fill_base), world, shape, self._covariates(horizon))

    def tracer(self, horizon: int) -> Engine:
        return self.engine("slotwise", horizon)

    @property
    def _lead(self) -> int:
        """The number of slots before the first whose base is needed."""
        reach = len(spread_shares(self.delay, self.arms)) - 1
        if self.has_delayed_history:
            return self.history_slots + reach
        return max(self.history_slots, reach)

    def _covariates(self, horizon: int) -> Matrix:
        """The covariates of each slot, from that with which the base begins on."""
        return np.zeros((self._lead + horizon, 0))

    @abstractmethod
    def _source(self, horizon: int) -> tuple[FillBase, Any]:
        """How the base of a run is drawn, and from what."""


def spread_shares(delay: Delay, arms: int) -> Vector:
    """The expected shares by lag, up to where hardly anything is left; they sum to 1.

    >>> from aftereffect import Interval
    >>> spread_shares(Interval(1, 2), arms=2)
    array([0. , 0.5, 0.5])
    """
    if not isinstance(delay, LagLaw):
        raise ParameterError(
            f"delay must be one law of lags for all arms, got {delay}: use another, such as "
            "interval(0, 23)"
        )
    delay.check_arms(arms)
    lags = np.arange(min(delay.reach, MAX_REACH) + 1)
    ends = np.flatnonzero(delay.tail(lags) < MAX_TAIL)
    if len(ends) == 0:
        raise ParameterError(
            f"delay must reach over at most {MAX_REACH:,} slots, got {delay}: use shorter lags, "
            "or longer slots"
        )
    shares: Vector = delay.share(lags[: ends[0] + 1])
    shares /= shares.sum()
    return shares
