"""How the order of arms changes regret, into a document: ``make arm-order``.

Policies that hold the first arm at the beginning learn more if it is a good one. The nine arms of
the paper stand best first in its settings. Here the same arms come in random orders.
"""

import sys
from pathlib import Path

import numpy as np

import aftereffect as ae
from tables import replace_between_markers

BEGIN, END = "<!-- order: written by make arm-order -->", "<!-- /order -->"
MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
DELAYS = ("uniform-delay(10, 30)", "interval(30, 39)", "uniform-delay(0, 200)", "geometric(0.8)")
POLICIES = ("settle-ucb", "dip-ucb", "ars-ucb")
HORIZON, ORDERS, RUNS, SEED = 100_000, 40, 50, 314_159
#: A run with more regret than this has stayed with a wrong arm to the end, or nearly.
STAYED = 5_000


def main() -> None:
    """Play all policies, and write the table."""
    rng = np.random.default_rng(SEED)
    orders = [rng.permutation(MEANS).tolist() for _ in range(ORDERS)]
    lines = [
        "| delay | policy | best arm first | random order | median | worst "
        "| stayed with a wrong arm |",
        "|---|---|---|---|---|---|---|",
    ]
    for delay in DELAYS:
        first = _play(delay, list(MEANS), ORDERS * RUNS, SEED)
        found = [_play(delay, means, RUNS, SEED + 1 + at) for at, means in enumerate(orders)]
        for number, policy in enumerate(POLICIES):
            lost = np.array([regret[number] for regret in found])
            # Runs of one order have the order in common.
            error = lost.mean(axis=1).std(ddof=1) / np.sqrt(ORDERS)
            lines.append(
                f"| `{delay}` | `{policy}` | {first[number].mean():,.0f} | "
                f"{lost.mean():,.0f} ± {error:,.0f} | {np.median(lost):,.0f} | {lost.max():,.0f} | "
                f"{np.mean(lost > STAYED):.1%} |"
            )
    said = (
        f"T = {HORIZON:,}, {ORDERS} orders with {RUNS} runs each; best arm first, as many runs "
        f"in all. A run with a regret of more than {STAYED:,} stayed with a wrong arm."
    )
    replace_between_markers(Path(sys.argv[1]), BEGIN, END, "\n".join([*lines, "", said]))


def _play(delay: str, means: list[float], runs: int, seed: int) -> list[np.ndarray]:
    study = ae.simulate(
        list(POLICIES), ae.StochasticBandit(means, ae.parse(delay)), HORIZON, runs, seed=seed
    )
    return [each.final for each in study]


if __name__ == "__main__":
    main()
