"""UCB1 as one would compile it with numba after a day with a profiler."""

import math

import numba
import numpy as np

from contestants.numba_loop import landing_after, with_kernel
from contestants.protocol import answer


@numba.njit(nogil=True)
def tuned_ucb1(rng, means, horizon, lags=None):
    """Store averages and 1 / sqrt(pulls): only the arm just pulled costs a root and a division."""
    arms = len(means)
    plays, collected, averages, breadths = (
        np.zeros(arms),
        np.zeros(arms),
        np.full(arms, np.inf),
        np.zeros(arms),
    )
    if lags is not None:
        rewards, landing = np.zeros(lags[1]), 0.0
    for t in range(horizon):
        width, chosen, highest = math.sqrt(2.0 * math.log(max(t, 1))), 0, -1.0
        for arm in range(arms):
            index = averages[arm] + width * breadths[arm]
            better = index > highest  # two selections and no branch to mispredict
            chosen = arm if better else chosen
            highest = index if better else highest
        total = 1.0 if rng.random() < means[chosen] else 0.0
        if lags is not None:
            landing = landing_after(landing, rewards, t, total, lags[0])
            total = landing / (lags[1] - lags[0])
        collected[chosen] += total
        plays[chosen] += 1.0
        averages[chosen] = collected[chosen] / plays[chosen]
        breadths[chosen] = 1.0 / math.sqrt(plays[chosen])
    return ((means.max() - means) * plays).sum()


if __name__ == "__main__":
    answer(f"numba {numba.__version__}", with_kernel(tuned_ucb1))
