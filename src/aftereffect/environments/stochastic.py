"""The stochastic bandit with delayed, composite, anonymous rewards."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aftereffect.checks import arm_means
from aftereffect.environments.mechanics import DelayedEnvironment
from aftereffect.environments.pulls import Pulls, drawn
from aftereffect.environments.world import StochasticWorld
from aftereffect.kernels import Lose, Matrix, Slots, Vector
from aftereffect.knowledge import Knowledge, knowledge_of
from aftereffect.rewards import Bernoulli, Reward
from aftereffect.spec import as_spec, register
from aftereffect.spreads import Immediate, Spread, Spreading


def pseudo_regret(world: StochasticWorld, t: int, arm: int, slots: int) -> float:
    """What the best arm would have generated more, in expectation; when it lands does not matter."""
    gap: float = world.gaps[arm]
    return gap * slots


@register
@dataclass(frozen=True)
class StochasticBandit(DelayedEnvironment):
    """Independent rewards with a fixed mean per arm, spread over later slots.

    The regret is the pseudo-regret of generated reward: the sum over slots of the best mean less the mean of the arm
    played. Rewards that land after the horizon count.

    Parameters
    ----------
    means
        The expected reward of one pull of each arm, in [0, 1]; at least two arms.
    spread
        How a reward lands in later slots: a spread, or `PerArm` with one for each arm, or a spec string.
    reward
        The law of one pull's whole reward.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> print(StochasticBandit(means=[.9, .8], spread=Interval(30, 40)))
    stochastic-bandit([0.9, 0.8], spread=interval(30, 40), reward=bernoulli)
    """

    means: tuple[float, ...]
    spread: Spreading = Immediate()
    reward: Reward = Bernoulli()

    def __post_init__(self) -> None:
        self._set(
            means=arm_means(self.means),
            spread=as_spec(self.spread, Spreading),
            reward=as_spec(self.reward, Reward),
        )
        self.spread.by_arm(self.arms)  # refuses a wrong number of spreads

    @property
    def arms(self) -> int:
        return len(self.means)

    @cached_property
    def gaps(self) -> Vector:
        """What one pull of each arm loses against the best."""
        means = np.array(self.means)
        gaps: Vector = means.max() - means
        gaps.setflags(write=False)
        return gaps

    @cached_property
    def spreads(self) -> tuple[Spread, ...]:
        """The spread of each arm."""
        return self.spread.by_arm(self.arms)

    @property
    def knowledge(self) -> Knowledge:
        return knowledge_of(self.spreads)

    @property
    def _delays(self) -> Spreading:
        return self.spread

    def _parts(self, horizon: int) -> tuple[Pulls, Lose]:
        return drawn(self.reward.kernels()), pseudo_regret

    def _world(self, horizon: int, rows: Slots, laws: Matrix) -> StochasticWorld:
        return StochasticWorld(np.array(self.means), self.gaps.copy(), self.reward.params(), rows, laws)
