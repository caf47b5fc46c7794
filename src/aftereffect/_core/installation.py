"""What is installed here: this version and its sources, optional dependencies, and plugins.

Plugins are policies and delays of users. A package announces them as entry points of the groups in
`GROUPS`. A module of one's own is named by ``--import MODULE`` on the command line or in the
environment variable `AFTEREFFECT_IMPORT`. Loading a plugin runs its ``@register``. Plugins are
loaded when an unknown name is looked up, or when all names are listed.
"""

import ast
import hashlib
import os
import platform
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from aftereffect.errors import InputError, MissingExtraError

__version__ = "0.2.0"

PACKAGE = Path(__file__).parent.parent
#: The modules and packages whose code decides which numbers a seed gives. Everything else
#: (commands, services, tables, pictures) can change without making finished results stale.
NUMERIC_SOURCES = (
    "_core/checks.py",
    "_core/kernels.py",
    "_core/parsing.py",
    "_core/spec.py",
    "bandits",
    "delays",
    "growth.py",
    "policies",
    "rewards",
    "simulation/_builders.py",
    "simulation/_clones.py",
    "simulation/_codegen.py",
    "simulation/_compiled.py",
    "simulation/_cuda.py",
    "simulation/_digest.py",
    "simulation/_driver.py",
    "simulation/_engine_choice.py",
    "simulation/_philox.py",
    "simulation/_replications.py",
    "simulation/_runs.py",
    "simulation/_tasks.py",
    "simulation/_trace.py",
)


@cache
def describe_code() -> str:
    """Describe the code that computes here: equal where the same seed gives the same numbers.

    Between two releases the version stays the same while the code changes, so a digest of the
    numeric sources is part of it.

    >>> describe_code().startswith("aftereffect 0.")
    True
    """
    digest = sources_digest(PACKAGE / source for source in NUMERIC_SOURCES)
    try:
        engines = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    except PackageNotFoundError:
        require_extra("simulation")
        raise
    return f"aftereffect {__version__} ({digest[:12]}, {engines}, {_python()})"


def _python() -> str:
    return f"python {'.'.join(platform.python_version_tuple()[:2])}"


def is_numeric(module: str) -> bool:
    """Tell whether `describe_code` covers a module of this package, given its full name."""
    inner = module.removeprefix(f"{PACKAGE.name}.").replace(".", "/")
    return any(
        inner == source.removesuffix(".py") or inner.startswith(f"{source}/")
        for source in NUMERIC_SOURCES
    )


def sources_digest(sources: Iterable[Path]) -> str:
    """Digest what Python files do; of folders, all files in them.

    Docstrings, comments and layout do not count.
    """
    digest = hashlib.sha256()
    for source in sources:
        files = sorted(source.rglob("*.py")) if source.is_dir() else [source]
        for path in files:
            digest.update(path.relative_to(source.parent).as_posix().encode() + b"\0")
            digest.update(normalise_source(path.read_bytes()).encode() + b"\0")
    return digest.hexdigest()


def normalise_source(source: bytes | str) -> str:
    """Describe what a module does, without docstrings, comments and layout.

    >>> normalise_source("x = 1  # one") == normalise_source("'Text.'; x = (1)")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


#: What each extra is needed for; the smallest extra of a module comes first.
EXTRAS = {
    "cli": ("cyclopts", "rich"),
    "simulation": ("numba",),
    "plot": ("matplotlib",),
    "data": ("polars",),
    "dask": ("distributed",),
    "gpu": ("numba_cuda",),
    "live": ("sqlalchemy",),
    "postgres": ("sqlalchemy", "psycopg"),
    "service": ("sqlalchemy", "fastapi", "uvicorn", "prometheus_client"),
    "paper": ("matplotlib", "polars", "markdown_it"),
    "gym": ("gymnasium",),
    "river": ("river",),
}


def require_extra(extra: str, *modules: str) -> None:
    """Raise an error that names the extra to install, if a part of it is missing.

    If modules are given, only these must be there. It imports nothing, so it can be called before a
    long run.
    """
    missing = [module for module in modules or EXTRAS[extra] if find_spec(module) is None]
    if missing:
        raise MissingExtraError(
            f'this needs {_list_words(missing)}: pip install "aftereffect[{extra}]"'
        )


@contextmanager
def name_extra(extra: str) -> Iterator[None]:
    """Around imports at the top of a module: the error says which extra is missing."""
    require_extra(extra)
    yield


def _list_words(words: list[str]) -> str:
    """The words, as in a sentence."""
    return " and ".join([", ".join(words[:-1])] * (len(words) > 1) + words[-1:])


def import_optional(module: str) -> ModuleType:
    """Import an optional module, or raise an error that says what to install."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is not None:
        require_extra(extra)
    elif find_spec(module) is None:
        raise MissingExtraError(
            f"this needs {module}: install it with pip, as no extra of aftereffect includes it"
        )
    return import_module(module)


#: Entry points whose value is a registered class, or a module that registers some.
GROUPS = ("aftereffect.policies", "aftereffect.delays")
VARIABLE = "AFTEREFFECT_IMPORT"

_loaded = False


def load_plugins(modules: Iterable[str] = ()) -> None:
    """Import modules of one's own, those that the environment names, and all entry points.

    The modules are also added to the environment, so that child processes load them.
    """
    global _loaded
    named = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    wanted = list(dict.fromkeys([*named, *modules]))
    if wanted:
        os.environ[VARIABLE] = ",".join(wanted)
    for name in wanted:
        _import(name)
    if _loaded:
        return
    _loaded = True
    for group in GROUPS:
        for point in entry_points(group=group):
            try:
                point.load()
            except Exception as error:  # one broken plugin must not break all others
                warnings.warn(
                    f"cannot load {point.name} ({point.value}) of {group}: {error}", stacklevel=2
                )


def _import(name: str) -> None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # an installed command has the folder of the command first
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"cannot import {name}: there is no module {error.name}; name it as in Python, "
            f"such as my_policies for my_policies.py, in --import or {VARIABLE}"
        ) from None
    except Exception as error:
        raise InputError(f"cannot import {name}: {type(error).__name__}: {error}") from error
