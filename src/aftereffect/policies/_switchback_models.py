"""How AdaptiveSwitchback learns: models of different delays fold the same windows.

There are two models for each shape of delay. They differ in what the season of the history is: that
of totals, as they go on to be; or that of demand, before any delay.
"""

import math

from aftereffect.policies._demand_model import (
    AS_THEY_COME,
    BY_LIFTS,
    LEVEL,
    LIFTS,
    MEAN,
    SLOWLY,
    Filter,
    fit_noise,
    fold_window,
)
from aftereffect.policies._season import find_median, learn_season
from aftereffect.policies._switchback_windows import (
    BEFORE,
    BEGUN,
    DAYS,
    FOLDED,
    HAS_SEASON,
    REFIT,
    SCALE,
    SLOTS,
    AdaptiveParams,
    AdaptiveState,
    find_season,
    find_shares,
    find_value,
    sum_weights,
)

#: The days of history from which on its season is used.
_SEASON_DAYS = 14
#: The prior standard deviation of the logarithm of a lift; lifts are relative to the first arm.
_PRIOR_LIFT = 0.08
#: Prior standard deviations: of the mean with and without a history, and of what makes a season.
_PRIOR_MEAN, _PRIOR_MEAN_ALONE = 0.03, 2.0
_PRIOR_WEEKDAY, _PRIOR_HOUR, _PRIOR_WEEKEND = 0.2, 0.8, 0.4
#: The part of these that is left where a history shows the season, and where it shows that of
#: demand, which a delay then smooths.
_KNOWN_PART, _SMOOTHED_PART = 0.02, 0.08
#: The number of weeks for which the correction of a place in the week counts as much as none.
_USUAL_WEEKS = 0.5
#: Hours over which the seasons of hours are alike.
_ALIKE_HOURS = 6.0
#: Noise that is estimated from a whole history has all its bursts. Surprises are cut, so that what
#: is left is smaller by these factors.
_WANDER_FACTOR, _NOISE_FACTOR = 0.1, 0.3
#: The prior of a shape of delay falls with this power of its mean lag.
_LAG_POWER = 0.7
#: How much the likelihood of a window counts: windows are not independent.
_EVIDENCE = 0.5
#: A model whose evidence is so far below the best is given up; and what its evidence then is.
_HOPELESS, _GIVEN_UP = 14.0, -1e9
#: All windows are fitted again when there are so many times as many.
_REFIT = 1.15
#: What is assumed of noise before there are totals: persistence, wander and variance.
NOISE = (0.9, 0.0005, 0.001)


