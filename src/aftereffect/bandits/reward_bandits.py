"""The bandits whose pulls bring rewards, which arrive with a delay: drawn, or fixed beforehand."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import (
    CountRegret,
    Matrix,
    Memory,
    RewardSource,
    Slots,
    Vector,
    as_spec,
    check_means,
    register,
)
from aftereffect.bandits.base import EngineName, RewardBandit
from aftereffect.delays import ArmwiseDelay, Delay, Immediate, LagLaw
from aftereffect.errors import ParameterError
from aftereffect.rewards import (
    Bernoulli,
    RewardLaw,
    RewardTable,
    Schedule,
    as_schedule,
    prepare_rewards,
    reward_source,
    sum_by_arm,
    table_source,
)


class StochasticWorld(NamedTuple):
    """What the kernels of a stochastic bandit read."""

    means: Vector
    gaps: Vector
    source: Vector
    rows: Slots
    tables: Matrix


def count_pseudo_regret(
    memory: Memory, world: StochasticWorld, t: int, arm: int, slots: int
) -> float:
    """How much more the best arm would generate in expectation, whenever it arrives."""
    gap: float = world.gaps[arm]
    return gap * slots


@register
@dataclass(frozen=True)
class StochasticBandit(RewardBandit):
    """Independent rewards with a fixed mean per arm, delayed.

    The regret is the pseudo-regret of generated reward: the sum over slots of the best mean less
    the mean of the arm played. Rewards that arrive after the horizon count.

    Parameters
    ----------
    means
        The expected reward of one pull of each arm, in [0, 1]; at least two arms.
    delay
        When a reward arrives: a delay, or `PerArm` with one for each arm, or a spec string.
    reward_law
        The law of one pull's whole reward.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> bandit = StochasticBandit(means=[.9, .8], delay=Interval(30, 39))
    >>> print(bandit)
    stochastic-bandit([0.9, 0.8], delay=interval(30, 39), reward_law=bernoulli)
    >>> bandit.delay_facts.mean_lag
    34.5
    """

    means: tuple[float, ...]
    delay: Delay = Immediate()
    reward_law: RewardLaw = Bernoulli()

    def __post_init__(self) -> None:
        self._set(
            means=check_means(self.means),
            delay=as_spec(self.delay, Delay),
            reward_law=as_spec(self.reward_law, RewardLaw),
        )
        if self.delay.depends_on_play:
            raise ParameterError(
                f"{self.delay} depends on the play: use it with an AdversarialBandit"
            )
        self.delay.check_arms(self.arms)

    @property
    def arms(self) -> int:
        return len(self.means)

    @cached_property
    def gaps(self) -> Vector:
        """How much less one pull of each arm brings than one of the best, in expectation."""
        means = np.array(self.means)
        gaps: Vector = means.max() - means
        gaps.setflags(write=False)
        return gaps

    @cached_property
    def delays(self) -> tuple[LagLaw, ...]:
        """The law of lags of each arm."""
        if not isinstance(self.delay, ArmwiseDelay):
            raise ParameterError(f"{self.delay} has no law of lags for each arm")
        return self.delay.by_arm(self.arms)

    def _kernels(self, horizon: int) -> tuple[RewardSource, CountRegret]:
        return reward_source(self.reward_law.kernels()), count_pseudo_regret

    def _world(self, horizon: int, rows: Slots, tables: Matrix) -> StochasticWorld:
        means, gaps = np.array(self.means), self.gaps.copy()
        return StochasticWorld(means, gaps, self.reward_law.params(), rows, tables)


class AdversarialWorld(NamedTuple):
    """What the kernels read; `best` is the arm that brings most over the whole horizon."""

    source: RewardTable
    best: int
    rows: Slots
    tables: Matrix


@register
@dataclass(frozen=True)
class AdversarialBandit(RewardBandit):
    """Rewards fixed before the first slot, with a delay, or with an adversary that sees the pulls.

    The regret is against the one arm that brings most over the whole horizon, on generated reward:
    the sum over slots of what that arm brings less what the arm played brings, whenever it arrives.
    Before the horizon it may be negative.

    Parameters
    ----------
    rewards
        A table of rewards in [0, 1] with a row per slot and a column per arm, or the arm that pays
        1 in each slot, or a schedule such as `DrawnArm`.
    delay
        When a reward arrives: a delay, `PerArm` with one for each arm, or `HoldBack`.

    Examples
    --------
    >>> from aftereffect import HoldBack
    >>> bandit = AdversarialBandit([[0, 1], [1, 0], [.5, 1]], HoldBack(10))
    >>> bandit.best_arm(horizon=3)
    1
    """

    rewards: Schedule
    delay: Delay = Immediate()

    def __post_init__(self) -> None:
        self._set(rewards=as_schedule(self.rewards), delay=as_spec(self.delay, Delay))
        self.delay.check_arms(self.arms)

    @property
    def arms(self) -> int:
        return self.rewards.arms

    def check(self, engine: EngineName, horizon: int) -> None:
        super().check(engine, horizon)
        _check_length(self.rewards, horizon)

    def best_arm(self, horizon: int) -> int:
        """The arm that brings most in so many slots; the smallest number where several do."""
        return _prepare(self.rewards, horizon).best

    def second_gap(self, horizon: int) -> float:
        """How much less the second best arm brings than the best, per slot, in so many slots."""
        return _prepare(self.rewards, horizon).second_gap

    def _kernels(self, horizon: int) -> tuple[RewardSource, CountRegret]:
        rewards = table_source(_prepare(self.rewards, horizon).table)
        return rewards, _count_regret(rewards)

    def _world(self, horizon: int, rows: Slots, tables: Matrix) -> AdversarialWorld:
        prepared = _prepare(self.rewards, horizon)
        return AdversarialWorld(prepared.table, prepared.best, rows, tables)


class _Prepared(NamedTuple):
    """The first slots of a schedule, the best arm in them, and how far behind the second is."""

    table: RewardTable
    best: int
    second_gap: float


def _check_length(rewards: Schedule, horizon: int) -> None:
    if horizon > rewards.length:
        raise ParameterError(
            f"horizon must be at most the {rewards.length:,} slots of {rewards}, got {horizon:,}"
        )


@lru_cache(maxsize=2)  # all policies of a study play the same
def _prepare(rewards: Schedule, horizon: int) -> _Prepared:
    _check_length(rewards, horizon)
    rows = rewards.rows(horizon)
    sums = sum_by_arm(rows, rewards.arms)
    second, first = np.sort(sums)[-2:]
    gap = float(first - second) / horizon
    return _Prepared(prepare_rewards(rows, rewards.arms), int(np.argmax(sums)), gap)


@lru_cache
def _count_regret(rewards: RewardSource) -> CountRegret:
    many: Any = rewards.many  # nothing is drawn, so there is no generator to give

    def count_regret(
        memory: Memory, world: AdversarialWorld, t: int, arm: int, slots: int
    ) -> float:
        best: float = many(world.source, world.best, t, slots, None)
        played: float = many(world.source, arm, t, slots, None)
        return best - played

    return count_regret
