r"""On which line of a TOML file each value stands; Python's reader does not tell.

>>> places_in("[grid]\nseed = [1,\n  2]")[("grid", "seed", 1)]
3
"""

import re
from typing import TypeAlias

#: The keys and numbers that lead to a value: ``("grid", "policy", 2)``.
Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r]+|\#[^\n]*)
      | (?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
      | (?P<mark>[\[\]{},=.\n])
      | (?P<bare>[^\s\[\]{},=.\#"']+)""",
    re.VERBOSE | re.DOTALL,
)


def places_in(text: str) -> dict[Path, int]:
    """The line of every key and list item of a valid TOML document."""
    return _Scanner(text).scan()


class _Scanner:
    """Follows the nesting of tables and lists; what is written in them does not matter."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        self._next = 0
        line = 1
        for match in _TOKEN.finditer(text):
            if match.lastgroup != "skip":
                self._tokens.append((match.group(), line))
            line += match.group().count("\n")
        self._places: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self._token is not None:
            if self._take("\n"):
                continue
            if self._take("["):
                self._take("[")
                table = self._keys(())
                while self._take("]"):
                    pass
            else:
                self._pair(table)
        return self._places

    @property
    def _token(self) -> str | None:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else None

    def _take(self, mark: str) -> bool:
        taken = self._token == mark
        self._next += taken
        return taken

    def _keys(self, table: Path) -> Path:
        """A key, or several with dots between."""
        line = self._tokens[self._next][1]
        path = table
        while self._token not in ("=", "]", None):
            if not self._take("."):
                path = (*path, str(self._token).strip("\"'"))
                self._next += 1
        self._places.setdefault(path, line)
        return path

    def _pair(self, table: Path) -> None:
        path = self._keys(table)
        self._take("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        if self._take("["):
            item = 0
            while not self._take("]"):
                if self._take("\n") or self._take(","):
                    continue
                self._places[(*path, item)] = self._tokens[self._next][1]
                self._value((*path, item))
                item += 1
        elif self._take("{"):
            while not self._take("}"):
                if not (self._take("\n") or self._take(",")):
                    self._pair(path)
        else:
            while self._token not in (",", "]", "}", "\n", None):
                self._next += 1
