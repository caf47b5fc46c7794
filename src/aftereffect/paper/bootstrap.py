"""What the figures would have been with other runs: replications drawn again from those at hand."""

import numpy as np

from aftereffect.kernels import Matrix, Vector

DRAWS = 2_000
_SEED = 20_210_426
_MOST_AT_ONCE = 4_000_000


def resampled_means(samples: Matrix) -> Matrix:
    """Means of the columns, one row for each time that the rows (replications) are drawn again; always the same draws."""
    rng = np.random.default_rng(_SEED)
    count = len(samples)
    size = max(1, min(DRAWS, _MOST_AT_ONCE // samples.size))
    parts = (rng.integers(count, size=(min(size, DRAWS - done), count)) for done in range(0, DRAWS, size))
    return np.concatenate([samples[chosen].mean(axis=1) for chosen in parts])


def interval(draws: Vector) -> tuple[float, float]:
    """The middle 95 %."""
    low, high = np.quantile(draws, (0.025, 0.975), method="inverted_cdf")  # of the draws themselves: some may be infinite
    return float(low), float(high)
