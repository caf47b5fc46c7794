"""Compiles the driver over plain kernels, and stores machine code on disk. Only this imports numba.

Two things about numba's cache need care:

- It looks for changes in the compiled function's own file only: an edit in a helper elsewhere
  would go unseen, and an edited comment in that file would compile everything again. Here each
  driver has a folder that is named by what it does: the instructions and constants of all functions
  that it reaches, the fields of the arrays that it reads, and the versions that compile it.
- It names machine code by qualified name and a counter that starts anew in every process. Closures
  of the same name that were compiled in two processes can get the same symbol, and a third process
  that loads both links one in place of the other, without an error. Here a digest of the function,
  with all it names, is part of every name (see `_contents`): equal symbols are equal code.

What is compiled are clones with such names; the kernels themselves do not change.
"""

import gc
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from types import CellType, FunctionType
from typing import Any, TypeAlias

import numba
import numpy as np
from numba.extending import register_jitable

from aftereffect._core import (
    Engine,
    Params,
    PolicyKernels,
    SlotKernels,
    State,
    World,
    WorldKernels,
    sources_digest,
)
from aftereffect.errors import ParameterError
from aftereffect.simulation._contents import Contents, list_globals, strip_locations
from aftereffect.simulation._driver import (
    BatchPlay,
    TakeState,
    make_batch_driver,
    make_driver,
    make_take_state,
    stack_states,
)
from aftereffect.simulation._streams import Register

#: What kernels read by the names of fields: the states of a batch, the parameters, the world.
Read: TypeAlias = tuple[State, Params, World]

_UNUSED_DAYS = 30
#: An empty file in a driver's folder that numba takes for its source.
_STAMP = "driver.py"
_lock = Lock()
_drivers: dict[tuple[str, Any], BatchPlay] = {}
#: Copies that drivers share, by name and whether calls of them are put in place: numba compiles
#: each of them once in a process.
_shared: dict[tuple[str, bool], FunctionType] = {}
_config: Any = numba.config  # filled at run time, so unknown to type checkers
_types: Any = numba.types
_typeof: Any = numba.typeof
_jit: Any = numba.njit
_read_by_numba: Any = numba.core.compiler.run_frontend
_FAILURES: Any = (numba.core.errors.NumbaError, numba.core.errors.UnsupportedBytecodeError)
#: How numba says where something failed, and the line before its reason.
_LOCATION, _STEP = (
    re.compile(r'File "(?P<file>.+)", line (?P<line>\d+):'),
    "(step: nopython frontend)",
)


def compile_batch_driver(
    policy: PolicyKernels | SlotKernels, engine: Engine, state: State, params: Params
) -> BatchPlay:
    """Compile the batch driver for these kernels; it runs without the interpreter's lock.

    State and parameters are examples: machine code is made for the types of their fields.
    """
    read = (stack_states(state, 1), params, engine.world)
    take_state = make_take_state(state)
    with _lock:  # numba's cache folder is a global; and two threads should not compile the same
        clones = _Clones(policy, engine.kernels, take_state)
        key = (clones.play_batch.__qualname__, _typeof(read))
        if key not in _drivers:
            _drivers[key] = _compile_any_way(policy, engine, take_state, read)
        return _drivers[key]


def _compile_any_way(
    policy: PolicyKernels | SlotKernels, engine: Engine, take_state: TakeState, read: Read
) -> BatchPlay:
    """Compile without counting references; with, if kernels need it; raise if that fails too."""
    with suppress(*_FAILURES):
        return _compile(_Clones(policy, engine.kernels, take_state), read, counting=False)
    with suppress(*_FAILURES):  # a kernel makes arrays of its own
        unshared = _Clones(policy, engine.kernels, take_state, shared=False)  # these count, too
        return _compile(unshared, read, counting=True)
    located = _Clones(policy, engine.kernels, take_state, shared=False, located=True)
    try:
        return _compile(located, read, counting=True)
    except _FAILURES as error:
        raise _one_line_error(str(error), located) from None  # numba's has hundreds of lines


def _compile(clones: "_Clones", read: Read, *, counting: bool) -> BatchPlay:
    """Compile a driver: one function for a whole run, and one around it for a batch.

    Within a run nothing is allocated, so references to arrays need not be counted: that took half
    the time of rounds of one slot. The function around it counts, because it gets Python objects.
    """
    for function in clones.made:
        if function is clones.play:
            register_jitable(_nrt=counting, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
                function
            )
        elif function is not clones.play_batch:
            # A round may last nanoseconds, so calls are put in place. Policies that look at every
            # slot do more in one, and their kernels are large: that would take long to compile.
            inline = not clones.plays_slots
            # Nobody calls it from C: a wrapper for that would only take time to compile.
            register_jitable(forceinline=inline, no_cfunc_wrapper=True)(function)
            if function in clones.shareable:
                _shared[function.__qualname__, inline] = function
    folder = _cache_folder(clones.play_batch.__qualname__, read) if clones.readable else None
    before, collects = _config.CACHE_DIR, gc.isenabled()
    _config.CACHE_DIR = str(folder or before)
    gc.disable()  # what the compiler makes is in use: to look for garbage takes a tenth of the time
    if folder is not None:  # numba compares the content of the source, and this never changes
        code = clones.play_batch.__code__
        clones.play_batch.__code__ = code.replace(co_filename=str(folder / _STAMP))
    try:
        signature = _signature(*map(_typeof, read))
        fast: BatchPlay = _jit(signature, cache=folder is not None, nogil=True)(clones.play_batch)
        return fast
    finally:
        _config.CACHE_DIR = before
        if collects:
            gc.enable()


