"""A digest of what loaded code does: equal for equal code only.

Policies, delays and growths from outside this package are not among its sources, and their files
may have been edited since they were imported. So the digest is of what was loaded and will run:
functions, the classes they belong to, and all that they name, wherever that is defined.
"""

import dis
import functools
import hashlib
import pickle
import secrets
import sys
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from aftereffect._core import PACKAGE, Spec, is_numeric

_HERE = PACKAGE.name
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
_NUMBERS = (bool, int, float)
#: Attributes that every class has, or that dataclasses and abstract classes add: they follow from
#: the rest, or do not matter.
_OF_EVERY_CLASS = {
    *("__module__", "__qualname__", "__dict__", "__weakref__", "__doc__", "__annotations__"),
    *("__match_args__", "__slots__", "__dataclass_fields__", "__dataclass_params__"),
    *("__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__"),
    *("__firstlineno__", "__static_attributes__"),
    *("__annotate__", "__annotate_func__", "__annotations_cache__"),
}


def describe_own_code(*specs: Spec, constants: bool = True) -> str:
    """Describe the code from outside this package that is behind these; empty if there is none.

    Code that holds something which cannot be compared equals no other. Without `constants`, what
    may differ between two processes that loaded the same code (text, and tables that are filled
    while it runs) does not count.
    """
    contents = Contents(constants=constants)
    try:
        for spec in specs:
            contents.add(spec)
    except RecursionError:  # nested too deeply to follow
        contents.own, contents.readable = True, False
    if not contents.own:
        return ""
    if contents.readable:
        return f" with own code {contents.digest[:12]}"
    return f" with own code that cannot be compared, {secrets.token_hex(6)}"


@functools.lru_cache(maxsize=10_000)
def list_globals(code: CodeType) -> frozenset[str]:
    """Find every global that a function names."""
    here = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return frozenset(
        here.union(
            *(list_globals(inner) for inner in code.co_consts if isinstance(inner, CodeType))
        )
    )


@functools.lru_cache(maxsize=10_000)
def strip_locations(code: CodeType) -> CodeType:
    """Return the same instructions without file name, line numbers and docstrings."""
    loaded = {step.arg for step in dis.get_instructions(code) if step.opcode in dis.hasconst}
    constants = [
        strip_locations(each) if isinstance(each, CodeType) else each for each in code.co_consts
    ]
    if constants and isinstance(constants[0], str) and 0 not in loaded:
        constants[0] = None
    return code.replace(
        co_filename="<kernel>", co_firstlineno=1, co_linetable=b"", co_consts=tuple(constants)
    )


