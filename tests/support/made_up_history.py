"""Histories for plans: days with a season, and a level that wanders."""

import math

import numpy as np

WEEK = (60, 80, 90, 100, 120, 150, 70)


def make_history(weeks, deviation=0.05, memory=0.0, seed=1):
    """Days from a Monday on: a season, a level that wanders, or noise if it has no memory."""
    rng, level, totals = np.random.default_rng(seed), 0.0, []
    for day in range(7 * weeks):
        level = memory * level + deviation * math.sqrt(1 - memory**2) * rng.standard_normal()
        totals.append(WEEK[day % 7] * math.exp(level))
    return np.array(totals)
