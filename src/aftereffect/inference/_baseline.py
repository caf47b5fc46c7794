"""What totals would be without a difference between arms: delay, season, noise.

Inference rests on the draws of arms, and is right whatever is assumed here. What is assumed only
makes it sharp. So everything here is estimated from totals that came before the blocks for which
it is used, and is kept simple.
"""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.inference._trial import (
    FLOOR,
    Candidate,
    Family,
    Trial,
    add_delayed,
    list_candidates,
    make_candidate,
    spread_history,
    undo_delays,
)

#: Prior standard deviations: of logarithms of lifts, of the level, and of what weekdays and hours
#: add to the season, if the history shows a season and if there is none.
_LIFT, _LEVEL, _SEEN_SEASON, _NEW_SEASON = 0.1, 1.0, 0.05, 0.7
#: Delays are alike if so much of their shares is common. One is plausible if its logarithm of the
#: posterior is at most so far below that of the best; and the most that are considered.
_ALIKE, _PLAUSIBLE, _MAX_DELAYS = 0.7, 5.0, 6
#: A delay whose logarithm of the posterior is so far below that of the best is not looked at again,
#: once there are so many windows per parameter: fewer can be fitted almost perfectly by chance.
_HOPELESS, _ENOUGH_WINDOWS = 40.0, 4
#: A delay ends where less than this is left.
_TAIL = 0.01
#: The most windows by which noise is predicted, the windows that each takes, what is added to
#: their variance, and for how many windows those of a history count.
_MAX_ORDER, _PER_ORDER, _RIDGE, _HISTORY_COUNT = 8, 6, 0.003, 84
#: Residuals beyond so many deviations are cut.
CUT = 3.0
#: The smallest standard deviation of logarithms. A regression with hardly more windows than
#: parameters leaves almost nothing; evidence that took this for precision would decide for an
#: absurd delay.
_MIN_SPREAD = 0.003
#: The first guess of how noise is predicted.
_FIRST_FILTER = np.array([1.0, -0.8])


class Explanation(NamedTuple):
    """A delay that may be the right one, and what was learned from earlier totals if it is.

    `offsets` are added to the logarithm of the season, by column of `list_columns`. `lifts` are
    logarithms, by arm. If they were larger, the same totals would have other offsets: `slopes` say
    by how much, by column and arm.
    """

    candidate: Candidate
    offsets: Vector
    lifts: Vector
    slopes: Matrix


class Baseline(NamedTuple):
    """What was learned from the totals before some slot.

    `filter` turns what is left of totals into white noise with the standard deviation `scale`. The
    first of the `explanations` has the mean of all delays, and further ones have delays that are
    plausible, but unlike it. `stands_for` is the number of the explanation that is like each of the
    candidates; -1 if none is. `plausible` are the candidates that may be right, without those that
    are like a better one.
    """

    filter: Vector
    scale: float
    explanations: list[Explanation]
    stands_for: Slots
    plausible: Slots


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


