"""Which ways to spread rewards are likely, given a history.

The noise is fitted to what the best shape leaves unexplained, in turns. How persistent it is stays uncertain, so several models
of it are tried, and each counts by how likely it makes the totals.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect.kernels import Matrix, Slots, Vector
from aftereffect.lag.design import Cube, fill_gaps, lag_edges, shares_played
from aftereffect.lag.evidence import Evidence
from aftereffect.lag.noise import DRIFT, MAX_ORDER, fit_noise, long_run, slow_and_recurring
from aftereffect.lag.sampler import POPULATION, sample
from aftereffect.lag.seen import Seen
from aftereffect.lag.shapes import FLAT, draw_shapes, log_prior, shares_of

#: How far shapes reach, and the largest mean lag of a piece, as parts of the history.
REACH, MAX_MEAN = 0.4, 0.2
MAX_BINS, MAX_COLUMNS = 60, 1_200
TURNS = 2
#: The variance of noise is taken this many times as large: it is fitted, and so never quite right. See ``benchmarks/lag.py``.
CAUTION = 1.5
#: Noise more persistent than it seems, as parts of its variance; what counts less than `NEGLIGIBLE` is left out.
PERSISTENT, NEGLIGIBLE = (0.0, 0.5, 2.0), 0.02


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the shares by bin, as likely as the history makes them.

    Attributes
    ----------
    evidence
        The logarithm of how much more likely totals are than if no arm mattered.
    contrast
        The part of it that is due to contrasts between arms, and not to how totals begin.
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

    def landed(self, lags: Slots) -> Matrix:
        """The share that has landed by each lag, a row per draw."""
        landed = np.cumsum(np.pad(self.shares, ((0, 0), (1, 0))), axis=1)
        return np.array([np.interp(lags + 1.0, self.edges, row) for row in landed])

    def over(self, share: float) -> Vector:
        """The lag by which so much has landed, of each draw."""
        landed = np.cumsum(np.pad(self.shares, ((0, 0), (1, 0))), axis=1)
        return np.array([max(float(np.interp(share, row, self.edges)) - 1.0, 0.0) for row in landed])


def find_posterior(history: Seen, rng: np.random.Generator) -> Posterior:
    """Fit the noise, and draw shapes."""
    known = np.flatnonzero(np.isfinite(history.total))
    slots = len(history.arm)
    totals = fill_gaps(_scaled(history.total), known)
    edges = lag_edges(int(REACH * slots), min(MAX_BINS, MAX_COLUMNS // (history.arms + 2)))
    played = fill_gaps(shares_played(history, edges), known)
    max_mean = MAX_MEAN * slots
    pool = draw_shapes(4 * POPULATION, max_mean, rng, FLAT)
    shares = shares_of(pool, edges)
    models = _models(played, totals, known, shares)
    likely = np.array([model.without_arms + float(model.log_ratio(shares).max()) for model in models])
    found = [
        _drawn(model, edges, max_mean, rng)
        for model, log in zip(models, likely, strict=True)
        if log >= likely.max() + 2 * math.log(NEGLIGIBLE)
    ]
    weight = np.array([each.log_weight for each in found])
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    picked = [
        rng.permutation(len(each.shares))[: round(len(each.shares) * part)] for each, part in zip(found, weight, strict=True)
    ]
    count = [each for each, part in zip(found, weight, strict=True) if part >= NEGLIGIBLE]
    return Posterior(
        edges,
        np.concatenate([each.shares[some] for each, some in zip(found, picked, strict=True)]),
        min(each.evidence for each in count),
        min(each.contrast(history.arms) for each in count),
    )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Draws for one model of the noise, and the logarithm of how much more likely it is than no effect of the arms."""

    model: Evidence
    shares: Matrix
    evidence: float

    @property
    def log_weight(self) -> float:
        """The logarithm of how likely totals are with this noise, but for a constant."""
        return self.model.without_arms + self.evidence

    def contrast(self, arms: int) -> float:
        """How much of the evidence is lost on average if all arms were alike, and only the beginning and pauses counted."""
        some = self.shares[:POPULATION]
        return float(np.mean(self.model.log_ratio(some) - self.model.log_ratio(some, slice(arms, None))))


def _drawn(model: Evidence, edges: Slots, max_mean: float, rng: np.random.Generator) -> _Drawn:
    draws = sample(
        lambda count: draw_shapes(count, max_mean, rng),
        lambda shapes: log_prior(shapes, max_mean),
        lambda shapes: model.log_ratio(shares_of(shapes, edges)),
        rng,
    )
    return _Drawn(model, shares_of(draws.rows, edges), draws.log_evidence)


def _scaled(totals: Vector) -> Vector:
    """Totals around 0 with variance 1, also where they are so large that their squares are no numbers."""
    small = totals / np.nanmax(np.abs(totals))
    around = small - np.nanmean(small)
    result: Vector = around / np.nanstd(around)
    return result


def _models(played: Cube, totals: Vector, known: Slots, pool: Matrix) -> list[Evidence]:
    """The evidence for several models of the noise, fitted in turns with the best of a pool of shapes."""
    slots = len(totals)
    order = min(MAX_ORDER, slots // 10)
    columns = slow_and_recurring(totals)
    noise = fit_noise(totals - columns @ (columns.T @ totals), min(order, 2), DRIFT + 1)
    model = Evidence(played, totals, columns, noise, 1.0, known)
    for turn in range(TURNS):
        shares = pool[int(model.log_ratio(pool).argmax())]
        effects, free = model.effects(shares)
        rest = totals - (played @ effects) @ shares
        columns = slow_and_recurring(rest)
        unexplained = rest - columns @ (columns.T @ rest)
        lost = slots / max(slots - columns.shape[1] - free, slots / 4)
        tried = PERSISTENT if turn == TURNS - 1 else PERSISTENT[:1]
        models = []
        for more in tried:
            noise = fit_noise(unexplained, order, DRIFT + 1 + free, more)
            inflation = long_run(noise.whiten(unexplained[:, None])[known, 0])
            models.append(Evidence(played, totals, columns, noise, CAUTION * inflation * lost, known))
        model = models[0]
    return models
