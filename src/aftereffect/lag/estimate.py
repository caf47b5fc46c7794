"""The mean lag and how long effects linger, with bands; or that a history cannot tell.

Nobody knows how far effects reach, so models of many reaches are fitted, and each counts by how well it explains the totals,
less the further it reaches: with noise that is measured by sums over long blocks, as neighbouring slots can be alike. A
band holds what is uncertain within a model (blocks of what it leaves unexplained are shuffled and fitted again) and between
them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect.checks import real, shown, whole
from aftereffect.errors import ParameterError
from aftereffect.kernels import Slots, Vector
from aftereffect.lag.design import bins, shares_played, whitened
from aftereffect.lag.fit import Fit, Model
from aftereffect.lag.picture import plot_landing
from aftereffect.lag.seen import History, Seen, seen

if TYPE_CHECKING:
    import matplotlib.axes

#: A history is read up to here, or less with many arms; what matters happens while a policy still explores.
MOST_SLOTS, MOST_CELLS = 20_000, 30_000_000
LEAST_SLOTS = 100
MOST_BINS = 12
#: Reaches that are tried grow by this, up to a fifth of the history.
REACHES = 1.2
#: Models that count less than this against the best are left out.
NEGLIGIBLE = 0.03
#: How strongly a longer reach speaks against a model, as a power of it.
PARSIMONY = 2.0
#: Below this the noise of neighbouring slots is taken as independent.
FAINT_ECHO = 0.2
MOST_ECHO = 0.5
SHUFFLES = 40
#: When effects are said to be over.
LANDED = 0.9
#: Normal quantiles of the levels on offer.
LEVELS = {0.5: 0.674, 0.8: 1.282, 0.9: 1.645, 0.95: 1.96, 0.99: 2.576}
#: What a band's standard error is of what was found: part of the noise within a model is counted again between models.
CALIBRATION = 0.92


class Quantity(NamedTuple):
    """A number of slots and its band."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} slots ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True)
class LagEstimate:
    """How long effects linger in a history, as far as it can tell.

    Attributes
    ----------
    known
        Whether the history can tell; if not, `reason` says why, and numbers are only hints.
    mean, low, high
        The mean lag of a unit of reward, in slots, and its band.
    lingers
        The lag by which nine tenths have landed, and its band.
    level
        How often a band is right.
    slots
        How many slots of the history were used.
    lags, landed, landed_low, landed_high
        The share that has landed by each lag, and its band.
    """

    known: bool
    reason: str
    mean: float
    low: float
    high: float
    lingers: Quantity
    level: float
    slots: int
    lags: tuple[int, ...]
    landed: tuple[float, ...]
    landed_low: tuple[float, ...]
    landed_high: tuple[float, ...]

    def __str__(self) -> str:
        if not self.known:
            return f"cannot tell how long effects linger: {self.reason}"
        mean = Quantity(self.mean, self.low, self.high)
        return f"mean lag {mean}, {LANDED:.0%} landed after {self.lingers}; {self.level:.0%} bands from {self.slots:,} slots"

    def plain(self) -> dict[str, Any]:
        """All of it as JSON can say it; numbers that are not known are None."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def rows(self) -> list[dict[str, float]]:
        """The share that has landed by each lag, and its band, a row per lag."""
        columns = zip(self.lags, self.landed, self.landed_low, self.landed_high, strict=True)
        return [{"lag": lag, "landed": landed, "low": low, "high": high} for lag, landed, low, high in columns]

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draw the share that has landed by each lag, with its band. Needs the extra ``plot``."""
        return plot_landing(self, ax)


