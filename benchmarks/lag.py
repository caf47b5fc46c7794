"""How often the bands of `estimate_lag` are right: ``make bench-lag``.

Histories of worlds whose mean lag is known: the paper's bandits, and shops with a level that no arm makes, a daily and
weekly pattern, autocorrelated noise, drift and effects in flight. Where an estimate says that it knows, its 90 % band must hold
the true mean lag in at least 85 % of the histories, less twice the binomial error; in worlds without any effect it may say so
in one history of twenty. In the paper's bandits it must know in three quarters of the histories.

The constants of the estimate were tuned with seeds below 100,000, on worlds like those with a star at first, and then after
looks at this table. They are judged with seeds from 110,000 on, which none of them has seen.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small: threads within a fit cost more than they bring

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

import aftereffect as ae
from aftereffect.columns import aligned
from lag_worlds import WORLDS, World
from measure import verdict

MIN_RIGHT, MAX_FALSE, MIN_KNOWN = 0.85, 0.05, 0.75


class Answer(NamedTuple):
    """What one history tells, and the truth."""

    known: bool
    low: float
    high: float
    mean_lag: float

    @property
    def right(self) -> bool:
        """Whether the band holds the truth."""
        return self.low <= self.mean_lag <= self.high


def answer(world: World, seed: int) -> Answer:
    """One history, and what it tells."""
    played = world.play(seed)
    estimate = ae.estimate_lag((played.arms, played.totals))
    return Answer(estimate.known, estimate.low, estimate.high, played.mean_lag)


def judged(world: World, answers: list[Answer]) -> tuple[tuple[str, ...], bool]:
    """A row of the table, and whether what was promised holds."""
    runs = len(answers)
    told = [each for each in answers if each.known]
    share = len(told) / runs
    first = (world.name, str(world.arms), f"{world.slots:,}", str(runs), f"{share:.0%}")
    if not world.has_effects:
        kept = share <= MAX_FALSE + 2 * np.sqrt(MAX_FALSE * (1 - MAX_FALSE) / runs)
        return (*first, "-", "-", "-", verdict(kept)), kept
    mean_lag = f"{answers[0].mean_lag:.1f}"
    right = float(np.mean([each.right for each in told])) if told else float("nan")
    error = float(np.sqrt(MIN_RIGHT * (1 - MIN_RIGHT) / max(len(told), 1)))
    wide = float(np.median([each.high - each.low for each in told])) if told else float("nan")
    kept = (not told or right >= MIN_RIGHT - 2 * error) and (share >= MIN_KNOWN or world.chooses != "paper")
    shown = (f"{right:.0%} +- {error:.0%}", f"{wide:.1f}") if told else ("-", "-")
    return (*first, mean_lag, *shown, verdict(kept)), kept


def rows(worlds: list[World], runs: int, seed: int) -> Iterator[tuple[tuple[str, ...], bool]]:
    """One row per world; long histories are fewer."""
    with ProcessPoolExecutor() as pool:
        for world in worlds:
            few = max(runs // 2, 1) if world.slots * world.arms > 20_000 else runs
            seeds = range(seed, seed + few)
            yield judged(world, list(pool.map(partial(answer, world), seeds, chunksize=4)))


def main() -> int:
    """Print the table; 1 if a promise was not kept."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--runs", type=int, default=60, help="histories of each world; half as many of the largest")
    options.add_argument("--seed", type=int, default=110_000)
    options.add_argument("--only", default="", help="only worlds with this in their name")
    given = options.parse_args()
    worlds = [world for world in WORLDS if given.only in world.name]
    head = ("world", "arms", "slots", "runs", "known", "mean lag", "right where known", "width", "promised")
    found = []
    for row, kept in rows(worlds, given.runs, given.seed):
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        found.append((row, kept))
    print(aligned([head, *(row for row, _ in found)]))
    return 0 if all(kept for _, kept in found) else 1


if __name__ == "__main__":
    sys.exit(main())
