"""What is compiled: copies of kernels and drivers, whose names contain a digest of their code.

numba names machine code by qualified name and a counter that starts anew in every process. Closures
of the same name that were compiled in two processes can get the same symbol, and a third process
that loads both links one in place of the other, without an error. Here a digest of the function,
with all it names, is part of every name (see `_contents`): equal symbols are equal code.

The kernels themselves do not change.
"""

from itertools import count
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

from aftereffect.simulation._contents import Contents, list_globals, strip_locations

#: Copies that programs share, by name and whether calls of them are put in place: numba compiles
#: each of them once in a process.
_shared: dict[tuple[str, bool], FunctionType] = {}


class Clones:
    """Copies of a function and of all functions that it names, with a digest in their names.

    ``readable`` says whether everything that they depend on could be read; if not, the machine code
    must not outlive this process. Their code holds no file names and line numbers, so that numba
    finds machine code again after a comment was edited; `located` ones do, for messages, and are
    not stored. If `shared`, programs that call the same functions call the same copies; ``made``
    are those that no program has made before, and ``uncounted`` those of them that `inner` reaches:
    they give nothing to Python, so they need not count references to arrays.

    Parameters
    ----------
    root
        The function that is called from outside.
    inner
        A function that it calls, and that is its own.
    inline
        Whether calls are put in place.
    """

    def __init__(
        self,
        root: Any,
        inner: Any,
        *,
        inline: bool,
        shared: bool = True,
        located: bool = False,
    ) -> None:
        self.made: list[FunctionType] = []
        self.inline = inline
        self._shareable: set[FunctionType] = set()
        contents = Contents(compiled=True)
        contents.add(root)
        self._located, self._content = located, contents.digest[:20]
        self.readable = contents.readable and not located
        self._begun: dict[FunctionType, FunctionType] = {}
        self._numbers = count()
        self._unshared = (root, inner) if shared else None
        self._counts = False
        self.inner = self.clone(inner)
        self.uncounted = set(self.made)
        self._counts = True
        self.root = self.clone(root)

    def clone(self, function: Any) -> FunctionType:
        """Copy a function, with copies of the functions that it names in its globals and cells."""
        if function in self._begun:  # copied before, or naming itself
            return self._begun[function]
        share = self._unshared is not None and function not in self._unshared
        if share:
            contents = Contents(compiled=True)
            contents.add(function)
            counts = "counted" if self._counts else "uncounted"
            name = f"{function.__name__}_{counts}_{contents.digest[:20]}"
            made = _shared.get((name, self.inline))
            if made is not None:
                self._begun[function] = made
                return made
        else:  # a number that does not depend on what other programs have made before
            name = f"{function.__name__}_{self._content}_{next(self._numbers)}"
        code = function.__code__
        cells = tuple(CellType() for _ in code.co_freevars)
        copy = FunctionType(
            code if self._located else strip_locations(code),
            {"__name__": __name__},  # numba imports it with stored code, and a function may move
            function.__name__,
            function.__defaults__,
            cells,
        )
        copy.__qualname__ = name
        copy.__module__ = __name__
        self._begun[function] = copy
        if code.co_filename.startswith("<"):  # typed in by hand
            self.readable = False
        named = {
            name: function.__globals__[name]
            for name in sorted(list_globals(code))
            if name in function.__globals__
        }
        copy.__globals__.update({name: self._copy_value(value) for name, value in named.items()})
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self._copy_value(original.cell_contents)
        self.made.append(copy)
        if share and self.readable:  # as is all that it names
            self._shareable.add(copy)
        return copy

    def _copy_value(self, value: Any) -> Any:
        return self.clone(value) if isinstance(value, FunctionType) else value

    def name_at(self, file: str, line: int) -> str:
        """Find the function at a line of a file."""
        codes = [function.__code__ for function in self.made]
        before = [
            code
            for code in codes
            if Path(code.co_filename).name == file and code.co_firstlineno <= line
        ]
        return max(before, key=lambda code: code.co_firstlineno).co_name if before else "somewhere"

    def share(self, function: FunctionType) -> None:
        """Let later programs use a copy, if its name says all about it."""
        if function in self._shareable:
            _shared[function.__qualname__, self.inline] = function
