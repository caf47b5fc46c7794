"""Optional dependencies, imported when used."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from aftereffect.errors import MissingExtraError

#: Which extra of this package brings a module.
EXTRAS = {"matplotlib": "plot", "polars": "data"}


def require(module: str) -> None:
    """Say which extra to install if a module is missing; cheap, so that it can be asked before a long run."""
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise MissingExtraError(f"this needs {package}: install it, or aftereffect with its extra {EXTRAS[package]!r}")


def imported(module: str) -> ModuleType:
    """An optional module, or a message that says which extra to install."""
    require(module)
    return import_module(module)
