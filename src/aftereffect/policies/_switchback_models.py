"""How AdaptiveSwitchback learns: models of different delays fold the same windows.

There are two models for each shape of delay. They differ in what the history shows: totals, which
came with the same delay; or demand, before any delay.
"""

import math

import numpy as np

from aftereffect._core import Vector
from aftereffect.policies._demand_model import (
    AS_THEY_COME,
    DRIFT,
    LEVEL,
    LIFTS,
    MEAN,
    PERSISTENCE,
    SLOWLY,
    VARIANCE,
    WANDER,
    WRITING,
    WRITTEN,
    Filter,
    enter_demand,
    find_factors,
    learn_total,
    match_noise,
    measure_together,
    take_out_weeks,
)
from aftereffect.policies._season import find_median, learn_season
from aftereffect.policies._switchback_windows import (
    BEFORE,
    BEGUN,
    CELLS,
    DAYS,
    FOLDED,
    HAS_SEASON,
    REFIT,
    SCALE,
    SLOTS,
    AdaptiveParams,
    AdaptiveState,
    describe_demand,
    find_place,
    find_value,
    measure_covariates,
    spread_season,
)
from aftereffect.policies.base import move_into

#: The days of history from which on its season is used, and how many of them are folded.
_SEASON_DAYS, _FOLDED_DAYS = 14, 7
#: The prior standard deviation of the logarithm of a lift; lifts are relative to the first arm.
_PRIOR_LIFT = 0.08
#: The prior standard deviation of what a deviation of a covariate does to demand.
_PRIOR_COVARIATE = 0.1
#: Prior standard deviations: of the mean with and without a history, and of what makes a season.
_PRIOR_MEAN, _PRIOR_MEAN_ALONE = 0.03, 2.0
_PRIOR_WEEKDAY, _PRIOR_HOUR, _PRIOR_WEEKEND = 0.2, 0.8, 0.4
#: The part of these that is left where a history shows the season of totals, and of demand.
_TOTALS_PART, _DEMAND_PART = 0.02, 0.08
#: The same for slots of a day: a history of some weeks has few totals of each weekday.
_DAILY_PART = 0.15
#: The number of weeks for which the correction of a place in the week counts as much as none.
_USUAL_WEEKS = 0.5
#: Hours over which the seasons of hours are alike.
_ALIKE_HOURS = 6.0
#: The part of the variance of noise that is wrongly reported, and its least standard deviation.
_REPORTED, _MIN_REPORTED = 0.05, 0.003
#: The prior of a shape of delay falls with this power of its mean lag.
_LAG_POWER = 0.5
#: How much the likelihood of a window counts: noise is never quite as it is modelled.
_EVIDENCE = 0.25
#: The number of windows for which the noise that a model expects counts as much as its surprises;
#: and the smallest scale.
_USUAL_SCALE, _MIN_SCALE = 40.0, 0.3
#: A model whose evidence is so far below the best is given up; and what its evidence then is.
_HOPELESS, _GIVEN_UP = 14.0, -1e9
#: All windows are fitted again when there are so many times as many.
_REFIT = 1.25
#: How far the share of a delay at each age may be off, as a part of it.
_DOUBT = 0.5
#: What is less than this counts as nothing: its square would be 0.
_NOTHING = 1e-150
#: The largest logarithm of demand over what is usual.
_MAX_DEMAND = 5.0


def add_lift(larger: AdaptiveState, state: AdaptiveState) -> AdaptiveState:
    """Fill a state with one arm more from one without it, and return it.

    All that is known of the lift of the new arm follows from the other m lifts and the prior, in
    which two lifts have half of their variance v in common, as both are relative to the first arm:
    it is their sum / (m + 1), give or take a variance of v / 2 (m + 2) / (m + 1).
    """
    at = LIFTS + state.mix.shape[0] - 1
    lifts, others = at - LIFTS, np.delete(np.arange(larger.means.shape[1]), at)
    move_into(larger, state)
    larger.means[:, others] = state.means
    larger.means[:, at] = state.means[:, LIFTS:at].sum(axis=1) / (lifts + 1)
    together = state.covariances[:, LIFTS:at].sum(axis=1) / (lifts + 1)
    for row, with_others in enumerate(together):
        larger.covariances[row][np.ix_(others, others)] = state.covariances[row]
        larger.covariances[row, at, others] = larger.covariances[row, others, at] = with_others
        larger.covariances[row, at, at] = with_others[LIFTS:at].sum() / (lifts + 1)
    larger.covariances[:, at, at] += _PRIOR_LIFT * _PRIOR_LIFT * (lifts + 2) / (lifts + 1)
    larger.probabilities[-1] = 0.0
    return larger


