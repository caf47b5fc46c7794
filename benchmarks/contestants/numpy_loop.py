"""UCB1 in numpy, all replications at once: one step of the loop is one slot of each."""

import math

import numpy as np

from contestants.protocol import Work, answer


def play(work: Work) -> np.ndarray:
    """Store averages and 1 / sqrt(pulls); flat arrays, since `take` is fast."""
    rng, means, arms, runs = (
        np.random.default_rng(work.seed),
        np.array(work.means),
        len(work.means),
        work.replications,
    )
    plays, collected, averages, breadths, indices = np.zeros((5, runs * arms))
    starts = np.arange(runs) * arms
    first, end = work.lags or (0, 1)
    rewards = np.zeros((end, runs))  # of the last `end` slots, in a ring
    landing = np.zeros(runs)  # the sum of those of which a share lands in this slot
    for t in range(work.horizon):
        if t < arms:
            chosen = np.full(runs, t)
        else:
            np.multiply(breadths, math.sqrt(2.0 * math.log(t)), out=indices)
            indices += averages
            chosen = indices.reshape(runs, arms).argmax(axis=1)
        total = rng.random(runs) < means.take(chosen)
        if work.lags:
            landing -= rewards[t % end]
            rewards[t % end] = total
            landing += rewards[(t - first) % end]
            total = landing / (end - first)
        chosen += starts
        new_plays, new_collected = plays.take(chosen) + 1.0, collected.take(chosen) + total
        plays[chosen], collected[chosen] = new_plays, new_collected
        averages[chosen], breadths[chosen] = new_collected / new_plays, 1.0 / np.sqrt(new_plays)
    return plays.reshape(runs, arms) @ (means.max() - means)


if __name__ == "__main__":
    answer(f"numpy {np.__version__}", play)
