"""The mean lag and how long effects linger, with bands; or that a history cannot tell.

Nobody knows how far effects reach, so models of many reaches are fitted, and each counts by how well it explains the totals,
less the further it reaches: with noise that is measured by sums over long blocks, as neighbouring slots can be alike. A
band holds what is uncertain within a model (blocks of what it leaves unexplained are shuffled and fitted again) and between
them.
"""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect.checks import real, shown, whole
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, Slots, Vector
from aftereffect.lag.design import bins, shares_played
from aftereffect.lag.fit import Fit, Model
from aftereffect.lag.picture import plot_landing
from aftereffect.lag.seen import History, Seen, seen

if TYPE_CHECKING:
    import matplotlib.axes

#: A history is read up to here, or less with many arms; what matters happens while a policy still explores.
MOST_SLOTS, MOST_CELLS, MOST_ARMS = 10_000, 1_000_000, 40
LEAST_SLOTS = 100
MOST_BINS = 12
#: Reaches that are tried grow by this, up to a fifth of the history.
REACHES = 1.2
#: Models that count less than this against the best are left out.
NEGLIGIBLE = 0.03
#: How strongly a longer reach speaks against a model, as a power of it.
PARSIMONY = 2.5
SHUFFLES = 40
#: When effects are said to be over.
LANDED = 0.9
#: Normal quantiles of the levels on offer.
LEVELS = {0.5: 0.674, 0.8: 1.282, 0.9: 1.645, 0.95: 1.96, 0.99: 2.576}
#: What a standard error is of what was found: part of the noise within models is counted again between them, but where that
#: of neighbouring slots is alike, too few blocks are left to measure it by. See ``benchmarks/lag.py``.
FAITHFUL, ECHOING = 0.95, 0.15


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
    if real("level", level) not in LEVELS:
        raise ParameterError(f"level must be one of {', '.join(map(str, LEVELS))}, got {shown(level)}")
    record = _read(seen(history))
    known = int(np.isfinite(record.total).sum())
    if known < LEAST_SLOTS:
        return _unknown(f"{known:,} slots with totals are too few, at least {LEAST_SLOTS} are needed", level, known)
    if record.arms > MOST_ARMS:
        return _unknown(f"{record.arms} arms are too many, at most {MOST_ARMS} can be told apart", level, known)
    if float(np.nanmax(record.total)) == float(np.nanmin(record.total)):
        return _unknown("all totals are the same", level, known)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    found = _averaged(record, rng)
    error = LEVELS[level] * (FAITHFUL + ECHOING * found.echo) * found.error
    mean, over, landed = found.value[0], found.value[1], found.value[2:]
    about, around, beside = error[0], error[1], error[2:]
    low, high = _interval(mean, about)
    vague = about > max(0.5 * mean, 2.0)
    reason = f"the mean lag may be anything from {low:.0f} to {high:.0f} slots" if vague else ""
    return LagEstimate(
        not vague,
        reason,
        float(mean),
        low,
        high,
        Quantity(float(over), *_interval(over, around)),
        level,
        known,
        tuple(range(len(landed))),
        tuple(landed.tolist()),
        tuple(np.maximum(landed - beside, 0.0).tolist()),
        tuple(np.minimum(landed + beside, 1.0).tolist()),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(history: Seen) -> Seen:
    """The beginning of it, as much as can be worked with."""
    most = max(min(MOST_SLOTS, MOST_CELLS // (MOST_BINS * max(history.arms, 1))), LEAST_SLOTS)
    return Seen(history.arm[:most], history.total[:most])


def _unknown(reason: str, level: float, slots: int) -> LagEstimate:
    nothing = Quantity(math.nan, 0.0, math.inf)
    return LagEstimate(False, reason, math.nan, 0.0, math.inf, nothing, level, slots, (), (), (), ())


def _interval(value: float, about: float) -> tuple[float, float]:
    return float(max(value - about, 0.0)), float(value + about)


def _reaches(slots: int) -> list[int]:
    """The reaches that are tried."""
    reaches = [0, 1, 2, 3, 4]
    while reaches[-1] < slots // 5:
        reaches.append(math.ceil(REACHES * reaches[-1]))
    return reaches


class _Averaged(NamedTuple):
    """The mean lag, when effects are over, and what has landed by each lag: over all models; and how alike noise is."""

    value: Vector
    error: Vector
    echo: float


def _averaged(history: Seen, rng: np.random.Generator) -> _Averaged:
    """Fit all models, and those that count again and again."""
    totals = history.total[np.isfinite(history.total)]
    edges, counts, noise, block = _models(history, totals)
    lags = np.arange(math.ceil(1.2 * max(each[-1] for each in edges)) + 1)
    starts = rng.integers(0, len(totals), (SHUFFLES, -(-len(totals) // block)))
    orders = [((start[:, None] + np.arange(block)) % len(totals)).ravel()[: len(totals)] for start in starts]
    values, within = [], []
    for each in edges:
        fit, rows, unexplained = _fit(history, totals, each)
        explained = totals - unexplained
        again = [fit.model.fitted(rows.T @ (explained + unexplained[order]), fit.shares) for order in orders]
        values.append(_told(fit, lags))
        within.append(np.var([_told(shuffled, lags) for shuffled in again], axis=0))
    value = counts @ np.array(values)
    error = np.sqrt(counts @ (np.array(within) + (np.array(values) - value) ** 2))
    return _Averaged(value, error, _echo(noise))


def _models(history: Seen, totals: Vector) -> tuple[list[Slots], Vector, Vector, int]:
    """The bins of models that count, how much each does, what the best leaves unexplained, and how long its blocks are."""
    edges = [bins(reach, MOST_BINS) for reach in _reaches(len(history.arm))]
    left = np.array([float(np.square(_fit(history, totals, each)[2]).sum()) for each in edges])
    best = edges[int(left.argmin())]
    noise = _fit(history, totals, best)[2]
    block = int(min(max(20, 2 * best[-1]), len(totals) // 10))
    logs = -(left - left.min()) / (2 * _per_slot(noise, block)) - PARSIMONY * np.log([each[-1] for each in edges])
    counts = np.exp(logs - logs.max())
    kept = np.flatnonzero(counts >= NEGLIGIBLE)
    return [edges[at] for at in kept], counts[kept] / counts[kept].sum(), noise, block


def _told(fit: Fit, lags: Slots) -> Vector:
    return np.concatenate([[fit.mean_lag, fit.over(LANDED)], fit.landed(lags)])


def _fit(history: Seen, totals: Vector, edges: Slots) -> tuple[Fit, Matrix, Vector]:
    """The fit with these bins, its rows, and what it leaves unexplained."""
    rows = shares_played(history, edges)
    fit = Model(rows, edges, history.arms).fitted(rows.T @ totals)
    return fit, rows, totals - rows @ fit.weights


def _per_slot(unexplained: Vector, block: int) -> float:
    """The variance of sums over blocks, per slot, and at least that of single slots."""
    slots = len(unexplained) // block * block
    blocks = unexplained[:slots].reshape(-1, block).sum(axis=1)
    return max(float(np.square(blocks).sum()) / slots, float(np.square(unexplained).mean()), 1e-300)


def _echo(unexplained: Vector) -> float:
    """The correlation of neighbours, from 0 on."""
    squares = float(unexplained @ unexplained)
    return max(float(unexplained[1:] @ unexplained[:-1]) / squares, 0.0) if squares > 0 else 0.0