def _one_line_error(message: str, clones: "_Clones") -> ParameterError:
    """Shorten a message of numba to one line.

    The innermost reason comes first, between the name of a step and a location in a file.
    """
    location = _LOCATION.search(message)
    if location is None:
        reason, where = (
            message.partition(". Raised from")[0].splitlines()[0],
            clones.unreadable_by_numba(),
        )
    else:
        file, line = Path(location["file"]).name, int(location["line"])
        lines = [each.strip() for each in message[: location.start()].splitlines()]
        steps = [number for number, each in enumerate(lines) if each.endswith(_STEP)]
        reason = next((each for each in lines[steps[-1] + 1 if steps else 0 :] if each), "")
        where = f"{clones.name_at(file, line)} ({file}, line {line})"
    return ParameterError(
        f"a kernel cannot be compiled, {where}: {reason.rstrip(':.')}; "
        "kernels use numbers, arrays, math, loops, rng.random() and functions named directly"
    )


def _signature(states: Any, params: Any, world: Any) -> Any:
    matrix, slots = _types.float64[:, ::1], _types.int64[::1]
    words = _types.uint64[::1]
    register = _types.NamedUniTuple(words, len(Register._fields), Register)
    return _types.void(
        states,
        params,
        matrix,
        world,
        _types.int64,
        slots,
        matrix,
        matrix,
        slots,
        _types.uint64[:, :, ::1],
        register,
        register,
        _types.npy_rng,
        _types.npy_rng,
    )


class _Clones:
    """Copies of a driver and of all functions that it names, with a digest in their names.

    ``play`` is for a run, ``play_batch`` for a batch. ``readable`` says whether everything that
    they depend on could be read; if not, the machine code must not outlive this process. Their code
    holds no file names and line numbers, so that numba finds machine code again after a comment was
    edited; `located` ones do, for messages, and are not stored. If `shared`, drivers that call the
    same functions call the same copies; ``made`` are those that no driver has made before.
    """

    def __init__(
        self,
        policy: PolicyKernels | SlotKernels,
        bandit: WorldKernels,
        take_state: TakeState,
        *,
        shared: bool = True,
        located: bool = False,
    ) -> None:
        self.made: list[FunctionType] = []
        self.plays_slots = isinstance(policy, SlotKernels)
        self.shareable: set[FunctionType] = set()
        play = make_driver(policy, bandit)
        play_batch = make_batch_driver(play, take_state)
        contents = Contents(compiled=True)
        contents.add(play_batch)
        self._located, self._content = located, contents.digest[:20]
        self.readable = contents.readable and not located
        self._begun: dict[FunctionType, FunctionType] = {}
        self._unshared = (play_batch, play) if shared else None
        self.play_batch, self.play = self.clone(play_batch), self.clone(play)

    def clone(self, function: Any) -> FunctionType:
        """Copy a function, with copies of the functions that it names in its globals and cells."""
        if function in self._begun:  # copied before, or naming itself
            return self._begun[function]
        share = self._unshared is not None and function not in self._unshared
        name = f"{function.__name__}_{self._content}_{len(self._begun)}"
        if share:
            contents = Contents(compiled=True)
            contents.add(function)
            name = f"{function.__name__}_{contents.digest[:20]}"
            made = _shared.get((name, not self.plays_slots))
            if made is not None:
                self._begun[function] = made
                return made
        code = function.__code__
        cells = tuple(CellType() for _ in code.co_freevars)
        copy = FunctionType(
            code if self._located else strip_locations(code),
            {"__name__": function.__module__},
            function.__name__,
            function.__defaults__,
            cells,
        )
        copy.__qualname__ = name
        copy.__module__ = function.__module__
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
            self.shareable.add(copy)
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

    def unreadable_by_numba(self) -> str:
        """Find the function whose code numba cannot even read, for errors that do not name it."""
        for function in self.made:
            try:
                _read_by_numba(function)
            except _FAILURES:
                code = function.__code__
                return f"{code.co_name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
        return "somewhere"


def _cache_folder(name: str, read: Read) -> Path | None:
    """Make a driver's folder; None where none can be written: then nothing is stored."""
    try:
        versions = f"{numba.__version__} {np.__version__} {platform.python_version()}"
        content = f"{name} {_fields(read)} {versions} {_digest_of_options()}"
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = (
            Path(_config.CACHE_DIR or home)
            / "aftereffect"
            / hashlib.sha256(content.encode()).hexdigest()[:20]
        )
        if not folder.is_dir():
            folder.mkdir(parents=True)
            _forget_unused(folder.parent)
        with tempfile.TemporaryFile(dir=folder):
            os.utime(folder)
        if not (folder / _STAMP).exists():  # some versions of numba look at its time
            (folder / _STAMP).touch()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    return folder


@cache
def _digest_of_options() -> str:
    """Digest this module: its options decide what machine code does."""
    return sources_digest([Path(__file__)])


def _fields(world: Any) -> str:
    """Describe the fields of a world: machine code depends on their order, numba's types do not.

    The module is part of it: numba stores where a type is defined, and fails if it has moved.
    """
    if not isinstance(world, tuple):
        return type(world).__name__
    names = getattr(world, "_fields", range(len(world)))
    inner = (f"{name}: {_fields(value)}" for name, value in zip(names, world, strict=True))
    cls = type(world)
    return f"{cls.__module__}.{cls.__qualname__}({', '.join(inner)})"


def _forget_unused(folders: Path) -> None:
    """Delete drivers that have not run for a month: edits and upgrades leave some behind."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 3600
    for folder in folders.iterdir():
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
