"""What arms do not explain: drift, patterns of the calendar, and correlated noise.

Drift and patterns are columns of the model. Noise is autoregressive; whitening turns it into
independent noise.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Matrix, Slots, Vector

#: Columns for drift: cosines of half a cycle, one, and one and a half over the history. They are
#: slower than any lag that can be found.
DRIFT_COLUMNS = 3
#: Slots of a week in quarters of an hour. Patterns whose period divides it are looked for; so are a
#: day or a week of hours, and a week of days.
CALENDAR_SLOTS = 672
MAX_PATTERNS = 40
#: The power of a pattern is at least so many times that of the frequencies around it.
MIN_POWER_RATIO = 12.0
#: The largest order of the autoregression, in slots.
MAX_ORDER = 12
#: The share of independent noise that is added, so that whitening does not trust a frequency just
#: because it seems free of noise.
WHITE_SHARE = 0.02
#: Numbers of blocks of the history. The sums of blocks show whether noise is correlated over longer
#: times than the autoregression covers.
BLOCK_COUNTS = (20, 40)


@dataclass(frozen=True, eq=False)
class Noise:
    """Autoregressive noise: the coefficients by which each slot is predicted from those before it.

    Attributes
    ----------
    coefficients
        The coefficients of the predictor from 0, 1, ..., order slots before.
    variances
        The variance that each predictor leaves, independent noise included.
    """

    coefficients: tuple[Vector, ...]
    variances: Vector

    @property
    def variance(self) -> float:
        """The variance of a whitened slot."""
        return float(self.variances[-1])

    @property
    def persistent(self) -> float:
        """The variance of sums over many slots, per slot."""
        return self.variance / max(1 - float(self.coefficients[-1].sum()), 1e-3) ** 2

    def whiten(self, rows: Matrix) -> Matrix:
        """Subtract from each row its prediction from the rows before; all get the same variance."""
        order = len(self.coefficients) - 1
        white = rows.copy()
        for back, weight in enumerate(self.coefficients[-1]):
            white[order:] -= weight * rows[order - 1 - back : len(rows) - 1 - back]
        for slot, weights in enumerate(self.coefficients[:-1]):
            white[slot] = (rows[slot] - weights @ rows[:slot][::-1]) * math.sqrt(
                self.variances[-1] / self.variances[slot]
            )
        return white

    def log_determinant(self, slots: int) -> float:
        """The log-determinant of the covariance of so many slots."""
        first = self.variances[:slots]
        return float(np.log(first).sum()) + (slots - len(first)) * math.log(self.variance)


def fit_noise(unexplained: Vector, order: int, free: float, persistent: float = 0.0) -> Noise:
    """Fit the autoregression by Akaike's criterion, up to an order.

    The fit that left `unexplained` had `free` parameters and so took away slow noise; this puts it
    back. `persistent`, relative to the variance, adds noise that hardly changes over these lags, to
    try noise that is more persistent than it seems.
    """
    slots = len(unexplained)
    sample = (
        np.array([unexplained[: slots - lag] @ unexplained[lag:] for lag in range(order + 1)])
        / slots
    )
    sample[0] = max(sample[0], 1e-8)
    back = 0.0
    for _ in range(4):
        covariances = sample + back + persistent * sample[0]
        covariances[0] *= 1 + WHITE_SHARE
        noise = _choose_order(_predictors(covariances), slots)
        back = min(free * noise.persistent / slots, float(sample[0]))
    return noise


def _predictors(covariances: Vector) -> Noise:
    """The best predictors of all orders, by Levinson and Durbin."""
    weights: Vector = np.zeros(0)
    variance = float(covariances[0])
    coefficients, variances = [weights], [variance]
    for order in range(1, len(covariances)):
        partial = float(covariances[order] - weights @ covariances[order - 1 : 0 : -1]) / variance
        weights = np.append(weights - partial * weights[::-1], partial)
        variance *= 1 - partial**2
        coefficients.append(weights)
        variances.append(variance)
    return Noise(tuple(coefficients), np.array(variances))


def _choose_order(noise: Noise, slots: int) -> Noise:
    criterion = slots * np.log(noise.variances) + 2 * np.arange(len(noise.variances))
    size = int(criterion.argmin()) + 1
    return Noise(noise.coefficients[:size], noise.variances[:size])


def long_run_ratio(white: Vector) -> float:
    """The variance of sums of long blocks over that of independent slots; at least 1."""
    ratios = [1.0]
    for blocks in BLOCK_COUNTS:
        length = len(white) // blocks
        sums = white[: length * blocks].reshape(blocks, length).sum(axis=1)
        ratios.append(float(np.square(sums).mean() / (length * np.square(white).mean())))
    return max(ratios)


def drift_and_patterns(unexplained: Vector) -> Matrix:
    """Orthonormal columns for the level, its drift, and every pattern that stands out."""
    slots = np.arange(len(unexplained))
    angles = np.pi * (slots + 0.5) / len(slots)
    columns: Matrix = np.linalg.qr(np.cos(np.outer(angles, np.arange(DRIFT_COLUMNS + 1))))[0]
    left: Vector = unexplained - columns @ (columns.T @ unexplained)
    taken: list[int] = []
    while len(taken) < MAX_PATTERNS:
        found = _find_pattern(left, slots, taken)
        if found is None:
            break
        taken.append(found)
        turns = 2 * np.pi * found / CALENDAR_SLOTS * slots
        pair = np.stack(
            [np.cos(turns), np.sin(turns)] if 2 * found < CALENDAR_SLOTS else [np.cos(turns)],
            axis=1,
        )
        waves: Matrix = np.linalg.qr(pair - columns @ (columns.T @ pair))[0]
        left = left - waves @ (waves.T @ left)
        columns = np.concatenate([columns, waves], axis=1)
    return columns


def _find_pattern(left: Vector, slots: Slots, taken: list[int]) -> int | None:
    """How often the strongest pattern recurs in CALENDAR_SLOTS slots, or None."""
    squares = float(left @ left)
    echo = min(max(float(left[1:] @ left[:-1]) / squares, 0.0), 0.98) if squares > 0 else 0.0
    sharp = np.append(left[:1], left[1:] - echo * left[:-1])
    power = np.square(
        np.abs(np.fft.rfft(np.bincount(slots % CALENDAR_SLOTS, sharp, minlength=CALENDAR_SLOTS)))
    )
    least = max(1, math.ceil(4 * CALENDAR_SLOTS / len(slots)))  # a pattern must recur four times
    most = CALENDAR_SLOTS // 2
    ratio = np.zeros(most + 1)
    for each in range(least, most + 1):
        around = max(6, 2 * each // 5, math.ceil(6 * CALENDAR_SLOTS / len(slots)))
        typical = np.median(
            power[max(least, each - around) : min(most, each + around) + 1]
        ) / math.log(2)
        ratio[each] = power[each] / max(float(typical), 1e-300)
    ratio[taken] = 0.0
    best = int(ratio.argmax())
    return best if ratio[best] >= MIN_POWER_RATIO else None
