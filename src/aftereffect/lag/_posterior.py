"""The posterior of delays, given a history: how well each of them explains its totals.

The rewards of arms are normal around the level, with an unknown standard deviation. They are
integrated out, so that many arms explain noise no better than few.

The prior is over shapes of a flexible family. A shape has one piece or two. A piece begins at one
lag and ends at another. In between, its distribution function is ``F(u) = 1 - (1 - u^a)^b``
(Kumaraswamy): uniform for a = b = 1, falling or rising in a straight line for b = 2 or a = 2, and
geometric as b grows.

The noise is fitted to what the best shape leaves unexplained, in turns. How persistent the noise is
stays uncertain. So several models of it are tried, each weighted by its likelihood.

Draws are made by sequential Monte Carlo (`sample`). The likelihood counts with a power that grows
from 0 to 1. At each step the population is resampled in proportion to what it gained, and moved by
differences of other draws (differential evolution).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Matrix, Slots, Vector
from aftereffect.lag._model import (
    DRIFT_COLUMNS,
    MAX_ORDER,
    Cube,
    Noise,
    Observations,
    drift_and_patterns,
    fill_gaps,
    fit_noise,
    lag_edges,
    long_run_ratio,
    shares_played,
)

Score = Callable[[Matrix], Vector]
Draw = Callable[[int], Matrix]

#: Draws at a time.
POPULATION = 256
#: Moves in each step, and in the last one; of the last moves, those whose draws are returned.
MOVES, LAST_MOVES, RETURNED_MOVES = 2, 12, 6
#: The share of the population that stays effective in a step.
MIN_EFFECTIVE = 0.4


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws, a row each, and the log-evidence: the log of the mean likelihood over the prior."""

    rows: Matrix
    log_evidence: float


class _Population:
    def __init__(
        self, draw: Draw, log_prior: Score, log_likelihood: Score, rng: np.random.Generator
    ) -> None:
        self.draw, self.log_prior, self.log_likelihood, self.rng = (
            draw,
            log_prior,
            log_likelihood,
            rng,
        )
        self.rows = draw(POPULATION)
        self.prior, self.likelihood = log_prior(self.rows), log_likelihood(self.rows)

    def step(self, power: float) -> tuple[float, float]:
        """Resample; return the next power, and the logarithm of the mean gain."""
        above = self.likelihood - self.likelihood.max()
        low, high = power, 1.0
        if self._effective(above, 1.0 - power) >= MIN_EFFECTIVE:
            low = 1.0
        else:
            for _ in range(40):
                middle = (low + high) / 2
                low, high = (
                    (middle, high)
                    if self._effective(above, middle - power) >= MIN_EFFECTIVE
                    else (low, middle)
                )
        gain = np.exp((low - power) * above)
        size = len(self.rows)
        points = (np.arange(size) + self.rng.random()) / size
        chosen = np.minimum(np.searchsorted(np.cumsum(gain / gain.sum()), points), size - 1)
        log_gain = math.log(float(gain.mean())) + (low - power) * float(self.likelihood.max())
        self.rows, self.prior, self.likelihood = (
            self.rows[chosen],
            self.prior[chosen],
            self.likelihood[chosen],
        )
        return low, log_gain

    def move(self, power: float) -> None:
        """Propose to move each draw by a multiple of the difference of two others."""
        size, width = self.rows.shape
        one, other = ((np.arange(size) + self.rng.integers(1, size, size)) % size for _ in range(2))
        usual = 2.38 / math.sqrt(2 * width) * np.exp(self.rng.normal(-0.5, 0.7, size))
        reach = np.where(self.rng.random(size) < 0.15, 1.0, usual)[:, None]
        steps = reach * (self.rows[one] - self.rows[other]) * (self.rng.random((size, width)) < 0.7)
        rows = self.rows + steps + self.rng.normal(0, 1e-3, (size, width))
        prior, likelihood = self.log_prior(rows), np.full(size, -np.inf)
        possible = np.isfinite(prior)
        if possible.any():
            likelihood[possible] = self.log_likelihood(rows[possible])
        self._accept(
            rows, prior, likelihood, np.where(possible, prior - self.prior, -np.inf), power
        )

    def refresh(self, power: float) -> None:
        """Propose a new first or last half of the parameters of each draw, from the prior.

        So draws jump between modes. As the prior proposes, only the likelihood decides.
        """
        size, width = self.rows.shape
        last = np.arange(width) >= width // 2
        chosen = self.rng.random((size, 1)) < 0.5
        rows = np.where(np.equal(chosen, last), self.draw(size), self.rows)
        self._accept(rows, self.log_prior(rows), self.log_likelihood(rows), np.zeros(size), power)

    def _accept(
        self, rows: Matrix, prior: Vector, likelihood: Vector, odds: Vector, power: float
    ) -> None:
        odds = odds + power * (likelihood - self.likelihood)
        accepted = np.log(self.rng.random(len(rows))) < odds
        self.rows = np.where(accepted[:, None], rows, self.rows)
        self.prior = np.where(accepted, prior, self.prior)
        self.likelihood = np.where(accepted, likelihood, self.likelihood)

    @staticmethod
    def _effective(above: Vector, power: float) -> float:
        gain = np.exp(power * above)
        return float(gain.sum() ** 2 / np.square(gain).sum() / len(gain))


