"""The posterior of delays, given a history: how well each of them explains its totals.

The noise is fitted to what the best shape leaves unexplained, in turns. How persistent the noise is
stays uncertain. So several models of it are tried, each weighted by its likelihood.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.lag._evidence import Evidence
from aftereffect.lag._model import (
    DRIFT_COLUMNS,
    MAX_ORDER,
    Cube,
    Observations,
    drift_and_patterns,
    fill_gaps,
    fit_noise,
    lag_edges,
    long_run_ratio,
    shares_played,
)
from aftereffect.lag._sampling import POPULATION, sample
from aftereffect.lag._shapes import FLAT_POWERS, draw_shapes, log_prior, shares_of

#: The reach of shapes, and the largest mean lag of a piece, as shares of the history.
REACH_SHARE, MAX_MEAN_SHARE = 0.4, 0.2
#: Bins of lags, and bins times arms.
MAX_BINS, MAX_COLUMNS = 60, 1_200
#: How often noise and shape are fitted in turn.
TURNS = 2
#: The variance of the noise is multiplied by this: a fitted noise is never quite right. See
#: ``benchmarks/lag.py``.
NOISE_FACTOR = 1.5
#: Persistent noise that is added, as shares of the variance; one for each model of the noise.
PERSISTENT_SHARES = (0.0, 0.5, 2.0)
#: A model of the noise with a smaller weight is left out.
MIN_WEIGHT = 0.02


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the shares by bin.

    Attributes
    ----------
    evidence
        The log-evidence of the totals minus that if no arm mattered.
    contrast
        The part of it that comes from contrasts between arms, and not from how totals begin.
    """

    edges: Slots
    shares: Matrix
    evidence: float
    contrast: float

    def bin_width(self, lag: float) -> int:
        """How many lags share a bin with this one."""
        at = int(np.searchsorted(self.edges, lag, side="right"))
        return int(np.diff(self.edges)[min(max(at - 1, 0), len(self.edges) - 2)])

    @property
    def mean_lags(self) -> Vector:
        """The mean lag of each draw."""
        middles = (self.edges[:-1] + self.edges[1:] - 1) / 2
        return self.shares @ middles

    def find_arrived(self, lags: Slots) -> Matrix:
        """The share that has arrived by each lag, a row per draw."""
        arrived = np.cumsum(np.pad(self.shares, ((0, 0), (1, 0))), axis=1)
        return np.array([np.interp(lags + 1.0, self.edges, row) for row in arrived])

    def lags_until(self, share: float) -> Vector:
        """The lag by which this share has arrived, of each draw."""
        arrived = np.cumsum(np.pad(self.shares, ((0, 0), (1, 0))), axis=1)
        return np.array(
            [max(float(np.interp(share, row, self.edges)) - 1.0, 0.0) for row in arrived]
        )


def find_posterior(history: Observations, rng: np.random.Generator) -> Posterior:
    """Fit the noise, and draw shapes."""
    observed = np.flatnonzero(np.isfinite(history.totals))
    slots = len(history.arms)
    totals = fill_gaps(_scale(history.totals), observed)
    edges = lag_edges(
        int(REACH_SHARE * slots), min(MAX_BINS, MAX_COLUMNS // (history.arm_count + 2))
    )
    played = fill_gaps(shares_played(history, edges), observed)
    max_mean = MAX_MEAN_SHARE * slots
    pool = draw_shapes(4 * POPULATION, max_mean, rng, FLAT_POWERS)
    shares = shares_of(pool, edges)
    models = _fit_models(played, totals, observed, shares)
    likely = np.array(
        [model.without_arms + float(model.log_ratio(shares).max()) for model in models]
    )
    found = [
        _draw(model, edges, max_mean, rng)
        for model, log in zip(models, likely, strict=True)
        if log >= likely.max() + 2 * math.log(MIN_WEIGHT)
    ]
    weight = np.array([each.log_weight for each in found])
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    picked = [
        rng.permutation(len(each.shares))[: round(len(each.shares) * part)]
        for each, part in zip(found, weight, strict=True)
    ]
    count = [each for each, part in zip(found, weight, strict=True) if part >= MIN_WEIGHT]
    return Posterior(
        edges,
        np.concatenate([each.shares[some] for each, some in zip(found, picked, strict=True)]),
        min(each.evidence for each in count),
        min(each.contrast(history.arm_count) for each in count),
    )


@dataclass(frozen=True, eq=False)
class _ModelDraws:
    """Draws for one model of the noise, and its log-evidence minus that if no arm mattered."""

    model: Evidence
    shares: Matrix
    evidence: float

    @property
    def log_weight(self) -> float:
        """The log-evidence of the totals with this noise, up to a constant."""
        return self.model.without_arms + self.evidence

    def contrast(self, arms: int) -> float:
        """The evidence that is lost if only the beginning and slots without an arm matter."""
        some = self.shares[:POPULATION]
        return float(
            np.mean(self.model.log_ratio(some) - self.model.log_ratio(some, slice(arms, None)))
        )


def _draw(model: Evidence, edges: Slots, max_mean: float, rng: np.random.Generator) -> _ModelDraws:
    draws = sample(
        lambda count: draw_shapes(count, max_mean, rng),
        lambda shapes: log_prior(shapes, max_mean),
        lambda shapes: model.log_ratio(shares_of(shapes, edges)),
        rng,
    )
    return _ModelDraws(model, shares_of(draws.rows, edges), draws.log_evidence)


def _scale(totals: Vector) -> Vector:
    """Scale totals to mean 0 and variance 1, also if they are so large that squares overflow."""
    small = totals / np.nanmax(np.abs(totals))
    around = small - np.nanmean(small)
    result: Vector = around / np.nanstd(around)
    return result


def _fit_models(played: Cube, totals: Vector, observed: Slots, pool: Matrix) -> list[Evidence]:
    """Fit several models of the noise, in turns with the best of a pool of shapes."""
    slots = len(totals)
    order = min(MAX_ORDER, slots // 10)
    columns = drift_and_patterns(totals)
    noise = fit_noise(totals - columns @ (columns.T @ totals), min(order, 2), DRIFT_COLUMNS + 1)
    model = Evidence(played, totals, columns, noise, 1.0, observed)
    for turn in range(TURNS):
        shares = pool[int(model.log_ratio(pool).argmax())]
        effects, free = model.effects(shares)
        rest = totals - (played @ effects) @ shares
        columns = drift_and_patterns(rest)
        unexplained = rest - columns @ (columns.T @ rest)
        lost = slots / max(slots - columns.shape[1] - free, slots / 4)
        tried = PERSISTENT_SHARES if turn == TURNS - 1 else PERSISTENT_SHARES[:1]
        models = []
        for persistent in tried:
            noise = fit_noise(unexplained, order, DRIFT_COLUMNS + 1 + free, persistent)
            inflation = long_run_ratio(noise.whiten(unexplained[:, None])[observed, 0])
            models.append(
                Evidence(played, totals, columns, noise, NOISE_FACTOR * inflation * lost, observed)
            )
        model = models[0]
    return models
