"""The only module that imports numba: compiles the driver over plain kernels, and keeps the machine code on disk.

Two things about numba's cache need care:

- It looks for changes in the compiled function's own file only, so an edit in a helper elsewhere would go unseen. Here the
  folder is named by all sources that can reach the machine code: an edit anywhere is another folder.
- It names machine code by qualified name and a counter that starts anew in every process. Closures of the same name that
  were compiled in two processes can get the same symbol, and a third process that loads both links one in place of the
  other, without a word. Here the content of the whole driver, with all it names, is part of every name (see `contents`): equal
  symbols are equal code.

What is compiled are clones with such names; the kernels themselves stay as they were.
"""

import hashlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from threading import Lock
from types import CellType, FunctionType
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from aftereffect.errors import ParameterError
from aftereffect.kernels import Engine, PolicyKernels, WorldKernels
from aftereffect.provenance import sources_digest
from aftereffect.simulation.contents import Contents, globals_in
from aftereffect.simulation.driver import BATCH, Replay, batch, driver

_UNUSED_DAYS = 30
_lock = Lock()
_drivers: dict[tuple[str, Any], Replay] = {}
_config: Any = numba.config  # filled at run time, so unknown to type checkers
_types: Any = numba.types
_typeof: Any = numba.typeof
_jit: Any = numba.njit
_read_by_numba: Any = numba.core.compiler.run_frontend
_FAILURES: Any = (numba.core.errors.NumbaError, numba.core.errors.UnsupportedBytecodeError)
#: How numba tells where something failed, and the line before its reason.
_PLACE, _STEP = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+):'), "(step: nopython frontend)"


def compiled(policy: PolicyKernels, engine: Engine) -> Replay:
    """The batch driver for these kernels, as machine code that releases the interpreter's lock."""
    world = _typeof(engine.world)
    with _lock:  # numba's cache folder is a global, and two threads asking for the same driver should compile it once
        clones = _Clones(policy, engine.kernels)
        key = (clones.replay.__qualname__, world)
        if key not in _drivers:
            try:
                _drivers[key] = _compiled(clones, world, counting=False)
            except _FAILURES:  # a kernel makes arrays of its own
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
    except _FAILURES as error:
        if not counting:
            raise
        raise _refusal(str(error), clones) from None  # what numba says takes hundreds of lines
    finally:
        _config.CACHE_DIR = before


def _refusal(message: str, clones: "_Clones") -> ParameterError:
    """What numba says in one line: the innermost reason comes first, between the name of a step and the place in a file."""
    place = _PLACE.search(message)
    if place is None:
        reason, where = message.partition(". Raised from")[0].splitlines()[0], clones.unreadable_by_numba()
    else:
        file, line = Path(place["file"]).name, int(place["line"])
        lines = [each.strip() for each in message[: place.start()].splitlines()]
        steps = [number for number, each in enumerate(lines) if each.endswith(_STEP)]
        reason = next((each for each in lines[steps[-1] + 1 if steps else 0 :] if each), "")
        where = f"{clones.name_at(file, line)} ({file}, line {line})"
    return ParameterError(
        f"a kernel cannot be compiled, {where}: {reason.rstrip(':.')}; "
        "kernels use numbers, arrays, math, loops, rng.random() and functions named directly"
    )


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
        play = driver(policy, environment)
        replay = batch(play)
        contents = Contents(compiled=True)
        contents.add(replay)
        self.readable, self._content = contents.readable, contents.digest[:20]
        self._begun: dict[FunctionType, FunctionType] = {}
        self.replay, self.play = self.clone(replay), self.clone(play)

    def clone(self, function: Any) -> FunctionType:
        """A copy of a function whose globals and cells are the copies of what the original names."""
        if function in self._begun:  # known already, or naming itself
            return self._begun[function]
        code = function.__code__
        cells = tuple(CellType() for _ in code.co_freevars)
        copy = FunctionType(code, {"__name__": function.__module__}, function.__name__, function.__defaults__, cells)
        copy.__qualname__ = f"{function.__name__}_{self._content}_{len(self._begun)}"
        copy.__module__ = function.__module__
        self._begun[function] = copy
        if code.co_filename.startswith("<"):  # typed in by hand
            self.readable = False
        else:
            self.sources.add(Path(code.co_filename))
        named = {name: function.__globals__[name] for name in sorted(globals_in(code)) if name in function.__globals__}
        copy.__globals__.update({name: self._copied(value) for name, value in named.items()})
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self._copied(original.cell_contents)
        self.made.append(copy)
        return copy

    def _copied(self, value: Any) -> Any:
        return self.clone(value) if isinstance(value, FunctionType) else value

    def name_at(self, file: str, line: int) -> str:
        """The function that stands in a line of a file."""
        codes = [function.__code__ for function in self.made]
        before = [code for code in codes if Path(code.co_filename).name == file and code.co_firstlineno <= line]
        return max(before, key=lambda code: code.co_firstlineno).co_name if before else "somewhere"

    def unreadable_by_numba(self) -> str:
        """The function whose code numba does not even take apart, for errors that do not say so."""
        for function in self.made:
            try:
                _read_by_numba(function)
            except _FAILURES:
                code = function.__code__
                return f"{code.co_name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
        return "somewhere"


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
