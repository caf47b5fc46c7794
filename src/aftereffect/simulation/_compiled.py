"""Compiles drivers and kernels, and stores machine code on disk. Only this imports numba.

numba's cache looks for changes in the compiled function's own file only: an edit in a helper
elsewhere would go unseen, and an edited comment in that file would compile everything again. Here
each driver has a folder that is named by what it does: the instructions and constants of all
functions that it reaches, the fields of the arrays that it reads, and the versions that compile it.
What is compiled are copies with such names (see `_clones`).
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
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import (
    DecideSlots,
    Engine,
    Params,
    SlotKernels,
    State,
    name_extra,
    sources_digest,
)
from aftereffect.errors import ParameterError
from aftereffect.policies import Kernels, make_take_state, stack_states
from aftereffect.simulation._clones import Clones
from aftereffect.simulation._codegen import callees, skip_callees
from aftereffect.simulation._driver import (
    BatchPlay,
    Register,
    make_batch_driver,
    make_decision,
    make_driver,
)

with name_extra("simulation"):
    import numba
    from numba.extending import register_jitable

_UNUSED_DAYS = 30
#: An empty file in a driver's folder that numba takes for its source.
_STAMP = "driver.py"
_lock = Lock()
_programs: dict[tuple[str, Any], Any] = {}
_config: Any = numba.config  # filled at run time, so unknown to type checkers
_types: Any = numba.types
_typeof: Any = numba.typeof
_jit: Any = numba.njit
_read_by_numba: Any = numba.core.compiler.run_frontend
_FAILURES: Any = (numba.core.errors.NumbaError, numba.core.errors.UnsupportedBytecodeError)
#: What switches colours on a terminal.
_COLOURS = re.compile(r"\x1b\[\d*m")
#: How numba says where something failed, and the line before its reason.
_LOCATION, _STEP = (
    re.compile(r'File "(?P<file>.+)", line (?P<line>\d+):'),
    "(step: nopython frontend)",
)


def compile_batch_driver(
    policy: Kernels, engine: Engine, state: State, params: Params
) -> BatchPlay:
    """Compile the batch driver for these kernels; it runs without the interpreter's lock.

    State and parameters are examples: machine code is made for the types of their fields.

    A driver is one function for a whole run, and one around it for a batch. Within a run nothing is
    allocated, so references to arrays need not be counted, neither in it nor in what it calls: that
    took half the time of rounds of one slot, and most of it where a model looks at every slot. The
    function around it counts, because it gets Python objects.
    """
    play = make_driver(policy, engine.kernels)
    play_batch = make_batch_driver(play, make_take_state(state))
    read = (stack_states(state, 1), params, engine.world)
    # A round may last nanoseconds, so calls are put in place. Policies that look at every slot do
    # more in one, and their kernels are large: that would take long to compile.
    inline = not isinstance(policy, SlotKernels)
    fast: BatchPlay = _compile_once(_Program(play_batch, play, inline, read, _sign_driver(*read)))
    return fast


def compile_decide(kernels: SlotKernels, state: State, params: Params) -> DecideSlots:
    """Compile one kernel, for live experiments: it does in machine code what it does in Python."""
    fast: DecideSlots = _compile_once(_describe_decide(kernels, state, params))
    return fast


def is_storable(kernels: SlotKernels, state: State, params: Params) -> bool:
    """Whether `compile_decide` could find its machine code on the disk, but it is not there yet."""
    program = _describe_decide(kernels, state, params)
    folder = _cache_folder(program.clone().root.__qualname__, program.read)
    return folder is not None and not any(folder.rglob("*.nbc"))


def _describe_decide(kernels: SlotKernels, state: State, params: Params) -> "_Program":
    signature = (_typeof(state), _typeof(params), _types.int64, _types.npy_rng)
    decide = kernels.decide
    root = make_decision(decide)
    return _Program(root, decide, inline=False, read=(state, params), signature=signature)


class _Program(NamedTuple):
    """What to compile: a function, one that it calls, and the types of its arguments.

    The `inner` function and what it calls do not count references. `read` are examples of what
    kernels read by the names of fields.
    """

    root: Any
    inner: Any
    inline: bool
    read: tuple[Any, ...]
    signature: Any

    def clone(self, **options: bool) -> "Clones":
        return Clones(self.root, self.inner, inline=self.inline, **options)


def _compile_once(program: _Program) -> Any:
    with _lock:  # numba's cache folder is a global; and two threads should not compile the same
        key = (program.clone().root.__qualname__, _typeof(program.read))
        if key not in _programs:
            _programs[key] = _compile_any_way(program)
        return _programs[key]


def _compile_any_way(program: _Program) -> Any:
    """Compile without counting references; with, if kernels need it; raise if that fails too."""
    with suppress(*_FAILURES):
        return _compile(program, program.clone(), counting=False)
    with suppress(*_FAILURES):  # a kernel makes arrays of its own
        return _compile(program, program.clone(shared=False), counting=True)  # all of these count
    located = program.clone(shared=False, located=True)
    try:
        return _compile(program, located, counting=True)
    except _FAILURES as error:
        raise one_line_error(str(error), located) from None  # numba's has hundreds of lines


def _compile(program: _Program, clones: "Clones", *, counting: bool) -> Any:
    callees.update(each.__qualname__ for each in clones.made if each is not clones.root)
    for function in clones.made:
        if function is clones.inner:
            register_jitable(_nrt=counting, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
                function
            )
        elif function is not clones.root:
            # Nobody calls it from C: a wrapper for that would only take time to compile.
            register_jitable(
                _nrt=counting or function not in clones.uncounted,
                forceinline=clones.inline,
                no_cpython_wrapper=True,
                no_cfunc_wrapper=True,
            )(function)
            clones.share(function)
    root = clones.root
    folder = _cache_folder(root.__qualname__, program.read) if clones.readable else None
    before, collects = _config.CACHE_DIR, gc.isenabled()
    _config.CACHE_DIR = str(folder or before)
    gc.disable()  # what the compiler makes is in use: to look for garbage takes a tenth of the time
    if folder is not None:  # numba compares the content of the source, and this never changes
        root.__code__ = root.__code__.replace(co_filename=str(folder / _STAMP))
    try:
        options = {"cache": folder is not None, "nogil": True, "no_cfunc_wrapper": True}
        return _jit(program.signature, **options)(root)
    finally:
        _config.CACHE_DIR = before
        if collects:
            gc.enable()


def one_line_error(message: str, clones: "Clones", machine: str = "") -> ParameterError:
    """Shorten a message of numba to one line.

    The innermost reason comes first, between the name of a step and a location in a file.
    """
    message = _COLOURS.sub("", message)
    location = _LOCATION.search(message)
    if location is None:
        reason, where = (
            message.partition(". Raised from")[0].splitlines()[0],
            _find_unreadable(clones),
        )
    else:
        file, line = Path(location["file"]).name, int(location["line"])
        lines = [each.strip() for each in message[: location.start()].splitlines()]
        steps = [number for number, each in enumerate(lines) if each.endswith(_STEP)]
        reason = next((each for each in lines[steps[-1] + 1 if steps else 0 :] if each), "")
        where = f"{clones.name_at(file, line)} ({file}, line {line})"
    return ParameterError(
        f"a kernel cannot be compiled{machine and ' '}{machine}, {where}: {reason.rstrip(':.')}; "
        "kernels use numbers, arrays, math, loops, rng.random() and functions named directly"
    )


def _find_unreadable(clones: "Clones") -> str:
    """Find the function whose code numba cannot even read, for errors that do not name it."""
    for function in clones.made:
        try:
            _read_by_numba(function)
        except _FAILURES:
            code = function.__code__
            return f"{code.co_name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
    return "somewhere"


def _sign_driver(states: Any, params: Any, world: Any) -> Any:
    states, params, world = map(_typeof, (states, params, world))
    matrix, slots = _types.float64[:, ::1], _types.int64[::1]
    words = _types.uint64[::1]
    register = _types.NamedUniTuple(words, len(Register._fields), Register)
    return _types.void(
        states,
        params,
        matrix,
        world,
        _types.Array(_types.float64, 2, "C", readonly=True),
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


def _cache_folder(name: str, read: tuple[Any, ...]) -> Path | None:
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
    """Digest what decides how machine code is made: options, copies, and what is left out."""
    return sources_digest(
        Path(__file__).with_name(name) for name in ("_clones.py", "_codegen.py", "_compiled.py")
    )


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


skip_callees(numba.core.registry.cpu_target.target_context.codegen())
