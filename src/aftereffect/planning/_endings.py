"""When a design ends, and whether it finds a lift.

A fixed switchback ends when it has compared the arms, and ships its best one. It finds a lift if a
t-test of its blocks says so: in every pass each arm has a block, the second half of which counts,
and differences between passes are taken out. Designs that record the probabilities of their draws
end when the stop rule says so, and find a lift if an interval that holds at every look says so
(`aftereffect.inference`). Others end with the horizon, and ship the arm that they played most.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.inference import Trial, follow
from aftereffect.planning._history import find_usual
from aftereffect.planning._worlds import World
from aftereffect.policies import FixedSwitchback

#: With which probability all intervals, or all tests, are right.
LEVEL = 0.95
#: Totals are at least this part of what is usual, where logarithms are taken.
_FLOOR = 0.02


def judge_by_rule(
    trial: Trial, world: World, limit: float, checks: Sequence[int]
) -> tuple[int | None, int, tuple[bool, ...]]:
    """When the rule stopped, which arm led then or at the end, and whether the best was found."""
    course = follow(trial, limit, LEVEL)
    at = len(course.slots) - 1 if course.stop is None else course.stop
    end = None if course.stop is None else int(course.slots[at])
    best = 1 + int(np.argmax(world.lifts[1:]))
    shown = course.slots[course.is_better[:, best]]
    first = int(shown[0]) if len(shown) else math.inf
    return end, int(course.leaders[at]), tuple(first <= check for check in checks)


def judge_fixed(
    design: FixedSwitchback, trial: Trial, world: World, checks: Sequence[int]
) -> tuple[int | None, int, tuple[bool, ...]]:
    """When arms had been compared, which one was best, and whether the best was found."""
    arms, block = trial.arms, design.block
    compared = design.blocks_per_arm * arms * block
    slots = len(trial.totals)
    shipped = int(trial.played[compared]) if compared < slots else _find_best_ratio(trial, block)
    best = 1 + int(np.argmax(world.lifts[1:]))
    values = measure_blocks(trial, block, compared)
    found = tuple(
        is_better(values[: min(check, compared) // (arms * block)], best, 0) for check in checks
    )
    return min(compared, slots), shipped, found


def _find_best_ratio(trial: Trial, block: int) -> int:
    """The arm with the largest mean over all blocks."""
    values = measure_blocks(trial, block, len(trial.totals))
    return int(np.argmax(values.mean(axis=0))) if len(values) else 0


def measure_blocks(trial: Trial, block: int, compared: int) -> Matrix:
    """Logarithms of totals over what is usual, in the second half of blocks, by pass and arm."""
    usual = _find_season(trial)
    count, arms = compared // block, trial.arms
    keep = slice(block // 2, None)
    known = ~np.isnan(trial.totals)
    totals, expected = (
        np.where(known, each, 0.0)[: count * block].reshape(count, block)[:, keep].sum(axis=1)
        for each in (trial.totals, usual)
    )
    is_usual = expected > 0  # not if all totals of the history were 0
    floored = np.maximum(totals, _FLOOR * expected)
    ratios = np.log(np.divide(floored, expected, out=np.ones_like(floored), where=is_usual))
    passes = count // arms
    values: Matrix = np.zeros((passes, arms))
    played = trial.played[: passes * arms * block : block].reshape(passes, arms)
    rows = np.repeat(np.arange(passes)[:, None], arms, axis=1)
    values[rows, played] = ratios[: passes * arms].reshape(passes, arms)
    return values


def _find_season(trial: Trial) -> Vector:
    """What is usual in the slots of a trial."""
    week, before = trial.week, len(trial.history)
    place = (int(trial.places[0]) - before) % week
    usual = find_usual(trial.history, place, week)
    season = np.zeros(week)
    season[(place + np.arange(before)) % week] = usual
    found: Vector = season[trial.places]
    return found


def is_better(values: Matrix, arm: int, other: int) -> bool:
    """Whether a t-test shows that an arm is better; all pairs of arms are tested together.

    >>> is_better(np.array([[0.0, 0.1], [0.01, 0.1], [0.0, 0.11], [0.01, 0.12]]), 1, 0)
    True
    """
    passes, arms = values.shape
    freedom = (passes - 1) * (arms - 1)
    if freedom < 1:
        return False
    left = values - values.mean(axis=1, keepdims=True)
    means = left.mean(axis=0)
    variance = float(((left - means) ** 2).sum()) / freedom
    error = math.sqrt(2 * variance / passes)
    alpha = (1 - LEVEL) / math.comb(arms, 2)
    return bool(means[arm] - means[other] > find_t(1 - alpha / 2, freedom) * error)


@cache
def find_t(chance: float, freedom: int) -> float:
    """The quantile of Student's t, for a chance above 1/2.

    >>> round(find_t(0.975, 10), 3)
    2.228
    """
    # With x = sqrt(freedom) tan(angle), the density is a power of the cosine of the angle.
    angles = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    sums = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2))
    angle = float(np.interp(2 * chance - 1, sums / sums[-1], angles))
    return math.sqrt(freedom) * math.tan(angle)
