"""What the engines cost, side by side with their rivals in the same run: ``make bench``.

Every promise is a ratio, or a time with its limit, and says whether it was kept; the exit status is 1 if one was not.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator

import numba
import numpy as np

import aftereffect as ae
from aftereffect.environments import EngineName
from contestants.numba_loop import hand_written_ucb1

MEANS = tuple(arm / 10 for arm in range(9, 0, -1))
SPREADS = (ae.Interval(30, 40), ae.LinearRise(100), ae.Geometric(0.9), ae.UniformDelay(10, 30))
#: How many times faster than a bare loop, by horizon.
PROMISED = {100_000: 1, 1_000_000: 5, 10_000_000: 25}
SLOPE_FROM, SLOPE_TO = 1_000_000, 1_000_000_000


@numba.njit(nogil=True)
def bare_loop(rng, slots):
    """One uniform number per slot and nothing else: no slot-by-slot simulator can be faster."""
    total = 0.0
    for _ in range(slots):
        total += rng.random()
    return total


def shortest(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of some repeats: the one least disturbed by the rest of the machine."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def replication(
    policy: ae.Policy, spread: ae.Spread, horizon: int, engine: EngineName, runs: int, repeats: int = 5, jobs: int = 1
) -> float:
    """Seconds per replication of a whole study, everything included but compilation."""
    environment = ae.StochasticBandit(MEANS, spread)
    ae.simulate(policy, environment, len(MEANS), 1, seed=1, engine=engine)  # compiled before the clock starts
    seconds = shortest(lambda: ae.simulate(policy, environment, horizon, runs, seed=1, engine=engine, jobs=jobs), repeats)
    return seconds / runs


def verdict(kept: bool) -> str:
    """How a promise ended, in one word."""
    return "kept" if kept else "MISSED"


def against_the_bare_loop() -> Iterator[bool]:
    """ARS-UCB with growth power(2): milliseconds per replication, and times faster than the rivals."""
    print("ARS-UCB, growth power(2), one core")
    print(
        f"{'spread':<22}{'T':>9}{'roundwise':>12}{'slotwise':>12}{'bare loop':>12}{'vs slotwise':>13}{'vs bare':>9}  promised"
    )
    rng = np.random.default_rng(1)
    bare_loop(rng, 1)
    for spread in SPREADS:
        for horizon, promised in PROMISED.items():
            fast = replication(ae.ArsUcb(), spread, horizon, "roundwise", 64)
            slow = replication(ae.ArsUcb(), spread, horizon, "slotwise", 1, repeats=1 if horizon > 100_000 else 3)
            bare = shortest(lambda slots=horizon: bare_loop(rng, slots))
            kept = bare / fast >= promised
            print(
                f"{spread!s:<22}{horizon:>9.0e}{fast * 1e3:>9.3f} ms{slow * 1e3:>9.1f} ms{bare * 1e3:>9.2f} ms"
                f"{slow / fast:>12.0f}x{bare / fast:>8.1f}x  {promised}x {verdict(kept)}"
            )
            yield kept


def against_the_horizon() -> Iterator[bool]:
    """How the cost of one replication grows with the horizon."""
    print("\nARS-UCB, growth power(2), roundwise, one core: cost against T")
    print(f"{'spread':<22}{f'T={SLOPE_FROM:.0e}':>12}{f'T={SLOPE_TO:.0e}':>12}{'exponent':>10}  promised")
    for spread in SPREADS:
        short, long = (replication(ae.ArsUcb(), spread, horizon, "roundwise", 64) for horizon in (SLOPE_FROM, SLOPE_TO))
        exponent = math.log(long / short) / math.log(SLOPE_TO / SLOPE_FROM)
        kept = exponent <= 0.45 and long <= 0.020
        print(
            f"{spread!s:<22}{short * 1e3:>9.3f} ms{long * 1e3:>9.3f} ms{exponent:>10.2f}  "
            f"at most 0.45, at most 20 ms {verdict(kept)}"
        )
        yield kept


def against_a_hand_written_loop() -> Iterator[bool]:
    """UCB1 without delay, where rounds have one slot and nothing can be skipped."""
    horizon, runs = 100_000, 64
    means, rng = np.array(MEANS), np.random.default_rng(1)
    hand_written_ucb1(rng, means, 10)
    theirs = shortest(lambda: hand_written_ucb1(rng, means, horizon * runs // 8)) / runs * 8
    ours = replication(ae.Ucb1(), ae.Immediate(), horizon, "roundwise", runs)
    kept = theirs / ours >= 0.9
    print(f"\nUCB1, immediate, T={horizon:.0e}, one core, million slots per second")
    print(
        f"hand-written numba loop {horizon / theirs / 1e6:.1f}, aftereffect {horizon / ours / 1e6:.1f}: "
        f"{theirs / ours:.2f} of it, at least 0.9 {verdict(kept)}"
    )
    yield kept


def two_threads() -> Iterator[bool]:
    """A study on one and on two threads."""
    settings = (ae.ArsUcb(), ae.Interval(30, 40), 10_000_000, "roundwise", 2_000)
    one, two = replication(*settings, repeats=7, jobs=1), replication(*settings, repeats=7, jobs=2)
    kept = one / two >= 1.7
    print(f"\n2,000 replications, interval(30, 40), T=1e+07: {one * 2_000:.2f} s on one thread, {two * 2_000:.2f} s on two:")
    print(f"{one / two:.2f}x, at least 1.7x {verdict(kept)}")
    yield kept


if __name__ == "__main__":
    parts = (against_the_bare_loop, against_the_horizon, against_a_hand_written_loop, two_threads)
    outcomes = [kept for part in parts for kept in part()]
    sys.exit(0 if all(outcomes) else 1)
