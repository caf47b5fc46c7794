"""What AdaptiveSwitchback remembers of its slots, and what they say as windows of a few slots."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Vector
from aftereffect.policies._demand_model import LIFTS, MEAN

#: Entries of ``state.marks``: slots before slot 0, and slots so far; windows that are folded, and
#: when to fit them again; whether it has begun, and has a season; the number of decisions; number
#: and mean of the totals; what is usual in a window.
(BEFORE, SLOTS, FOLDED, REFIT, BEGUN, HAS_SEASON, DECISIONS, COUNT, SCALE, USUAL) = range(10)
MARKS = 10
DAYS = 7
#: The most windows whose demand a filter knows one by one.
CELLS = 12
#: What stands for a total of 0 in logarithms, as a part of what is usual in the window; and the
#: part of a usual window below which a window says nothing.
_FLOOR, _SMALL = 0.02, 0.02
#: The most deviations from its mean that a covariate counts.
_MAX_COVARIATE = 5.0


class AdaptiveParams(NamedTuple):
    """The calendar in slots, the slots of a window, and shapes of delay by row."""

    week: int
    first: int
    window: int
    by_lag: Matrix
    lags: Vector
    by_age: Matrix
    ages: Vector
    mean_lags: Vector


class AdaptiveState(NamedTuple):
    """What was played and observed by slot, and the posterior of each model by row.

    `shape` is what is usual at each slot of a week, `usual` at each window, and `arrivals` how much
    of it arrives, by shape of delay, window and age. `noise` is that of demand by model, `factors`
    how much larger it is at each window of the day. `corrections` are added to the season of
    windows. `centres` and `spreads` are the means and deviations of covariates. `scales` say how
    much larger the surprises of a model are than it expects. `active` is 1 for arms that may be
    played, 0 for others.

    The fields from `entries` on are scratch space: kernels make no arrays.
    """

    totals: Vector
    arms: Vector
    covariates: Matrix
    marks: Vector
    shape: Vector
    usual: Vector
    arrivals: NDArray[np.float64]
    noise: Matrix
    factors: Vector
    corrections: Vector
    centres: Vector
    spreads: Vector
    means: Matrix
    covariances: NDArray[np.float64]
    evidence: Vector
    scales: Vector
    probabilities: Vector
    active: Vector
    entries: Vector
    parts: Vector
    mix: Vector
    loads: Vector
    products: Vector
    gains: Vector
    residuals: Vector
    weights: Vector
    together: Vector
    overlap: Vector
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
    else:
        known = state.totals[slot]
        if t < marks[FOLDED] * params.window:
            marks[REFIT] = 0.0  # with the next decision
    state.totals[slot], state.arms[slot] = total, arm
    for number in range(state.covariates.shape[1]):
        state.covariates[slot, number] = covariates[number]
    if not math.isnan(known):
        marks[SCALE] -= (max(known, 0.0) - marks[SCALE]) / max(marks[COUNT] - 1.0, 1.0)
        marks[COUNT] -= 1.0
    if not math.isnan(total):
        marks[COUNT] += 1.0
        marks[SCALE] += (max(total, 0.0) - marks[SCALE]) / marks[COUNT]


def find_place(state: AdaptiveState, params: AdaptiveParams, window: int) -> int:
    """The place of a window in the week."""
    place: int = (params.first // params.window + window) % state.usual.shape[0]
    return place


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
    if 2 * known < params.window or usual <= _SMALL * state.marks[USUAL] * known / params.window:
        return math.nan
    floor = _FLOOR * (1.0 if state.marks[HAS_SEASON] == 1.0 else state.marks[SCALE])
    return math.log(max(total / usual, floor, 1e-300))


def describe_demand(state: AdaptiveState, params: AdaptiveParams, window: int) -> int:
    """Find what the demand of a window is made of; return of how many entries of a filter.

    These are in ``state.entries``, and how often each counts in ``state.parts``. They are the mean,
    the season, the lifts of the arms that were played, and the covariates.
    """
    state.entries[0], state.parts[0] = MEAN, 1.0
    count, place = 1, find_place(state, params, window)
    weekly, per_day = state.usual.shape[0], state.factors.shape[0]
    lifts = state.mix.shape[0] - 1
    begin = LIFTS + lifts
    if weekly > 1:
        day = place // per_day
        state.entries[count] = begin + day
        count += 1
        if per_day > 1:
            state.entries[count] = begin + DAYS + place % per_day
            count += 1
            if day >= DAYS - 2:
                state.entries[count] = begin + DAYS + per_day + place % per_day
                count += 1
        for number in range(1, count):
            state.parts[number] = 1.0
    _find_mix(state, params, window)
    for arm in range(1, lifts + 1):
        if state.mix[arm] > 0.0:
            state.entries[count], state.parts[count] = LIFTS + arm - 1, state.mix[arm]
            count += 1
    last = state.means.shape[1] - CELLS - state.covariates.shape[1]
    for number in range(state.covariates.shape[1]):
        state.entries[count] = last + number
        state.parts[count] = _find_covariate(state, params, window, number)
        count += 1
    return count


def _find_mix(state: AdaptiveState, params: AdaptiveParams, window: int) -> None:
    """Find which share of a window's usual demand each arm had; before slot 0, it was the first."""
    for arm in range(state.mix.shape[0]):
        state.mix[arm] = 0.0
    if window < 0:
        state.mix[0] = 1.0
        return
    whole, before = 0.0, int(state.marks[BEFORE])
    for slot in range(window * params.window, (window + 1) * params.window):
        weight = max(state.shape[(params.first + slot) % params.week], 1e-9)
        state.mix[int(state.arms[slot + before])] += weight
        whole += weight
    for arm in range(state.mix.shape[0]):
        state.mix[arm] /= whole


