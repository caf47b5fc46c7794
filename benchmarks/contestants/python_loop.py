"""UCB1 in plain Python, one slot at a time."""

import math
import platform

from contestants.protocol import answer
from contestants.world import World, in_worlds


def run(world: World, horizon: int) -> None:
    """Play every arm once, then always the arm with the highest index."""
    collected = [world.play(arm) for arm in world.arms]
    plays = [1] * len(world.arms)
    for t in range(len(world.arms), horizon):
        chosen, highest, twice_log = 0, -1.0, 2.0 * math.log(t)
        for arm in world.arms:
            index = collected[arm] / plays[arm] + math.sqrt(twice_log / plays[arm])
            if index > highest:
                chosen, highest = arm, index
        collected[chosen] += world.play(chosen)
        plays[chosen] += 1


if __name__ == "__main__":
    answer(f"Python {platform.python_version()}", in_worlds(run))
