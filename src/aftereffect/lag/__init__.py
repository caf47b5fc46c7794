"""How long rewards take to arrive, estimated from the totals of a history alone.

The estimate is the mean lag and the shares that have arrived by each lag, with bands; or why the
history is inconclusive.

Thousands of delays are compared by their likelihood, for any rewards of the arms and any level,
drift, recurring pattern and noise that no arm explains. A band contains the likely ones.

>>> from aftereffect import Interval, StochasticBandit, simulate
>>> bandit = StochasticBandit([0.9, 0.5, 0.2], Interval(5, 15))
>>> study = simulate("ars-ucb", bandit, 3_000, 1, seed=3, engine="slotwise")
>>> estimate = estimate_lag(study.trace(0, 0))
>>> estimate.conclusive, estimate.low < 10 < estimate.high
(True, True)
"""

import math
from collections.abc import Iterable

import numpy as np

from aftereffect._core import Matrix, Vector, check_float, check_int, short_repr
from aftereffect.errors import ParameterError
from aftereffect.lag._estimate import LagEstimate, Quantity
from aftereffect.lag._model import History, Observations, read_observations
from aftereffect.lag._posterior import MAX_BINS, Posterior, find_posterior

__all__ = [
    "MAX_ARMS",
    "MAX_SLOTS",
    "LagEstimate",
    "Quantity",
    "estimate_lag",
]

#: A history is read up to this many slots, fewer with many arms: slots times arms times bins are at
#: most `MAX_CELLS`. What matters happens while a policy still explores.
MAX_SLOTS, MAX_CELLS, MAX_ARMS = 10_000, 5_000_000, 40
MIN_SLOTS = 100
DEFAULT_LEVEL = 0.9
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
#: Bands are wider than the draws alone say. They leave out this share of the tails that the level
#: allows, and this share of a bin of lags is added at both ends, as lags within a bin are not
#: distinguished. See ``benchmarks/lag.py``.
TAIL_SHARE, BIN_SHARE = 0.15, 0.25
#: The smallest log-evidence, compared with no effect of the arms and with all arms alike.
MIN_EVIDENCE = 5.0
#: Half of the band of the mean lag may be as wide as this share of it, or as so many slots.
MAX_HALF_BAND_SHARE, MAX_HALF_BAND_SLOTS = 1.0, 2.0
#: A history must be this many times as long as the mean lag.
MIN_LAGS = 20
#: The curve of arrivals ends where this share has arrived.
LAST_SHARE = 0.999


def estimate_lag(
    history: History,
    totals: Iterable[float | None] | None = None,
    *,
    level: float = DEFAULT_LEVEL,
    seed: int = 0,
) -> LagEstimate:
    """Estimate how long rewards take to arrive, from the arm and the total of each slot alone.

    Totals may contain correlated noise, and a level that no arm causes. The level may drift slowly
    or repeat with the calendar. Rewards may be on their way when the history begins. The estimate
    assumes that all arms have the same delay, that no part of a reward is negative, that arms and
    delay do not change, and that pulls before the first slot all brought the same reward.

    Parameters
    ----------
    history
        A `Trace`, or the records of a live experiment's history; or the arm of each slot, if
        `totals` are given. An arm of None or -1 says that no arm was played.
    totals
        The total of each slot, None where there is none.
    level
        How often the bands should be right: 0.5, 0.8, 0.9, 0.95 or 0.99.
    seed
        Bands come from random draws; the same seed gives the same bands.

    Examples
    --------
    >>> print(estimate_lag(["A", "B"] * 20, [0.5] * 40))
    cannot tell the lag: 40 slots with totals are too few, at least 100 are needed
    """
    if check_float("level", level) not in LEVELS:
        raise ParameterError(
            f"level must be one of {', '.join(map(str, LEVELS))}, got {short_repr(level)}"
        )
    rng = np.random.default_rng(check_int("seed", seed, at_least=0))
    observations = _shorten(read_observations(history, totals))
    arms, slots = observations.arm_count, int(np.isfinite(observations.totals).sum())
    reason = ""
    if slots < MIN_SLOTS:
        reason = f"{slots:,} slots with totals are too few, at least {MIN_SLOTS} are needed"
    elif arms < 2:
        reason = "only one arm was played, so there is nothing to compare"
    elif arms > MAX_ARMS:
        reason = f"{arms} arms are too many, at most {MAX_ARMS} can be distinguished"
    elif float(np.nanmax(observations.totals)) == float(np.nanmin(observations.totals)):
        reason = "all totals are the same"
    if reason:
        unknown = Quantity(math.nan, 0.0, math.inf)
        mean, low, high = unknown
        return LagEstimate(
            conclusive=False,
            reason=reason,
            mean=mean,
            low=low,
            high=high,
            p90=unknown,
            level=level,
            slots=slots,
            lags=(),
            arrived=(),
            arrived_low=(),
            arrived_high=(),
        )
    return _summarise(find_posterior(observations, rng), level, slots)