def _find_covariate(
    state: AdaptiveState, params: AdaptiveParams, window: int, number: int
) -> float:
    """The mean of a covariate over a window, in deviations from its mean; 0 if it is not known."""
    begin = int(state.marks[BEFORE]) + window * params.window
    total, known = 0.0, 0
    for slot in range(max(begin, 0), begin + params.window):
        if not math.isnan(state.covariates[slot, number]):
            total += state.covariates[slot, number]
            known += 1
    if known == 0:
        return 0.0
    value: float = (total / known - state.centres[number]) / state.spreads[number]
    return min(max(value, -_MAX_COVARIATE), _MAX_COVARIATE)


def measure_covariates(state: AdaptiveState) -> None:
    """Find the mean and the standard deviation of each covariate over all slots so far."""
    for number in range(state.covariates.shape[1]):
        total, squares, known = 0.0, 0.0, 0
        for slot in range(int(state.marks[SLOTS])):
            value = state.covariates[slot, number]
            if not math.isnan(value):
                known += 1
                apart = value - total
                total += apart / known
                squares += apart * (value - total)
        state.centres[number] = total
        spread = math.sqrt(squares / known) if known > 0 else 0.0
        state.spreads[number] = spread if spread > 0.0 else 1.0


def spread_season(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Find what is usual in each window of a week, and what usually arrives in it."""
    weekly = state.usual.shape[0]
    total = 0.0
    for place in range(weekly):
        state.usual[place] = 0.0
        begin = place * params.window + params.first % params.window
        for slot in range(begin, begin + params.window):
            state.usual[place] += state.shape[slot % params.week]
        total += state.usual[place]
        for row in range(params.mean_lags.shape[0]):
            for age in range(int(params.ages[row])):
                state.arrivals[row, place, age] = 0.0
            for late in range(params.window):
                for lag in range(int(params.lags[row])):
                    age = (lag - late + params.window - 1) // params.window
                    usual = state.shape[(begin + late - lag) % params.week]
                    state.arrivals[row, place, age] += params.by_lag[row, lag] * usual
    state.marks[USUAL] = total / weekly
