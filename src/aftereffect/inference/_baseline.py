"""What totals would be without a difference between arms: delay, season, noise.

Inference rests on the draws of arms, and is right whatever is assumed here. What is assumed only
makes it sharp. So everything here is estimated from totals that came before the blocks for which
it is used, and is kept simple.
"""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.inference._trial import Trial, add_delayed, spread_by_arm, spread_history
from aftereffect.policies import list_shapes

#: The weeks of history from which on its season is used.
_SEASON_WEEKS = 2
#: Totals, and what is usual at a place, are at least this part of what is usual on average.
_FLOOR = 0.02
#: Prior standard deviations: of logarithms of lifts, of the level, and of what weekdays and hours
#: add to the season, if the history shows a season and if there is none.
_LIFT, _LEVEL, _SEEN_SEASON, _NEW_SEASON = 0.1, 1.0, 0.05, 0.7
#: The prior of a delay falls with this power of its mean lag; and how much its likelihood counts.
_LAG_POWER, _EVIDENCE = 0.5, 1.0
#: Delays are alike if so much of their shares is common. A delay is clear if those like it have so
#: much of the posterior; that matters once a lift is so many standard deviations from 0.
_ALIKE, _CLEAR, _SEEN_LIFT = 0.7, 0.8, 2.0
#: The steps by which the delay of a season is undone.
_UNDO_STEPS = 10
#: A delay ends where less than this is left.
_TAIL = 0.01
#: The most windows by which noise is predicted, the windows that each takes, what is added to
#: their variance, and for how many windows those of a history count.
_MAX_ORDER, _PER_ORDER, _RIDGE, _HISTORY_COUNT = 8, 6, 0.003, 84
#: Residuals beyond so many deviations are cut.
CUT = 3.0
#: The smallest standard deviation of logarithms.
_MIN_SPREAD = 1e-6
#: The first guess of how noise is predicted.
_FIRST_FILTER = np.array([1.0, -0.8])


class Baseline(NamedTuple):
    """What was learned from the totals before some slot.

    `shares` are those of the delay by lag, and `demand` is its season by place in the week.
    `season` is that of totals; None if it is that of delayed demand. `offsets` are added to its
    logarithm, by column of `list_columns`. `filter` turns what is left into white noise with the
    standard deviation `scale`. `lifts` are logarithms, by arm. If they were larger, the same totals
    would have other offsets: `slopes` say by how much, by column and arm. It `is_clear` unless arms
    differ and it is not clear which delay would explain how.
    """

    shares: Vector
    demand: Vector
    season: Vector | None
    offsets: Vector
    filter: Vector
    scale: float
    lifts: Vector
    slopes: Matrix
    is_clear: bool


class Candidate(NamedTuple):
    """A delay, and what the totals of windows are if it is the right one.

    `values` are logarithms of totals over what is usual; `parts` say which part of a window each
    arm has brought.
    """

    shares: Vector
    shows_demand: bool
    prior: float
    values: Vector
    parts: Matrix


def learn_season(trial: Trial) -> Vector | None:
    """The median over the weeks of the history at each place; None if it has too few weeks."""
    week, history = trial.week, trial.history
    weeks = len(history) // week
    if week == 1 or weeks < _SEASON_WEEKS:
        return None
    rows = history[len(history) - weeks * week :].reshape(weeks, week)
    if np.isnan(rows).all(axis=0).any() or np.nanmean(rows) <= 0:
        return None
    usual = np.roll(np.nanmedian(rows, axis=0), trial.places[0])
    floored: Vector = np.maximum(usual, _FLOOR * usual.mean())
    return floored


def undo_delays(season: Vector, shares: Matrix) -> Matrix:
    """The seasons of demand which, delayed by the shares of each row, would be the given season.

    A delay is undone step by step, by the ratio of what is given to what would arrive (the method
    of Richardson and Lucy). So all stays positive, and after few steps noise has not grown.
    """
    week, rows = len(season), len(shares)
    padded = np.pad(shares, ((0, 0), (0, -shares.shape[1] % week)))
    delays = np.fft.rfft(padded.reshape(rows, -1, week).sum(axis=1))
    demand = np.tile(season, (rows, 1))
    for _ in range(_UNDO_STEPS):
        arrives = np.maximum(np.fft.irfft(delays * np.fft.rfft(demand), week), 1e-300)
        demand = demand * np.fft.irfft(delays.conj() * np.fft.rfft(season / arrives), week)
    floored: Matrix = np.maximum(demand, _FLOOR * season.mean())
    return floored


def measure_windows(
    trial: Trial, shares: Vector, demand: Vector, season: Vector | None
) -> tuple[Vector, Matrix]:
    """The logarithms of totals over what is usual, and the part that each arm has brought.

    Usual is the `season` of totals, or without one what arrives of the `demand`. A logarithm is NaN
    if less than half of its window is known.
    """
    arrived = spread_by_arm(trial, shares, demand)
    by_slot = arrived.sum(axis=1) if season is None else season[trial.places]
    known = ~np.isnan(trial.totals)
    columns = np.where(known, trial.totals, 0.0), np.where(known, by_slot, 0.0), by_slot
    totals, usual, whole = trial.add_up(np.column_stack(columns)).T
    floor = max(_FLOOR * float(whole.mean()), 1e-300)
    values = np.log(np.maximum(totals, floor) / np.maximum(usual, floor))
    by_arm = trial.add_up(arrived)
    parts = by_arm / by_arm.sum(axis=1, keepdims=True)
    return np.where(usual >= 0.5 * whole, values, np.nan), parts


