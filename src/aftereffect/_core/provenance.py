"""Which aftereffect this is: its version, and a digest of the sources that numbers depend on."""

import ast
import hashlib
import platform
import secrets
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from aftereffect._core.checks import check_int

__version__ = "0.2.0"

PACKAGE = Path(__file__).parent.parent
#: The modules and packages whose code decides which numbers a seed gives. Everything else
#: (commands, services, tables, pictures) can change without making finished results stale.
NUMERIC_SOURCES = (
    "_core/checks.py",
    "_core/kernels.py",
    "_core/parser.py",
    "_core/provenance.py",
    "_core/spec.py",
    "bandits",
    "delays",
    "growth.py",
    "policies",
    "rewards",
    "simulation/_callees.py",
    "simulation/_compiled.py",
    "simulation/_driver.py",
    "simulation/_replications.py",
    "simulation/_streams.py",
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
    engines = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
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


#: The largest that every integer column can hold.
MAX_SEED = 2**63 - 1
#: Small enough also for JSON readers that store numbers as doubles.
_DRAWN_BITS = 53

POLICY, WORLD = range(2)


def check_or_draw_seed(seed: object) -> int:
    """A seed that was given, checked, or a new one."""
    return (
        secrets.randbits(_DRAWN_BITS) if seed is None else check_int("seed", seed, at_most=MAX_SEED)
    )


def seed_sequence(seed: int, replication: int, part: int) -> np.random.SeedSequence:
    """The seeds of the policy's or the bandit's stream in one replication."""
    return np.random.SeedSequence(seed, spawn_key=(replication, part))
