"""What AdaptiveSwitchback remembers of its slots, and what they say as windows of a few slots."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Vector
from aftereffect.policies._demand_model import LIFTS

#: Entries of ``state.marks``: slots before slot 0; slots so far, and those whose weights are summed
#: up; windows that are folded, and when to fit them again; whether it has begun, and has a season;
#: the length of the last block, and the number of decisions; number and mean of the totals.
(BEFORE, SLOTS, SUMMED, FOLDED, REFIT, BEGUN, HAS_SEASON, LENGTH, DECISIONS, COUNT, SCALE) = range(
    11
)
MARKS = 11
DAYS = 7
#: What stands for a total of 0 in logarithms, as a part of what is usual.
_FLOOR = 0.02


class AdaptiveParams(NamedTuple):
    """The calendar in slots, the slots of a window, and shapes of delay by row."""

    week: int
    first: int
    window: int
    first_lags: Matrix
    stop_lags: Matrix
    lag_shares: Matrix
    mean_lags: Vector


class AdaptiveState(NamedTuple):
    """What was played and observed by slot, and the posterior of each model by row.

    The fields from `shares` on are scratch space: kernels make no arrays.
    """

    totals: Vector
    arms: Vector
    covariates: Matrix
    sums: Matrix
    marks: Vector
    shape: Vector
    noise: Vector
    factors: Vector
    smoothing: Matrix
    corrections: Vector
    means: Matrix
    covariances: NDArray[np.float64]
    evidence: Vector
    visits: Vector
    probabilities: Vector
    shares: Vector
    season: Vector
    reference: Vector
    products: Vector
    gains: Vector
    residuals: Vector
    scratch: Vector
    factor: Matrix
    normals: Vector


def observe(
    state: AdaptiveState,
    params: AdaptiveParams,
    t: int,
    arm: int,
    total: float,
    covariates: Vector,
) -> None:
    """Record a slot; what follows from it is learned with the next decision."""
    marks = state.marks
    if t < 0 and marks[SLOTS] == 0.0:
        marks[BEFORE] = -t
    slot = t + int(marks[BEFORE])
    if slot >= state.totals.shape[0]:
        return  # a state holds only so many slots
    known = math.nan
    if slot >= marks[SLOTS]:
        marks[SLOTS] = slot + 1
        length = max(marks[LENGTH], params.window) if t >= 0 else max(params.week // DAYS, 1)
        state.visits[arm] += 1.0 / length
    else:
        known = state.totals[slot]
        if t < marks[FOLDED] * params.window:
            marks[REFIT] = 0.0  # with the next decision
        if state.arms[slot] != arm:
            marks[SUMMED] = min(marks[SUMMED], slot)
    state.totals[slot], state.arms[slot] = total, arm
    for number in range(state.covariates.shape[1]):
        state.covariates[slot, number] = covariates[number]
    if not math.isnan(known):
        marks[SCALE] -= (max(known, 0.0) - marks[SCALE]) / max(marks[COUNT] - 1.0, 1.0)
        marks[COUNT] -= 1.0
    if not math.isnan(total):
        marks[COUNT] += 1.0
        marks[SCALE] += (max(total, 0.0) - marks[SCALE]) / marks[COUNT]


def find_value(state: AdaptiveState, params: AdaptiveParams, window: int) -> float:
    """The logarithm of a window's totals over its season; NaN where most of them are missing."""
    begin = int(state.marks[BEFORE]) + window * params.window
    total, usual, known = 0.0, 0.0, 0
    for slot in range(begin, begin + params.window):
        if not math.isnan(state.totals[slot]):
            place = (params.first + slot - int(state.marks[BEFORE])) % params.week
            total += state.totals[slot]
            usual += state.shape[place]
            known += 1
    if 2 * known < params.window or usual <= 0.0:
        return math.nan
    floor = _FLOOR * (1.0 if state.marks[HAS_SEASON] == 1.0 else state.marks[SCALE])
    return math.log(max(total / usual, floor, 1e-300))


def find_season(state: AdaptiveState, place: int) -> None:
    """Find the entries of a filter that belong to a place in the week."""
    state.season[0] = state.season[1] = state.season[2] = -1.0
    weekly, per_day = state.smoothing.shape[1], state.factors.shape[0]
    if weekly == 1:
        return
    begin, day = LIFTS + state.shares.shape[0], place // per_day
    state.season[0] = begin + day
    if per_day > 1:
        state.season[1] = begin + DAYS + place % per_day
        if day >= DAYS - 2:
            state.season[2] = begin + DAYS + per_day + place % per_day


def sum_weights(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Sum up over slots the weight of each arm: what its place in the week usually brings."""
    before = int(state.marks[BEFORE])
    for slot in range(int(state.marks[SUMMED]), int(state.marks[SLOTS])):
        for arm in range(state.sums.shape[0]):
            state.sums[arm, slot + 1] = state.sums[arm, slot]
        state.sums[int(state.arms[slot]), slot + 1] += state.shape[
            (params.first + slot - before) % params.week
        ]
    state.marks[SUMMED] = state.marks[SLOTS]


def find_shares(state: AdaptiveState, params: AdaptiveParams, row: int, window: int) -> None:
    """Find which share of a window comes from each arm, if delays have the shape of that row."""
    for arm in range(state.shares.shape[0]):
        state.shares[arm] = 0.0
    whole = 0.0
    begin = int(state.marks[BEFORE]) + window * params.window
    for slot in range(begin, begin + params.window):
        for stretch in range(params.lag_shares.shape[1]):
            if params.lag_shares[row, stretch] > 0.0:
                first = slot - int(params.stop_lags[row, stretch]) + 1
                stop = slot - int(params.first_lags[row, stretch]) + 1
                share = params.lag_shares[row, stretch] / (stop - first)
                for arm in range(state.sums.shape[0]):
                    part = share * (_summed(state, arm, stop) - _summed(state, arm, first))
                    whole += part
                    if arm > 0:
                        state.shares[arm - 1] += part
    if whole > 0.0:
        for arm in range(state.shares.shape[0]):
            state.shares[arm] /= whole


def _summed(state: AdaptiveState, arm: int, slot: int) -> float:
    """The weight of an arm before a slot; before the first slot, the first arm was played."""
    if slot >= 0:
        return float(state.sums[arm, slot])
    return float(slot) if arm == 0 else 0.0
