"""The length of rounds: f(k), the number of slots of an arm's k-th round.

Theorem 1 needs a non-decreasing f with f(k+1) <= f(1) + ... + f(k) from some k on. Formulas are
kernels. Any other callable is tabulated up to the horizon, so it works in simulations only.

>>> [Power(2)(k) for k in (1, 2, 3, 4)]
[1, 4, 9, 16]
>>> [Exponential()(k) for k in (1, 2, 3, 4)]
[4, 4, 8, 16]
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from aftereffect._core import (
    MAX_SLOTS,
    Spec,
    Vector,
    as_spec,
    check_float,
    check_int,
    register,
    short_repr,
    shorten,
)
from aftereffect.errors import ParameterError

__all__ = ["Exponential", "Growth", "Power"]

#: ``slots(params, k)``: the length of round k, counted from 1.
SlotsOfRound: TypeAlias = Callable[[Vector, int], int]

#: Rounds of a callable that are checked when it is given.
_CHECKED_ROUNDS = 32
#: Rounds that a table has.
_MAX_TABLE = 10_000_000
#: Pieces that `rounds_within` adds up at a time: at first, and after they were doubled.
_MIN_PIECES, _MAX_PIECES = 16, 65_536


class Growth(Spec, ABC):
    """A rule for the length of an arm's k-th round.

    Examples
    --------
    >>> from aftereffect.growth import as_growth
    >>> as_growth("power(2)")(3)
    9
    """

    kind = "growth"

    @abstractmethod
    def kernel(self) -> SlotsOfRound:
        """The plain function that simulations compile."""

    @abstractmethod
    def params(self, horizon: int) -> Vector:
        """What the kernel reads, enough for a run of that many slots."""

    def __call__(self, k: int) -> int:
        """The number of slots of round k, counted from 1."""
        return self.kernel()(self.params(MAX_SLOTS), check_int("k", k, at_least=1))


def power_slots(params: Vector, k: int) -> int:
    """``ceil(k^p)``, at most 2^53; a power within rounding of a whole number counts as whole."""
    if params[0] * math.log(k) >= 53 * math.log(2.0):
        return 2**53
    power = math.pow(k, params[0])
    nearest = math.floor(power + 0.5)
    return nearest if abs(power - nearest) <= 1e-12 * power else math.ceil(power)


def power_slots_of(p: float, rounds: Vector) -> Vector:
    """`power_slots` of many rounds at once."""
    with np.errstate(over="ignore"):
        power = np.minimum(np.power(rounds, p), MAX_SLOTS)
    nearest = np.floor(power + 0.5)
    slots: Vector = np.where(np.abs(power - nearest) <= 1e-12 * power, nearest, np.ceil(power))
    return slots


def rounds_within(p: float, slots: int) -> int:
    """The largest K with f(1) + ... + f(K) <= slots, for f(k) = k^p rounded up.

    Rounds are added up in pieces, many at a time. A piece is all rounds of one length if rounds
    grow slowly, else one round. So there are at most about sqrt(2 slots) pieces for any p.

    >>> rounds_within(2, 14), rounds_within(2, 29), rounds_within(1e-300, 29)
    (3, 3, 29)
    """
    last, played, first, pieces = 0, 0.0, 1, _MIN_PIECES
    while True:
        numbers = np.arange(first, first + pieces, dtype=float)
        if p < 1:
            lengths, ends = numbers, _last_rounds(p, numbers, slots)
        else:
            lengths, ends = power_slots_of(p, numbers), numbers
        reached = played + np.cumsum(np.diff(ends, prepend=last) * lengths)
        beyond = int(np.searchsorted(reached, slots, side="right"))
        if beyond > 0:
            last, played = int(ends[beyond - 1]), float(reached[beyond - 1])
        if last == slots:  # every round has one slot
            return last
        if beyond < pieces:
            return last + int((slots - played) // lengths[beyond])
        first, pieces = first + pieces, min(2 * pieces, _MAX_PIECES)


def _last_rounds(p: float, lengths: Vector, most: int) -> Vector:
    """The last round of at most each length, or `most`, exact in spite of rounding."""
    with np.errstate(over="ignore"):
        near = np.minimum(np.power(lengths, 1 / p), most)
    # k^p is exact to a factor, so k is exact to its p-th root; bisect between these.
    factor = math.exp(min(1e-11 / p, 40.0))
    low = np.maximum(np.floor(near / factor) - 2, 0)
    high = np.minimum(np.ceil(near * factor) + 2, most)
    while (low < high).any():
        middle = low + np.ceil((high - low) / 2)
        fits = power_slots_of(p, middle) <= lengths
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    last: Vector = low
    return last


@register
@dataclass(frozen=True)
class Power(Growth):
    """f(k) = k^p, rounded up.

    Parameters
    ----------
    p
        At least 0; 2 is best in the paper.

    Examples
    --------
    >>> Power(1.5)(4)
    8
    """

    p: float

    def __post_init__(self) -> None:
        self._set(p=check_float("p", self.p, at_least=0, at_most=100))

    def kernel(self) -> SlotsOfRound:
        return power_slots

    def params(self, horizon: int) -> Vector:
        return np.array([self.p])


def exponential_slots(params: Vector, k: int) -> int:
    """``2^k``, but 4 for the first round, and at most 2^53."""
    return int(math.ldexp(1.0, min(max(k, 2), 53)))


@register
@dataclass(frozen=True)
class Exponential(Growth):
    """f(k) = 2^k, but f(1) = 4 as in the paper: then f(1) + ... + f(k) = f(k+1) exactly.

    Examples
    --------
    >>> Exponential()(5)
    32
    """

    def kernel(self) -> SlotsOfRound:
        return exponential_slots

    def params(self, horizon: int) -> Vector:
        return np.zeros(1)


def tabulated_slots(params: Vector, k: int) -> int:
    """Row k of the table."""
    return int(params[k - 1])


@dataclass(frozen=True)
class Tabulated(Growth):
    """Any callable from k = 1, 2, ... to a whole number of slots, at least 1 and never decreasing.

    Examples
    --------
    >>> Tabulated(lambda k: 3 * k)(4)
    12
    """

    function: Callable[[int], int]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ParameterError(
                "growth must be power(p), exponential or a function of the round, "
                f"got {short_repr(self.function)}"
            )
        self._table(_CHECKED_ROUNDS, MAX_SLOTS)

    def __str__(self) -> str:
        """A label; a callable has no spec string that could be read back."""
        return (
            f"callable:{getattr(self.function, '__qualname__', type(self.function).__qualname__)}"
        )

    def kernel(self) -> SlotsOfRound:
        return tabulated_slots

    def params(self, horizon: int) -> Vector:
        return np.array(self._table(_MAX_TABLE, horizon))

    def __call__(self, k: int) -> int:
        return self._check_slots(check_int("k", k, at_least=1), 1)

    def _table(self, rounds: int, horizon: int) -> list[float]:
        """Rows until they cover the horizon, or `rounds` of them."""
        table: list[float] = []
        covered, slots = 0, 1
        while covered < horizon and len(table) < rounds:
            slots = self._check_slots(len(table) + 1, slots)
            table.append(float(slots))
            covered += slots
        if covered < horizon and rounds == _MAX_TABLE:
            raise ParameterError(
                f"growth {self} needs over {_MAX_TABLE:,} rounds for {horizon:,} slots: "
                "use a formula such as power(0.5)"
            )
        return table

    def _check_slots(self, k: int, at_least: int) -> int:
        try:
            given = self.function(k)
        except Exception as error:
            wanted = f"growth({k}) must be a whole number of at least 1"
            raise ParameterError(
                f"{wanted}, but calling it gave {type(error).__name__}: {shorten(str(error))}"
            ) from error
        slots = check_int(f"growth({k})", given, at_least=1)
        if slots < at_least:
            raise ParameterError(
                f"growth must not decrease, but growth({k}) = {slots} after {at_least}"
            )
        return min(slots, MAX_SLOTS)


def as_growth(value: object) -> Growth:
    """Return a growth from a growth, its spec string, or any callable.

    >>> as_growth("exponential")(1)
    4
    """
    if callable(value) and not isinstance(value, Growth):
        return Tabulated(value)
    return as_spec(value, Growth)
