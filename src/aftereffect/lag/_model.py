"""A history as a linear model.

Let w_b be the share of a reward that arrives in the bin b of lags, evenly over the bin, s_k the
reward of arm k, and x(t, b, k) the share of slots in bin b before t in which arm k was played ::

    total(t) = level + sum over b, k of  w_b s_k x(t, b, k) + noise

The slots before the first one belong to an arm of their own, "before", whose s is fitted like that
of any other. So the model explains rewards that were on their way when the history began. Slots in
which no arm was played are one more arm, "none". Since x sums to 1 over all arms, only contrasts
between arms and the level can be found.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import Slots, Vector, short_repr
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
