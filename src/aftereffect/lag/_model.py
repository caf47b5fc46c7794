"""A history as a linear model with correlated noise.

Let w_b be the share of a reward that arrives in the bin b of lags, evenly over the bin, s_k the
reward of arm k, and x(t, b, k) the share of slots in bin b before t in which arm k was played ::

    total(t) = level + sum over b, k of  w_b s_k x(t, b, k) + noise

The slots before the first one belong to an arm of their own, "before", whose s is fitted like that
of any other. So the model explains rewards that were on their way when the history began. Slots in
which no arm was played are one more arm, "none". Since x sums to 1 over all arms, only contrasts
between arms and the level can be found.

What arms do not explain is drift and patterns of the calendar, which are further columns of the
model, and noise. Noise is autoregressive; whitening turns it into independent noise.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Matrix, Slots, Vector, short_repr
from aftereffect.errors import ParameterError

#: The number of the arm in slots in which none was played.
NO_ARM = -1


class SlotTrace(Protocol):
    """A record of every slot, such as a `Trace`."""

    @property
    def arms(self) -> Slots:
        """The arm of each slot."""

    @property
    def totals(self) -> Vector:
        """The total of each slot."""


class PlayedSlot(Protocol):
    """One slot of a live history, such as a `SlotRecord`."""

    @property
    def played(self) -> str | None:
        """The name of the arm that was played; None if none was."""

    @property
    def total(self) -> float | None:
        """The total; None if there is none."""


#: A trace, the records of a live history, or the arm of each slot.
History: TypeAlias = SlotTrace | Iterable[PlayedSlot] | Iterable[object]


class Observations(NamedTuple):
    """By slot: the number of the arm from 0 on, or `NO_ARM`; the total, NaN if there is none."""

    arms: Slots
    totals: Vector

    @property
    def arm_count(self) -> int:
        """How many different arms were played."""
        return int(self.arms.max(initial=NO_ARM)) + 1


def read_observations(history: Any, totals: Iterable[float | None] | None) -> Observations:
    """Read a history of any kind; arms are numbered in the order in which they first appear."""
    names, values = _columns(history, totals)
    numbers: dict[object, int] = {None: NO_ARM, NO_ARM: NO_ARM}
    arms: Slots = np.array(
        [numbers.setdefault(name, len(numbers) - 2) for name in names], dtype=np.int64
    )
    try:
        numeric = np.array([np.nan if value is None else float(value) for value in values])
    except (TypeError, ValueError):
        raise ParameterError("totals must be numbers, or None where there is none") from None
    if len(arms) != len(numeric):
        raise ParameterError(
            f"there must be one total for each slot, "
            f"got {len(arms):,} arms and {len(numeric):,} totals"
        )
    return Observations(arms, np.where(np.isfinite(numeric), numeric, np.nan))


def _columns(
    history: Any, totals: Iterable[float | None] | None
) -> tuple[Sequence[object], Sequence[float | None]]:
    try:
        if totals is not None:
            return list(history), list(totals)
        if hasattr(history, "arms") and hasattr(history, "totals"):
            return history.arms.tolist(), history.totals.tolist()
        records = list(history)
        return [record.played for record in records], [record.total for record in records]
    except (AttributeError, TypeError):
        raise ParameterError(
            "estimate_lag needs a trace, the records of a live history, or arms and totals, "
            f"got {short_repr(history)}"
        ) from None


#: An array by slot, bin and arm.
Cube: TypeAlias = NDArray[np.float64]

#: Bins are one slot wide at first and then grow by this factor, or by more if there would be too
#: many.
BIN_GROWTH = 1.12


def lag_edges(reach: int, max_bins: int) -> Slots:
    """The edges of at most `max_bins` bins for the lags 0 to reach; long lags share wide bins."""
    growth = BIN_GROWTH
    while True:
        edges = [0]
        while edges[-1] <= reach:
            edges.append(max(edges[-1] + 1, math.ceil(growth * edges[-1])))
        if len(edges) - 1 <= max_bins:
            return np.array([*edges[:-1], reach + 1])
        growth *= 1.03


def shares_played(history: Observations, edges: Slots) -> Cube:
    """x(t, b, k): for each arm, then for "none" if it occurs, then for "before"."""
    slots = len(history.arms)
    arm = np.where(history.arms == NO_ARM, history.arm_count, history.arms)
    played = np.zeros((slots + 1, int(arm.max()) + 1))
    played[np.arange(1, slots + 1), arm] = 1
    so_far = np.cumsum(played, axis=0)
    t = np.arange(slots)
    by_bin = [
        (so_far[np.maximum(t - first + 1, 0)] - so_far[np.maximum(t - end + 1, 0)]) / (end - first)
        for first, end in pairwise(edges.tolist())
    ]
    shares = np.stack(by_bin, axis=1)
    return np.concatenate([shares, 1 - shares.sum(axis=2, keepdims=True)], axis=2)


def fill_gaps(rows: Cube, observed: Slots) -> Cube:
    """Interpolate slots without a total between those with one.

    Totals and columns are filled alike, so that the model holds for filled slots as well. They only
    carry the noise over gaps.
    """
    slots = np.arange(len(rows))
    after = np.clip(np.searchsorted(observed, slots), 0, len(observed) - 1)
    before = np.maximum(after - (observed[after] > slots), 0)
    width = np.maximum(observed[after] - observed[before], 1)
    part = np.clip((slots - observed[before]) / width, 0.0, 1.0).reshape(-1, *[1] * (rows.ndim - 1))
    filled: Cube = rows[observed[before]] * (1 - part) + rows[observed[after]] * part
    return filled


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
