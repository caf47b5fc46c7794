"""What an estimate is made from: the arm of each slot, and its total."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

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
