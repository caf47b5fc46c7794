"""How a reward may be spread over lags: shapes of a flexible family, and how likely each is before totals are seen.

One piece begins at a lag and ends at another, and in between its distribution is ``F(u) = 1 - (1 - u^a)^b`` (Kumaraswamy): even
for a = b = 1, falling or rising in a straight line for b = 2 or a = 2, and geometric as b grows. A shape is one piece, or two.
"""

import math

import numpy as np

from aftereffect.kernels import Matrix, Slots, Vector

#: A row of parameters: of a piece where it begins (relative to its mean, below 0 the same as 0), the logarithms of its mean, a
#: and b; of a second piece the same; and how much of the reward is in the second, as a logit.
PIECE = 4
SIZE = 2 * PIECE + 1
MIN_MEAN = 0.25
#: Standard deviation of log a; mean and standard deviation of log b.
SPREAD_A, MEAN_B, SPREAD_B = 0.6, 1.0, 1.3
#: How often there are two pieces, and what the second one holds: less cannot be told from noise at far lags, more is the first.
TWO, MIN_SECOND, MAX_SECOND = 0.3, 0.1, 0.5
#: How strongly a long lag speaks against the first and the second piece, as a power of it: what lands evenly over a long time
#: can hardly be told from a level that no arm makes.
PARSIMONY = (0.3, 2.0)
#: For a first look, in which every lag should occur.
FLAT = (0.0, 0.0)


def draw_shapes(count: int, max_mean: float, rng: np.random.Generator, powers: tuple[float, float] = PARSIMONY) -> Matrix:
    """Shapes as likely as they are beforehand, a row of parameters each."""
    first, second = (_draw_pieces(count, max_mean, power, rng) for power in powers)
    return np.concatenate([first, second, rng.logistic(size=(count, 1))], axis=1)


def log_prior(shapes: Matrix, max_mean: float) -> Vector:
    """The logarithm of how likely shapes are beforehand, but for a constant."""
    logit = np.abs(shapes[:, -1])
    pieces = _log_prior(shapes[:, :PIECE], max_mean, PARSIMONY[0]) + _log_prior(shapes[:, PIECE:-1], max_mean, PARSIMONY[1])
    result: Vector = pieces - logit - 2 * np.log1p(np.exp(-logit))
    return result


def shares_of(shapes: Matrix, edges: Slots) -> Matrix:
    """The share of a reward that lands in each bin, a row per shape."""
    rank = 1 / (1 + np.exp(-shapes[:, -1:]))
    second = np.where(rank < 1 - TWO, 0.0, MIN_SECOND + (MAX_SECOND - MIN_SECOND) * (rank - 1 + TWO) / TWO)
    shares: Matrix = (1 - second) * _piece(shapes[:, :PIECE], edges) + second * _piece(shapes[:, PIECE:-1], edges)
    return shares


def _draw_pieces(count: int, max_mean: float, power: float, rng: np.random.Generator) -> Matrix:
    grid = np.linspace(math.log(MIN_MEAN), math.log(max_mean), 402)[1:-1]
    density = np.exp(-power * np.maximum(grid, 0.0))
    log_mean = np.interp(rng.random(count), np.cumsum(density) / density.sum(), grid)
    begin = rng.uniform(-1, 1, count)
    return np.stack([begin, log_mean, rng.normal(0, SPREAD_A, count), rng.normal(MEAN_B, SPREAD_B, count)], axis=1)


def _log_prior(pieces: Matrix, max_mean: float, power: float) -> Vector:
    begin, log_mean, log_a, log_b = pieces.T
    possible = (np.abs(begin) < 1) & (log_mean > math.log(MIN_MEAN)) & (log_mean < math.log(max_mean))
    logs = -0.5 * (log_a / SPREAD_A) ** 2 - 0.5 * ((log_b - MEAN_B) / SPREAD_B) ** 2 - power * np.maximum(log_mean, 0.0)
    return np.where(possible, logs, -np.inf)


def _piece(pieces: Matrix, edges: Slots) -> Matrix:
    begin = np.maximum(pieces[:, :1], 0.0)
    mean, a, b = np.exp(pieces[:, 1:2]), np.exp(pieces[:, 2:3]), np.exp(pieces[:, 3:])
    first = mean * begin
    length = np.maximum((mean - first) * (1 + b), 0.5)
    landed = 1 - (1 - np.clip((edges - first) / length, 0.0, 1.0) ** a) ** b
    landed /= np.maximum(landed[:, -1:], 1e-9)  # what would land beyond the last bin is left out
    return np.diff(landed, axis=1)
