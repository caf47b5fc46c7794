"""SMPyBandits' UCB, with the index of UCB1, by the two methods that its evaluator calls."""

from importlib.metadata import version

import numpy as np
from SMPyBandits.Policies import UCB

from contestants.protocol import Work, answer
from contestants.world import World, in_worlds


def run(world: World, horizon: int) -> None:
    """Its rewards are in [0, 1], as it expects; so are all totals."""
    policy = UCB(len(world.arms))
    policy.startGame()
    for _ in range(horizon):
        arm = policy.choice()
        policy.getReward(arm, world.play(arm))


def play(work: Work) -> list[float]:
    """The work, with equal indices decided by numpy's global generator, as SMPyBandits does."""
    np.random.seed(work.seed)  # noqa: NPY002  (its policies draw from there)
    with np.errstate(divide="ignore", invalid="ignore"):  # it divides by plays that are still 0
        return in_worlds(run)(work)


if __name__ == "__main__":
    answer(version("SMPyBandits"), play)
