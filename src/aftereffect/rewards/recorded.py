"""Rewards from an array, as a schedule; and a schedule from whatever describes one."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import as_float, as_spec, check_int, short_repr
from aftereffect.errors import ParameterError
from aftereffect.rewards.schedules import Rows, Schedule


@dataclass(frozen=True, repr=False)
class Recorded(Schedule):
    """Rewards from an array. It has a label, but no spec string that could be read back.

    Parameters
    ----------
    values
        A table of rewards in [0, 1] with a row per slot and a column per arm, or the arm that pays
        1 in each slot.
    paying_arms
        In the latter case, how many arms there are; one more than the highest number in it if not
        given.

    Examples
    --------
    >>> Recorded([[0, 1], [.5, 1], [1, 0]]).length
    3
    """

    values: Rows = field(compare=False)
    paying_arms: int | None = None
    digest: str = field(init=False, default="")

    def __post_init__(self) -> None:
        values = _check_values(self.values)
        if values.ndim == 1:
            arms = int(values.max()) + 1
            wanted = (
                max(arms, 2)
                if self.paying_arms is None
                else check_int("paying_arms", self.paying_arms, at_least=2)
            )
            if arms > wanted:
                raise ParameterError(
                    f"paying arms must be numbers from 0 to {wanted - 1}, got {arms - 1}"
                )
            self._set(paying_arms=wanted)
        elif self.paying_arms is not None:
            raise ParameterError(
                "paying_arms can be given only with a list of paying arms, got a table of rewards"
            )
        digest = hashlib.sha256(
            f"{values.shape}{values.dtype}".encode() + values.tobytes()
        ).hexdigest()[:12]
        values.setflags(write=False)
        self._set(values=values, digest=digest)

    def __str__(self) -> str:
        """A label."""
        return f"recorded({self.length} slots of {self.arms} arms, {self.digest})"

    __repr__ = __str__

    @property
    def arms(self) -> int:
        return self.paying_arms or self.values.shape[1]

    @property
    def length(self) -> int:
        return len(self.values)

    def rows(self, slots: int) -> Rows:
        return self.values[:slots]


def _check_values(values: ArrayLike) -> Rows:
    """A copy in the smallest type that holds it."""
    try:
        given = np.array(values)
    except ValueError:
        given = np.array(None)
    if given.dtype == bool:
        given = given.astype(np.uint8)
    elif given.dtype == object:  # from a database, say
        numbers = [as_float(each) for each in given.flat]
        given = (
            given if None in numbers else np.array(numbers, dtype=np.float64).reshape(given.shape)
        )
    whole_numbers = np.issubdtype(given.dtype, np.integer)
    if (
        given.size == 0
        or not (whole_numbers or np.issubdtype(given.dtype, np.floating))
        or given.ndim not in (1, 2)
    ):
        wanted = "a table with a row per slot and a column per arm, or the paying arm of each slot"
        raise ParameterError(f"rewards must be {wanted}, got {short_repr(values)}")
    if given.ndim == 1:
        if not whole_numbers or given.min() < 0 or given.max() >= np.iinfo(np.int16).max:
            raise ParameterError(
                f"paying arms must be whole numbers from 0 on, got {short_repr(values)}"
            )
        return given.astype(np.min_scalar_type(-int(given.max()) - 1))
    if given.shape[1] < 2:
        raise ParameterError(
            f"a table of rewards must have at least two columns, one per arm, got {given.shape[1]}"
        )
    if not (np.isfinite(given).all() and given.min() >= 0 and given.max() <= 1):
        wrong = given[~((given >= 0) & (given <= 1))][0]
        raise ParameterError(f"rewards must be numbers from 0 to 1, got {wrong:g}")
    binary = whole_numbers or bool(np.isin(given, (0, 1)).all())
    return np.ascontiguousarray(given, dtype=np.uint8 if binary else np.float64)


def as_schedule(value: Any) -> Schedule:
    """A schedule from a schedule, its spec string, or an array, which `Recorded` checks."""
    if isinstance(value, (Schedule, str)):
        return as_spec(value, Schedule)
    return Recorded(value)
