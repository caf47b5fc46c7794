"""The problems of a sweep file, each with the path of the value that is wrong."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from aftereffect.errors import AftereffectError, SweepError

T = TypeVar("T")
#: The keys and numbers that lead to a value: ``("grid", "policy", 2)``.
KeyPath: TypeAlias = tuple[str | int, ...]


class Problems:
    """The problems found in a file so far. One that many cells share is reported once."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        self._name = name
        self._order = {path: number for number, path in enumerate(_paths_in(document))}
        self._found: dict[tuple[KeyPath, str], None] = {}

    def add(self, path: KeyPath, problem: str) -> None:
        """Add a problem of the value that a path leads to, or of the table where it should be."""
        self._found[path, " ".join(problem.split())] = None

    def attempt(self, path: KeyPath, make: Callable[[], T], suffix: str = "") -> T | None:
        """Return what `make` returns, or None after adding the reason why it fails."""
        try:
            return make()
        except AftereffectError as error:
            self.add(path, f"{error}{suffix}")
            return None

    def raise_any(self) -> None:
        """Raise if there are any, in the order of the file."""
        if self._found:
            found = sorted(self._found, key=lambda each: self._order.get(each[0], -1))
            raise SweepError(f"{self._name}: {show_path(path)}: {text}" for path, text in found)


def _paths_in(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the paths of all values in a document, in its order."""
    yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield from _paths_in(each, (*path, key))


def show_path(path: KeyPath) -> str:
    """Format a path: ``grid.policy[2]``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")
