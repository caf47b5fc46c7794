"""What an arm costs that is added while an experiment runs, beside one from the start.

``make new-arms``. Live experiments replay a real series by hours, with lifts and a delay that are
drawn. In one, an arm is added after two weeks. Another begins at that time with all three arms, and
two more play without the new arm. The cost of the arm is what is lost in the four weeks that follow
more than without it, if it is worse than another one; if it is the best, it is all that is lost
there until it is found. The claim is that an arm that is added costs at most 1.2 times as much.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import aftereffect as ae
from aftereffect.rewards import read_dated_totals

SERIES = str(Path(__file__).parent / "data" / "traffic.csv.gz")
WEEK, SEED = 168, 20_000
#: Weeks of the history, before the arm is added, and after that.
SEEN, BEFORE, AFTER = 8, 2, 4
#: The lift of the second arm, and those of the arm that is added.
SECOND, NEW = 0.06, {"worse": -0.06, "the best": 0.15}
#: The largest ratio of the costs.
MOST = 1.2


def draw_demand(rng: np.random.Generator, slots: int) -> NDArray[np.float64]:
    """Some weeks of the series with hardly a gap, and a little noise."""
    known = read_dated_totals(SERIES, "1h").totals
    while True:
        begin = WEEK * int(rng.integers((len(known) - slots) // WEEK))
        found = known[begin : begin + slots]
        if np.isnan(found).mean() < 0.02:
            filled = np.where(np.isnan(found), np.nanmean(found), found)
            return filled * np.exp(rng.normal(0, 0.02, slots))


def play(
    number: int,
    demand: NDArray[np.float64],
    begin: int,
    added: int,
    lifts: dict[str, float],
    mean_lag: float,
) -> float:
    """What is lost from slot `added` on, in slots of the best arm; a third arm comes then, if any.

    The experiment begins in slot `begin`; before, the first arm was played.
    """
    shares = (1 - 1 / (mean_lag + 1)) ** np.arange(8 * int(mean_lag + 1))
    shares /= shares.sum()
    first = list(lifts)[: 2 if begin < added else 3]
    brought = demand.copy()
    arrived = np.convolve(brought, shares)[: len(demand)]
    experiment = ae.Experiment.create(
        "series",
        arms=first,
        slot="1h",
        start="2026-03-02",
        history=arrived[begin - SEEN * WEEK : begin].tolist(),
        seed=number,
        storage="memory://",
    )
    lost, best = 0.0, max(lifts.values())
    for slot in range(begin, len(demand)):
        if slot == added and len(first) < len(lifts):
            experiment.change_arms(add=list(lifts)[2:])
        arm = experiment.ask(slot - begin).arm
        brought[slot] *= np.exp(lifts[arm])
        reach = brought[max(slot - len(shares) + 1, 0) : slot + 1]
        experiment.tell(slot - begin, float(reach @ shares[: len(reach)][::-1]), confirm=True)
        if slot >= added:
            lost += demand[slot] * (np.exp(best) - np.exp(lifts[arm]))
    experiment.close()
    return float(lost / demand[added:].mean() / np.exp(best))


def compare(number: int, lift: float) -> tuple[float, float]:
    """What the arm costs that is added, and what it would have cost from the start."""
    rng = np.random.default_rng([SEED, number])
    demand = draw_demand(rng, (SEEN + BEFORE + AFTER) * WEEK)
    mean_lag = float(rng.uniform(1, 12))
    two = {"A": 0.0, "B": SECOND}
    three, early, late = two | {"C": lift}, SEEN * WEEK, (SEEN + BEFORE) * WEEK
    costs = [play(number, demand, begin, late, three, mean_lag) for begin in (early, late)]
    if lift < SECOND:
        costs = [
            cost - play(number, demand, begin, late, two, mean_lag)
            for cost, begin in zip(costs, (early, late), strict=True)
        ]
    return costs[0], costs[1]


def main() -> int:
    """Print the costs; 1 if the claim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=64)
    runs = parser.parse_args().runs
    is_kept = True
    for name, lift in NEW.items():
        found = np.array([compare(number, lift) for number in range(runs)])
        (added, start), errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(runs)
        rng = np.random.default_rng(SEED)
        again = found[rng.integers(runs, size=(2_000, runs))].mean(axis=1)
        error = float(np.std(again[:, 0] / again[:, 1]))
        is_kept &= added / start <= MOST
        print(
            f"the new arm is {name}: added it costs {added:.1f} ± {errors[0]:.1f} slots, from the "
            f"start {start:.1f} ± {errors[1]:.1f}: {added / start:.2f} ± {error:.2f} times as much",
            flush=True,
        )
    print(f"claim: at most {MOST} times as much: {'kept' if is_kept else 'missed'}")
    return not is_kept


if __name__ == "__main__":
    sys.exit(main())