def advance(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Learn from all windows whose totals are known."""
    marks = state.marks
    if marks[BEGUN] == 0.0:
        _begin(state, params)
    known = int(marks[SLOTS])
    while known > 0 and math.isnan(state.totals[known - 1]):
        known -= 1
    stop = (known - int(marks[BEFORE])) // params.window
    folded = int(marks[FOLDED])
    if stop <= folded:
        return
    marks[FOLDED] = stop
    if stop >= marks[REFIT]:
        _fit_again(state, params)
        marks[REFIT] = stop * _REFIT + 1.0
        return
    weight = _weigh_evidence(state)
    for row in range(state.evidence.shape[0]):
        if state.evidence[row] > _GIVEN_UP:
            state.evidence[row] += weight * _fold(state, params, row, folded, stop, AS_THEY_COME)


def _weigh_evidence(state: AdaptiveState) -> float:
    """Give hopeless models up; return how much the likelihood of a window counts.

    It counts less where even the best model is surprised more than it expects.
    """
    best = _find_best(state)
    highest = state.evidence[best]
    for row in range(state.evidence.shape[0]):
        if state.evidence[row] < highest - _HOPELESS:
            state.evidence[row] = _GIVEN_UP
    return _EVIDENCE / max(float(state.scales[best]), 1.0)


def _find_best(state: AdaptiveState) -> int:
    best = 0
    for row in range(1, state.evidence.shape[0]):
        if state.evidence[row] > state.evidence[best]:
            best = row
    return best


def _begin(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Learn season and noise from the history, and set each model to its prior."""
    marks, before = state.marks, int(state.marks[BEFORE])
    marks[BEGUN] = 1.0
    if before >= _SEASON_DAYS * max(params.week // DAYS, 1) and params.week > 1:
        place = (params.first - before) % params.week
        if learn_season(state.totals, place, before, params.week, state.shape, state.scratch):
            marks[HAS_SEASON] = 1.0
    spread_season(state, params)
    measure_covariates(state)
    rows = params.mean_lags.shape[0]
    for row in range(state.evidence.shape[0]):
        state.evidence[row] = -_LAG_POWER * math.log(1.0 + params.mean_lags[row % rows])
        if row >= rows and marks[HAS_SEASON] == 0.0:
            state.evidence[row] = _GIVEN_UP
    _learn_noise(state, params, -(before // params.window), 0)
    for row in range(state.evidence.shape[0]):
        _reset(state, params, row)
    marks[FOLDED] = _find_first(state, params)


def _fit_again(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Fit all windows, first with weights that fall slowly, then by the lifts that these give."""
    start, stop = _find_first(state, params), int(state.marks[FOLDED])
    measure_covariates(state)
    if state.marks[HAS_SEASON] == 0.0:
        _learn_noise(state, params, start, stop)
    rows, weight = params.mean_lags.shape[0], _weigh_evidence(state)
    for row in range(state.evidence.shape[0]):
        if state.evidence[row] <= _GIVEN_UP:
            continue
        _reset(state, params, row)
        _fold(state, params, row, start, stop, SLOWLY)
        _fix_lifts(state, params, row)
        squares = _fold(state, params, row, start, stop, WRITING)
        scale = (_USUAL_SCALE + squares) / (_USUAL_SCALE + stop)
        state.scales[row] = max(scale, _MIN_SCALE)
        _reset(state, params, row)
        prior = -_LAG_POWER * math.log(1.0 + params.mean_lags[row % rows])
        state.evidence[row] = prior + weight * _fold(state, params, row, start, stop, WRITTEN)


def _find_first(state: AdaptiveState, params: AdaptiveParams) -> int:
    """The first window to fold: of a history that shows the season, only the last days.

    What covariates do is learned from all of it.
    """
    first = -(int(state.marks[BEFORE]) // params.window)
    if state.marks[HAS_SEASON] == 1.0 and state.covariates.shape[1] == 0:
        first = max(first, -_FOLDED_DAYS * state.factors.shape[0])
    return first


def _fold(
    state: AdaptiveState, params: AdaptiveParams, row: int, first: int, stop: int, mode: int
) -> float:
    """Fold windows into one model; return the sum over those from slot 0 on (see `learn_total`)."""
    shape, per_day = row % params.mean_lags.shape[0], state.factors.shape[0]
    shows_demand = row != shape
    cells, newest = min(int(params.ages[shape]), CELLS), _find_newest(params, shape)
    line, start = state.means.shape[1] - CELLS, _find_first(state, params)
    model = Filter(
        line + cells,
        state.means[row],
        state.covariances[row],
        state.loads,
        state.products,
        state.gains,
    )
    squares = 0.0
    for age in range(int(params.ages[shape])):
        squares += params.by_age[shape, age] * params.by_age[shape, age]
    reported = _REPORTED * squares * state.noise[row, VARIANCE]
    found = 0.0
    for window in range(first - cells if first == start else first, stop):
        place = find_place(state, params, window)
        factor = state.factors[place % per_day]
        here, count = line + window % cells, describe_demand(state, params, window)
        enter_demand(model, state.noise[row], factor, state.entries, state.parts, count, here)
        if window < start:
            continue
        surprise, doubt = find_value(state, params, window) - state.corrections[place], 0.0
        if window < 0 and shows_demand:
            for entry in range(model.loads.shape[0]):
                model.loads[entry] = 0.0
            model.loads[here] = 1.0
            surprise -= model.mean[here]
        else:
            expected, doubt = _expect(state, params, row, window)
            surprise -= expected
            here = line + (window - newest) % cells
        if not math.isnan(surprise):
            noise = reported * factor + _MIN_REPORTED * _MIN_REPORTED + doubt
            part = learn_total(model, surprise, noise, here, mode, state.weights, window - start)
            if window >= 0:
                found += part
    return found


def _find_newest(params: AdaptiveParams, shape: int) -> int:
    """The age of the latest demand of which anything arrives."""
    age = 0
    while params.by_age[shape, age] == 0.0 and age < CELLS - 1:
        age += 1
    return age


def _expect(
    state: AdaptiveState, params: AdaptiveParams, row: int, window: int
) -> tuple[float, float]:
    """The logarithm of the total that a model expects, over what is usual; NaN if it is nothing.

    Also returns its variance because shares are only roughly known: as long as all that arrives is
    demand at the same height, it does not matter when it came; after a change of arm it does. Fills
    ``state.loads``. Demand that is older than all cells is expected without level and noise.
    """
    rows, mean, loads = params.mean_lags.shape[0], state.means[row], state.loads
    shape, line = row % rows, mean.shape[0] - CELLS
    cells, place = min(int(params.ages[shape]), CELLS), find_place(state, params, window)
    for entry in range(loads.shape[0]):
        loads[entry] = 0.0
    expected, usual = 0.0, 0.0
    squares, products, usual_squares = 0.0, 0.0, 0.0
    for age in range(int(params.ages[shape])):
        usual_share = state.arrivals[shape, place, age]
        if usual_share > 0.0:
            share = usual_share
            if age < cells:
                cell = line + (window - age) % cells
                share *= _exponentiate(mean[cell])
                loads[cell] = share
            else:
                count = describe_demand(state, params, window - age)
                share *= _exponentiate(_add_up(state, mean, count))
                for number in range(count):
                    loads[int(state.entries[number])] += share * state.parts[number]
            expected += share
            usual += usual_share
            squares += share * share
            products += share * usual_share
            usual_squares += usual_share * usual_share
    if expected < _NOTHING or usual < _NOTHING:
        return math.nan, 0.0
    for entry in range(loads.shape[0]):
        loads[entry] /= expected
    # The sum over ages of (share / expected - usual share / usual) squared.
    doubt = squares / (expected * expected) - 2.0 * products / (expected * usual)
    doubt = _DOUBT * _DOUBT * max(doubt + usual_squares / (usual * usual), 0.0)
    if row >= rows:  # the season is that of demand
        usual = state.usual[place]
    if usual <= 0.0:
        return math.nan, 0.0
    return math.log(expected / usual), doubt


def _explain(
    state: AdaptiveState, params: AdaptiveParams, mean: Vector, shape: int, window: int
) -> float:
    """The logarithm of the total that mean, season, lifts and covariates explain; or NaN."""
    expected, usual = 0.0, 0.0
    place = find_place(state, params, window)
    for age in range(int(params.ages[shape])):
        share = state.arrivals[shape, place, age]
        if share > 0.0:
            usual += share
            count = describe_demand(state, params, window - age)
            expected += share * _exponentiate(_add_up(state, mean, count))
    return math.log(expected / usual) if expected > 0.0 else math.nan


def _add_up(state: AdaptiveState, mean: Vector, count: int) -> float:
    demand = 0.0
    for number in range(count):
        demand += state.parts[number] * mean[int(state.entries[number])]
    return demand


def _exponentiate(demand: float) -> float:
    return math.exp(min(max(demand, -_MAX_DEMAND), _MAX_DEMAND))


def _learn_noise(state: AdaptiveState, params: AdaptiveParams, first: int, stop: int) -> None:
    """Estimate the noise of demand by what the best model so far leaves of these windows."""
    best, rows = _find_best(state), params.mean_lags.shape[0]
    count, per_day = stop - first, state.factors.shape[0]
    for window in range(first, stop):
        place = find_place(state, params, window)
        residual = find_value(state, params, window) - state.corrections[place]
        if stop > 0:  # in a history, there is nothing to explain
            residual -= _explain(state, params, state.means[best], best % rows, window)
        state.residuals[window - first] = residual
    if stop > 0:
        _correct_season(state, params, first, stop)
    place = find_place(state, params, first) % per_day
    drift = take_out_weeks(state.residuals, count, DAYS * per_day, state.scratch)
    find_factors(state.residuals, count, place, state.factors, state.scratch)
    measure_together(state.residuals, count, place, state.factors, state.together, state.scratch)
    for row in range(rows):
        if state.evidence[row] > _GIVEN_UP:
            shares, ages = params.by_age[row], int(params.ages[row])
            match_noise(state.together, shares, ages, state.noise[row], state.overlap)
        state.noise[row, DRIFT] = drift
    for row in range(rows, 2 * rows):  # the history shows demand, as if it came at once
        for part in range(state.noise.shape[1]):
            state.noise[row, part] = state.noise[0, part]


def _correct_season(state: AdaptiveState, params: AdaptiveParams, first: int, stop: int) -> None:
    """Find what the filters' seasons miss: the median residual of each place in the week.

    A filter knows weekdays, hours, and hours of weekends. A Friday evening is more than the sum of
    its day and its hour.
    """
    weekly, windows = state.usual.shape[0], stop - first
    if weekly == 1 or windows < 2 * weekly:
        return
    for begin in range(weekly):
        known = 0
        for window in range(begin, windows, weekly):
            if not math.isnan(state.residuals[window]):
                state.scratch[known] = state.residuals[window]
                known += 1
        if known > 1:
            place = find_place(state, params, first + begin)
            before = state.corrections[place]
            median = find_median(state.scratch, 0, known)
            state.corrections[place] = (before + median) * known / (known + _USUAL_WEEKS)
            for window in range(begin, windows, weekly):
                state.residuals[window] += before - state.corrections[place]


def _reset(state: AdaptiveState, params: AdaptiveParams, row: int) -> None:
    """Set a model to its prior."""
    mean, covariance, noise = state.means[row], state.covariances[row], state.noise[row]
    for entry in range(mean.shape[0]):
        mean[entry] = 0.0
        for other in range(mean.shape[0]):
            covariance[entry, other] = 0.0
    covariance[LEVEL, LEVEL] = noise[WANDER] / (1.0 - noise[PERSISTENCE] * noise[PERSISTENCE])
    lifts, per_day = state.mix.shape[0] - 1, state.factors.shape[0]
    for arm in range(lifts):
        for other in range(lifts):
            covariance[LIFTS + arm, LIFTS + other] = _PRIOR_LIFT * _PRIOR_LIFT
        covariance[LIFTS + arm, LIFTS + arm] *= 2.0
    covariance[MEAN, MEAN] = _PRIOR_MEAN * _PRIOR_MEAN + noise[DRIFT] * DAYS * per_day
    part = _TOTALS_PART if row < params.mean_lags.shape[0] else _DEMAND_PART
    if state.marks[HAS_SEASON] == 0.0:
        mean[MEAN] = math.log(max(state.marks[SCALE], 1e-300))
        covariance[MEAN, MEAN] = _PRIOR_MEAN_ALONE * _PRIOR_MEAN_ALONE
        part = 1.0
    elif per_day == 1:
        part = _DAILY_PART
    begin, last = LIFTS + lifts, mean.shape[0] - CELLS
    for entry in range(last - state.covariates.shape[1], last):
        covariance[entry, entry] = _PRIOR_COVARIATE * _PRIOR_COVARIATE
    if state.usual.shape[0] > 1:
        for day in range(begin, begin + DAYS):
            covariance[day, day] = _PRIOR_WEEKDAY * _PRIOR_WEEKDAY * part * part
    if per_day > 1:
        for hour in range(per_day):
            for other in range(per_day):
                apart = min(abs(hour - other), per_day - abs(hour - other)) * 24.0 / per_day
                alike = math.exp(-apart / _ALIKE_HOURS) * part * part
                at, to = begin + DAYS + hour, begin + DAYS + other
                covariance[at, to] = _PRIOR_HOUR * _PRIOR_HOUR * alike
                covariance[at + per_day, to + per_day] = _PRIOR_WEEKEND * _PRIOR_WEEKEND * alike


def _fix_lifts(state: AdaptiveState, params: AdaptiveParams, row: int) -> None:
    """Set a model to its prior, but take the lifts that it has found as known."""
    lifts = state.mix.shape[0] - 1
    for arm in range(lifts):
        state.normals[arm] = state.means[row, LIFTS + arm]
    _reset(state, params, row)
    for arm in range(lifts):
        state.means[row, LIFTS + arm] = state.normals[arm]
        for other in range(lifts):
            state.covariances[row, LIFTS + arm, LIFTS + other] = 0.0
