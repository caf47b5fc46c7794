"""The prior over shapes of a flexible family: how a reward may be spread over its lags.

A shape has one piece or two. A piece begins at one lag and ends at another. In between, its
distribution function is ``F(u) = 1 - (1 - u^a)^b`` (Kumaraswamy): uniform for a = b = 1, falling or
rising in a straight line for b = 2 or a = 2, and geometric as b grows.
"""

import math

import numpy as np

from aftereffect._core import Matrix, Slots, Vector

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