def sample(draw: Draw, log_prior: Score, log_likelihood: Score, rng: np.random.Generator) -> Draws:
    """Draw from prior times likelihood; the two halves of the prior must be independent."""
    population = _Population(draw, log_prior, log_likelihood, rng)
    power = log_evidence = 0.0
    while power < 1:
        power, gain = population.step(power)
        log_evidence += gain
        population.refresh(power)
        for _ in range(MOVES if power < 1 else 0):
            population.move(power)
    draws = []
    for _ in range(LAST_MOVES):
        population.move(1.0)
        draws.append(population.rows)
    return Draws(np.concatenate(draws[-RETURNED_MOVES:]), log_evidence)


#: Standard deviations of rewards that are tried, relative to that of a whitened slot's noise.
RELATIVE_DEVIATIONS = 10.0 ** np.arange(-2, 3.1, 0.5)
#: Numbers held in memory at a time.
MAX_CELLS = 4_000_000
#: A row of parameters has four for a piece: where it begins (relative to its mean; below 0 counts
#: as 0) and the logarithms of its mean, a and b; the same for a second piece; and how much of the
#: reward is in the second, as a logit.
PIECE = 4
#: The smallest mean of a piece, in slots.
MIN_MEAN = 0.25
#: Standard deviation of log a; mean and standard deviation of log b.
DEVIATION_A, MEAN_B, DEVIATION_B = 0.6, 1.0, 1.3
#: The prior probability of two pieces, and the share of the reward in the second: less looks like
#: noise at long lags, and more would be the first piece.
TWO_PIECES, MIN_SECOND, MAX_SECOND = 0.3, 0.1, 0.5
#: The prior of the first and the second piece falls with this power of the mean lag: rewards that
#: arrive evenly over a long time look like a level that no arm causes.
LAG_POWERS = (0.3, 2.0)
#: For a first look, in which every lag should occur.
FLAT_POWERS = (0.0, 0.0)


def draw_shapes(
    count: int, max_mean: float, rng: np.random.Generator, powers: tuple[float, float] = LAG_POWERS
) -> Matrix:
    """Draw shapes from the prior, a row of parameters each."""
    first, second = (_draw_pieces(count, max_mean, power, rng) for power in powers)
    return np.concatenate([first, second, rng.logistic(size=(count, 1))], axis=1)


def log_prior(shapes: Matrix, max_mean: float) -> Vector:
    """The log-prior of shapes, up to a constant."""
    logit = np.abs(shapes[:, -1])
    pieces = _log_prior(shapes[:, :PIECE], max_mean, LAG_POWERS[0]) + _log_prior(
        shapes[:, PIECE:-1], max_mean, LAG_POWERS[1]
    )
    result: Vector = pieces - logit - 2 * np.log1p(np.exp(-logit))
    return result


def shares_of(shapes: Matrix, edges: Slots) -> Matrix:
    """The share of a reward that arrives in each bin, a row per shape."""
    rank = 1 / (1 + np.exp(-shapes[:, -1:]))
    part = MIN_SECOND + (MAX_SECOND - MIN_SECOND) * (rank - 1 + TWO_PIECES) / TWO_PIECES
    second = np.where(rank < 1 - TWO_PIECES, 0.0, part)
    one, other = _piece_shares(shapes[:, :PIECE], edges), _piece_shares(shapes[:, PIECE:-1], edges)
    shares: Matrix = (1 - second) * one + second * other
    return shares


def _draw_pieces(count: int, max_mean: float, power: float, rng: np.random.Generator) -> Matrix:
    grid = np.linspace(math.log(MIN_MEAN), math.log(max_mean), 402)[1:-1]
    density = np.exp(-power * np.maximum(grid, 0.0))
    log_mean = np.interp(rng.random(count), np.cumsum(density) / density.sum(), grid)
    begin = rng.uniform(-1, 1, count)
    return np.stack(
        [
            begin,
            log_mean,
            rng.normal(0, DEVIATION_A, count),
            rng.normal(MEAN_B, DEVIATION_B, count),
        ],
        axis=1,
    )


