"""What is lost when every total is restated for three days, beside what is lost with clean totals.

``make restated``. Live experiments replay a real series by hours, with four arms and the delays of
`make real`. A feed tells each total at once, up to 10 % too high or too low, and corrects it after
one, two and three days, when it is right. Another feed is right at once. Both have the same demand,
arms and seed. A third pair has the same clean totals, but other seeds of the policy: it says how
far two runs differ by chance. The claim is that restated totals cost at most 5 % more.
"""

import argparse
import sys

import numpy as np
from numpy.typing import NDArray

import aftereffect as ae
from new_arms import SEEN, WEEK, draw_demand

SEED, WEEKS = 30_000, 8
LIFTS = {"A": 0.0, "B": 0.05, "C": 0.1, "D": 0.2}
DELAYS = {
    "fading, mean 4 h": "geometric(0.75)",
    "evenly 0 to 23 h": "interval(0, 23)",
    "evenly 12 to 35 h": "interval(12, 35)",
}
#: The slots after which a total is told again, the largest error at first, and the claim.
AGES, ERROR, MOST = (0, 24, 48, 72), 0.1, 1.05


def play(
    seed: int, demand: NDArray[np.float64], shares: NDArray[np.float64], errors: NDArray[np.float64]
) -> float:
    """The lost share of the demand, in percent, if totals have these errors when they are new."""
    begin, brought, truth = SEEN * WEEK, demand.copy(), np.zeros(len(demand))
    experiment = ae.Experiment.create(
        "series",
        arms=list(LIFTS),
        slot="1h",
        start="2026-03-02",
        history=demand[:begin].tolist(),
        seed=seed,
        storage="memory://",
    )
    lost, best = 0.0, max(LIFTS.values())
    for slot in range(begin, len(demand)):
        lift = LIFTS[experiment.ask(slot - begin).arm]
        brought[slot] *= 1 + lift
        lost += demand[slot] * (best - lift)
        reach = brought[max(slot - len(shares) + 1, 0) : slot + 1]
        truth[slot] = reach @ shares[: len(reach)][::-1]
        told = {
            slot - age - begin: truth[slot - age] * (1 + errors[slot - age] * (1 - age / AGES[-1]))
            for age in (AGES if errors.any() else AGES[:1])
            if slot - age >= begin
        }
        experiment.tell_many(told, revise=True, confirm=True)
    return float(100 * lost / demand[begin:].sum())


def main() -> int:
    """Print what is lost; 1 if the claim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="per delay")
    runs = parser.parse_args().runs
    rows = []
    for name, delay in DELAYS.items():
        law = ae.parse(delay, ae.delays.LagLaw)
        shares = law.share(np.arange(200))
        found = []
        for number in range(runs):
            rng = np.random.default_rng([SEED, number])
            demand = draw_demand(rng, (SEEN + WEEKS) * WEEK)
            errors = rng.uniform(-ERROR, ERROR, len(demand))
            clean = errors * 0
            found.append(
                (
                    play(number, demand, shares, errors),
                    play(number, demand, shares, clean),
                    play(number + SEED, demand, shares, clean),
                )
            )
        rows += found
        show(name, np.array(found))
    ratio, error = show("all delays", np.array(rows))
    is_missed, is_kept = ratio - 2 * error > MOST, ratio + 2 * error <= MOST
    verdict = "kept" if is_kept else "missed" if is_missed else "open, as the error is too large"
    print(f"claim: at most {MOST} times as much: {verdict}")
    return int(is_missed)


def show(name: str, found: NDArray[np.float64]) -> tuple[float, float]:
    """Print the losses of some pairs, and return the ratio of the first two with its error."""
    rng = np.random.default_rng(SEED)
    restated, clean, other = found.mean(axis=0)
    again = found[rng.integers(len(found), size=(2_000, len(found)))].mean(axis=1)
    error, chance = (np.std(again[:, at] / again[:, 1]) for at in (0, 2))
    print(
        f"{name}: restated {restated:.2f} %, clean {clean:.2f} %: {restated / clean:.3f} ± "
        f"{error:.3f} times as much; by chance {other / clean:.3f} ± {chance:.3f}",
        flush=True,
    )
    return float(restated / clean), float(error)


if __name__ == "__main__":
    sys.exit(main())
