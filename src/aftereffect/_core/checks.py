"""Checks of parameters: each returns the value as a plain Python type or raises a `ParameterError`.

Used by everything that has parameters, so that ``alpha=nan`` is refused with the same words
everywhere.
"""

import math
import secrets
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Integral, Real
from typing import TypeVar
from unicodedata import normalize

import numpy as np

from aftereffect._core.files import short_repr, suggest
from aftereffect.errors import ParameterError

Word = TypeVar("Word", bound=str)

#: Slots are counted in float64 state, which is exact up to here.
MAX_SLOTS = 2**53
#: Longer lags are refused everywhere. Each engine checks how much memory shorter ones take.
MAX_LAG = 10_000_000
#: The largest that every integer column of a database can hold.
MAX_SEED = 2**63 - 1
#: Small enough also for JSON readers that store numbers as doubles.
_DRAWN_BITS = 53
#: Characters of the name of an arm, of a covariate or of an experiment.
MAX_NAME_LENGTH = 100


def check_float(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """A finite number within the given bounds, of any type that Python counts as one."""
    wanted = _describe_range("a number", above, at_least, below, at_most)
    number = as_float(value)
    if number is None:
        raise ParameterError(f"{name} must be {wanted}, got {short_repr(value)}")
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


def check_int(name: str, value: object, *, at_least: int = 0, at_most: int | None = None) -> int:
    """A whole number within the given bounds; ``1e5`` is one, ``1.5`` is not."""
    wanted = _describe_range("a whole number", None, at_least, None, at_most)
    given = as_float(value)
    if given is None:
        raise ParameterError(f"{name} must be {wanted}, got {short_repr(value)}")
    if not isinstance(value, Integral) and not given.is_integer():
        raise ParameterError(f"{name} must be {wanted}, got {given:g}")
    number = int(value if isinstance(value, Integral) else given)
    if number < at_least or (at_most is not None and number > at_most):
        raise ParameterError(f"{name} must be {wanted}, got {short_repr(number)}")
    return number


def check_or_draw_seed(seed: object) -> int:
    """A seed that was given, or a new one."""
    if seed is None:
        return secrets.randbits(_DRAWN_BITS)
    return check_int("seed", seed, at_most=MAX_SEED)


def check_flag(name: str, value: object) -> bool:
    """True or false, and nothing that would merely count as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be true or false, got {short_repr(value)}")
    return bool(value)


def check_choice(name: str, value: object, known: Iterable[Word]) -> Word:
    """One of some words."""
    words = list(known)
    for word in words:
        if isinstance(value, str) and word == value:
            return word
    hint = suggest(value if isinstance(value, str) else "", words)
    raise ParameterError(f"unknown {name} {short_repr(value)}: {hint}")


def check_lag(name: str, value: object, *, at_least: int = 0) -> int:
    """A lag: the number of slots between a pull and an arrival."""
    return check_int(name, value, at_least=at_least, at_most=MAX_LAG)


def check_sequence(name: str, values: object) -> Sequence[object]:
    """Several values, as a sequence; a string is not one."""
    try:
        if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
            raise TypeError
        return tuple(values)
    except TypeError:  # also an array without dimensions
        raise ParameterError(f"{name} must be a list, got {short_repr(values)}") from None


def check_names(name: str, values: Sequence[object], one: str) -> tuple[str, ...]:
    """Names that readers can tell apart; `one` is what messages call the thing that has one.

    >>> check_names("arms", ["A", "B"], "an arm")
    ('A', 'B')
    """
    for each in values:
        if (
            not isinstance(each, str)
            or not 1 <= len(each) <= MAX_NAME_LENGTH
            or not each.isprintable()
            or each != each.strip()
        ):
            wanted = f"1 to {MAX_NAME_LENGTH} printable characters without spaces around them"
            raise ParameterError(f"{one}'s name must be {wanted}, got {short_repr(each)}")
    # Two names that look alike would be the same to a reader.
    counts = Counter(normalize("NFC", str(each)) for each in values)
    repeated = [each for each, times in counts.items() if times > 1]
    if repeated:
        raise ParameterError(
            f"{name} must have different names, got {short_repr(repeated[0])} twice"
        )
    return tuple(str(each) for each in values)


def check_columns(
    name: str, values: Sequence[object], one: str, others: Container[str]
) -> tuple[str, ...]:
    """Names of columns beside others, which are in small letters; files ignore capitals.

    >>> check_columns("covariates", ["Rain"], "a covariate", others=["slot", "total"])
    ('Rain',)
    """
    names = check_names(name, values, one)
    for number, each in enumerate(names):
        if each.lower() in others or '"' in each:
            raise ParameterError(
                f"{one} must not have quotes or the name of another column, got {each!r}: "
                "choose another name"
            )
        if each.lower() in (other.lower() for other in names[:number]):
            raise ParameterError(f"{name} must differ by more than capitals, got {each!r}")
    return names


def check_means(values: object) -> tuple[float, ...]:
    """The mean reward of each of at least two arms."""
    given = check_sequence("means", values)
    if len(given) < 2:
        raise ParameterError(f"means must be at least two numbers, one per arm, got {len(given)}")
    return tuple(
        check_float(f"the mean of arm {arm}", mean, at_least=0, at_most=1)
        for arm, mean in enumerate(given)
    )


def check_shares(name: str, values: object) -> tuple[float, ...]:
    """Shares by lag, from lag 0 on: none is negative, and they sum to 1."""
    given = check_sequence(name, values)
    weights = tuple(
        check_float(f"{name}[{lag}]", weight, at_least=0) for lag, weight in enumerate(given)
    )
    if not weights:
        raise ParameterError(f"{name} must not be empty")
    total = math.fsum(weights) if max(weights) <= 1 else sum(weights)  # fsum raises at infinity
    if abs(total - 1) > 1e-9:
        raise ParameterError(f"{name} must sum to 1, got a sum of {total:.12g}: divide each by it")
    return weights


def as_float(value: object) -> float | None:
    """A number as a float, infinite if it is too large; None if the value is not a number.

    True and False are not numbers here.
    """
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def _describe_range(
    kind: str,
    above: float | None,
    at_least: float | None,
    below: float | None,
    at_most: float | None,
) -> str:
    if at_least is not None and at_most is not None:
        return f"{kind} from {_bound(at_least)} to {_bound(at_most)}"
    bounds = [
        f"{word} {_bound(bound)}"
        for word, bound in (
            ("above", above),
            ("of at least", at_least),
            ("below", below),
            ("of at most", at_most),
        )
        if bound is not None
    ]
    return f"{kind} {' and '.join(bounds)}" if bounds else kind


def _bound(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"
