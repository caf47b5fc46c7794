"""A delayed bandit for libraries without one. Plain Python is faster here than numpy."""

import random
from collections.abc import Callable, Sequence

from contestants.protocol import Work


class World:
    """A Bernoulli bandit whose rewards land in the slot of their pull."""

    def __init__(self, means: Sequence[float], rng: random.Random) -> None:
        self.arms = list(range(len(means)))
        self.pulls = [0] * len(means)
        self.rng = rng
        self._means = means

    def play(self, arm: int) -> float:
        """Pull an arm, and see what lands in this slot."""
        self.pulls[arm] += 1
        return 1.0 if self.rng.random() < self._means[arm] else 0.0

    @property
    def regret(self) -> float:
        """The pseudo-regret of all pulls so far."""
        best = max(self._means)
        return sum(
            pulls * (best - mean) for pulls, mean in zip(self.pulls, self._means, strict=True)
        )


class LateWorld(World):
    """The same with rewards that land in equal shares at the lags first, ..., end-1."""

    def __init__(self, means: Sequence[float], rng: random.Random, first: int, end: int) -> None:
        super().__init__(means, rng)
        self._first, self._end = first, end
        self._rewards = [0.0] * end  # of the last `end` slots, in a ring
        self._landing = 0.0  # the sum of those of which a share lands in this slot
        self._slot = 0

    def play(self, arm: int) -> float:
        oldest = self._slot % self._end
        self._landing -= self._rewards[oldest]
        self._rewards[oldest] = super().play(arm)
        self._landing += self._rewards[(self._slot - self._first) % self._end]
        self._slot += 1
        return self._landing / (self._end - self._first)


def in_worlds(run: Callable[[World, int], None]) -> Callable[[Work], list[float]]:
    """The whole of a work, given how to run a policy through one world for some slots."""

    def play(work: Work) -> list[float]:
        rng = random.Random(work.seed)
        worlds = [
            LateWorld(work.means, rng, *work.lags) if work.lags else World(work.means, rng)
            for _ in range(work.replications)
        ]
        for world in worlds:
            run(world, work.horizon)
        return [world.regret for world in worlds]

    return play
