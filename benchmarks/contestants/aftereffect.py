"""aftereffect itself: one call, everything included."""

import aftereffect as ae
from contestants.protocol import Work, answer


def play(work: Work) -> list[float]:
    """The work on one thread."""
    spread = ae.Interval(*work.lags) if work.lags else ae.Immediate()
    environment = ae.StochasticBandit(work.means, spread)
    study = ae.simulate(work.policy, environment, work.horizon, work.replications, seed=work.seed, jobs=1)
    return study[0].final.tolist()


if __name__ == "__main__":
    answer(ae.__version__, play)
