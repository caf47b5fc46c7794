"""The only module that imports numba: compiles the driver over plain kernels, and keeps the machine code on disk.

Two things about numba's cache need care, and one answer serves both: every function is known by its *content*, a digest of
its bytecode and of everything it names, helpers in other files included.

- It looks for changes in the compiled function's own file only, so an edit in a helper would go unseen. Here the content of
  a driver names its folder: a change anywhere below is another folder.
- It names machine code by qualified name and a counter that starts anew in every process. Closures of the same name that
  were compiled in two processes can get the same symbol, and a third process that loads both links one in place of the
  other, without a word. Here the content is part of the name: equal symbols are equal code.
"""

import hashlib
import inspect
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from types import CodeType, FunctionType
from typing import Any

import numba
from numba.extending import register_jitable

from aftereffect.kernels import Engine, PolicyKernels, WorldKernels
from aftereffect.simulation.driver import BATCH, Replay, batch, driver

_UNUSED_DAYS = 30
_lock = Lock()
_config: Any = numba.config  # filled at run time, so unknown to type checkers
_types: Any = numba.types
_typeof: Any = numba.typeof


def compiled(policy: PolicyKernels, engine: Engine) -> Replay:
    """The batch driver for these kernels, as machine code that releases the interpreter's lock."""
    with _lock:  # numba's cache folder is a global, and two threads asking for the same driver should compile it once
        return _compiled(policy, engine.kernels, _typeof(engine.world))


@cache
def _compiled(policy: PolicyKernels, environment: WorldKernels, world: Any) -> Replay:
    replay = batch(driver(policy, environment))
    content = _prepared(replay)
    folder = _cache_folder(content)
    before = _config.CACHE_DIR
    _config.CACHE_DIR = str(folder or before)
    try:
        fast: Replay = numba.njit(_signature(world), cache=folder is not None, nogil=True)(replay)
        return fast
    finally:
        _config.CACHE_DIR = before


def _signature(world: Any) -> Any:
    vector, matrix, cube = _types.float64[::1], _types.float64[:, ::1], _types.float64[:, :, ::1]
    slots, generators = _types.int64[::1], _types.UniTuple(_types.npy_rng, BATCH)
    return _types.void(cube, matrix, vector, matrix, world, _types.int64, slots, matrix, matrix, slots, generators, generators)


@cache
def _prepared(function: Callable[..., Any]) -> str:
    """Make a plain function, and all it names, ready to be compiled into a caller; returns its content."""
    digest = hashlib.sha256(repr((function.__module__, function.__qualname__, _code(function.__code__))).encode())
    named = inspect.getclosurevars(function)
    for name, value in sorted({**named.globals, **named.nonlocals}.items()):
        digest.update(f"{name}={_prepared(value) if isinstance(value, FunctionType) else repr(value)}".encode())
    content = digest.hexdigest()[:20]
    function.__qualname__ += f"_{content}"
    register_jitable(function)
    return content


def _code(code: CodeType) -> tuple[Any, ...]:
    """What a function does, without where it stands in its file."""
    constants = [_code(value) if isinstance(value, CodeType) else value for value in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _cache_folder(content: str) -> Path | None:
    """A driver's folder, or None where none can be written: then nothing is kept, and all still works."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(_config.CACHE_DIR or home) / "aftereffect" / content
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            _forget_unused(folder.parent)
        with tempfile.TemporaryFile(dir=folder):
            os.utime(folder)
    except OSError:
        return None
    return folder


def _forget_unused(folders: Path) -> None:
    """Drivers that have not run for a month: every edit and every upgrade leaves some behind."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 3600
    for folder in folders.iterdir():
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