class Baselines:
    """Learns a baseline from the first windows of a trial, again and again as they become more."""

    def __init__(self, trial: Trial, season: Vector | None) -> None:
        self._trial, self._columns = trial, list_columns(trial)
        self._season = season
        width, spread = self._columns.shape[1], _NEW_SEASON if season is None else _SEEN_SEASON
        self._priors = np.array([_LEVEL, *[spread] * (width - 1), *[_LIFT] * trial.arms])
        # Without a season, candidates change with what was learned.
        self._candidates = (
            [] if season is None else list_candidates(trial, season, with_demand=True)
        )
        self._family = Family(self._candidates)
        self._hopeful: Slots | None = None
        self._before: Baseline | None = None

    def learn(self, windows: int) -> Baseline:
        """Learn from the totals of the first windows."""
        trial, season, candidates = self._trial, self._season, self._candidates
        if season is None:
            season = self._guess_season(windows)
            candidates = list_candidates(trial, season, with_demand=False)
            self._family = Family(candidates)
        whitener = _FIRST_FILTER if self._before is None else self._before.filter
        hopeful = np.arange(len(candidates)) if self._hopeful is None else self._hopeful
        fits, evidence = self._regress([candidates[each] for each in hopeful], windows, whitener)
        posterior = np.full(len(candidates), -np.inf)
        posterior[hopeful] = evidence + np.array([candidates[each].prior for each in hopeful])
        if windows >= _ENOUGH_WINDOWS * len(self._priors):
            self._hopeful = np.flatnonzero(posterior >= posterior.max() - _HOPELESS)
        mean = self._average(candidates, posterior, season)
        mean_fits, _ = self._regress([mean], windows, whitener)
        plausible = self._choose(posterior)
        like_mean = self._family.compare(mean)
        chosen = [each for each in plausible if like_mean[each] < _ALIKE]
        explained = [mean, *(candidates[each] for each in chosen)]
        rows = np.searchsorted(hopeful, chosen)
        common = np.column_stack([like_mean, self._family.common[:, chosen]])
        columns = self._columns[:windows]
        left = mean.values[:windows] - np.hstack([columns, mean.parts[:windows]]) @ mean_fits[0]
        shares = mean.shares if mean.season is None else np.ones(1)
        whitener = _learn_filter(trial, shares, season, left)
        white = add_delayed(whitener, np.where(np.isnan(left), 0.0, left))
        scale = float(_measure_spread(white[~np.isnan(left)]))
        self._before = Baseline(
            whitener,
            scale,
            [
                self._explain(candidate, fit, whitener / scale, windows)
                for candidate, fit in zip(explained, [*mean_fits, *fits[rows]], strict=True)
            ],
            stands_for=np.where(common.max(axis=1) >= _ALIKE, common.argmax(axis=1), -1),
            plausible=np.array(plausible),
        )
        return self._before

    def _guess_season(self, windows: int) -> Vector:
        """The season without a history: flat at first, then what was learned on the way."""
        trial = self._trial
        if self._before is None:
            usual = float(np.nanmean(trial.totals[: windows * trial.window]))
            return np.full(trial.week, max(usual, 1e-300))
        explanation = self._before.explanations[0]
        whole = trial._replace(places=np.arange(trial.week))
        offsets = list_columns(whole) @ explanation.offsets
        known = explanation.candidate.season
        assert known is not None
        season: Vector = known * np.exp(np.repeat(offsets, trial.window))
        return season

    def _average(self, candidates: list[Candidate], posterior: Vector, season: Vector) -> Candidate:
        """The mean delay of those candidates that agree with the best on what a history shows."""
        best = candidates[int(np.argmax(posterior))]
        agree = self._family.is_of_totals == (best.season is not None)
        weights = np.where(agree, np.exp(posterior - posterior.max()), 0.0)
        shares = weights @ self._family.shares
        shares /= shares.sum()
        shares = shares[: int(np.argmax(np.cumsum(shares) >= 1 - _TAIL)) + 1]
        shares /= shares.sum()
        if best.season is None:
            return make_candidate(self._trial, shares, season, None)
        demand = undo_delays(season, shares[None])[0]
        return make_candidate(self._trial, shares, demand, season)

    def _choose(self, posterior: Vector) -> list[int]:
        """Plausible delays, the best first, that are unlike each other."""
        order = np.argsort(-posterior, kind="stable")
        plausible = order[posterior[order] >= posterior[order[0]] - _PLAUSIBLE]
        chosen: list[int] = []
        for each in map(int, plausible):
            if len(chosen) < _MAX_DELAYS and (self._family.common[each, chosen] < _ALIKE).all():
                chosen.append(each)
        return chosen

    def _explain(
        self, candidate: Candidate, fit: Vector, whitener: Vector, windows: int
    ) -> Explanation:
        """What a fit says of offsets and lifts, relative to the control."""
        width, control = self._columns.shape[1], self._trial.control
        design = np.hstack([self._columns[:windows], candidate.parts[:windows]])
        rows = add_delayed(whitener, design)[~np.isnan(candidate.values[:windows])]
        precision = rows.T @ rows + np.diag(self._priors**-2)
        slopes: Matrix = -np.linalg.inv(precision[:width, :width]) @ precision[:width, width:]
        lifts = fit[width:] - fit[width + control]
        # Parts of arms sum to 1: what the control adds is a part of the level.
        offsets = fit[:width] + fit[width + control] * (np.arange(width) == 0)
        return Explanation(candidate, offsets, lifts, slopes)

    def _regress(
        self, candidates: list[Candidate], windows: int, whitener: Vector
    ) -> tuple[Matrix, Vector]:
        """Ridge regressions, robust to bursts: coefficients and log evidence by candidate."""
        priors, width = self._priors, self._columns.shape[1]
        values = np.array([each.values[:windows] for each in candidates])
        known = ~np.isnan(values[0])  # the same windows are known, whatever the delay is
        values = np.where(known, values, np.median(values[:, known], axis=1, keepdims=True))
        rows = add_delayed(whitener, values, axis=1)[:, known]
        shared = add_delayed(whitener, self._columns[:windows])[known]
        parts = np.array([each.parts[:windows] for each in candidates])
        parts = add_delayed(whitener, parts, axis=1)[:, known]
        across, turned = shared.T @ parts, np.swapaxes(parts, 1, 2)
        matrix = np.zeros((len(candidates), len(priors), len(priors)))
        matrix[:, :width, :width] = shared.T @ shared
        matrix[:, :width, width:] = across
        matrix[:, width:, :width] = np.swapaxes(across, 1, 2)
        matrix[:, width:, width:] = turned @ parts
        left, spread = rows, _measure_spread(rows)
        for _ in range(3):  # with all residuals, then twice with those beyond some deviations cut
            penalty = (spread[:, None] / priors) ** 2
            kept = rows - left + _cut(left, spread)
            target = np.hstack([kept @ shared, (turned @ kept[:, :, None])[:, :, 0]])
            inner = matrix + penalty[:, None] * np.eye(len(priors))
            fits: Matrix = np.linalg.solve(inner, target[:, :, None])[:, :, 0]
            left = rows - fits[:, :width] @ shared.T - (parts @ fits[:, width:, None])[:, :, 0]
            spread = _measure_spread(left)
        count = max(int(known.sum()), 1)
        squares = (_cut(left, spread) ** 2).sum(axis=1) / count
        evidence = -0.5 * count * np.log(squares + _MIN_SPREAD**2) - 0.5 * (
            (fits / priors) ** 2
        ).sum(axis=1)
        return fits, evidence