def _summarise(posterior: Posterior, level: float, slots: int) -> LagEstimate:
    """The estimate from the draws, and whether it is conclusive."""
    low, mean, high = _lag_band(posterior.mean_lags, posterior, level)
    p90_low, p90, p90_high = _lag_band(posterior.lags_until(0.9), posterior, level)
    last = float(np.quantile(posterior.lags_until(LAST_SHARE), 0.5 + level / 2))
    lags = np.arange(math.ceil(last) + 1)
    arrived_low, arrived, arrived_high = _band(posterior.find_arrived(lags), level)
    reason = _find_doubt(posterior, slots)
    return LagEstimate(
        conclusive=not reason,
        reason=reason,
        mean=mean,
        low=low,
        high=high,
        p90=Quantity(p90, p90_low, p90_high),
        level=level,
        slots=slots,
        lags=tuple(lags.tolist()),
        arrived=tuple(arrived.tolist()),
        arrived_low=tuple(arrived_low.tolist()),
        arrived_high=tuple(arrived_high.tolist()),
    )


def _band(values: Vector | Matrix, level: float) -> tuple[Vector, Vector, Vector]:
    """The lower end, the middle and the upper end of values; draws are along the first axis."""
    tail = TAIL_SHARE * (1 - level) / 2
    low, middle, high = np.quantile(values, (tail, 0.5, 1 - tail), axis=0)
    return low, middle, high


def _lag_band(lags: Vector, posterior: Posterior, level: float) -> tuple[float, float, float]:
    """The same for lags, widened by a share of their bin."""
    low, middle, high = (float(each) for each in _band(lags, level))
    blur = BIN_SHARE * (posterior.bin_width(middle) - 1)
    return max(low - blur, 0.0), middle, high + blur


def _find_doubt(posterior: Posterior, slots: int) -> str:
    """Why the history is inconclusive, or nothing; the same for every level of bands."""
    low, mean, high = _lag_band(posterior.mean_lags, posterior, DEFAULT_LEVEL)
    if min(posterior.evidence, posterior.contrast) < MIN_EVIDENCE:
        return "an effect of the arms on totals cannot be distinguished from noise"
    if (high - low) / 2 > max(MAX_HALF_BAND_SHARE * mean, MAX_HALF_BAND_SLOTS):
        return f"the mean lag may be anything from {low:.0f} to {high:.0f} slots"
    if high * MIN_LAGS > slots:
        return f"the mean lag may be {high:.0f} slots, and {slots:,} slots are too few for that"
    return ""


def _shorten(observations: Observations) -> Observations:
    """The beginning of the history, as much as is read."""
    cells = MAX_BINS * max(observations.arm_count, 1)
    most = max(min(MAX_SLOTS, MAX_CELLS // cells), MIN_SLOTS)
    return Observations(observations.arms[:most], observations.totals[:most])
