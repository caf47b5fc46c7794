"""The stochastic bandit with delayed, composite, anonymous rewards."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from aftereffect.checks import arm_means
from aftereffect.environments import roundwise, slotwise
from aftereffect.environments.base import RECORD, EngineName, Environment
from aftereffect.environments.pulls import drawn
from aftereffect.environments.world import StochasticWorld, arranged
from aftereffect.kernels import Collect, Engine, Matrix, Slots, Vector, WorldKernels
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
class StochasticBandit(Environment):
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

    def engine(self, name: EngineName, horizon: int) -> Engine:
        return {"roundwise": self._roundwise, "slotwise": self._slotwise}[name](horizon)

    def tracer(self, horizon: int) -> Engine:
        literal = self._slotwise(horizon)
        rows, columns = literal.memory
        collect = slotwise.traced(literal.kernels.collect)
        memory = (rows + len(RECORD), max(columns, horizon))
        return literal._replace(kernels=WorldKernels(collect, pseudo_regret), memory=memory)

    def _roundwise(self, horizon: int) -> Engine:
        pulls = drawn(self.reward.kernels())
        rows, laws, groups, memory = arranged(self.spreads, lambda spread: roundwise.recipe(spread, pulls, horizon))
        return self._engine(roundwise.collected(groups, pulls), rows, laws, (len(laws), memory))

    def _slotwise(self, horizon: int) -> Engine:
        rows, laws, groups, memory = arranged(self.spreads, lambda spread: slotwise.recipe(spread, horizon))
        collect = slotwise.literal(drawn(self.reward.kernels()), slotwise.landed(groups))
        return self._engine(collect, rows, laws, (len(slotwise.ROWS), memory))

    def _engine(self, collect: Collect, rows: Slots, laws: Matrix, memory: tuple[int, int]) -> Engine:
        world = StochasticWorld(np.array(self.means), self.gaps.copy(), self.reward.params(), rows, laws)
        return Engine(WorldKernels(collect, pseudo_regret), world, memory)
