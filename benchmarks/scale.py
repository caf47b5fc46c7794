"""What two cores bring to a study of ten seconds: threads, processes, Dask: ``make bench``.

Every result must be the serial one, bit for bit; the exit status is 1 if a promise was not kept.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import aftereffect as ae
from aftereffect._core import text_table
from aftereffect.simulation import dask_cluster
from measure import MEANS, duration, verdict

CORES, PROMISED = 2, 1.7
POLICIES, ENVIRONMENT, HORIZON, REPLICATIONS = (
    ["ars-ucb", "ucb1"],
    ae.StochasticBandit(MEANS, ae.Interval(30, 39)),
    10**6,
    280,
)


def played(**who: object) -> tuple[ae.Study, float]:
    """The study and how long it took."""
    start = time.perf_counter()
    study = ae.simulate(POLICIES, ENVIRONMENT, HORIZON, REPLICATIONS, seed=1, **who)
    return study, time.perf_counter() - start


def main() -> int:
    """Measure and print; the exit status."""
    ae.simulate(POLICIES, ENVIRONMENT, 100, 2, seed=1)  # compiled before the clock starts
    serial, alone = played(jobs=1)
    times = {}
    with ProcessPoolExecutor(CORES) as pool, dask_cluster("local", CORES) as cluster:
        ways = {
            "threads": {"jobs": CORES},
            "processes": {"executor": pool, "jobs": CORES},
            "dask workers": {"executor": cluster.executor, "jobs": cluster.jobs},
        }
        for way, who in ways.items():
            ae.simulate(
                POLICIES, ENVIRONMENT, 100, 2 * CORES, seed=1, **who
            )  # workers have started, and loaded the code
            study, times[way] = played(**who)
            if not all(
                np.array_equal(a.regret, b.regret) for a, b in zip(serial, study, strict=True)
            ):
                raise SystemExit(f"{way} gave another result")
    rows = [("", "seconds", "speed-up"), ("serial", duration(alone), "")]
    rows += [
        (f"{CORES} {way}", duration(seconds), f"{alone / seconds:.2f}x")
        for way, seconds in times.items()
    ]
    kept = alone / times["threads"] >= PROMISED
    print(f"{', '.join(POLICIES)}; {REPLICATIONS} replications each, T = {HORIZON:.0e}")
    print(text_table(rows))
    print(f"threads at least {PROMISED}x: {verdict(kept)}; all results equal, bit for bit")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
