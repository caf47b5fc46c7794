"""What `fuzz_specs` tries: spec strings and parameters made from the registry, with numbers of every size, and spoilt ones."""

import math
import random
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from fractions import Fraction
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

import aftereffect as ae
from aftereffect._core.checks import short_repr
from aftereffect._core.spec import Spec, list_registered, name_of

EXTREMES = (
    0, 1, 2, -1, -0.0, 0.5, 1.0, math.nan, math.inf, -math.inf, 5e-324, 1e-300, 1e-9, 0.01, 1 - 2**-53, 1 + 2**-52, 1e300,
    1.7e308, 2**31, 2**40, 2**53, 2**53 + 1, 2**63, 2**64, 10**30, 10**400, 10_000_000, 10_000_001,
)  # fmt: skip
ODDITIES = (
    True, None, "", "ucb1", "x" * 1_000, b"x", (), [], {}, object, 1 + 1j, Decimal("0.5"), Decimal("sNaN"), Fraction(1, 3),
    Fraction(10**400, 3), 10**5000, np.float32(0.5), np.int64(3), np.array(0.5), np.array([1.0]), np.array([1.0, 2.0]),
    ae.Ucb1(), ae.Immediate(),
)  # fmt: skip
KINDS = (
    ae.Policy,
    ae.Bandit,
    ae.Delay,
    ae.rewards.RewardLaw,
    ae.growth.Growth,
    ae.rewards.Schedule,
)
#: The kind of what is simulated by machine code.
COMPILED = "compiled"
#: How deep a spec may be is limited; some are deeper.
DEEP = 25


@dataclass(frozen=True)
class Case:
    """One of the things to try: a spec string, or a class and what to make it with; and how it is played."""

    number: int
    kind: str
    text: str | None
    made_of: tuple[Any, dict[str, Any]] | None
    arms: int
    horizon: int | None
    seed: int

    def thing(self) -> Any:
        """Read or make it."""
        if self.text is not None:
            return ae.parse(self.text)
        cls, parameters = self.made_of or (None, {})
        return cls(**parameters)

    def __str__(self) -> str:
        what = self.text
        if self.made_of is not None:
            cls, parameters = self.made_of
            what = f"{cls.__name__}({', '.join(f'{name}={short_repr(value)}' for name, value in parameters.items())})"
        return f"{what} with {self.arms} arms, horizon {self.horizon}"


def cases(seed: int, count: int, by_machine_code: int = 0) -> Iterator[Case]:
    """That many, from number 0 on; the last of them by machine code."""
    for number in range(count):
        yield made(seed, number) if number < count - by_machine_code else compiled(seed, number)


#: Environments of these are played by machine code, which is made once for each pair before the
#: clock runs.
COMPILED_SPREADS = (ae.Immediate, ae.UniformDelay, ae.Interval, ae.Geometric, ae.PowerLaw)
COMPILED_REWARDS = (ae.rewards.Bernoulli, ae.rewards.Beta)


def compiled(seed: int, number: int) -> Case:
    """A case of that number whose kernels are among few."""
    draw = Draw(f"{seed}/compiled/{number}")
    draw.wild = draw.choice((0.3, 0.9))
    means = [
        draw.choice((draw.random(), 10.0 ** -draw.uniform(0, 320), 0.0, 1.0))
        for _ in range(draw.randint(2, 5))
    ]
    delay, reward = (
        _spec(draw, draw.choice(known), 3, 0) for known in (COMPILED_SPREADS, COMPILED_REWARDS)
    )
    text = f"stochastic-bandit({means}, delay={delay}, reward_law={reward})"
    return Case(
        number, COMPILED, text, None, len(means), draw.choice((60, 3_000)), draw.randrange(2**32)
    )


def made(seed: int, number: int) -> Case:
    """The case of that number."""
    draw = Draw(f"{seed}/{number}")
    draw.wild = draw.choice((0.05, 0.3, 0.9))
    kind = draw.choices(KINDS, (8, 4, 3, 2, 2, 2))[0]
    cls = draw.choice(list_registered(kind))
    arms = draw.choices((2, 3, draw.randint(2, 200), 10_000), (6, 4, 2, 0.1))[0]
    horizon = draw.choice((None, arms, arms + draw.randint(0, 1_000), 2 ** draw.randint(14, 40)))
    played = {"arms": arms, "horizon": horizon, "seed": draw.randrange(2**32)}
    if draw.random() < 0.25:
        parameters = {
            each.name: draw.choice(ODDITIES)
            if draw.random() < 0.3
            else _python(draw, _hint(cls, each.name), arms, each.name)
            for each in fields(cls)
            if each.init and (_is_required(each) or draw.random() < 0.7)
        }
        return Case(number, f"{kind.kind} made", None, (cls, parameters), **played)
    text = _spec(draw, cls, arms, 0)
    if draw.random() < 0.15:
        return Case(number, f"{kind.kind} spoilt", _spoilt(draw, text), None, **played)
    return Case(number, kind.kind, text, None, **played)


class Draw(random.Random):
    """Random numbers, and how wild the case is: the share of its parameters that are no modest numbers."""

    wild = 0.5


