"""The stochastic bandit with delayed, composite, anonymous rewards."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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
from aftereffect.bandits.base import RewardBandit
from aftereffect.delays import ArmwiseDelay, Delay, Immediate, LagLaw
from aftereffect.errors import ParameterError
from aftereffect.rewards import Bernoulli, RewardLaw, reward_source


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
