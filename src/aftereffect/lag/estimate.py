"""The mean lag and how long effects linger, with bands; or that a history cannot tell.

Thousands of ways to spread a reward over lags are compared by how likely they make the totals, whatever the arms bring and
whatever level, drift, recurring pattern and noise no arm explains. A band holds what is likely.
"""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect.checks import real, shown, whole
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, Vector
from aftereffect.lag.picture import plot_landing
from aftereffect.lag.posterior import MAX_BINS, Posterior, find_posterior
from aftereffect.lag.seen import History, Seen, seen

if TYPE_CHECKING:
    import matplotlib.axes

#: A history is read up to here, or less with many arms; what matters happens while a policy still explores.
MOST_SLOTS, MOST_CELLS, MAX_ARMS = 10_000, 5_000_000, 40
MIN_SLOTS = 100
#: When effects are said to be over.
LANDED = 0.9
DEFAULT_LEVEL = 0.9
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
#: Bands are wider than the draws alone say: they leave out less of the tails, and within a bin of lags nothing is told apart.
#: The part of the tails that is left out, and the part of a bin that is added at both ends. See ``benchmarks/lag.py``.
TAILS, WITHIN_BIN = 0.15, 0.25
#: The least logarithm of how much more likely totals are than if no arm mattered, or if all arms were alike.
MIN_EVIDENCE = 5.0
#: How wide half of a band may be: this part of the mean lag, or so many slots.
MAX_HALF_BAND, ALWAYS_NARROW = 1.0, 2.0
#: How many times longer than the mean lag a history must be.
MIN_LENGTH = 20
#: The curve of what has landed ends where this has.
SHOWN = 0.999


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


def estimate_lag(history: History, *, level: float = DEFAULT_LEVEL, seed: int = 0) -> LagEstimate:
    """How long effects linger, from which arm was played in each slot and the total seen in it; nothing else is known.

    Totals may hold a level that no arm makes, one that drifts slowly or recurs with the calendar, and noise that neighbouring
    slots share; and anything may be in flight when the history begins. It is assumed that all arms have the same spread, that
    arms and spread stay as they are, and that before the first slot pulls brought the same all the time.

    Parameters
    ----------
    history
        A `Trace`, the lines of a live experiment's history, or a pair of arms and totals (None where there is no total). An arm
        of None or -1 says that no arm was played.
    level
        How often the bands should be right: 0.5, 0.8, 0.9, 0.95 or 0.99.
    seed
        Bands come from random draws; the same seed gives the same bands.

    Examples
    --------
    >>> print(estimate_lag((["A", "B"] * 20, [.5] * 40)))
    cannot tell how long effects linger: 40 slots with totals are too few, at least 100 are needed
    """
    if real("level", level) not in LEVELS:
        raise ParameterError(f"level must be one of {', '.join(map(str, LEVELS))}, got {shown(level)}")
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    record = _read(seen(history))
    known = int(np.isfinite(record.total).sum())
    if known < MIN_SLOTS:
        return _unknown(f"{known:,} slots with totals are too few, at least {MIN_SLOTS} are needed", level, known)
    if record.arms < 2:
        return _unknown("only one arm was played, so there is nothing to compare", level, known)
    if record.arms > MAX_ARMS:
        return _unknown(f"{record.arms} arms are too many, at most {MAX_ARMS} can be told apart", level, known)
    if float(np.nanmax(record.total)) == float(np.nanmin(record.total)):
        return _unknown("all totals are the same", level, known)
    return _told(find_posterior(record, rng), level, known)


def _told(found: Posterior, level: float, slots: int) -> LagEstimate:
    """What the draws say, and whether that is enough."""
    low, mean, high = _lag_band(found.mean_lags, found, level)
    over_low, over, over_high = _lag_band(found.over(LANDED), found, level)
    lags = np.arange(math.ceil(float(np.quantile(found.over(SHOWN), 0.5 + level / 2))) + 1)
    landed_low, landed, landed_high = _band(found.landed(lags), level)
    reason = _doubt(found, slots)
    return LagEstimate(
        not reason,
        reason,
        mean,
        low,
        high,
        Quantity(over, over_low, over_high),
        level,
        slots,
        tuple(lags.tolist()),
        tuple(landed.tolist()),
        tuple(landed_low.tolist()),
        tuple(landed_high.tolist()),
    )


def _band(values: Vector | Matrix, level: float) -> tuple[Vector, Vector, Vector]:
    """The lower end, the middle and the upper end of values, one or a row for each draw."""
    tail = TAILS * (1 - level) / 2
    low, middle, high = np.quantile(values, (tail, 0.5, 1 - tail), axis=0)
    return low, middle, high


def _lag_band(lags: Vector, found: Posterior, level: float) -> tuple[float, float, float]:
    """The same of lags, which are told apart by bins."""
    low, middle, high = (float(each) for each in _band(lags, level))
    blur = WITHIN_BIN * (found.bin_width(middle) - 1)
    return max(low - blur, 0.0), middle, high + blur


def _doubt(found: Posterior, slots: int) -> str:
    """Why the history cannot tell, or nothing: whatever level of bands was asked for."""
    low, mean, high = _lag_band(found.mean_lags, found, DEFAULT_LEVEL)
    if min(found.evidence, found.contrast) < MIN_EVIDENCE:
        return "totals do not depend on the arms played, as far as can be told from noise"
    if (high - low) / 2 > max(MAX_HALF_BAND * mean, ALWAYS_NARROW):
        return f"the mean lag may be anything from {low:.0f} to {high:.0f} slots"
    if high * MIN_LENGTH > slots:
        return f"the mean lag may be {high:.0f} slots, and {slots:,} slots are too few for that"
    return ""


def _plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read(history: Seen) -> Seen:
    """The beginning of it, as much as can be worked with."""
    most = max(min(MOST_SLOTS, MOST_CELLS // (MAX_BINS * max(history.arms, 1))), MIN_SLOTS)
    return Seen(history.arm[:most], history.total[:most])


def _unknown(reason: str, level: float, slots: int) -> LagEstimate:
    nothing = Quantity(math.nan, 0.0, math.inf)
    return LagEstimate(False, reason, math.nan, 0.0, math.inf, nothing, level, slots, (), (), (), ())