def number(draw: Draw, whole: bool = False) -> float:
    """Any number: a modest one, an extreme, or evenly spread in size, whole or not, now and then negative."""
    if draw.random() >= draw.wild:
        return (
            draw.randint(0, 20)
            if whole
            else draw.choice((draw.random(), 1 + 3 * draw.random(), draw.randint(1, 9)))
        )
    way = draw.random()
    if way < 0.3:
        return draw.choice(EXTREMES)
    sign = -1 if draw.random() < 0.05 else 1
    if whole or way < 0.5:
        return sign * int(2 ** (draw.choice((23, 41, 64)) * draw.random()))
    if way < 0.8:
        return sign * 10.0 ** draw.uniform(-12, 12)
    return sign * 10.0 ** draw.uniform(-320, 308)


def _is_required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _hint(cls: type[Spec], name: str) -> Any:
    """The declared type; of a spec that need not be given, that of the spec."""
    hint = get_type_hints(cls)[name]
    specs = [each for each in get_args(hint) if isinstance(each, type) and issubclass(each, Spec)]
    return specs[0] if isinstance(hint, UnionType) and specs else hint


def _spec(draw: Draw, cls: type[Spec], arms: int, depth: int) -> str:
    written = []
    for each in fields(cls):
        if each.init and (_is_required(each) or draw.random() < 0.7):
            value = _written(draw, _hint(cls, each.name), arms, depth + 1, each.name)
            written.append(
                value if _is_required(each) and draw.random() < 0.9 else f"{each.name}={value}"
            )
    named = next(
        (place for place, value in enumerate(written) if "=" in value.partition("(")[0]),
        len(written),
    )
    ordered = written[:named] + [
        value for value in written[named:] if "=" in value.partition("(")[0]
    ]
    return (
        f"{name_of(cls)}({', '.join(ordered)})" if ordered or draw.random() < 0.1 else name_of(cls)
    )


def _written(draw: Draw, hint: Any, arms: int, depth: int, name: str = "") -> str:
    """A value of a declared type, as it stands in a spec string; now and then of another type."""
    if draw.random() < 0.02:
        return draw.choice(
            ("[]", "true", "none", "ucb1", "bernoulli", "[1,[2,[3]]]", _shown(number(draw)))
        )
    if get_origin(hint) is Literal:
        return str(draw.choice(get_args(hint)))
    if hint is bool:
        return draw.choice(("true", "false"))
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        length = draw.choice(
            (arms if arms <= 200 else 3, draw.randint(0 if draw.random() < draw.wild else 2, 9))
        )
        if isinstance(inner, type) and issubclass(inner, Spec):
            return f"[{', '.join(_written(draw, inner, arms, depth + 1) for _ in range(length))}]"
        values = _list(draw, length, summing=name != "means")
        return f"[{', '.join(map(_shown, values))}]"
    if isinstance(hint, type) and issubclass(hint, Spec):
        known = list_registered(hint)
        own = [
            cls for cls in known if any(_kind_inside(cls, each.name, hint) for each in fields(cls))
        ]
        if depth > DEEP:
            return "ucb1"
        if own and draw.random() < (
            0.95 if depth > 2 else 0.15
        ):  # one inside the other, and deeper still
            return _spec(draw, draw.choice(own), arms, depth)
        return _spec(draw, draw.choice(known), arms, depth) if known else "ucb1"
    return _shown(number(draw, _whole(hint)))


def _whole(hint: Any) -> bool:
    return int in (get_args(hint) or (hint,))


def _kind_inside(cls: type[Spec], name: str, kind: type[Spec]) -> bool:
    hint = _hint(cls, name)
    return isinstance(hint, type) and issubclass(hint, kind)


def _list(draw: Draw, length: int, summing: bool) -> list[float]:
    way = draw.random()
    if way < 0.2 * draw.wild:
        return [number(draw) for _ in range(length)]
    if summing:
        weights = [
            draw.choice((draw.random(), 10.0 ** -draw.uniform(0, 320), 0.0)) for _ in range(length)
        ]
        return [weight / (math.fsum(weights) or 1.0) for weight in weights]
    return [
        draw.choice((draw.random(), draw.random(), 10.0 ** -draw.uniform(0, 320), 0.0, 1.0))
        for _ in range(length)
    ]


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(value)


def _python(draw: Draw, hint: Any, arms: int, name: str) -> Any:
    """A value of a declared type, as an object."""
    if get_origin(hint) is Literal:
        return draw.choice(get_args(hint))
    if hint is bool:
        return draw.random() < 0.5
    if get_origin(hint) is tuple or (isinstance(hint, type) and issubclass(hint, Spec)):
        text = _written(draw, hint, arms, 1)
        return (
            text
            if get_origin(hint) is not tuple
            else _list(draw, draw.choice((arms if arms <= 200 else 3, 2, 0)), name != "means")
        )
    value = number(draw, _whole(hint))
    return draw.choice(
        (
            value,
            np.float64(value) if abs(value) < 1e308 else value,
            Fraction(value) if abs(value) < 1e308 else value,
        )
    )


def _spoilt(draw: Draw, text: str) -> str:
    """With some characters gone, doubled, or replaced."""
    characters = list(text)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(characters)) if characters else 0
        new = draw.choice("()[],=+-._ eE0123456789abcxyz\n\t\x00é'\"")
        way = draw.random()
        if way < 0.4 and characters:
            del characters[place]
        elif way < 0.7:
            characters.insert(place, new)
        elif characters:
            characters[place] = new
    return "".join(characters) * draw.choice((1, 1, 1, 2))