def _cut(left: Matrix, spread: Vector) -> Matrix:
    limit = CUT * spread[:, None]
    cut: Matrix = np.clip(left, -limit, limit)
    return cut


def _measure_spread(values: Matrix) -> Vector:
    """Standard deviations by row that a few bursts do not change, and that are never 0."""
    count = values.shape[-1]
    middle = [(count - 1) // 2, count // 2]
    medians = np.partition(np.abs(values), middle, axis=-1)[..., middle].mean(axis=-1)
    spread: Vector = np.maximum(1.4826 * medians, _MIN_SPREAD)
    return spread


def _learn_filter(trial: Trial, shares: Vector, season: Vector, left: Vector) -> Vector:
    """How to predict a residual by the last ones, from their covariances.

    The history counts as well, as if it had arrived with a delay. By how many residuals is chosen
    by the Bayesian information criterion.
    """
    order = min(_MAX_ORDER, len(left) // _PER_ORDER)
    covariances, count = _measure_together(left, _MAX_ORDER)
    if len(trial.history) >= 2 * trial.week:
        arrived, usual = spread_history(trial, shares, season).T
        past = np.log(np.maximum(arrived, FLOOR * usual) / usual)
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
    cut = CUT * float(_measure_spread(filled[known])) if count else 0.0
    kept = np.clip(filled, -cut, cut)
    found = [float(kept[: max(len(kept) - lag, 0)] @ kept[lag:]) for lag in range(order + 1)]
    return np.array(found) / max(count, 1), count
