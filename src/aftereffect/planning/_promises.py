"""What a design promises: means, chances and quantiles over worlds, with Monte Carlo errors."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Vector
from aftereffect.planning._jobs import Outcome
from aftereffect.planning._worlds import POWER_LIFTS

#: The share of worlds in which a lift must be found, and the ends of bands.
FOUND, LOW, HIGH = 0.9, 0.05, 0.95
#: The most digits after the point.
_MAX_DIGITS = 9
#: Prior standard deviations of the curve of found lifts: of its place, and of its steepness.
_PRIOR = np.array([10.0, 5.0])
_STEPS, _DRAWS = 25, 60


class Estimate(NamedTuple):
    """A number and its standard error.

    Examples
    --------
    >>> print(Estimate(1234.5, 67.8), Estimate(0.0123, 0.0045), sep="; ")
    1,234 ± 68; 0.012 ± 0.004
    """

    mean: float
    error: float

    def __str__(self) -> str:
        """The number with its error, as exact as the error allows."""
        size = math.floor(math.log10(abs(self.mean))) if self.mean else 0
        most = 0 if size >= 2 else min(max(2, 1 - size), _MAX_DIGITS)
        wanted = 1 - math.floor(math.log10(self.error)) if 0 < self.error < math.inf else 0
        digits = min(max(wanted, 0), most)
        return f"{self.mean:,.{digits}f} ± {self.error:,.{digits}f}"


class Promise(NamedTuple):
    """What a design promises in the unit of the totals, in slots, and in shares of worlds.

    ``loss`` is what it is expected to lose against the best arm, and ``loss_median`` the middle of
    the worlds; in nine of ten, the loss lies from ``loss_low`` to ``loss_high``. ``gain`` is what
    it brings more than doing nothing, that is playing the control all the time. In the share
    ``ends`` of worlds it ends within the experiment. That is after ``end_median`` slots in the
    middle of all worlds, at most ``end_late`` in nine of ten, and ``end_low`` to ``end_high`` in
    nine of ten; these are None if it had not ended by then. If ``end_high`` is None, it ends at
    ``end_low`` or later in nine of ten. ``best`` and ``worse`` are the chances
    to ship the best arm, and one that is worse than the control. In the share ``found`` a better
    arm was found to be better. What is shipped then brings ``after`` per week more than the
    control. ``smallest`` has the smallest lift that is found nine times of ten, by the weeks of the
    experiment; None if it is larger than any that was tried. ``worlds`` is the number of worlds.

    Examples
    --------
    >>> outcome = Outcome(lost=9.0, idle=20.0, end=14, after=2.0, is_best=True, is_worse=False,
    ...     lift=0.1, found=(True,))
    >>> promise = make_promise("fixed-switchback", [outcome] * 4)
    >>> promise.gain.mean, promise.end_median
    (11.0, 14)
    """

    design: str
    worlds: int
    loss: Estimate
    loss_median: float
    loss_low: float
    loss_high: float
    gain: Estimate
    ends: Estimate
    end_median: int | None
    end_late: int | None
    end_low: int | None
    end_high: int | None
    best: Estimate
    worse: Estimate
    found: Estimate
    after: Estimate
    smallest: dict[str, Estimate | None]

    def to_row(self) -> dict[str, Any]:
        """Its numbers by name; errors have names of their own."""
        row: dict[str, Any] = {}
        smallest = {f"smallest_{weeks}_weeks": each for weeks, each in self.smallest.items()}
        for name, value in (self._asdict() | smallest).items():
            if isinstance(value, Estimate):
                row |= {name: value.mean, f"{name}_error": value.error}
            elif name in smallest:  # no lift is found
                row |= {name: None, f"{name}_error": None}
            elif name != "smallest":
                row[name] = value
        return row

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Promise":
        """The same from types that JSON has."""
        read = {
            name: Estimate(*value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        smallest = {
            weeks: None if each is None else Estimate(*each)
            for weeks, each in given["smallest"].items()
        }
        return cls(**read | {"smallest": smallest})


def make_promise(
    design: str,
    outcomes: Sequence[Outcome],
    power: Sequence[Outcome] = (),
    weeks: Sequence[int] = (),
) -> Promise:
    """Sum up what became of a design, in the worlds of the plan and in those for power."""
    lost = np.array([each.lost for each in outcomes])
    ends = sorted(math.inf if each.end is None else each.end for each in outcomes)
    low, high = find_quantile(lost, LOW), find_quantile(lost, HIGH)
    end_high = _take_whole(ends, HIGH)
    # Without an upper end, a band of nine of ten has no world above it.
    end_low = _take_whole(ends, LOW if end_high is not None else 1 - FOUND)
    return Promise(
        design=design,
        worlds=len(outcomes),
        loss=estimate(lost),
        loss_median=float(np.median(lost)),
        loss_low=low,
        loss_high=high,
        gain=estimate([each.idle - each.lost for each in outcomes]),
        ends=estimate_share([each.end is not None for each in outcomes]),
        end_median=_take_whole(ends, 0.5),
        end_late=_take_whole(ends, FOUND),
        end_low=end_low,
        end_high=end_high,
        best=estimate_share([each.is_best for each in outcomes]),
        worse=estimate_share([each.is_worse for each in outcomes]),
        found=estimate_share([each.found[-1] for each in outcomes]),
        after=estimate([each.after for each in outcomes]),
        smallest={
            str(each): find_smallest(
                np.array([outcome.lift for outcome in power]),
                np.array([outcome.found[number] for outcome in power]),
            )
            for number, each in enumerate(weeks if power else ())
        },
    )


def estimate(values: Sequence[float] | Vector) -> Estimate:
    """A mean with its standard error.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, error=0.5773502691896258)
    """
    count = len(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return Estimate(float(np.mean(values)), error)


def estimate_share(outcomes: Sequence[bool]) -> Estimate:
    """A share with its standard error, which is never 0 (Agresti and Coull add two of each).

    >>> print(estimate_share([True] * 96))
    1.00 ± 0.01
    """
    count, hits = len(outcomes), sum(outcomes)
    near = (hits + 2) / (count + 4)
    return Estimate(hits / count, math.sqrt(near * (1 - near) / (count + 4)))


def find_quantile(values: Vector, share: float) -> float:
    """The quantile of a new value: it lies below with that chance, if there are enough values.

    >>> find_quantile(np.arange(1.0, 20.0), 0.05)
    1.0
    """
    return float(np.quantile(values, share, method="weibull"))


def _take_whole(values: Sequence[float], share: float) -> int | None:
    """The same of slots that may be infinite."""
    place = min(max(share * (len(values) + 1), 1), len(values))
    value = values[math.ceil(place - 1e-9) - 1]
    return int(value) if math.isfinite(value) else None


def find_smallest(lifts: Vector, found: Vector) -> Estimate | None:
    """The smallest lift that is found nine times of ten, by a logistic curve of its logarithm.

    None if it is larger than any that was tried.
    """
    x = np.log(lifts)
    smallest = _cross(x, found.astype(np.float64))
    if smallest is None:
        return None
    rng = np.random.default_rng(len(lifts))
    again = [
        _cross(x[rows], found[rows].astype(np.float64))
        for rows in rng.integers(len(x), size=(_DRAWS, len(x)))
    ]
    ends = [POWER_LIFTS[1] if each is None else each for each in again]
    return Estimate(smallest, float(np.std(ends)))


def _cross(x: Vector, found: Vector) -> float | None:
    """Where a logistic curve crosses the share; None if not within the lifts that were tried."""
    middle, spread = (sum(map(math.log, POWER_LIFTS)) / 2, math.log(10) / 2)
    rows = np.column_stack([np.ones(len(x)), (x - middle) / spread])
    curve = np.array([0.0, 1.0])
    for _ in range(_STEPS):  # Newton's method
        chance = 1 / (1 + np.exp(-np.clip(rows @ curve, -30, 30)))
        slope = rows.T @ (found - chance) - curve / _PRIOR**2
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.diag(_PRIOR**-2)
        curve = curve + np.clip(np.linalg.solve(bend, slope), -2, 2)
    if curve[1] <= 0:
        return None
    place = (math.log(FOUND / (1 - FOUND)) - curve[0]) / curve[1]
    low, high = map(math.log, POWER_LIFTS)
    found_at = middle + spread * place
    return None if found_at > high else math.exp(max(found_at, low))
