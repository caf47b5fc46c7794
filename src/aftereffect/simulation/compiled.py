"""The only module that imports numba: compiles the driver over plain kernels, once per set of kernels and state of the sources.

numba's own cache looks at the file of the compiled function only, so an edit in a helper elsewhere would go unseen. Here the
cache folder is named by a hash of every source that can reach the machine code: an edit anywhere is another folder.
"""

import hashlib
import inspect
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from aftereffect.kernels import Engine, PolicyKernels, WorldKernels
from aftereffect.simulation.driver import BATCH, Replay, batch, driver

_PACKAGE = Path(__file__).parents[1]
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
    reached = set(_reached(replay, set()))
    for function in reached:
        _jitable(function)
    folder = _cache_folder(reached)
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
def _jitable(function: Callable[..., Any]) -> None:
    register_jitable(function)


def _reached(function: Callable[..., Any], seen: set[Callable[..., Any]]) -> Iterator[Callable[..., Any]]:
    """Every plain function that `function` names, directly or through another."""
    names = inspect.getclosurevars(function)
    for value in (*names.globals.values(), *names.nonlocals.values()):
        if isinstance(value, FunctionType) and value not in seen:
            seen.add(value)
            yield value
            yield from _reached(value, seen)


def _cache_folder(reached: set[Callable[..., Any]]) -> Path | None:
    """A folder for these sources, or None where none can be written: then nothing is cached, and all still works."""
    files = {Path(function.__code__.co_filename) for function in reached}
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for path in sorted({path for path in files if path.is_file()} | set(_PACKAGE.rglob("*.py"))):
        digest.update(path.read_bytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(_config.CACHE_DIR or home) / "aftereffect" / digest.hexdigest()[:20]
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
    """Folders of sources that have not run for a month: every edit and every upgrade leaves one behind."""
    oldest = time.time() - _UNUSED_DAYS * 24 * 3600
    for folder in folders.iterdir():
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
