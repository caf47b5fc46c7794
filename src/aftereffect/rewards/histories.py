"""The totals of a past in which one arm was played: an array, or a file with times and totals."""

import csv
import gzip
import hashlib
import math
import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import Calendar, Spec, Vector, short_repr
from aftereffect.errors import InputError, ParameterError

SlotName: TypeAlias = Literal["15min", "1h", "1d", "1w"]
#: The length of each slot, and how many make a day; 0 where one is longer than that.
SLOT_LENGTHS: dict[SlotName, tuple[timedelta, int]] = {
    "15min": (timedelta(minutes=15), 96),
    "1h": (timedelta(hours=1), 24),
    "1d": (timedelta(days=1), 1),
    "1w": (timedelta(weeks=1), 0),
}
#: The most slots from the first to the last time of a file.
MAX_HISTORY = 2_000_000
_COLUMNS = ("time", "total")


class History(NamedTuple):
    """Totals without holes, one per slot, and the place of the first in its week."""

    totals: Vector
    first: int


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
        return History(fill_holes(self.totals), 0)


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


def read_history(path: str, slot: SlotName) -> History:
    """Read a .csv or .csv.gz file with the columns time and total, and perhaps others.

    Times are in ISO 8601 and lie a whole number of slots apart. Slots without a line, or with an
    empty total, are holes, and are filled by straight lines. If a time comes twice, its last line
    counts.
    """
    try:
        return _read_file(path, slot, os.stat(path).st_mtime_ns)
    except (OSError, UnicodeDecodeError, EOFError, csv.Error) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot read {path}: {reason}; give a .csv or .csv.gz file with columns time and total"
        ) from None


@lru_cache(maxsize=4)  # all policies of a study play the same
def _read_file(path: str, slot: SlotName, changed: int) -> History:
    length, slots_per_day = SLOT_LENGTHS[slot]
    known = _read_lines(path)
    first, last = min(known), max(known)
    count = (last - first) // length + 1
    if count > MAX_HISTORY:
        raise InputError(f"{path} must span at most {MAX_HISTORY:,} slots of {slot}, got {count:,}")
    totals = np.full(count, np.nan)
    for time, total in known.items():
        place, rest = divmod(time - first, length)
        if rest:
            raise InputError(
                f"times in {path} must lie a whole number of slots of {slot} apart, "
                f"got {first} and {time}: choose another slot"
            )
        totals[place] = total
    if np.isnan(totals).all():
        raise InputError(f"{path} must hold at least one total, got none")
    week = Calendar(slots_per_day).slots_per_week
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=first.weekday())
    filled = fill_holes(totals)
    filled.setflags(write=False)  # it is cached, and shared
    return History(filled, (first - monday) // length % week)


def _read_lines(path: str) -> dict[datetime, float]:
    """Read the total of each time; NaN where it is empty."""
    known: dict[datetime, float] = {}
    opener = gzip.open if Path(path).suffix == ".gz" else open
    with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        absent = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
        if absent:
            raise InputError(
                f"the first line of {path} must name the columns time and total, "
                f"got no {' and no '.join(absent)}"
            )
        for row in rows:
            try:
                time = datetime.fromisoformat(row["time"].strip())
                total = float(row["total"].strip() or "nan")
            except (ValueError, AttributeError):
                total = -1.0
            if total < 0 or math.isinf(total):
                raise InputError(
                    f"{path}, line {rows.line_num}: expected a time such as 2026-03-02T00:00 and a "
                    f"total from 0 on, got {short_repr((row['time'], row['total']))}"
                )
            known[time] = total
    if not known:
        raise InputError(f"{path} must hold at least one total, got none")
    if len({time.tzinfo is None for time in known}) > 1:
        raise InputError(f"times in {path} must all have an offset from UTC, or none of them")
    return known