def _names_in(code: CodeType) -> frozenset[str]:
    """Find every global and every attribute that a function names."""
    inner = (_names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(code.co_names).union(*inner)


class Contents:
    """A walk over values and all that they name, in a fixed order.

    A value that was met before is replaced by its number. ``own`` says whether code from outside
    this package was met; ``readable`` is false if something was met whose content cannot be read.
    With `compiled`, it walks functions of installed packages too, because they become part of the
    machine code; else their name and version stand for them.
    """

    def __init__(self, *, constants: bool = True, compiled: bool = False) -> None:
        self.own, self.readable = False, True
        self._constants, self._compiled = constants, compiled
        self._digest = hashlib.sha256()
        self._met: dict[Any, int] = {}
        self._alive: list[Any] = []  # so that no two objects have the same id
        self._packages: set[str] = set()

    @property
    def digest(self) -> str:
        """The digest of all that was added."""
        return self._digest.hexdigest()

    def add(self, value: Any, names: frozenset[str] = frozenset()) -> None:
        """Walk a value; of a module, what these names may stand for."""
        if isinstance(value, Enum):
            self._say("enum", type(value).__qualname__, value.name, repr(value.value))
        elif isinstance(value, _CONSTANTS):
            self._say(
                type(value).__name__,
                repr(value) if self._constants or not isinstance(value, (str, bytes)) else "",
            )
        elif isinstance(
            value, tuple
        ):  # whether two equal ones are the same object is up to the interpreter
            self._tuple(value, names)
        else:
            key = (id(value), names if isinstance(value, ModuleType) else None)
            if key in self._met:
                self._say("met", str(self._met[key]))
                return
            self._met[key] = len(self._met)
            self._alive.append(value)
            self._walk(value, names)

    def _say(self, *words: str) -> None:
        self._digest.update("\0".join(words).encode("utf-8", "surrogatepass") + b"\n")

    def _walk(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType):
            self._module(value, names)
        elif isinstance(value, Spec):
            self._spec(value)
        elif isinstance(
            value, (functools.partial, property, MethodType, staticmethod, classmethod)
        ):
            self._say(str(type(value)))
            for part in _parts(value):
                self.add(part, names)
        elif isinstance(value, functools.cached_property):
            self.add(value.func)
        elif _is_named(value) and self._is_of_others(value):
            self._name(value)
        elif hasattr(
            value, "__wrapped__"
        ):  # a cache around a function, or a function compiled by other means
            self.readable &= not self._compiled
            self.add(value.__wrapped__)
        elif self._constants:
            self._data(value)
        else:
            self._say(type(value).__qualname__)

    def _tuple(self, values: tuple[Any, ...], names: frozenset[str] = frozenset()) -> None:
        self._say(type(values).__qualname__, str(len(values)))
        if all(type(each) in _NUMBERS for each in values):  # of which there may be a million
            self._say(repr(values))
        else:
            for each in values:
                self.add(each, names)

    def _function(self, function: FunctionType) -> None:
        if not self._compiled and self._is_of_others(function):
            self._name(function)
            return
        self.own |= _package(function) != _HERE
        self._say("function", function.__qualname__)
        self._code(strip_locations(function.__code__))
        self.add(function.__defaults__)
        self.add(tuple(sorted((function.__kwdefaults__ or {}).items())))
        named = _names_in(function.__code__)
        for name in sorted(list_globals(function.__code__) & function.__globals__.keys()):
            self._say(name)
            self.add(function.__globals__[name], named)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents, named)
            except ValueError:
                self._say("empty")

    def _code(self, code: CodeType) -> None:
        """Add what a function does."""
        shape = (
            code.co_argcount,
            code.co_kwonlyargcount,
            code.co_flags,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
        )
        self._say("code", code.co_code.hex(), code.co_exceptiontable.hex(), repr(shape))
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self._say(
                    repr(sorted(constant, key=repr))
                    if isinstance(constant, frozenset)
                    else repr(constant)
                )

    def _class(self, cls: type) -> None:
        of_others = self._is_of_others(cls) and not issubclass(
            cls, Spec
        )  # Python says "abc" of one made on the fly
        if self._is_covered(cls) or of_others:
            self._name(cls)
            return
        self.own = True
        self._say("class", cls.__qualname__)
        for base in cls.__bases__:
            self.add(base)
        for name, value in sorted(vars(cls).items()):
            if name not in _OF_EVERY_CLASS:
                self._say(name)
                self.add(value)

    def _module(self, module: ModuleType, names: frozenset[str]) -> None:
        if self._is_covered(module) or self._is_of_others(module):
            self._name(module)
            return
        for name in sorted(names & vars(module).keys()):
            self._say(name)
            self.add(vars(module)[name], names)

    def _spec(self, spec: Spec) -> None:
        """Add its class and parameters; plain data of our classes is in the label already."""
        ours = self._is_covered(type(spec))
        if not ours:
            self._packages.add(_package(type(spec)))
        self.add(type(spec))
        for field in getattr(spec, "__dataclass_fields__", ()):
            value = getattr(spec, field)
            given = callable(value) and not isinstance(value, Spec)  # whose label says little
            self.own |= given
            if not ours or given or isinstance(value, (Spec, tuple)):
                self._say(field)
                self.add(value)

    def _data(self, value: Any) -> None:
        if isinstance(value, (list, dict)):
            self._say(type(value).__qualname__)
            self._tuple(tuple(value.items()) if isinstance(value, dict) else tuple(value))
        elif isinstance(value, (set, frozenset)):
            self.readable &= all(isinstance(item, _CONSTANTS) for item in value)
            self._say("set", repr(sorted(map(repr, value))))
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._say(
                "array",
                str(value.dtype),
                str(value.shape),
                hashlib.sha256(value.tobytes()).hexdigest(),
            )
        else:
            self.add(type(value))
            try:
                self._say(hashlib.sha256(pickle.dumps(value)).hexdigest())
            except Exception:  # whatever a class of one's own raises
                self.readable = False
                self._say(f"at {id(value)}")

    def _name(self, value: Any) -> None:
        package = _package(value)
        version = "" if package == _HERE else getattr(sys.modules.get(package), "__version__", "")
        name = getattr(value, "__qualname__", value.__name__)
        self._say(f"{getattr(value, '__module__', '')}.{name} {version}")

    def _is_covered(self, value: Any) -> bool:
        """Tell whether it belongs to this package and `describe_code` covers it.

        Machine code is not named by `describe_code`, so everything counts that it was made of.
        Policies and the like in modules of this package that it does not cover count as foreign.
        """
        if self._compiled or _package(value) != _HERE:
            return False
        is_spec = isinstance(value, type) and issubclass(value, Spec)
        return not is_spec or is_numeric(value.__module__)

    def _is_of_others(self, value: Any) -> bool:
        """Tell whether it belongs to Python, or to an installed package without a walked policy."""
        package = _package(value)
        return package in sys.stdlib_module_names or (
            package not in {*self._packages, _HERE} and _is_installed(package)
        )


def _parts(value: Any) -> tuple[Any, ...]:
    if isinstance(value, functools.partial):
        return value.func, value.args, tuple(sorted(value.keywords.items()))
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    return (value.__func__,)


def _is_named(value: Any) -> bool:
    return isinstance(getattr(value, "__name__", None), str)


def _package(value: Any) -> str:
    """Return the top package of a value; scripts and notebooks are ``__main__``."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return str(name or "__main__").partition(".")[0]


@functools.cache
def _is_installed(package: str) -> bool:
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and bool({"site-packages", "dist-packages"} & set(Path(file).parts))
