"""Made-up totals of several units, and a plain regression on them, apart from the package."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np


class UnitWorld(NamedTuple):
    """By slot and unit: totals, arms; and the slots in which blocks begin."""

    totals: np.ndarray
    arms: np.ndarray
    starts: np.ndarray


def deal(rng, units, chances):
    """A balanced deal by another route than the package: numbers of units first, then a shuffle."""
    ends = np.append(0, np.cumsum(chances) * units)
    points = np.arange(units) + rng.random()
    counts = [((points >= low) & (points < high)).sum() for low, high in pairwise(ends)]
    arms = np.repeat(np.arange(len(chances)), counts)
    arms = np.append(arms, np.full(units - len(arms), len(chances) - 1))
    rng.shuffle(arms)
    return arms


def make_world(
    seed, units=6, slots=240, block=4, lifts=(0.0, 0.1), shares=(1.0,), noise=0.05, drift=0.0
):
    """Totals of units with sizes of their own, white noise, and a random walk in common."""
    rng = np.random.default_rng(seed)
    starts = np.arange(0, slots, block)
    chances = np.full(len(lifts), 1 / len(lifts))
    arms = np.repeat([deal(rng, units, chances) for _ in starts], block, axis=0)[:slots]
    raised = 1 + np.array(lifts)[arms]
    arrived = np.zeros_like(raised)
    for lag, share in enumerate(shares):
        arrived += share * np.vstack([np.ones((lag, units)), raised[: slots - lag]])
    sizes = np.exp(rng.normal(0, 1, units))
    walk = np.cumsum(rng.normal(0, drift, slots)) if drift else np.zeros(slots)
    white = rng.normal(0, noise, (slots, units))
    return UnitWorld(100 * sizes * arrived * np.exp(walk[:, None] + white), arms, starts)


def regress(world, shares, arms):
    """Least squares of logarithms on a level per unit, an effect per slot, and what arrives."""
    slots, units = world.totals.shape
    columns = [np.kron(np.ones((slots, 1)), np.eye(units))]
    columns.append(np.kron(np.eye(slots), np.ones((units, 1)))[:, 1:])
    for arm in range(1, arms):
        exposure = np.zeros((slots, units))
        for lag, share in enumerate(shares):
            exposure[lag:] += share * (world.arms[: slots - lag] == arm)
        columns.append(exposure.reshape(-1, 1))
    design = np.hstack(columns)
    line = np.log(world.totals).ravel()
    inverse = np.linalg.inv(design.T @ design)
    found = inverse @ design.T @ line
    left = line - design @ found
    variance = left @ left / (len(line) - design.shape[1])
    lifts = arms - 1
    return found[-lifts:], variance * inverse[-lifts:, -lifts:]
