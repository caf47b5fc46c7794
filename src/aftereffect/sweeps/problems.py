"""What is wrong with a sweep file: all of it, each with its place."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from aftereffect.errors import AftereffectError, SweepError
from aftereffect.sweeps.places import Path

T = TypeVar("T")


class Problems:
    """Problems found so far. One that many cells share is told once."""

    def __init__(self, name: str, lines: Mapping[Path, int]) -> None:
        self._name, self._lines = name, lines
        self._found: dict[tuple[Path, str], None] = {}

    def add(self, path: Path, problem: str) -> None:
        """Note a problem of the value that a path leads to, or of the table where it should be."""
        self._found[path, " ".join(problem.split())] = None

    def of(self, path: Path, make: Callable[[], T], suffix: str = "") -> T | None:
        """What `make` gives, or None after noting why it cannot."""
        try:
            return make()
        except AftereffectError as error:
            self.add(path, f"{error}{suffix}")
            return None

    def stop(self) -> None:
        """Raise if there are any, in the order of the file."""
        if self._found:
            raise SweepError(self._told(path, problem) for path, problem in sorted(self._found, key=self._order))

    def _line(self, path: Path) -> int:
        return next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), 1)

    def _order(self, found: tuple[Path, str]) -> int:
        return self._line(found[0])

    def _told(self, path: Path, problem: str) -> str:
        return f"{self._name}:{self._line(path)}: {written(path)}: {problem}"


def written(path: Path) -> str:
    """A path as one would write it: ``grid.policy[2]``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")
