"""UCB1 as one would write it by hand and compile with numba."""

import math

import numba
import numpy as np

from contestants.protocol import Work, answer


@numba.njit(nogil=True)
def landing_after(landing, rewards, t, reward, first):
    """The sum of the rewards with a share in slot t; `rewards` is a ring of the last slots."""
    end = len(rewards)
    landing -= rewards[t % end]
    rewards[t % end] = reward
    return landing + rewards[(t - first) % end]


@numba.njit(nogil=True)
def hand_written_ucb1(rng, means, horizon, lags=None):
    """UCB1 on a Bernoulli bandit as one would write it by hand, returning its pseudo-regret.

    Lags left out are left out when it is compiled, and cost nothing.
    """
    arms = len(means)
    plays, collected, best, regret = np.zeros(arms), np.zeros(arms), means.max(), 0.0
    if lags is not None:
        rewards, landing = np.zeros(lags[1]), 0.0
    for t in range(horizon):
        if t < arms:
            chosen = t
        else:
            chosen, highest, log_t = 0, -1.0, math.log(t)
            for arm in range(arms):
                index = collected[arm] / plays[arm] + math.sqrt(2.0 * log_t / plays[arm])
                if index > highest:
                    chosen, highest = arm, index
        total = 1.0 if rng.random() < means[chosen] else 0.0
        if lags is not None:
            landing = landing_after(landing, rewards, t, total, lags[0])
            total = landing / (lags[1] - lags[0])
        collected[chosen] += total
        plays[chosen] += 1.0
        regret += best - means[chosen]
    return regret


def with_kernel(kernel):
    """How to do a work with a compiled loop that plays one replication."""

    def play(work: Work) -> list[float]:
        rng, means, lags = (
            np.random.default_rng(work.seed),
            np.array(work.means),
            work.lags and tuple(work.lags),
        )
        return [kernel(rng, means, work.horizon, lags) for _ in range(work.replications)]

    return play


if __name__ == "__main__":
    answer(f"numba {numba.__version__}", with_kernel(hand_written_ucb1))
