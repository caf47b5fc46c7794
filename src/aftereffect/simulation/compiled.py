"""The only module that imports numba: compiles the driver over plain kernels, and keeps the machine code on disk.

Two things about numba's cache need care:

- It looks for changes in the compiled function's own file only, so an edit in a helper elsewhere would go unseen. Here the
  folder is named by all sources that can reach the machine code: an edit anywhere is another folder.
- It names machine code by qualified name and a counter that starts anew in every process. Closures of the same name that
  were compiled in two processes can get the same symbol, and a third process that loads both links one in place of the
  other, without a word. Here the content of a function, with all it names, is part of its name: equal symbols are equal code.

What is compiled are clones with such names; the kernels themselves stay as they were.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from aftereffect.errors import ParameterError
from aftereffect.kernels import Engine, PolicyKernels, WorldKernels
from aftereffect.provenance import sources_digest
from aftereffect.simulation.driver import BATCH, Replay, batch, driver

_UNUSED_DAYS = 30
_lock = Lock()
_drivers: dict[tuple[str, Any], Replay] = {}
_config: Any = numba.config  # filled at run time, so unknown to type checkers
_types: Any = numba.types
_typeof: Any = numba.typeof
_jit: Any = numba.njit


def compiled(policy: PolicyKernels, engine: Engine) -> Replay:
    """The batch driver for these kernels, as machine code that releases the interpreter's lock."""
    world = _typeof(engine.world)
    with _lock:  # numba's cache folder is a global, and two threads asking for the same driver should compile it once
        clones = _Clones(policy, engine.kernels)
        key = (clones.replay.__qualname__, world)
        if key not in _drivers:
            try:
                _drivers[key] = _compiled(clones, world, counting=False)
            except numba.core.errors.NumbaError:  # a kernel makes arrays of its own
                _drivers[key] = _compiled(_Clones(policy, engine.kernels), world, counting=True)
        return _drivers[key]


def _compiled(clones: "_Clones", world: Any, *, counting: bool) -> Replay:
    """Compile a driver: one function for a whole run, and one around it for a batch.

    Within a run nothing is allocated, so who holds which array need not be counted: that took half the time of rounds of one
    slot. The function around it counts, as it is given Python's objects.
    """
    for function in clones.made:
        if function is clones.play:
            register_jitable(_nrt=counting, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
        elif function is not clones.replay:
            register_jitable(forceinline=True)(function)
    folder = _cache_folder(clones.replay.__qualname__, clones.sources) if clones.readable else None
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder or before)
    try:
        fast: Replay = _jit(_signature(world), cache=folder is not None, nogil=True)(clones.replay)
        return fast
    except numba.core.errors.NumbaError as error:
        if not counting:
            raise
        raise ParameterError(
            "a kernel cannot be compiled: kernels use numbers, arrays, math, loops, rng.random() and functions named directly"
        ) from error
    finally:
        _config.CACHE_DIR = before


def _signature(world: Any) -> Any:
    vector, matrix, cube = _types.float64[::1], _types.float64[:, ::1], _types.float64[:, :, ::1]
    slots, generators = _types.int64[::1], _types.UniTuple(_types.npy_rng, BATCH)
    return _types.void(cube, matrix, vector, matrix, world, _types.int64, slots, matrix, matrix, slots, generators, generators)


class _Clones:
    """Copies of a driver, ``play`` for a run and ``replay`` for a batch, and of all functions they name, called by content.

    ``sources`` are the files that they came from; ``readable`` says whether all they depend on could be read, else the
    machine code must not outlive this process.
    """

    def __init__(self, policy: PolicyKernels, environment: WorldKernels) -> None:
        self.made: list[FunctionType] = []
        self.sources: set[Path] = set()
        self.readable = True
        self._begun: dict[FunctionType, FunctionType] = {}
        play = driver(policy, environment)
        self.replay, self.play = self.clone(batch(play)), self.clone(play)

    def clone(self, function: Any) -> FunctionType:
        """A copy of a function whose globals and cells are the copies of what the original names."""
        if function in self._begun:  # known already, or naming itself
            return self._begun[function]
        code = function.__code__
        cells = tuple(CellType() for _ in code.co_freevars)
        copy = FunctionType(code, {"__name__": function.__module__}, function.__name__, function.__defaults__, cells)
        self._begun[function] = copy
        self._source(code.co_filename)
        named = {name: function.__globals__[name] for name in sorted(_names(code)) if name in function.__globals__}
        inside = [cell.cell_contents for cell in function.__closure__ or ()]
        copy.__globals__.update({name: self._copied(value) for name, value in named.items()})
        for cell, value in zip(cells, inside, strict=True):
            cell.cell_contents = self._copied(value)
        contents = (
            _without_place(code),
            f"{function.__module__}.{function.__qualname__}",
            *(self._content(value) for value in (*named.values(), *inside, function.__defaults__)),
        )
        digest = hashlib.sha256("\n".join(contents).encode()).hexdigest()[:20]
        copy.__qualname__, copy.__module__ = f"{function.__name__}_{digest}", function.__module__
        self.made.append(copy)
        return copy

    def _copied(self, value: Any) -> Any:
        return self.clone(value) if isinstance(value, FunctionType) else value

    def _content(self, value: Any) -> str:
        """What a value is, equal for equal code only."""
        if isinstance(value, FunctionType):
            return self.clone(value).__qualname__
        if isinstance(value, (bool, int, float, str, type(None))):
            return repr(value)
        if isinstance(value, tuple) and type(value) is tuple:
            return f"({','.join(map(self._content, value))})"
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
        if isinstance(value, (ModuleType, type)):  # what it holds is in its source
            self._source(getattr(_module(value), "__file__", None) or "")
            return f"{getattr(value, '__module__', '')}.{value.__name__}"
        self.readable = False
        return f"{type(value).__qualname__} at {id(value)}"

    def _source(self, name: str) -> None:
        """Note a file; a module without one is built in, but a function without one was typed in by hand."""
        if name.startswith("<"):
            self.readable = False
        elif name:
            self.sources.add(Path(name))


def _names(code: CodeType) -> Iterator[str]:
    """Every global that a function may name; attributes of the same name come along and do no harm."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _without_place(code: CodeType) -> str:
    """What a function does, without where it stands in its file."""
    constants = [_without_place(value) if isinstance(value, CodeType) else repr(value) for value in code.co_consts]
    return repr((code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars))


def _module(value: Any) -> Any:
    return value if isinstance(value, ModuleType) else sys.modules.get(value.__module__)


def _cache_folder(name: str, sources: set[Path]) -> Path | None:
    """A driver's folder, or None where none can be written: then nothing is kept, and all still works."""
    try:
        content = f"{name} {numba.__version__} {np.__version__} {sources_digest(sources)}"
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(_config.CACHE_DIR or home) / "aftereffect" / hashlib.sha256(content.encode()).hexdigest()[:20]
        if not folder.is_dir():
            folder.mkdir(parents=True)
            _forget_unused(folder.parent)
        with tempfile.TemporaryFile(dir=folder):
            os.utime(folder)
    except (OSError, RuntimeError):  # the latter where there is no home
        return None
    return folder


def _forget_unused(folders: Path) -> None:
    """Drivers that have not run for a month: every edit and every upgrade leaves some behind."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 3600
    for folder in folders.iterdir():
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
