"""The stochastic bandit with delayed, composite, anonymous rewards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from aftereffect.checks import arm_means
from aftereffect.environments import roundwise, slotwise
from aftereffect.environments.base import EngineName, Environment, Recipe
from aftereffect.kernels import Engine, Vector, WorldKernels
from aftereffect.rewards import Bernoulli, Reward, RewardKernels
from aftereffect.spec import as_spec, register
from aftereffect.spreads import Immediate, Spread

RECIPES: Mapping[EngineName, Callable[[Spread, RewardKernels, int], Recipe]] = {
    "roundwise": roundwise.recipe,
    "slotwise": slotwise.recipe,
}


class StochasticWorld(NamedTuple):
    """The arrays that the kernels read: by arm, by arm, and whatever the spread's recipe wants."""

    means: Vector
    gaps: Vector
    law: Vector


def pseudo_regret(world: StochasticWorld, t: int, arm: int, slots: int) -> float:
    """What the best arm would have generated more, in expectation; when it lands does not matter."""
    gap: float = world.gaps[arm]
    return gap * slots


@register
@dataclass(frozen=True)
class StochasticBandit(Environment):
    """Independent rewards with a fixed mean per arm, spread over later slots.

    The regret is the pseudo-regret of generated reward: the sum over slots of the best mean less the mean of the arm
    played. Rewards that land after the horizon count.

    Parameters
    ----------
    means
        The expected reward of one pull of each arm, in [0, 1]; at least two arms.
    spread
        How a reward lands in later slots: a spread or its spec string.
    reward
        The law of one pull's whole reward.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> print(StochasticBandit(means=[.9, .8], spread=Interval(30, 40)))
    stochastic-bandit([0.9, 0.8], spread=interval(30, 40), reward=bernoulli)
    """

    means: tuple[float, ...]
    spread: Spread = Immediate()
    reward: Reward = Bernoulli()

    def __post_init__(self) -> None:
        self._set(
            means=arm_means(self.means),
            spread=as_spec(self.spread, Spread),
            reward=as_spec(self.reward, Reward),
        )

    @property
    def arms(self) -> int:
        return len(self.means)

    @cached_property
    def gaps(self) -> Vector:
        """What one pull of each arm loses against the best."""
        means = np.array(self.means)
        gaps: Vector = means.max() - means
        return gaps

    def engine(self, name: EngineName, horizon: int) -> Engine:
        return self._engine(RECIPES[name], horizon)

    def tracer(self, horizon: int) -> Engine:
        return self._engine(slotwise.tracer, horizon)

    def _engine(self, recipe: Callable[[Spread, RewardKernels, int], Recipe], horizon: int) -> Engine:
        collect, law, memory = recipe(self.spread, self.reward.kernels(), horizon)
        world = StochasticWorld(np.array(self.means), self.gaps, law)
        return Engine(WorldKernels(collect, pseudo_regret), world, memory)
