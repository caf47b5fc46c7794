"""Reads spec strings: `parse` gives the object that a text stands for."""

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal, NoReturn, TypeVar, cast, get_origin, overload

from aftereffect._core.files import short_repr, suggest
from aftereffect._core.spec import (
    S,
    Spec,
    add_article,
    build,
    check_kind,
    find_class,
    name_of,
    reject_unknown,
    type_hints,
)
from aftereffect.errors import SpecError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf|nan)(?![\w.-]))"
    r"|(?P<word>[A-Za-z][\w-]*)|\"(?P<text>[^\"]*)\"|(?P<mark>[()\[\],=]))"
)
_CONSTANTS = {"true": True, "false": False, "none": None}
_MAX_DEPTH, _MAX_DIGITS = 20, 400
T = TypeVar("T")


@overload
def parse(text: str) -> Spec: ...


@overload
def parse(text: str, kind: type[S]) -> S: ...


def parse(text: str, kind: type[Spec] = Spec) -> Spec:
    """Read a spec string.

    Parameters
    ----------
    text
        Such as ``interval(30,39)``, ``shape([.2,.8])`` or ``ars-ucb(growth=exponential)``.
    kind
        Base class of what is expected, such as `Policy` or `Delay`; by default anything.

    Raises
    ------
    SpecError
        If the text cannot be read, or names something unknown; the message suggests a name.
    ParameterError
        If a parameter is outside its range.

    Examples
    --------
    >>> from aftereffect import parse
    >>> parse("interval(30, 39)").mean_lag
    34.5
    """
    if not isinstance(text, str):
        raise SpecError(
            f"expected the spec string of {add_article(kind.kind)}, got {short_repr(text)}"
        )
    value = _Parser(text, kind).read()
    if isinstance(value, str):
        reject_unknown(value, kind)
    return check_kind(value, kind, short_repr(text))


def as_spec(value: object, kind: type[S]) -> S:
    """The value itself if it is of that kind, or what its spec string says."""
    if isinstance(value, str):
        return parse(value, kind)
    return check_kind(value, kind, short_repr(value))


class _Word(Spec):
    """The kind of a parameter that takes a word, even if that is a name: ``clw(base=exp3)``."""


class _Parser:
    """A recursive-descent parser of one spec string."""

    def __init__(self, text: str, kind: type[Spec]) -> None:
        self.text, self.kind, self.position = text, kind, 0
        self.token: str = ""
        self.token_type: str | None = None
        self._advance()

    def read(self) -> object:
        value = self._read_value(self.kind, 0)
        return value if self.token_type is None else self._fail("the end")

    def _advance(self) -> None:
        match = _TOKEN.match(self.text, self.position)
        if match:
            self.token_type = match.lastgroup
            self.token = match.group(match.lastgroup or 0)
            self.position = match.end()
        elif self.text[self.position :].strip():
            self.token_type, self.token = "other", self.text[self.position :].strip()[0]
        else:
            self.token_type, self.token = None, ""

    def _fail(self, expected: str) -> NoReturn:
        came = short_repr(self.token) if self.token else "the end"
        raise SpecError(
            f"cannot read the spec {short_repr(self.text)}: expected {expected}, got {came}"
        )

    def _skip(self, mark: str) -> bool:
        if self.token_type == "mark" and self.token == mark:
            self._advance()
            return True
        return False

    def _read_value(self, kind: type[Spec], depth: int) -> object:
        if depth > _MAX_DEPTH:
            raise SpecError(
                f"cannot read the spec {short_repr(self.text)}: nested more than {_MAX_DEPTH} deep"
            )
        token = self.token
        if self.token_type == "number":
            self._advance()
            short_whole = len(token) < _MAX_DIGITS and re.fullmatch(r"[+-]?\d+", token)
            return int(token) if short_whole else float(token)
        if self.token_type == "text":
            self._advance()
            return token
        if self._skip("["):
            return tuple(self._read_list("]", lambda: self._read_value(Spec, depth + 1)))
        if self.token_type == "word":
            self._advance()
            return self._read_name(token, kind, depth)
        return self._fail("a name, a number or a list")

    def _read_name(self, name: str, kind: type[Spec], depth: int) -> object:
        called = self._skip("(")
        cls = None if kind is _Word else find_class(name)
        if cls is None:
            if called:
                reject_unknown(name, kind)
            return _CONSTANTS.get(name, name)
        positional: list[object] = []
        named: dict[str, object] = {}
        if called:
            self._read_list(")", lambda: self._read_argument(cls, positional, named, depth))
        return build(cls, positional, named)

    def _read_list(self, closing: str, read_item: Callable[[], T]) -> list[T]:
        items: list[T] = []
        if self._skip(closing):
            return items
        while True:
            items.append(read_item())
            if self._skip(closing):
                return items
            if not self._skip(","):
                self._fail(f"',' or {closing!r}")

    def _read_argument(
        self, cls: type[Spec], positional: list[object], named: dict[str, object], depth: int
    ) -> None:
        known = [field.name for field in fields(cls)]
        ahead = re.compile(r"\s*=").match(self.text, self.position)
        if self.token_type == "word" and ahead:
            name = cls.parameter_aliases.get(self.token, self.token)
            if name not in known:
                raise SpecError(
                    f"{name_of(cls)} has no parameter {short_repr(name)}: {suggest(name, known)}"
                )
            if name in named:
                raise SpecError(f"{name_of(cls)} is given {name!r} twice")
            self._advance()
            self._skip("=")
            named[name] = self._read_value(_kind_of(cls, name), depth + 1)
        elif named:
            raise SpecError(
                f"cannot read the spec {short_repr(self.text)}: a positional argument "
                f"({short_repr(self.token)}) comes after a named one"
            )
        else:
            kind = _kind_of(cls, known[len(positional)]) if len(positional) < len(known) else Spec
            positional.append(self._read_value(kind, depth + 1))


def _kind_of(cls: type[Spec], parameter: str) -> type[Spec]:
    """What a parameter must be, so that a typing error in it is answered with the right names."""
    declared = type_hints(cast(Any, cls))[parameter]
    if get_origin(declared) is Literal:
        return _Word
    return declared if isinstance(declared, type) and issubclass(declared, Spec) else Spec
