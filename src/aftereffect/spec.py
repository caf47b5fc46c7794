"""Spec strings: ``ars-ucb(alpha=4, growth=power(2))`` and back.

Everything a user can name (policies, spreads, growths, reward laws, environments) is a frozen dataclass derived from `Spec`
and registered by its class name in kebab case. `str(x)` writes the string, `parse` reads it, never with ``eval``, and
``parse(str(x)) == x``.

>>> from aftereffect import Interval, parse
>>> str(Interval(30, 40))
'interval(30, 40)'
>>> parse("interval(30,40)") == Interval(30, 40)
True
"""

import difflib
import inspect
import re
from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, Literal, NoReturn, TypeVar, cast, get_origin, get_type_hints, overload

from aftereffect.checks import shown
from aftereffect.errors import ParameterError, SpecError

_REGISTRY: dict[str, type["Spec"]] = {}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf|nan)(?![\w.-]))"
    r"|(?P<word>[A-Za-z][\w-]*)|(?P<mark>[()\[\],=]))"
)
_CONSTANTS = {"true": True, "false": False, "none": None}
_DEEPEST, _LONGEST_WHOLE = 20, 400

S = TypeVar("S", bound="Spec")


class Spec:
    """Base of everything that has a spec string. Subclasses are frozen dataclasses."""

    #: What the subclasses are called in messages and lists, set by each base class.
    kind = "name"

    def __str__(self) -> str:
        """The spec string: required parameters by place, the others by name unless they are not given."""
        given = [(field, getattr(self, field.name)) for field in fields(cast(Any, self))]
        written = [
            notation(value) if _required(field) else f"{field.name}={notation(value)}"
            for field, value in given
            if value is not None or field.default is not None
        ]
        return f"{name_of(type(self))}({', '.join(written)})" if written else name_of(type(self))

    def __getstate__(self) -> dict[str, object]:
        """The parameters alone; tables that were computed from them are computed again."""
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}

    def _set(self, **cleaned: object) -> None:
        """Store checked parameters; only for use in ``__post_init__`` of a frozen dataclass."""
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)


def register(cls: type[S]) -> type[S]:
    """Make a `Spec` dataclass known by name. A class decorator."""
    name = name_of(cls)
    if "__dataclass_params__" not in vars(cls) or not cast(Any, cls).__dataclass_params__.frozen:
        raise SpecError(f"{cls.__qualname__} must be a frozen dataclass: put @register above @dataclass(frozen=True)")
    taken = _REGISTRY.get(name, cls)
    if (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):  # equal when its module is reloaded
        raise SpecError(f"the name {name!r} is taken by {taken.__module__}.{taken.__qualname__}")
    _REGISTRY[name] = cls
    return cls


def registered(kind: type[S]) -> list[type[S]]:
    """All registered classes of a kind, sorted by name."""
    return [cls for _, cls in sorted(_REGISTRY.items()) if issubclass(cls, kind)]


