"""MABWiser's UCB1, by predict and partial_fit: its simulator only replays logs."""

from importlib.metadata import version

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

from contestants.protocol import answer
from contestants.world import World, in_worlds


def run(world: World, horizon: int) -> None:
    """With alpha = 1 the index is that of UCB1. Arrays, since lists take it longer."""
    bandit = MAB(world.arms, LearningPolicy.UCB1(alpha=1))
    # An arm that was never played has index 0 here, below all others: the first plays must be made
    # for it.
    bandit.fit(np.array(world.arms), np.array([world.play(arm) for arm in world.arms]))
    for _ in range(len(world.arms), horizon):
        arm = bandit.predict()
        bandit.partial_fit(np.array([arm]), np.array([world.play(arm)]))


if __name__ == "__main__":
    answer(version("mabwiser"), in_worlds(run))