def advance(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Learn from all windows whose totals are known."""
    marks = state.marks
    if marks[BEGUN] == 0.0:
        _begin(state, params)
    sum_weights(state, params)
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
    _give_up_hopeless(state)
    for row in range(state.evidence.shape[0]):
        if state.evidence[row] > _GIVEN_UP:
            state.evidence[row] += _EVIDENCE * _fold(state, params, row, folded, stop, AS_THEY_COME)


def _give_up_hopeless(state: AdaptiveState) -> None:
    best = state.evidence[0]
    for row in range(1, state.evidence.shape[0]):
        best = max(best, state.evidence[row])
    for row in range(state.evidence.shape[0]):
        if state.evidence[row] < best - _HOPELESS:
            state.evidence[row] = _GIVEN_UP


def _fit_again(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Fit all windows, first with weights that fall slowly, then with the lifts that these give."""
    marks = state.marks
    start, stop = _first_window(state, params), int(marks[FOLDED])
    if marks[HAS_SEASON] == 0.0:
        _learn_noise(state, params, start, stop)
    rows = params.mean_lags.shape[0]
    _give_up_hopeless(state)
    for row in range(state.evidence.shape[0]):
        if state.evidence[row] <= _GIVEN_UP:
            continue
        _reset(state, params, row)
        _fold(state, params, row, start, stop, SLOWLY)
        for arm in range(state.shares.shape[0]):
            state.reference[arm] = state.means[row, LIFTS + arm]
        _reset(state, params, row)
        prior = -_LAG_POWER * math.log(1.0 + params.mean_lags[row % rows])
        state.evidence[row] = prior + _EVIDENCE * _fold(state, params, row, start, stop, BY_LIFTS)


def _fold(
    state: AdaptiveState, params: AdaptiveParams, row: int, first: int, stop: int, mode: int
) -> float:
    """Fold windows into one model; return their log likelihood."""
    model = Filter(state.means[row], state.covariances[row], state.products, state.gains)
    rows, weekly = params.mean_lags.shape[0], state.smoothing.shape[1]
    per_day = state.factors.shape[0]
    likelihood = 0.0
    for window in range(first, stop):
        place = (params.first // params.window + window) % weekly
        value = find_value(state, params, window) - state.corrections[place]
        if row >= rows:
            value -= state.smoothing[row - rows, place]
        find_shares(state, params, row % rows, window)
        find_season(state, place)
        likelihood += fold_window(
            model,
            state.noise,
            state.factors[place % per_day],
            value,
            state.shares,
            state.season,
            mode,
            state.reference,
        )
    return likelihood


def _first_window(state: AdaptiveState, params: AdaptiveParams) -> int:
    """The first window to fold: those of a history only if it is too short for a season."""
    return 0 if state.marks[HAS_SEASON] == 1.0 else -(int(state.marks[BEFORE]) // params.window)


def _begin(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Learn season and noise from the history, and set each model to its prior."""
    marks, before = state.marks, int(state.marks[BEFORE])
    marks[BEGUN] = 1.0
    if before >= _SEASON_DAYS * max(params.week // DAYS, 1) and params.week > 1:
        place = (params.first - before) % params.week
        if learn_season(state.totals, place, before, params.week, state.shape, state.scratch):
            marks[HAS_SEASON] = 1.0
            _learn_noise(state, params, -(before // params.window), 0)
            state.noise[1] *= _WANDER_FACTOR
            state.noise[2] *= _NOISE_FACTOR
            _smooth_season(state, params)
    rows = params.mean_lags.shape[0]
    marks[FOLDED] = _first_window(state, params)
    for row in range(state.evidence.shape[0]):
        _reset(state, params, row)
        state.evidence[row] = -_LAG_POWER * math.log(1.0 + params.mean_lags[row % rows])
        if row >= rows and marks[HAS_SEASON] == 0.0:
            state.evidence[row] = _GIVEN_UP


def _learn_noise(state: AdaptiveState, params: AdaptiveParams, first: int, stop: int) -> None:
    """Estimate noise from what the best model so far leaves of these windows."""
    best = 0
    for row in range(1, state.evidence.shape[0]):
        if state.evidence[row] > state.evidence[best]:
            best = row
    weekly, mean = state.smoothing.shape[1], state.means[best]
    for window in range(first, stop):
        place = (params.first // params.window + window) % weekly
        residual = find_value(state, params, window) - mean[MEAN] - state.corrections[place]
        find_season(state, place)
        for part in range(state.season.shape[0]):
            if state.season[part] >= 0.0:
                residual -= mean[int(state.season[part])]
        if stop > 0:
            find_shares(state, params, best % params.mean_lags.shape[0], window)
            for arm in range(state.shares.shape[0]):
                residual -= state.shares[arm] * mean[LIFTS + arm]
        state.residuals[window - first] = residual
    if state.marks[HAS_SEASON] == 0.0:
        _correct_season(state, params, first, stop)
    fit_noise(
        state.residuals,
        stop - first,
        state.factors.shape[0],
        (params.first // params.window + first) % state.factors.shape[0],
        state.noise,
        state.factors,
        state.scratch,
    )


def _correct_season(state: AdaptiveState, params: AdaptiveParams, first: int, stop: int) -> None:
    """Find what the filters' seasons miss: the median residual of each place in the week.

    A filter knows weekdays, hours, and hours of weekends. A Friday evening is more than the sum of
    its day and its hour.
    """
    weekly, windows = state.smoothing.shape[1], stop - first
    if weekly == 1 or windows < 2 * weekly:
        return
    for begin in range(weekly):
        known = 0
        for window in range(begin, windows, weekly):
            if not math.isnan(state.residuals[window]):
                state.scratch[known] = state.residuals[window]
                known += 1
        if known > 1:
            place = (params.first // params.window + first + begin) % weekly
            before = state.corrections[place]
            median = find_median(state.scratch, 0, known)
            state.corrections[place] = (before + median) * known / (known + _USUAL_WEEKS)
            for window in range(begin, windows, weekly):
                state.residuals[window] += before - state.corrections[place]


def _smooth_season(state: AdaptiveState, params: AdaptiveParams) -> None:
    """Find how each shape of delay changes the season of a week, in logarithms by window."""
    for row in range(params.mean_lags.shape[0]):
        for place in range(state.smoothing.shape[1]):
            smoothed, usual = 0.0, 0.0
            for slot in range(place * params.window, (place + 1) * params.window):
                usual += state.shape[slot]
                for stretch in range(params.lag_shares.shape[1]):
                    first = int(params.first_lags[row, stretch])
                    stop = int(params.stop_lags[row, stretch])
                    share = params.lag_shares[row, stretch] / (stop - first)
                    if share > 0.0:
                        for lag in range(first, stop):
                            smoothed += share * state.shape[(slot - lag) % params.week]
            state.smoothing[row, place] = math.log(max(smoothed, 1e-300) / max(usual, 1e-300))


def _reset(state: AdaptiveState, params: AdaptiveParams, row: int) -> None:
    """Set a model to its prior."""
    mean, covariance = state.means[row], state.covariances[row]
    for entry in range(mean.shape[0]):
        mean[entry] = 0.0
        for other in range(mean.shape[0]):
            covariance[entry, other] = 0.0
    persistence = state.noise[0]
    covariance[LEVEL, LEVEL] = state.noise[1] / (1.0 - persistence * persistence)
    lifts = state.shares.shape[0]
    for arm in range(lifts):
        for other in range(lifts):
            covariance[LIFTS + arm, LIFTS + other] = _PRIOR_LIFT * _PRIOR_LIFT
        covariance[LIFTS + arm, LIFTS + arm] *= 2.0
    covariance[MEAN, MEAN] = _PRIOR_MEAN * _PRIOR_MEAN
    part = _KNOWN_PART if row < params.mean_lags.shape[0] else _SMOOTHED_PART
    if state.marks[HAS_SEASON] == 0.0:
        mean[MEAN] = math.log(max(state.marks[SCALE], 1e-300))
        covariance[MEAN, MEAN] = _PRIOR_MEAN_ALONE * _PRIOR_MEAN_ALONE
        part = 1.0
    begin, per_day = LIFTS + lifts, state.factors.shape[0]
    for day in range(begin, min(begin + DAYS, mean.shape[0])):
        covariance[day, day] = _PRIOR_WEEKDAY * _PRIOR_WEEKDAY * part * part
    if per_day > 1:
        for hour in range(per_day):
            for other in range(per_day):
                apart = min(abs(hour - other), per_day - abs(hour - other)) * 24.0 / per_day
                alike = math.exp(-apart / _ALIKE_HOURS)
                at, to = begin + DAYS + hour, begin + DAYS + other
                covariance[at, to] = _PRIOR_HOUR * _PRIOR_HOUR * alike * part * part
                covariance[at + per_day, to + per_day] = (
                    _PRIOR_WEEKEND * _PRIOR_WEEKEND * alike * part * part
                )