def list_columns(trial: Trial) -> Matrix:
    """1 for the level, the weekday, the time of day and that of a weekend, by window."""
    places = trial.places[:: trial.window][: len(trial.places) // trial.window]
    per_day, count = max(trial.calendar.slots_per_day, 1), trial.calendar.windows_per_day
    columns = [np.ones((len(places), 1))]
    if trial.week > 1:
        days, times = places // per_day, places % per_day // trial.window
        columns.append(np.eye(7)[days % 7])
        if count > 1:
            columns.append(np.eye(count)[times % count])
            columns.append(np.eye(count)[times % count] * (days >= 5)[:, None])
    return np.hstack(columns)


def fit_baseline(trial: Trial, season: Vector | None, before: Baseline | None) -> Baseline:
    """Learn from all totals of a trial. `season` is that of a history, if there is one."""
    known_season = season is not None
    if season is None:
        season = _guess_season(trial, before)
    whitener = _FIRST_FILTER if before is None else before.filter
    columns = list_columns(trial)
    width, spread = columns.shape[1], _SEEN_SEASON if known_season else _NEW_SEASON
    priors = np.array([_LEVEL, *[spread] * (width - 1), *[_LIFT] * trial.arms])
    candidates = _list_candidates(trial, season, with_demand=known_season)
    weights = _weigh(candidates, columns, priors, whitener)
    shares, shows_demand = _average(candidates, weights)
    demand = season if shows_demand else undo_delays(season, shares[None])[0]
    usual = None if shows_demand else season
    values, parts = measure_windows(trial, shares, demand, usual)
    design = np.hstack([columns, parts])
    fit = _regress(values[None], design[None], priors, whitener)[0][0]
    left = values - design @ fit
    whitener = _learn_filter(trial, shares if shows_demand else np.ones(1), season, left)
    white = add_delayed(whitener, np.where(np.isnan(left), 0.0, left))
    scale = _measure_spread(white[~np.isnan(left)])
    lifts = fit[width:] - fit[width + trial.control]
    rows = add_delayed(whitener, design) / scale
    precision = rows.T @ rows + np.diag(priors**-2)
    errors = np.linalg.inv(precision)[width:, width:]
    slopes: Matrix = -np.linalg.inv(precision[:width, :width]) @ precision[:width, width:]
    contrasts = np.eye(trial.arms) - np.eye(trial.arms)[trial.control]
    deviations = np.sqrt(np.einsum("ai,ij,aj->a", contrasts, errors, contrasts))
    is_seen = (np.abs(lifts) > _SEEN_LIFT * deviations).any()
    is_clear = bool(not is_seen or _find_mass(candidates, weights) >= _CLEAR)
    # Parts of arms sum to 1: what the control adds is a part of the level.
    offsets = fit[:width] + fit[width + trial.control] * (np.arange(width) == 0)
    return Baseline(shares, demand, usual, offsets, whitener, scale, lifts, slopes, is_clear)


def _guess_season(trial: Trial, before: Baseline | None) -> Vector:
    """The season without a history: flat at first, then what was learned on the way."""
    if before is None:
        return np.full(trial.week, max(float(np.nanmean(trial.totals)), 1e-300))
    whole = trial._replace(places=np.arange(trial.week))
    offsets = list_columns(whole) @ before.offsets
    known = before.demand if before.season is None else before.season
    season: Vector = known * np.exp(np.repeat(offsets, trial.window))
    return season


def _list_candidates(trial: Trial, season: Vector, *, with_demand: bool) -> list[Candidate]:
    shapes, found = list_shapes(trial.window, trial.delay), []
    demands = undo_delays(season, shapes.by_lag)
    for row, mean_lag in enumerate(shapes.mean_lags):
        shares = shapes.by_lag[row, : int(shapes.lags[row])]
        prior = -_LAG_POWER * np.log1p(mean_lag)
        for shows_demand in (False, True) if with_demand else (False,):
            demand, usual = (season, None) if shows_demand else (demands[row], season)
            values, parts = measure_windows(trial, shares, demand, usual)
            found.append(Candidate(shares, shows_demand, prior, values, parts))
    return found


def _weigh(
    candidates: list[Candidate], columns: Matrix, priors: Vector, whitener: Vector
) -> Vector:
    """The posterior probability of each candidate."""
    values = np.array([each.values for each in candidates])
    parts = np.array([each.parts for each in candidates])
    shared = np.broadcast_to(columns, (len(candidates), *columns.shape))
    _, evidence = _regress(values, np.concatenate([shared, parts], axis=2), priors, whitener)
    evidence = _EVIDENCE * evidence + np.array([each.prior for each in candidates])
    weights = np.exp(evidence - evidence.max())
    shared_out: Vector = weights / weights.sum()
    return shared_out


def _average(candidates: list[Candidate], weights: Vector) -> tuple[Vector, bool]:
    """The mean delay of those candidates that agree with the best one on what a history shows."""
    shows_demand = candidates[int(np.argmax(weights))].shows_demand
    shares = np.zeros(max(len(each.shares) for each in candidates))
    for each, weight in zip(candidates, weights, strict=True):
        if each.shows_demand == shows_demand:
            shares[: len(each.shares)] += weight * each.shares
    shares /= shares.sum()
    shares = shares[: int(np.argmax(np.cumsum(shares) >= 1 - _TAIL)) + 1]
    return shares / shares.sum(), shows_demand


def _find_mass(candidates: list[Candidate], weights: Vector) -> float:
    """The posterior probability of all candidates that are like the best one."""
    best, mass = candidates[int(np.argmax(weights))], 0.0
    for each, weight in zip(candidates, weights, strict=True):
        lags = min(len(each.shares), len(best.shares))
        common = np.minimum(each.shares[:lags], best.shares[:lags]).sum()
        if each.shows_demand == best.shows_demand and common >= _ALIKE:
            mass += weight
    return mass


def _regress(
    values: Matrix, design: Matrix, priors: Vector, whitener: Vector
) -> tuple[Matrix, Vector]:
    """Ridge regressions of several series, robust to bursts: coefficients, and log evidence."""
    known = ~np.isnan(values)
    filled = np.where(known, values, np.nanmedian(values, axis=1, keepdims=True))
    rows = np.where(known, add_delayed(whitener, filled, axis=1), 0.0)
    design = np.where(known[:, :, None], add_delayed(whitener, design, axis=1), 0.0)
    products = np.swapaxes(design, 1, 2)
    matrix, count = products @ design, known.sum(axis=1)
    left, spread = rows, np.array([_measure_spread(row) for row in rows])
    for _ in range(3):  # with all residuals, then twice with those beyond some deviations cut
        penalty = (spread[:, None] / priors) ** 2
        target = products @ (rows - left + np.clip(left, *_limits(spread)))[:, :, None]
        inner = matrix + penalty[:, None] * np.eye(len(priors))
        fit = np.linalg.solve(inner, target)
        left = rows - (design @ fit)[:, :, 0]
        spread = np.array([_measure_spread(row) for row in left])
    squares = (np.clip(left, *_limits(spread)) ** 2).sum(axis=1) / np.maximum(count, 1)
    fits: Matrix = fit[:, :, 0]
    evidence = -0.5 * count * np.log(squares + 1e-12) - 0.5 * ((fits / priors) ** 2).sum(axis=1)
    return fits, evidence


def _limits(spread: Vector) -> tuple[Vector, Vector]:
    return -CUT * spread[:, None], CUT * spread[:, None]


def _measure_spread(values: Vector) -> float:
    """A standard deviation that a few bursts do not change, and that is never 0."""
    return max(1.4826 * float(np.median(np.abs(values))), _MIN_SPREAD)


def _learn_filter(trial: Trial, shares: Vector, season: Vector, left: Vector) -> Vector:
    """How to predict a residual by the last ones, from their covariances.

    The history counts as well, as if it had arrived with a delay. By how many residuals is chosen
    by the Bayesian information criterion.
    """
    order = min(_MAX_ORDER, len(left) // _PER_ORDER)
    covariances, count = _measure_together(left, _MAX_ORDER)
    if len(trial.history) // trial.week >= _SEASON_WEEKS:
        arrived, usual = spread_history(trial, shares, season).T
        past = np.log(np.maximum(arrived, _FLOOR * usual) / usual)
        before, _ = _measure_together(past - np.median(past), _MAX_ORDER)
        weight = count / (count + _HISTORY_COUNT)
        covariances = weight * covariances + (1 - weight) * before
        order, count = _MAX_ORDER, count + _HISTORY_COUNT
    best, least = np.ones(1), np.inf
    for terms in range(order + 1 if covariances[0] > 0 else 0):
        lags = np.arange(terms)
        matrix = covariances[np.abs(lags[:, None] - lags)]
        matrix = matrix + (_RIDGE * covariances[0] + _MIN_SPREAD**2) * np.eye(terms)
        weights = np.linalg.solve(matrix, covariances[1 : terms + 1])
        error = covariances[0] - weights @ covariances[1 : terms + 1]
        criterion = count * np.log(max(error, 1e-12)) + terms * np.log(count)
        if criterion < least:
            best, least = np.append(1.0, -weights), criterion
    return best


def _measure_together(values: Vector, order: int) -> tuple[Vector, int]:
    """Covariances of values with those up to `order` later, and the number of values."""
    known = ~np.isnan(values)
    count = int(known.sum())
    filled = np.where(known, values, 0.0)
    cut = CUT * _measure_spread(filled[known]) if count else 0.0
    kept = np.clip(filled, -cut, cut)
    found = [float(kept[: max(len(kept) - lag, 0)] @ kept[lag:]) for lag in range(order + 1)]
    return np.array(found) / max(count, 1), count
