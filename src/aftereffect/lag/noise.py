"""What arms do not explain: drift, patterns that recur with the calendar, and noise that neighbouring slots share.

Drift and patterns are columns of the model. Noise is autoregressive: whitening makes it that of independent slots.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect.kernels import Matrix, Slots, Vector

#: Cosines of half a cycle, one, and one and a half over the history: changes of the level that are slower than any lag told.
DRIFT = 3
#: Patterns that recur after a whole part of this many slots are looked for: a week of quarters of an hour, and so a day or a
#: week of hours, or a week of days.
CALENDAR = 672
MAX_PATTERNS = 40
#: A pattern is one whose power is so many times that of frequencies around it.
DISTINCT = 12.0
MAX_ORDER = 12
#: The share of independent noise that is added: so that whitening trusts no frequency just because it seems free of noise.
FLOOR = 0.02
#: How long sums are that show whether noise is alike over longer times than the autoregression says: parts of the history.
BLOCKS = (20, 40)


@dataclass(frozen=True, eq=False)
class Noise:
    """Autoregressive noise: the coefficients by which each slot is predicted from those before it.

    Attributes
    ----------
    coefficients
        Of the predictor for each number of slots before: none, one, ..., the order.
    variances
        What each of them leaves, independent noise included.
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
        """What cannot be predicted of each row from the ones before it, all with the same variance."""
        order = len(self.coefficients) - 1
        white = rows.copy()
        for back, weight in enumerate(self.coefficients[-1]):
            white[order:] -= weight * rows[order - 1 - back : len(rows) - 1 - back]
        for slot, weights in enumerate(self.coefficients[:-1]):
            white[slot] = (rows[slot] - weights @ rows[:slot][::-1]) * math.sqrt(self.variances[-1] / self.variances[slot])
        return white

    def log_determinant(self, slots: int) -> float:
        """Of the covariance of so many slots."""
        first = self.variances[:slots]
        return float(np.log(first).sum()) + (slots - len(first)) * math.log(self.variance)


def fit_noise(unexplained: Vector, order: int, lost: float, more: float = 0.0) -> Noise:
    """The autoregression by Akaike's criterion, up to an order.

    A fit takes slow noise away, as much as it has free parameters (`lost`); that is put back. `more`, relative to the variance,
    is noise that hardly changes over the lags looked at, for a try with noise more persistent than it seems.
    """
    slots = len(unexplained)
    seen = np.array([unexplained[: slots - lag] @ unexplained[lag:] for lag in range(order + 1)]) / slots
    seen[0] = max(seen[0], 1e-8)
    back = 0.0
    for _ in range(4):
        covariances = seen + back + more * seen[0]
        covariances[0] *= 1 + FLOOR
        noise = _chosen(_predictors(covariances), slots)
        back = min(lost * noise.persistent / slots, float(seen[0]))
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


def _chosen(noise: Noise, slots: int) -> Noise:
    criterion = slots * np.log(noise.variances) + 2 * np.arange(len(noise.variances))
    size = int(criterion.argmin()) + 1
    return Noise(noise.coefficients[:size], noise.variances[:size])


def long_run(white: Vector) -> float:
    """How many times more the sums of long blocks vary than those of independent slots would; at least 1."""
    ratios = [1.0]
    for blocks in BLOCKS:
        length = len(white) // blocks
        sums = white[: length * blocks].reshape(blocks, length).sum(axis=1)
        ratios.append(float(np.square(sums).mean() / (length * np.square(white).mean())))
    return max(ratios)


def slow_and_recurring(unexplained: Vector) -> Matrix:
    """Orthonormal columns: the level and its drift, and every pattern that stands out in what is unexplained."""
    slots = np.arange(len(unexplained))
    angles = np.pi * (slots + 0.5) / len(slots)
    columns: Matrix = np.linalg.qr(np.cos(np.outer(angles, np.arange(DRIFT + 1))))[0]
    left: Vector = unexplained - columns @ (columns.T @ unexplained)
    taken: list[int] = []
    while len(taken) < MAX_PATTERNS:
        found = _most_distinct(left, slots, taken)
        if found is None:
            break
        taken.append(found)
        turns = 2 * np.pi * found / CALENDAR * slots
        pair = np.stack([np.cos(turns), np.sin(turns)] if 2 * found < CALENDAR else [np.cos(turns)], axis=1)
        waves: Matrix = np.linalg.qr(pair - columns @ (columns.T @ pair))[0]
        left = left - waves @ (waves.T @ left)
        columns = np.concatenate([columns, waves], axis=1)
    return columns


def _most_distinct(left: Vector, slots: Slots, taken: list[int]) -> int | None:
    """How often the pattern that stands out most recurs in CALENDAR slots, if any does."""
    squares = float(left @ left)
    echo = min(max(float(left[1:] @ left[:-1]) / squares, 0.0), 0.98) if squares > 0 else 0.0
    sharp = np.append(left[:1], left[1:] - echo * left[:-1])
    power = np.square(np.abs(np.fft.rfft(np.bincount(slots % CALENDAR, sharp, minlength=CALENDAR))))
    least = max(1, math.ceil(4 * CALENDAR / len(slots)))  # a pattern must have been there four times
    most = CALENDAR // 2
    ratio = np.zeros(most + 1)
    for each in range(least, most + 1):
        around = max(6, 2 * each // 5, math.ceil(6 * CALENDAR / len(slots)))
        typical = np.median(power[max(least, each - around) : min(most, each + around) + 1]) / math.log(2)
        ratio[each] = power[each] / max(float(typical), 1e-300)
    ratio[taken] = 0.0
    best = int(ratio.argmax())
    return best if ratio[best] >= DISTINCT else None