def _log_prior(pieces: Matrix, max_mean: float, power: float) -> Vector:
    begin, log_mean, log_a, log_b = pieces.T
    possible = (
        (np.abs(begin) < 1) & (log_mean > math.log(MIN_MEAN)) & (log_mean < math.log(max_mean))
    )
    logs = (
        -0.5 * (log_a / DEVIATION_A) ** 2
        - 0.5 * ((log_b - MEAN_B) / DEVIATION_B) ** 2
        - power * np.maximum(log_mean, 0.0)
    )
    return np.where(possible, logs, -np.inf)


def _piece_shares(pieces: Matrix, edges: Slots) -> Matrix:
    begin = np.maximum(pieces[:, :1], 0.0)
    mean, a, b = np.exp(pieces[:, 1:2]), np.exp(pieces[:, 2:3]), np.exp(pieces[:, 3:])
    first = mean * begin
    length = np.maximum((mean - first) * (1 + b), 0.5)
    arrived = 1 - (1 - np.clip((edges - first) / length, 0.0, 1.0) ** a) ** b
    arrived /= np.maximum(arrived[:, -1:], 1e-9)  # nothing arrives beyond the last bin
    return np.diff(arrived, axis=1)


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


class Evidence:
    """Sums over slots that comparing delays needs, for one model of the noise.

    Parameters
    ----------
    shares
        x(t, b, k): which arms were played at which lags before each slot.
    totals
        The total of each slot.
    columns
        The level, drift and patterns.
    noise, inflation
        The noise, and the factor by which its variance is larger than fitted.
    observed
        The slots whose totals count.
    """

    def __init__(
        self,
        shares: Cube,
        totals: Vector,
        columns: Matrix,
        noise: Noise,
        inflation: float,
        observed: Slots,
    ) -> None:
        slots, self.bins, self.arms = shares.shape
        rows = np.concatenate([shares.reshape(slots, -1), totals[:, None], columns], axis=1)
        white = noise.whiten(rows)[observed]
        size = columns.shape[1]
        nuisance, triangle = np.linalg.qr(white[:, -size:])
        rest = white[:, :-size] - nuisance @ (nuisance.T @ white[:, :-size])
        design, target = rest[:, :-1], rest[:, -1]
        variance = noise.variance * inflation
        self.gram: Matrix = (design.T @ design / variance).reshape(self.bins, -1)
        self.target: Matrix = (design.T @ target / variance).reshape(self.bins, self.arms)
        self.variance = variance
        free = len(observed) - size
        #: The log-likelihood of the totals if no arm matters, up to a constant.
        self.without_arms: float = -0.5 * (
            noise.log_determinant(slots) * len(observed) / slots
            + free * math.log(inflation)
            + 2 * float(np.log(np.abs(np.diag(triangle))).sum())
            + float(target @ target) / variance
        )

    def log_ratio(self, shares: Matrix, arms: slice = slice(None)) -> Vector:
        """The log-likelihood of the totals with these shares minus that if no arm matters.

        Each row of `shares` is one delay; `arms` selects the arms that may matter.
        """
        gram, target = self._by_arm(shares)
        values, vectors = np.linalg.eigh(gram[:, arms, arms])
        values = np.maximum(values, 0.0)
        along = np.square(np.einsum("nkl,nk->nl", vectors, target[:, arms]))
        prior = (self.variance * RELATIVE_DEVIATIONS**2)[:, None, None]
        logs = 0.5 * (along * prior / (1 + prior * values) - np.log1p(prior * values)).sum(axis=-1)
        best = logs.max(axis=0)
        result: Vector = best + np.log(np.exp(logs - best).mean(axis=0))
        return result

    def effects(self, shares: Vector) -> tuple[Vector, float]:
        """The rewards of the arms, given the shares, and how many free parameters they are."""
        gram, target = (each[0] for each in self._by_arm(shares[None]))
        best, effects, free = -np.inf, np.zeros(self.arms), 0.0
        for prior in self.variance * RELATIVE_DEVIATIONS**2:
            regularised = gram + np.eye(self.arms) / prior
            found = np.linalg.solve(regularised, target)
            log = 0.5 * (float(target @ found) - float(np.linalg.slogdet(prior * regularised)[1]))
            if log > best:
                best, effects, free = (
                    log,
                    found,
                    float(np.trace(np.linalg.solve(regularised, gram))),
                )
        return effects, free

    def _by_arm(self, shares: Matrix) -> tuple[Cube, Matrix]:
        gram = np.empty((len(shares), self.arms, self.arms))
        step = max(1, MAX_CELLS // self.gram.shape[1])
        for first in range(0, len(shares), step):
            some = shares[first : first + step]
            half = (some @ self.gram).reshape(-1, self.arms, self.bins, self.arms)
            gram[first : first + step] = np.einsum("nkbl,nb->nkl", half, some)
        return gram, shares @ self.target


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
