"""Optional dependencies, imported when used."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from aftereffect.errors import MissingExtraError

#: What each extra of this package brings; a module's own extra comes before those that gather several.
EXTRAS = {
    "plot": ("matplotlib",),
    "data": ("polars",),
    "dask": ("distributed",),
    "live": ("sqlalchemy",),
    "postgres": ("sqlalchemy", "psycopg"),
    "service": ("sqlalchemy", "fastapi", "uvicorn", "prometheus_client"),
    "paper": ("matplotlib", "polars", "markdown_it"),
}


def require(extra: str) -> None:
    """Say which extra to install if a part of it is missing; cheap, so that it can be asked before a long run."""
    missing = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        raise MissingExtraError(f"this needs {' and '.join(missing)}: install aftereffect with its extra {extra!r}")


def imported(module: str) -> ModuleType:
    """An optional module, or a message that says which extra, or what else, to install."""
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is not None:
        require(extra)
    elif find_spec(module) is None:
        raise MissingExtraError(f"this needs {module}: install it beside aftereffect, no extra brings it")
    return import_module(module)
