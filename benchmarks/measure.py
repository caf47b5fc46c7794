"""How the benchmarks measure."""

import time
from collections.abc import Callable

import aftereffect as ae
from aftereffect.bandits import EngineName

MEANS = tuple(arm / 10 for arm in range(9, 0, -1))
DELAYS = (ae.Interval(30, 39), ae.LinearRise(100), ae.Geometric(0.9), ae.UniformDelay(10, 30))


def shortest(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of some repeats, the one that other processes disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def replication(
    policy: ae.Policy,
    delay: ae.delays.LagLaw,
    horizon: int,
    engine: EngineName,
    runs: int,
    repeats: int = 5,
    jobs: int = 1,
) -> float:
    """Seconds per replication of a whole study, everything included but compilation."""
    bandit = ae.StochasticBandit(MEANS, delay)
    ae.simulate(
        policy, bandit, len(MEANS), 1, seed=1, engine=engine
    )  # compiled before the clock starts
    seconds = shortest(
        lambda: ae.simulate(policy, bandit, horizon, runs, seed=1, engine=engine, jobs=jobs),
        repeats,
    )
    return seconds / runs


def verdict(kept: bool) -> str:
    """How a promise ended, in one word."""
    return "kept" if kept else "MISSED"


def processor_seconds(
    policy: ae.Policy, bandit: ae.Bandit, horizon: int, runs: int = 8, repeats: int = 3
) -> float:
    """Processor time of one replication alone, without what a study costs once."""
    ae.simulate(policy, bandit, bandit.arms, 1, seed=1)  # compiled before the clock starts
    studies = (ae.simulate(policy, bandit, horizon, runs, seed=1, jobs=1) for _ in range(repeats))
    return min(study.runs[0].seconds for study in studies) / runs


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    scale, unit = next(
        (scale, unit)
        for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "us"))
        if seconds * scale >= 1 or unit == "us"
    )
    return f"{seconds * scale:.3g} {unit}"
