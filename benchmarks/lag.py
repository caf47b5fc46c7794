"""How often the bands of `estimate_lag` are right: ``make bench-lag``.

Histories of ARS-UCB with nine arms and 5,000 slots, 200 of each setting. Bands of 90 % should hold the true mean lag in 85 to
97 % of the histories that can tell, and at most a tenth should say that they cannot. Settings without a promise are for
information: their reach is infinite, or their shares end slowly.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small: threads within a fit cost more than they bring

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import aftereffect as ae
from aftereffect.columns import aligned
from aftereffect.simulation.trace import traced
from measure import MEANS, verdict

SLOTS = 5_000
RIGHT, MOST_UNKNOWN = (0.85, 0.97), 0.1
PROMISED: tuple[ae.Spread, ...] = (
    ae.Interval(5, 16),
    ae.UniformDelay(5, 15),
    ae.Interval(35, 46),
    ae.UniformDelay(20, 60),
    ae.Interval(80, 121),
    ae.UniformDelay(50, 150),
    ae.Interval(0, 21),
    ae.UniformDelay(0, 20),
    ae.Interval(0, 81),
    ae.UniformDelay(0, 80),
    ae.Interval(0, 201),
    ae.UniformDelay(0, 200),
)
FURTHER: tuple[ae.Spread, ...] = (ae.Geometric(0.9), ae.LinearDecay(100), ae.LinearRise(50), ae.Immediate(), ae.PowerLaw(3))


def estimated(spread: ae.Spread, seed: int, replication: int) -> ae.LagEstimate:
    """One history, and what it tells."""
    return ae.estimate_lag(traced(ae.ArsUcb(), ae.StochasticBandit(MEANS, spread), SLOTS, seed, replication))


def judged(spread: ae.Spread, estimates: list[ae.LagEstimate], *, promised: bool) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether what was promised holds."""
    told = [each for each in estimates if each.known]
    right = float(np.mean([each.low <= spread.mean_lag <= each.high for each in told])) if told else 0.0
    unknown = 1 - len(told) / len(estimates)
    wide = float(np.mean([each.high - each.low for each in told])) if told else float("nan")
    error = float(np.mean([each.mean for each in told]) - spread.mean_lag) if told else float("nan")
    kept = RIGHT[0] <= right <= RIGHT[1] and unknown <= MOST_UNKNOWN
    shown = (str(spread), f"{spread.mean_lag:.1f}", f"{right:.1%}", f"{wide:.1f}", f"{error:+.2f}", f"{unknown:.1%}")
    return (*shown, verdict(kept) if promised else "-"), kept or not promised


def rows(histories: int, seed: int) -> Iterator[tuple[tuple[str, ...], bool]]:
    """One row per setting."""
    with ProcessPoolExecutor() as pool:
        for spread in (*PROMISED, *FURTHER):
            estimates = list(pool.map(partial(estimated, spread, seed), range(histories), chunksize=10))
            yield judged(spread, estimates, promised=spread in PROMISED)


def main() -> int:
    """Print the table; 1 if a promise was not kept."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--histories", type=int, default=200)
    options.add_argument("--seed", type=int, default=3)
    given = options.parse_args()
    found = list(rows(given.histories, given.seed))
    head = ("spread", "mean lag", "right", "width", "error", "cannot tell", "promised")
    print(f"90 % bands of the mean lag, from {given.histories} histories of {SLOTS:,} slots each")
    print(aligned([head, *(row for row, _ in found)]))
    return 0 if all(kept for _, kept in found) else 1


if __name__ == "__main__":
    sys.exit(main())