def estimate_lag(history: History, *, level: float = 0.9, seed: int = 0) -> LagEstimate:
    """How long effects linger, from which arm was played in each slot and the total seen in it; nothing else is known.

    It is assumed that all arms have the same spread, that nothing was in flight before the first slot, and that arms and
    spread stay as they are.

    Parameters
    ----------
    history
        A `Trace`, the lines of a live experiment's history, or a pair of arms and totals (None where there is no total).
    level
        How often the bands should be right: 0.5, 0.8, 0.9, 0.95 or 0.99.
    seed
        Bands come from shuffling; the same seed gives the same bands.

    Examples
    --------
    >>> print(estimate_lag((["A", "B"] * 20, [.5] * 40)))
    cannot tell how long effects linger: 40 slots with totals are too few, at least 100 are needed
    """
    quantile = _quantile(level)
    record = _read(seen(history))
    known = int(np.isfinite(record.total).sum())
    if known < LEAST_SLOTS:
        return _unknown(f"{known:,} slots with totals are too few, at least {LEAST_SLOTS} are needed", level, known)
    if float(np.nanmax(record.total)) == float(np.nanmin(record.total)):
        return _unknown("all totals are the same", level, known)
    fits, counts, block = _models(record)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    lags = np.arange(math.ceil(1.2 * max(fit.model.edges[-1] for fit in fits)) + 1)
    again = _shuffled(fits, block, rng)

    def band(of: Callable[[Fit], Vector]) -> tuple[Vector, Vector]:
        values = np.array([of(fit) for fit in fits])
        middle = counts @ values
        within = np.array([np.var([of(fit) for fit in shuffles], axis=0) for shuffles in again])
        error = np.sqrt(counts @ (within + (values - middle) ** 2))
        return middle, quantile * CALIBRATION * error

    mean, about = band(lambda fit: np.array([fit.mean_lag]))
    over, around = band(lambda fit: np.array([_over(fit)]))
    landed, beside = band(lambda fit: fit.landed(lags))
    reason = "" if about[0] <= max(0.5 * mean[0], 2.0) else (
        f"the mean lag may be anything from {max(mean[0] - about[0], 0):.0f} to {mean[0] + about[0]:.0f} slots"
    )  # fmt: skip
    return LagEstimate(
        not reason,
        reason,
        float(mean[0]),
        *_interval(mean[0], about[0]),
        Quantity(float(over[0]), *_interval(over[0], around[0])),
        level,
        known,
        tuple(lags.tolist()),
        tuple(landed.tolist()),
        tuple(np.clip(landed - beside, 0, 1).tolist()),
        tuple(np.clip(landed + beside, 0, 1).tolist()),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _quantile(level: float) -> float:
    given = real("level", level)
    if given not in LEVELS:
        raise ParameterError(f"level must be one of {', '.join(map(str, LEVELS))}, got {shown(level)}")
    return LEVELS[given]


def _read(history: Seen) -> Seen:
    """The beginning of it, as much as can be worked with."""
    most = max(min(MOST_SLOTS, MOST_CELLS // (MOST_BINS * max(history.arms, 1))), LEAST_SLOTS)
    return Seen(history.arm[:most], history.total[:most])


def _unknown(reason: str, level: float, slots: int) -> LagEstimate:
    nothing = Quantity(math.nan, 0.0, math.inf)
    return LagEstimate(False, reason, math.nan, 0.0, math.inf, nothing, level, slots, (), (), (), ())


def _interval(value: float, about: float) -> tuple[float, float]:
    return float(max(value - about, 0.0)), float(value + about)


def _over(fit: Fit) -> float:
    """The lag by which nine tenths have landed."""
    landed = np.append(0.0, np.cumsum(fit.shares))
    return float(np.interp(LANDED, landed, fit.model.edges)) - 1.0


def _reaches(slots: int) -> list[int]:
    """The reaches that are tried."""
    reaches = [0, 1, 2, 3, 4]
    while reaches[-1] < slots // 5:
        reaches.append(math.ceil(REACHES * reaches[-1]))
    return reaches


def _models(history: Seen) -> tuple[list[Fit], Vector, int]:
    """Fits that count, how much each does, and how long the blocks of noise are."""
    reaches = _reaches(len(history.arm))
    fits = [_fit(history, reach, 0.0) for reach in reaches[::2]]
    counts, _ = _counts(fits)
    unexplained = _unexplained(fits[int(counts.argmax())])
    squares = float(unexplained @ unexplained)
    echo = float(unexplained[1:] @ unexplained[:-1]) / squares if squares > 0 else 0.0
    echo = min(echo, MOST_ECHO) if echo >= FAINT_ECHO else 0.0
    fits = [_fit(history, reach, echo) for reach in reaches]
    counts, block = _counts(fits)
    kept: Slots = np.flatnonzero(counts >= NEGLIGIBLE * counts.max())
    return [fits[at] for at in kept], counts[kept] / counts[kept].sum(), block


def _fit(history: Seen, reach: int, echo: float) -> Fit:
    edges = bins(reach, MOST_BINS)
    model = Model(edges, history.arms, whitened(shares_played(history, edges), history.total, echo))
    return model.fitted(model.data.totals)


def _unexplained(fit: Fit) -> Vector:
    return fit.model.data.totals - fit.explained


def _counts(fits: list[Fit]) -> tuple[Vector, int]:
    """How much each fit counts, and how long blocks of noise must be."""
    left = np.array([float(np.square(_unexplained(fit)).sum()) for fit in fits])
    best = fits[int(left.argmin())]
    unexplained = _unexplained(best)
    slots = len(unexplained)
    block = int(min(max(20, 2 * best.model.edges[-1]), slots // 10))
    blocks = unexplained[: slots // block * block].reshape(-1, block).sum(axis=1)
    noise = max(float(np.square(blocks).sum()) / (len(blocks) * block), left.min() / slots, 1e-300)
    logs = -(left - left.min()) / (2 * noise) - PARSIMONY * np.log([fit.model.edges[-1] for fit in fits])
    counts = np.exp(logs - logs.max())
    return counts / counts.sum(), block


def _shuffled(fits: list[Fit], block: int, rng: np.random.Generator) -> list[list[Fit]]:
    """Each model fitted again to what it explains and its noise in another order: the same for all."""
    slots = len(fits[0].explained)
    starts = rng.integers(0, slots, (SHUFFLES, -(-slots // block)))
    orders = [((start[:, None] + np.arange(block)) % slots).ravel()[:slots] for start in starts]
    return [[fit.model.fitted(fit.explained + _unexplained(fit)[order], fit.shares) for order in orders] for fit in fits]
