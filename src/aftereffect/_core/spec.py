"""Spec strings: ``ars-ucb(alpha=4, growth=power(2))`` and the objects they stand for.

Everything that a user can name (a policy, delay, growth, reward law, bandit) is a frozen dataclass
derived from `Spec` and registered under its class name in kebab case. ``str(x)`` writes the string,
`parse` reads it, and ``parse(str(x)) == x``. A value is a number, a word (``true``, ``false``,
``none``, or one that a parameter takes), a text in double quotes, a list ``[value, ...]``, or a
name with arguments: ``name(value, ..., parameter=value, ...)``. Code is never evaluated.

>>> from aftereffect import Interval, parse
>>> str(Interval(30, 39))
'interval(30, 39)'
>>> parse("interval(30,39)") == Interval(30, 39)
True

Databases, files and sweeps store spec strings. So a class that is renamed lists its old name in
`aliases`, and a renamed parameter in `parameter_aliases`: old strings stay readable.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import lru_cache
from typing import Any, ClassVar, NoReturn, TypeVar, cast, get_type_hints

from aftereffect._core.files import short_repr, suggest
from aftereffect._core.installation import load_plugins
from aftereffect.errors import ParameterError, SpecError

#: Texts that need no quotes in a spec string.
_WORD = re.compile(r"[A-Za-z][\w-]*")
_REGISTRY: dict[str, type["Spec"]] = {}
_ALIASES: dict[str, type["Spec"]] = {}
#: Where a class may be that is not a plugin: in this package, or in the script that runs.
_NOT_PLUGINS = ("aftereffect", "__main__")

S = TypeVar("S", bound="Spec")


class Spec:
    """Base of everything that has a spec string. Subclasses are frozen dataclasses."""

    #: What the subclasses are called in messages and lists, set by each base class.
    kind = "name"
    #: Old names of the class, and old names of its parameters with the new ones.
    aliases: ClassVar[tuple[str, ...]] = ()
    parameter_aliases: ClassVar[Mapping[str, str]] = {}
    #: What makes every subclass a dataclass, for type checkers.
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __str__(self) -> str:
        """The spec string: required parameters by position, others by name if they are given."""
        given = [(field, getattr(self, field.name)) for field in fields(self)]
        written = [
            _quote(value) if _is_required(field) else f"{field.name}={_quote(value)}"
            for field, value in given
            if value is not None or field.default is not None
        ]
        return f"{name_of(type(self))}({', '.join(written)})" if written else name_of(type(self))

    def __getstate__(self) -> dict[str, object]:
        """The parameters alone; tables that were computed from them are computed again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _set(self, **cleaned: object) -> None:
        """Store checked parameters; only for use in ``__post_init__`` of a frozen dataclass."""
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)


def register(cls: type[S]) -> type[S]:
    """Make a `Spec` dataclass known by its name. A class decorator.

    See docs/extend.md for a policy and a delay of one's own.

    Examples
    --------
    >>> from aftereffect import Geometric, register
    >>> register(Geometric)(0.75).mean_lag  # as a decorator does
    4.0
    """
    if "__dataclass_params__" not in vars(cls) or not cast(Any, cls).__dataclass_params__.frozen:
        raise SpecError(
            f"{cls.__qualname__} must be a frozen dataclass: "
            "put @register above @dataclass(frozen=True)"
        )
    for name in (name_of(cls), *cls.aliases):
        other = _REGISTRY.get(name) or _ALIASES.get(name) or cls
        # A module that is loaded again registers the same class once more.
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise SpecError(
                f"the name {name!r} is already that of {other.__module__}.{other.__qualname__}"
            )
    _REGISTRY[name_of(cls)] = cls
    _ALIASES.update(dict.fromkeys(cls.aliases, cls))
    return cls


def list_registered(kind: type[S]) -> list[type[S]]:
    """List the registered classes of a kind by name, with those of plugins."""
    load_plugins()
    return [cls for _, cls in sorted(_REGISTRY.items()) if issubclass(cls, kind)]


def list_plugin_modules() -> list[str]:
    """List the modules of others that have registered something, but not the script that runs."""
    modules = {cls.__module__ for cls in list_registered(Spec)}
    return sorted(name for name in modules if name.partition(".")[0] not in _NOT_PLUGINS)


def find_class(name: str) -> type[Spec] | None:
    """The class of that name or old name; plugins are loaded if it is not known without them."""
    if name not in _REGISTRY and name not in _ALIASES:
        load_plugins()
    return _REGISTRY.get(name) or _ALIASES.get(name)


def name_of(cls: type[Spec]) -> str:
    """The name in spec strings: the class name in kebab case."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


def usage(cls: type[Spec]) -> str:
    """How to write it: ``interval(first, last)``, ``ars-ucb(alpha=4, growth=power(2))``."""
    parameters = [
        field.name if _is_required(field) else f"{field.name}={_quote(_default(field))}"
        for field in fields(cls)
    ]
    return f"{name_of(cls)}({', '.join(parameters)})" if parameters else name_of(cls)


def summary(cls: type[Spec]) -> str:
    """The first line of the docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def check_kind(value: object, kind: type[S], given: str) -> S:
    """The value, if it is of that kind; `given` is what the user wrote."""
    if not isinstance(value, kind):
        what = f"the {value.kind} {name_of(type(value))!r}" if isinstance(value, Spec) else given
        known = ", ".join(map(name_of, list_registered(kind)))
        if isinstance(value, Spec) and value.kind == kind.kind:
            raise SpecError(f"{what} cannot be used here, only one of: {known}")
        raise SpecError(f"expected {add_article(kind.kind)}, got {what}; known: {known}")
    return value


def reject_unknown(name: str, kind: type[Spec]) -> NoReturn:
    """Say that nothing of a kind has that name."""
    hint = suggest(name, map(name_of, list_registered(kind)))
    raise SpecError(f"unknown {kind.kind} {short_repr(name)}: {hint}")


def add_article(noun: str) -> str:
    """A noun with its article: a delay, an arm."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _is_required(field: Any) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _default(field: Any) -> object:
    return field.default if field.default is not MISSING else field.default_factory()


@lru_cache(maxsize=1_000)  # to find them takes longer than to read a spec
def type_hints(cls: type[Spec]) -> dict[str, Any]:
    """The types of the parameters of a class."""
    return get_type_hints(cls)


def build(cls: type[Spec], positional: list[object], named: dict[str, object]) -> Spec:
    """Make an object; errors say of which class."""
    try:
        inspect.signature(cls).bind(*positional, **named)
    except TypeError as error:
        raise SpecError(f"{name_of(cls)}: {error}; write {usage(cls)}") from None
    try:
        return cls(*positional, **named)
    except ParameterError as error:
        raise ParameterError(f"{name_of(cls)}: {error}") from None


def notation(value: object) -> str:
    """A value as it stands in a spec string."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, tuple):
        # A word in a list could be the name of something else.
        parts = (f'"{part}"' if isinstance(part, str) else notation(part) for part in value)
        return f"[{', '.join(parts)}]"
    return str(value)


def _quote(value: object) -> str:
    """The same for a parameter, with quotes around texts that are not words."""
    is_text = isinstance(value, str) and not _WORD.fullmatch(value)
    return f'"{value}"' if is_text else notation(value)
