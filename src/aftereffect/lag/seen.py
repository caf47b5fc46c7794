"""What an estimate is made from: which arm was played in each slot, and what was seen in it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from aftereffect.checks import shown
from aftereffect.errors import ParameterError
from aftereffect.kernels import Slots, Vector


@runtime_checkable
class Recorded(Protocol):
    """A record of every slot, such as a `Trace`: the arm played and the total observed."""

    @property
    def arm(self) -> Slots:
        """The arm of each slot."""

    @property
    def observed(self) -> Vector:
        """The total of each slot."""


class SlotLine(Protocol):
    """One slot of a live history: the arm that was played, and what was told of it, None if nothing was."""

    @property
    def played(self) -> str | None:
        """The arm's name; None if nothing was played."""

    @property
    def value(self) -> float | None:
        """The total."""


#: The number of the arm in slots in which none was played.
NO_ARM = -1

#: A record, lines, or arms and totals.
History: TypeAlias = Recorded | Iterable[SlotLine] | tuple[Iterable[object], Iterable[float | None]]


class Seen(NamedTuple):
    """Arms as numbers from 0 on, `NO_ARM` where none was played; and totals, not a number where there is none."""

    arm: Slots
    total: Vector

    @property
    def arms(self) -> int:
        """How many different arms were played."""
        return int(self.arm.max(initial=NO_ARM)) + 1


def seen(history: History) -> Seen:
    """A history of any kind."""
    names, totals = _columns(history)
    numbers: dict[object, int] = {None: NO_ARM, NO_ARM: NO_ARM}
    arm: Slots = np.array([numbers.setdefault(name, len(numbers) - 2) for name in names], dtype=np.int64)
    try:
        total = np.array([np.nan if value is None else float(value) for value in totals])
    except (TypeError, ValueError):
        raise ParameterError("totals must be numbers, or None where there is none") from None
    if len(arm) != len(total):
        raise ParameterError(f"there must be one total for each slot, got {len(arm):,} arms and {len(total):,} totals")
    return Seen(arm, np.where(np.isfinite(total), total, np.nan))


def _columns(history: Any) -> tuple[Sequence[object], Sequence[float | None]]:
    if isinstance(history, Recorded):
        return history.arm.tolist(), history.observed.tolist()
    try:
        if isinstance(history, tuple) and len(history) == 2:
            return list(history[0]), list(history[1])
        lines = list(history)
        return [line.played for line in lines], [line.value for line in lines]
    except (AttributeError, TypeError):
        raise ParameterError(
            "a history must be a trace, the lines of a live experiment's history, or a pair of arms and totals, "
            f"got {shown(history)}"
        ) from None
