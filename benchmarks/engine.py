"""What the engines cost, side by side with their rivals in the same run: ``make bench``.

Every promise is a ratio and says whether it was kept; the exit status is 1 if one was not.
"""

import sys
from collections.abc import Iterator

import numba
import numpy as np

import aftereffect as ae
from contestants.numba_loop import hand_written_ucb1
from measure import DELAYS, MEANS, replication, shortest, verdict

#: How many times faster than a bare loop, by horizon.
PROMISED = {100_000: 1, 1_000_000: 5, 10_000_000: 25}


@numba.njit(nogil=True)
def bare_loop(rng, slots):
    """One uniform number per slot and nothing else: no slot-by-slot simulator can be faster."""
    total = 0.0
    for _ in range(slots):
        total += rng.random()
    return total


def against_the_bare_loop() -> Iterator[bool]:
    """ARS-UCB with growth power(2): milliseconds per replication, and the speed-up over rivals."""
    print("ARS-UCB, growth power(2), one core")
    print(
        f"{'delay':<22}{'T':>9}{'roundwise':>12}{'slotwise':>12}{'bare loop':>12}"
        f"{'vs slotwise':>13}{'vs bare':>9}  promised"
    )
    rng = np.random.default_rng(1)
    bare_loop(rng, 1)
    for delay in DELAYS:
        for horizon, promised in PROMISED.items():
            fast = replication(ae.ArsUcb(), delay, horizon, "roundwise", 64)
            slow = replication(
                ae.ArsUcb(), delay, horizon, "slotwise", 1, repeats=1 if horizon > 100_000 else 3
            )
            bare = shortest(lambda slots=horizon: bare_loop(rng, slots))
            kept = bare / fast >= promised
            print(
                f"{delay!s:<22}{horizon:>9.0e}{fast * 1e3:>9.3f} ms"
                f"{slow * 1e3:>9.1f} ms{bare * 1e3:>9.2f} ms"
                f"{slow / fast:>12.0f}x{bare / fast:>8.1f}x  {promised}x {verdict(kept)}"
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
        f"hand-written numba loop {horizon / theirs / 1e6:.1f}, "
        f"aftereffect {horizon / ours / 1e6:.1f}: "
        f"{theirs / ours:.2f} of it, at least 0.9 {verdict(kept)}"
    )
    yield kept


if __name__ == "__main__":
    parts = (against_the_bare_loop, against_a_hand_written_loop)
    outcomes = [kept for part in parts for kept in part()]
    sys.exit(0 if all(outcomes) else 1)
