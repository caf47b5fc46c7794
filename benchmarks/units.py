"""What several units bring: how soon experiments stop, what they lose, and how often they err.

``make units``. Units are played in a made-up world and on a real series. In both, a drift is common
to all units, and each has a size, a season, a level and noise of its own. What is finished is kept
in a folder, so that a run can be stopped and continued by the same code, and ``--tables`` writes
what is there.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import aftereffect as ae
from aftereffect import inference, policies
from aftereffect._core import Calendar, Matrix, Slots, Vector, check_writable, sources_digest
from aftereffect.inference import Trial, UnitTrial, analyse, follow
from aftereffect.inference._sequence import EFFECTS
from aftereffect.policies import UnitPolicy
from aftereffect.rewards import read_history
from aftereffect.simulation import load_decide
from tables import replace_between_markers, split_at_markers

BEGIN, END = "<!-- units: written by make units -->", "<!-- /units -->"
SERIES = Path(__file__).parent / "data" / "traffic.csv.gz"
SEED = 41_000
#: Slots of four hours.
PER_DAY, HOURS = 6, 4
WEEK = 7 * PER_DAY
#: Weeks of history.
BEFORE = 4
#: Effects arrive evenly over twelve hours.
SHARES = np.full(3, 1 / 3)
#: The part of the mean total below which the rule stops.
LOSS = 0.001


class World(NamedTuple):
    """Standard deviations, as parts of a total: of the common level, and of level and noise."""

    name: str
    common: float
    level: float
    noise: float
    memory: float
    is_real: bool = False


JUDGED = (
    World("made up", common=0.15, level=0.05, noise=0.08, memory=0.9),
    World("traffic", common=0.0, level=0.05, noise=0.08, memory=0.9, is_real=True),
)


def draw_demand(world: World, units: int, weeks: int, rng: np.random.Generator) -> Matrix:
    """What comes by slot and unit, from the history on, if all play the control."""
    count = (weeks + BEFORE) * WEEK
    times = np.arange(count)[:, None]
    if world.is_real:
        series = read_real()
        begin = WEEK * int(rng.integers((len(series) - count) // WEEK))
        season = series[begin : begin + count, None]
    else:
        phases = 2 * np.pi * times / PER_DAY + rng.normal(0, 0.3, units)
        days = 2 * np.pi * (times // PER_DAY) / 7 + rng.normal(0, 0.3, units)
        season = (1 + 0.5 * np.sin(phases)) * (1 + 0.25 * np.sin(days))
    wander = draw_level(world.common, world.memory, (count, 1), rng)
    wander = wander + draw_level(world.level, world.memory, (count, units), rng)
    sizes = np.exp(rng.normal(0, 1, units))
    demand: Matrix = sizes * season * np.exp(wander + rng.normal(0, world.noise, (count, units)))
    return demand


def draw_level(spread: float, memory: float, shape: tuple[int, int], rng: Any) -> Matrix:
    """Levels that wander: AR(1), by slot and column."""
    steps = rng.normal(0, spread * np.sqrt(1 - memory**2), shape)
    level = np.zeros(shape)
    level[0] = rng.normal(0, spread, shape[1])
    for slot in range(1, shape[0]):
        level[slot] = memory * level[slot - 1] + steps[slot]
    return level


@cache
def read_real() -> Vector:
    """The real series in slots of four hours, from a Monday on."""
    series, place, _ = read_history(str(SERIES), "1h")
    series = series[-place % (7 * 24) :]
    series = series[: len(series) // (7 * 24) * 7 * 24]
    totals: Vector = series.reshape(-1, HOURS).sum(axis=1)
    return totals


class Played(NamedTuple):
    """A finished experiment: by slot and unit, and by block."""

    totals: Matrix
    history: Matrix
    arms: Slots
    starts: list[int]
    probabilities: list[Vector]
    lost: float

    def trial(self) -> UnitTrial:
        """What inference gets."""
        starts, chances = np.array(self.starts), np.array(self.probabilities)
        slots, units = self.totals.shape
        return UnitTrial(
            tuple(
                Trial(
                    totals=self.totals[:, unit],
                    played=self.arms[:, unit],
                    starts=starts,
                    decided=self.arms[starts, unit],
                    probabilities=chances,
                    places=np.arange(slots) % WEEK,
                    calendar=Calendar(PER_DAY),
                    history=self.history[:, unit],
                )
                for unit in range(units)
            )
        )


def play(policy: ae.Policy, lifts: Vector, demand: Matrix, seed: int) -> Played:
    """Play all units: together, or a single one with a policy of its own."""
    slots, units = len(demand) - BEFORE * WEEK, demand.shape[1]
    arms, lead, nothing = len(lifts), BEFORE * WEEK, np.zeros((units, 0))
    policy = policy.with_calendar(Calendar(PER_DAY))
    params, rng, kernels = policy.params(arms, slots), np.random.default_rng(seed), policy.kernels()
    is_together = isinstance(policy, UnitPolicy)
    if is_together:
        state, decide = policy.initial_for_units(arms, units, len(demand)), kernels.decide
    else:
        state, decide = policy.initial_for(arms, len(demand)), load_decide(policy)
    brought, totals = demand.copy(), np.zeros_like(demand)
    played = np.zeros((slots, units), int)
    choices = np.zeros(units, int)
    left, starts, chances = 0, [], []
    for row in range(len(demand)):
        slot = row - lead
        if slot >= 0 and left == 0:
            decided = decide(state, params, slot, rng)
            choices, left = (state.choices.astype(int), decided) if is_together else (
                np.full(1, int(decided[0])), int(decided[1])
            )
            starts.append(slot)
            chances.append((state.probabilities[0] if is_together else state.probabilities).copy())
        if slot >= 0:
            played[slot], left = choices, left - 1
            brought[row] *= 1 + lifts[choices]
        reach = brought[max(row - len(SHARES) + 1, 0) : row + 1]
        totals[row] = SHARES[: len(reach)][::-1] @ reach
        if is_together:
            kernels.observe(state, params, slot, choices, totals[row], nothing)
        else:
            kernels.observe(state, params, slot, int(choices[0]), totals[row, 0], nothing[0])
    after, best = demand[lead:], lifts.max()
    lost = 100 * (after * (best - lifts[played])).sum() / (after.sum() * (1 + best))
    return Played(totals[lead:], totals[:lead], played, starts, chances, float(lost))
