"""Checks of parameters: each returns the value in its plain Python type, or says in one line what was expected.

Used by everything that has parameters, so that ``alpha=nan`` is refused with the same words everywhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Real

import numpy as np

from aftereffect.errors import ParameterError

#: Slots are counted in float64 state, which is exact up to here.
MOST_SLOTS = 2**53
#: Tables by lag are kept in memory; this one is 80 MB.
LONGEST_LAG = 10_000_000

_LONGEST_SHOWN = 60


def real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite number within the given bounds, of any type that Python counts as one."""
    wanted = _wanted("a number", above, at_least, below, at_most)
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise ParameterError(f"{name} must be {wanted}, got {shown(value)}")
    number = _as_float(value)
    fits = (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not fits:
        raise ParameterError(f"{name} must be {wanted}, got {number:g}")
    return number


def whole(name: str, value: object, *, at_least: int = 0, at_most: int | None = None) -> int:
    """A whole number within the given bounds; ``1e5`` is one, ``1.5`` is not."""
    wanted = _wanted("a whole number", None, at_least, None, at_most)
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise ParameterError(f"{name} must be {wanted}, got {shown(value)}")
    huge = isinstance(value, Decimal) and not math.isfinite(_as_float(value))  # its digits could fill the memory
    try:
        number = 0 if huge else int(value)  # type: ignore[arg-type]  # what is no whole number fails here, or differs
    except (ValueError, OverflowError):
        huge = True
    if huge or number != value:
        raise ParameterError(f"{name} must be {wanted}, got {_as_float(value):g}")
    if number < at_least or (at_most is not None and number > at_most):
        raise ParameterError(f"{name} must be {wanted}, got {shown(number)}")
    return number


def _as_float(value: Real | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:  # of a signalling NaN
        return math.nan


def flag(name: str, value: object) -> bool:
    """True or false, and nothing that would merely count as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be true or false, got {shown(value)}")
    return bool(value)


def lag(name: str, value: object, *, at_least: int = 0) -> int:
    """A number of slots between a pull and what it brings."""
    return whole(name, value, at_least=at_least, at_most=LONGEST_LAG)


def sequence(name: str, values: object) -> Sequence[object]:
    """Several values, as a sequence; a string is not one."""
    try:
        if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
            raise TypeError
        return tuple(values)
    except TypeError:  # also an array without dimensions
        raise ParameterError(f"{name} must be a list, got {shown(values)}") from None


def arm_means(values: object) -> tuple[float, ...]:
    """The mean reward of each of at least two arms."""
    given = sequence("means", values)
    if len(given) < 2:
        raise ParameterError(f"means must hold at least two arms, got {len(given)}")
    return tuple(real(f"the mean of arm {arm}", mean, at_least=0, at_most=1) for arm, mean in enumerate(given))


def shares(name: str, values: object) -> tuple[float, ...]:
    """Weights by lag, from lag 0 on: none negative, one in all."""
    given = sequence(name, values)
    weights = tuple(real(f"{name}[{lag}]", weight, at_least=0) for lag, weight in enumerate(given))
    if not weights:
        raise ParameterError(f"{name} must sum to 1, got none")
    total = math.fsum(weights)
    if abs(total - 1) > 1e-9:
        raise ParameterError(f"{name} must sum to 1, got a sum of {total:.12g}: divide each by it")
    return weights


def shown(value: object) -> str:
    """A value for a message, cut where it is long."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not print integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _wanted(kind: str, above: float | None, at_least: float | None, below: float | None, at_most: float | None) -> str:
    if at_least is not None and at_most is not None:
        return f"{kind} from {_bound(at_least)} to {_bound(at_most)}"
    bounds = [
        f"{word} {_bound(bound)}"
        for word, bound in (("above", above), ("of at least", at_least), ("below", below), ("of at most", at_most))
        if bound is not None
    ]
    return f"{kind} {' and '.join(bounds)}" if bounds else kind


def _bound(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"
