"""aftereffect itself: one call, everything included."""

import aftereffect as ae
from contestants.protocol import Work, answer


def play(work: Work) -> list[float]:
    """The work on one thread."""
    delay = ae.Interval(work.lags[0], work.lags[1] - 1) if work.lags else ae.Immediate()
    bandit = ae.StochasticBandit(work.means, delay)
    study = ae.simulate(
        work.policy, bandit, work.horizon, work.replications, seed=work.seed, jobs=1
    )
    return study[0].final.tolist()


if __name__ == "__main__":
    answer(ae.__version__, play)
