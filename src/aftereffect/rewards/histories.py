"""The totals of a past in which one arm was played: an array, or a file with times and totals."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import Calendar, Matrix, Spec, Vector, short_repr
from aftereffect.errors import InputError, ParameterError
from aftereffect.rewards._files import TimedTotal, lay_out, read_timed_totals

SlotName: TypeAlias = Literal["15min", "1h", "1d", "1w"]
#: The length of each slot, and how many make a day; 0 where one is longer than that.
SLOT_LENGTHS: dict[SlotName, tuple[timedelta, int]] = {
    "15min": (timedelta(minutes=15), 96),
    "1h": (timedelta(hours=1), 24),
    "1d": (timedelta(days=1), 1),
    "1w": (timedelta(weeks=1), 0),
}


class History(NamedTuple):
    """Totals without holes, one per slot; the place of the first in its week; and covariates.

    Covariates are one row per slot, with NaN where a number is not known.
    """

    totals: Vector
    first: int
    covariates: Matrix


@dataclass(frozen=True, repr=False)
class RecordedTotals(Spec):
    """Totals from an array that begins on a Monday. It has a label, but no spec string.

    Parameters
    ----------
    totals
        One number per slot; NaN where a total is missing.

    Examples
    --------
    >>> RecordedTotals([3, float("nan"), 5]).history.totals.tolist()
    [3.0, 4.0, 5.0]
    """

    kind = "history"

    totals: Vector = field(compare=False)
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        totals = _check_totals(self.totals)
        totals.setflags(write=False)
        digest = hashlib.sha256(totals.tobytes()).hexdigest()[:12]
        self._set(totals=totals, digest=digest)

    def __str__(self) -> str:
        """A label."""
        return f"recorded-totals({len(self.totals)} slots, {self.digest})"

    __repr__ = __str__

    @property
    def history(self) -> History:
        """The same without holes."""
        return History(fill_holes(self.totals), 0, np.zeros((len(self.totals), 0)))


def as_history(value: object) -> RecordedTotals:
    """Recorded totals, from themselves or from an array."""
    if isinstance(value, RecordedTotals):
        return value
    return RecordedTotals(value)  # type: ignore[arg-type]  # it checks what it is given


def _check_totals(values: ArrayLike) -> Vector:
    try:
        totals = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        totals = np.zeros(0)
    if totals.ndim != 1 or not (totals >= 0).any() or (totals < 0).any() or np.isinf(totals).any():
        raise ParameterError(
            "history must be a path, or a list of totals from 0 on (NaN if missing), "
            f"got {short_repr(values)}"
        )
    return totals


def fill_holes(totals: Vector) -> Vector:
    """Put straight lines in place of totals that are NaN.

    >>> fill_holes(np.array([1, np.nan, np.nan, 4.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    known = np.flatnonzero(~np.isnan(totals))
    filled: Vector = np.interp(np.arange(len(totals)), known, totals[known])
    return filled


class DatedTotals(NamedTuple):
    """Totals with NaN in their holes, the time of the first, and the same without holes."""

    totals: Vector
    start: datetime
    history: History


def read_history(path: str, slot: SlotName, covariates: tuple[str, ...] = ()) -> History:
    """Read a file of times and totals, and put straight lines into its holes.

    Holes of covariates stay.
    """
    return read_dated_totals(path, slot, covariates).history


def read_dated_totals(path: str, slot: SlotName, covariates: tuple[str, ...] = ()) -> DatedTotals:
    """Read a file of times and totals (see `read_timed_totals`).

    Times lie a whole number of slots apart. Slots without a total are holes.
    """
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        changed = 0  # the reader says what is wrong
    return _read_file(path, slot, covariates, changed)


@lru_cache(maxsize=4)  # all policies of a study play the same
def _read_file(path: str, slot: SlotName, covariates: tuple[str, ...], changed: int) -> DatedTotals:
    return arrange_totals(read_timed_totals(path, covariates), path, slot)


def arrange_totals(rows: Sequence[TimedTotal], source: str, slot: SlotName) -> DatedTotals:
    """Put rows in the order of their times; `source` is the name of their file, for messages."""
    length, slots_per_day = SLOT_LENGTHS[slot]
    if not rows:
        raise InputError(f"{source} must hold at least one total, got none")
    if len({row.time.tzinfo is None for row in rows}) > 1:
        raise InputError(f"times in {source} must all have an offset from UTC, or none of them")
    first = min(row.time for row in rows)

    def find_place(time: datetime) -> int:
        place, rest = divmod(time - first, length)
        if rest:
            raise ParameterError(
                f"times must lie a whole number of slots of {slot} apart, "
                f"got {first} and {time}: choose another slot"
            )
        return place

    _, totals, numbers = lay_out(rows, source, find_place)
    week = Calendar(slots_per_day).slots_per_week
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=first.weekday())
    filled = fill_holes(totals)
    for array in (totals, filled, numbers):  # they are cached, and shared
        array.setflags(write=False)
    return DatedTotals(totals, first, History(filled, (first - monday) // length % week, numbers))
