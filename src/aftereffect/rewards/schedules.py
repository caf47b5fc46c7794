"""Rewards that were fixed before the play: what every arm would bring in every slot.

A schedule is drawn, with a seed of its own, or was recorded (`Recorded`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import (
    MAX_SEED,
    Spec,
    check_int,
    check_means,
    check_shares,
    register,
    short_repr,
)
from aftereffect.errors import ParameterError

#: The paying arm of each slot, or a table with a row per slot and a column per arm.
Rows: TypeAlias = NDArray[Any]

#: So many numbers are drawn at a time, so that little more than the result is in memory.
_PIECE = 1_000_000
#: Of what was drawn, and of the sums over every 64 slots that go with it.
MAX_DRAWN_BYTES = 1_000_000_000


class Schedule(Spec, ABC):
    """The reward of every arm in every slot, in [0, 1].

    Examples
    --------
    >>> schedule = DrawnArm([0.5, 0.3, 0.2], seed=1)
    >>> schedule.arms, schedule.rows(5).tolist()
    (3, [1, 2, 0, 2, 0])
    """

    kind = "schedule"

    @property
    @abstractmethod
    def arms(self) -> int:
        """The number of arms."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many slots there are."""

    @abstractmethod
    def rows(self, slots: int) -> Rows:
        """The first slots: the paying arm of each, if one pays 1; else a table by slot and arm."""


class _Drawn(Schedule):
    """A schedule without an end, drawn by a seed of its own; more slots begin with the same."""

    seed: int

    @property
    def length(self) -> int:
        return int(MAX_DRAWN_BYTES // max(self._slot_bytes, self.arms / 8))

    @property
    @abstractmethod
    def _slot_bytes(self) -> int:
        """What a row of one slot takes."""

    @property
    @abstractmethod
    def _draws(self) -> int:
        """How many numbers a slot takes."""

    def rows(self, slots: int) -> Rows:
        return _draw_rows(self, slots)

    @abstractmethod
    def _piece(self, rng: np.random.Generator, slots: int) -> Rows:
        """The next slots."""

    def _pieces(self, slots: int) -> Iterator[Rows]:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed)))
        piece = max(_PIECE // self._draws, 1)
        for first in range(0, slots, piece):
            yield self._piece(rng, min(piece, slots - first))


@lru_cache(maxsize=2)  # all policies of a study play the same
def _draw_rows(schedule: _Drawn, slots: int) -> Rows:
    rows = np.concatenate(list(schedule._pieces(slots)))
    rows.setflags(write=False)  # it is cached, and shared
    return rows


@register
@dataclass(frozen=True)
class DrawnArm(_Drawn):
    """One arm pays 1 in each slot, drawn beforehand with these shares; the others pay nothing.

    Parameters
    ----------
    shares
        How often each arm is the one that pays; they sum to 1.
    seed
        Which of all such schedules.

    Examples
    --------
    >>> DrawnArm([.5, .3, .2], seed=1).paying(8).tolist()
    [1, 2, 0, 2, 0, 0, 2, 0]
    """

    shares: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        given = check_shares("shares", self.shares)
        if not 2 <= len(given) <= np.iinfo(np.int16).max:
            raise ParameterError(
                f"shares must be at least two numbers, one per arm, got {short_repr(self.shares)}"
            )
        self._set(shares=tuple(given), seed=check_int("seed", self.seed, at_most=MAX_SEED))

    @property
    def arms(self) -> int:
        return len(self.shares)

    @property
    def _slot_bytes(self) -> int:
        return self._type.itemsize

    @property
    def _draws(self) -> int:
        return 1

    @property
    def _type(self) -> np.dtype[Any]:
        return np.min_scalar_type(-self.arms)

    def paying(self, slots: int) -> Rows:
        """The arm that pays in each of the first slots."""
        return self.rows(slots)

    def _piece(self, rng: np.random.Generator, slots: int) -> Rows:
        bounds = np.cumsum(self.shares)[:-1]
        return np.searchsorted(bounds, rng.random(slots), side="right").astype(self._type)


@register
@dataclass(frozen=True)
class DrawnRewards(_Drawn):
    """Each arm pays 1 or nothing in each slot, drawn beforehand and independently with these means.

    Parameters
    ----------
    means
        How often each arm pays.
    seed
        Which of all such schedules.

    Examples
    --------
    >>> DrawnRewards([.5, .3], seed=1).rows(3).shape
    (3, 2)
    """

    means: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        self._set(
            means=check_means(self.means),
            seed=check_int("seed", self.seed, at_most=MAX_SEED),
        )

    @property
    def arms(self) -> int:
        return len(self.means)

    @property
    def _slot_bytes(self) -> int:
        return self.arms

    @property
    def _draws(self) -> int:
        return self.arms

    def _piece(self, rng: np.random.Generator, slots: int) -> Rows:
        return (rng.random((slots, self.arms)) < self.means).astype(np.uint8)
