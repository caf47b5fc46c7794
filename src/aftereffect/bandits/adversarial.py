"""The bandit whose rewards were fixed beforehand, with delayed, composite, anonymous feedback."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import CountRegret, Matrix, Memory, RewardSource, Slots, as_spec, register
from aftereffect.bandits.base import EngineName, RewardBandit
from aftereffect.delays import Delay, Immediate
from aftereffect.errors import ParameterError
from aftereffect.rewards import (
    RewardTable,
    Schedule,
    as_schedule,
    prepare_rewards,
    sum_by_arm,
    table_source,
)


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