def name_of(cls: type[Spec]) -> str:
    """The name in spec strings: the class name in kebab case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


def usage(cls: type[Spec]) -> str:
    """How to write it: ``interval(a, b)``, ``ars-ucb(alpha=4, growth=power(2))``."""
    shown = [
        field.name if _required(field) else f"{field.name}={notation(_default(field))}" for field in fields(cast(Any, cls))
    ]
    return f"{name_of(cls)}({', '.join(shown)})" if shown else name_of(cls)


def summary(cls: type[Spec]) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


@overload
def parse(text: str) -> Spec: ...


@overload
def parse(text: str, kind: type[S]) -> S: ...


def parse(text: str, kind: type[Spec] = Spec) -> Spec:
    """Read a spec string.

    Parameters
    ----------
    text
        Such as ``interval(30,40)``, ``shape([.2,.8])`` or ``ars-ucb(growth=exponential)``.
    kind
        Base class of what is expected, such as `Policy` or `Spread`; anything registered by default.

    Raises
    ------
    SpecError
        If the text cannot be read or names something unknown; the nearest known name is suggested.
    ParameterError
        If a parameter is outside what is allowed.
    """
    if not isinstance(text, str):
        raise SpecError(f"expected the spec string of {_a(kind.kind)}, got {shown(text)}")
    value = _Reader(text, kind).read()
    if isinstance(value, str):
        _unknown(value, kind)
    return _of_kind(value, kind, shown(text))


def as_spec(value: object, kind: type[S]) -> S:
    """The value itself if it is of that kind, or what its spec string says."""
    if isinstance(value, str):
        return parse(value, kind)
    return _of_kind(value, kind, shown(value))


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the nearest known one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(word.lower(), names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"


def one_of(name: str, value: object, known: Iterable[str]) -> str:
    """One of some words."""
    words = list(known)
    if not isinstance(value, str) or value not in words:
        raise ParameterError(f"unknown {name} {shown(value)}: {nearest(value if isinstance(value, str) else '', words)}")
    return value


def _of_kind(value: object, kind: type[S], given: str) -> S:
    if not isinstance(value, kind):
        what = f"the {value.kind} {name_of(type(value))!r}" if isinstance(value, Spec) else given
        raise SpecError(f"expected {_a(kind.kind)}, got {what}; known: {', '.join(map(name_of, registered(kind)))}")
    return value


def _unknown(name: str, kind: type[Spec]) -> NoReturn:
    raise SpecError(f"unknown {kind.kind} {shown(name)}: {nearest(name, map(name_of, registered(kind)))}")


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


class _Word(Spec):
    """Stands for one of some bare words, which may also be names: ``clw(base=exp3)`` is about a word."""


class _Reader:
    """A recursive-descent reader of one spec string."""

    def __init__(self, text: str, kind: type[Spec]) -> None:
        self.text, self.kind, self.place = text, kind, 0
        self.token: str = ""
        self.token_type: str | None = None
        self._advance()

    def read(self) -> object:
        value = self._value(self.kind, 0)
        if self.token_type is not None:
            self._fail("the end")
        return value

    def _advance(self) -> None:
        match = _TOKEN.match(self.text, self.place)
        if match:
            self.token_type = match.lastgroup
            self.token = match.group(match.lastgroup or 0)
            self.place = match.end()
        elif self.text[self.place :].strip():
            self.token_type, self.token = "other", self.text[self.place :].strip()[0]
        else:
            self.token_type, self.token = None, ""

    def _fail(self, expected: str) -> NoReturn:
        came = shown(self.token) if self.token else "the end"
        raise SpecError(f"cannot read the spec {shown(self.text)}: expected {expected}, got {came}")

    def _take(self, mark: str) -> bool:
        if self.token_type == "mark" and self.token == mark:
            self._advance()
            return True
        return False

    def _value(self, kind: type[Spec], depth: int) -> object:
        if depth > _DEEPEST:
            raise SpecError(f"cannot read the spec {shown(self.text)}: nested more than {_DEEPEST} deep")
        token = self.token
        if self.token_type == "number":
            self._advance()
            short_whole = len(token) < _LONGEST_WHOLE and re.fullmatch(r"[+-]?\d+", token)
            return int(token) if short_whole else float(token)
        if self._take("["):
            return tuple(self._several("]", lambda: self._value(Spec, depth + 1)))
        if self.token_type == "word":
            self._advance()
            return self._named(token, kind, depth)
        return self._fail("a name, a number or a list")

    def _named(self, name: str, kind: type[Spec], depth: int) -> object:
        called = self._take("(")
        cls = None if kind is _Word else _REGISTRY.get(name)
        if cls is None:
            if called:
                _unknown(name, kind)
            return _CONSTANTS.get(name, name)
        places: list[object] = []
        names: dict[str, object] = {}
        if called:
            self._several(")", lambda: self._argument(cls, places, names, depth))
        return _built(cls, places, names)

    def _several(self, closing: str, item: Any) -> list[Any]:
        items: list[Any] = []
        if self._take(closing):
            return items
        while True:
            items.append(item())
            if self._take(closing):
                return items
            if not self._take(","):
                self._fail(f"',' or {closing!r}")

    def _argument(self, cls: type[Spec], places: list[object], names: dict[str, object], depth: int) -> None:
        known = [field.name for field in fields(cast(Any, cls))]
        ahead = re.compile(r"\s*=").match(self.text, self.place)
        if self.token_type == "word" and ahead:
            name = self.token
            if name not in known:
                raise SpecError(f"{name_of(cls)} has no parameter {shown(name)}: {nearest(name, known)}")
            if name in names:
                raise SpecError(f"{name_of(cls)} is given {name!r} twice")
            self._advance()
            self._take("=")
            names[name] = self._value(_kind_of(cls, name), depth + 1)
        elif names:
            self._fail("a parameter by name, as one before it is")
        else:
            kind = _kind_of(cls, known[len(places)]) if len(places) < len(known) else Spec
            places.append(self._value(kind, depth + 1))


def _built(cls: type[Spec], places: list[object], names: dict[str, object]) -> Spec:
    try:
        inspect.signature(cls).bind(*places, **names)
    except TypeError as error:
        raise SpecError(f"{name_of(cls)}: {error}; write {usage(cls)}") from None
    try:
        return cls(*places, **names)
    except ParameterError as error:
        raise ParameterError(f"{name_of(cls)}: {error}") from None


def _kind_of(cls: type[Spec], parameter: str) -> type[Spec]:
    """What a parameter must be, so that a typing error in it is answered with the right names."""
    declared = get_type_hints(cls)[parameter]
    if get_origin(declared) is Literal:
        return _Word
    return declared if isinstance(declared, type) and issubclass(declared, Spec) else Spec


def _required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default(field: Any) -> object:
    return field.default if field.default is not MISSING else field.default_factory()


def notation(value: object) -> str:
    """A value as it stands in a spec string."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(notation, value))}]"
    return str(value)
