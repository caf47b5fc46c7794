"""What one replication costs by horizon, number of arms, and reach: ``make bench``.

Processor time of ARS-UCB with rounds of k^2 slots on the fast engine, and of naive UCB1, which
plays slot by slot. Every promise says whether it was kept; the exit status is 1 if one was not.
"""

import math
import resource
import sys
from collections.abc import Iterator

import numpy as np

import aftereffect as ae
from aftereffect._core import text_table
from measure import DELAYS, MEANS, duration, processor_seconds, verdict

HORIZONS = [10**power for power in range(4, 13)]
SLOPE_FROM, SLOPE_TO, STEEPEST = 10**6, 10**12, 0.4
LONGEST_SECONDS = 0.3
ARMS, MANY_ARMS_SECONDS = (2, 10, 100, 1_000, 10_000), 5
REACHES = (1, 10, 100, 1_000, 10_000)
LARGEST_GROWTH_MB = 16


def against_the_horizon() -> Iterator[bool]:
    """Sublinear: the exponent is 1/3 once rounds are longer than the reach."""
    print(
        f"ARS-UCB, {len(MEANS)} arms: one replication against T; "
        f"exponent from {SLOPE_FROM:.0e} to {SLOPE_TO:.0e}"
    )
    rows = [("spread", *(f"{horizon:.0e}" for horizon in HORIZONS), "exponent", "promised")]
    outcomes = []
    for delay in (*DELAYS, ae.Immediate()):
        bandit = ae.StochasticBandit(MEANS, delay)
        cost = {horizon: processor_seconds(ae.ArsUcb(), bandit, horizon) for horizon in HORIZONS}
        exponent = math.log(cost[SLOPE_TO] / cost[SLOPE_FROM]) / math.log(SLOPE_TO / SLOPE_FROM)
        outcomes.append(exponent <= STEEPEST and cost[SLOPE_TO] <= LONGEST_SECONDS)
        promised = f"at most {STEEPEST}, and {LONGEST_SECONDS} s: {verdict(outcomes[-1])}"
        rows.append((str(delay), *map(duration, cost.values()), f"{exponent:.2f}", promised))
    print(text_table(rows))
    yield from outcomes


def memory() -> Iterator[bool]:
    """The same for any horizon."""
    bandit = ae.StochasticBandit(MEANS, ae.Interval(30, 39))
    peaks = []
    for horizon in (10**6, 10**12):
        processor_seconds(ae.ArsUcb(), bandit, horizon)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    growth = peaks[1] - peaks[0]
    kept = growth <= LARGEST_GROWTH_MB
    print(
        f"\npeak memory after T = 1e6: {peaks[0]:.0f} MB; after T = 1e12: {growth:.0f} MB more, ",
        end="",
    )
    print(f"at most {LARGEST_GROWTH_MB} {verdict(kept)}")
    yield kept


def against_the_arms() -> Iterator[bool]:
    """Arms evenly between .9 and .1; with many of them most time goes into choosing."""
    horizon = 10**7
    print(
        f"\none replication against the number of arms, interval(30, 39); "
        f"ARS-UCB at T = {horizon:.0e}, UCB1 at T = 1e5"
    )
    rows = [("arms", "ars-ucb", "ucb1")]
    for arms in ARMS:
        bandit = ae.StochasticBandit(tuple(np.linspace(0.9, 0.1, arms)), ae.Interval(30, 39))
        rounds = processor_seconds(ae.ArsUcb(), bandit, horizon, runs=1)
        slots = processor_seconds(ae.Ucb1(), bandit, 10**5, runs=1)
        rows.append((f"{arms:,}", duration(rounds), duration(slots)))
    print(text_table(rows, left=0))
    kept = rounds <= MANY_ARMS_SECONDS
    print(
        f"ARS-UCB with {ARMS[-1]:,} arms: {duration(rounds)}, "
        f"at most {MANY_ARMS_SECONDS} s {verdict(kept)}"
    )
    yield kept


def against_the_reach() -> Iterator[bool]:
    """Only pulls within one reach of a round's edges are drawn one by one."""
    print(
        f"\none replication against the reach, {len(MEANS)} arms; "
        "ARS-UCB at T = 1e7, UCB1 at T = 1e5"
    )
    rows = [("spread", "ars-ucb", "ucb1")]
    for reach in REACHES:
        for delay in (ae.Interval(0, reach), ae.LinearRise(reach), ae.UniformDelay(0, reach)):
            bandit = ae.StochasticBandit(MEANS, delay)
            costs = [
                processor_seconds(policy, bandit, horizon, runs=2)
                for policy, horizon in ((ae.ArsUcb(), 10**7), (ae.Ucb1(), 10**5))
            ]
            rows.append((str(delay), *map(duration, costs)))
    print(text_table(rows))
    yield True


if __name__ == "__main__":
    outcomes = [
        kept
        for part in (against_the_horizon, memory, against_the_arms, against_the_reach)
        for kept in part()
    ]
    sys.exit(0 if all(outcomes) else 1)
