"""Which aftereffect this is."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

__version__ = "0.2.0.dev0"

PACKAGE = Path(__file__).parent


@cache
def made_by() -> str:
    """Version, sources and what computes for them: equal where the same seed gives the same numbers.

    Between two releases the version stands still while the code changes, so it alone would not tell.
    """
    engines = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    return f"aftereffect {__version__} ({sources_digest()[:12]}, {engines})"


def sources_digest(further: Iterable[Path] = ()) -> str:
    """A digest of the package's sources and of some files besides."""
    digest = hashlib.sha256()
    for path in sorted({*PACKAGE.rglob("*.py"), *further}):
        digest.update(path.read_bytes())
    return digest.hexdigest()
