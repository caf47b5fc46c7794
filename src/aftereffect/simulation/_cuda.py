"""Plays replications on an NVIDIA GPU, one per thread. Only this and `_compiled` import numba.

The driver and all kernels are those of the other engines, compiled for another machine. What a
replication changes lies in the thread's own memory, which is fast, as far as that is small; the
shapes of these arrays are part of the code. Other arrays lie in the memory of the device. There the
same number of all replications is side by side, because threads that run together read it together.
These arrays can be of single precision; parameters, bandits and results are of double precision.

Results are copied to the computer. Or they are measured on the device, and a digest is copied.
"""

import inspect
import math
import threading
import time
import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from aftereffect._core import (
    POLICY,
    WORLD,
    Engine,
    Matrix,
    Params,
    Slots,
    State,
    name_extra,
)
from aftereffect.errors import ParameterError
from aftereffect.policies import Kernels, map_arrays
from aftereffect.simulation._clones import Clones
from aftereffect.simulation._compiled import one_line_error
from aftereffect.simulation._digest import GROUP, Digest, find_bin, measure_group
from aftereffect.simulation._driver import make_driver
from aftereffect.simulation._philox import METHODS, STREAM_WORDS, Stream, seed_key

with name_extra("gpu"):
    if not hasattr(np, "row_stack"):
        np.row_stack = np.vstack  # noqa: NPY201  # numba-cuda 0.30 names it, NumPy 2.5 lacks it
    import numba
    import numba.cuda as _untyped_cuda
    import numba.cuda.core.config
    import numba.cuda.core.errors
    import numba.cuda.extending
    import numba.cuda.types

cuda: Any = _untyped_cuda
_config: Any = numba.config
_types: Any = numba.cuda.types
_extending: Any = numba.cuda.extending
_IS_SIMULATED = bool(_config.ENABLE_CUDASIM)
#: Threads per group; results do not depend on it.
BLOCK = 256
#: How many bytes of a thread's own memory the arrays of a replication may take.
LOCAL_BYTES = 16 * 2**10
#: The most replications of one launch.
MAX_LAUNCH = 2**24
#: The part of the device's free memory that one launch may take.
_MEMORY_SHARE = 0.8
#: Launches of this process take turns, so that each has the device and its memory for itself.
_turn = threading.Lock()
#: The driver that played last, which holds memory of the device while it lives.
_last: "weakref.ref[DeviceDriver] | None" = None
#: Kernels and their clones, by what they do: studies that differ only in numbers share one.
_kernels: dict[Any, tuple[Any, Clones]] = {}


def has_device() -> bool:
    """Tell whether there is a GPU, or a simulated one."""
    return bool(cuda.is_available())


class DeviceDriver:
    """Plays any replications of one policy in one bandit on the device.

    State and parameters are examples: machine code is made for the shapes of the state. `real` is
    the type of the numbers that a replication changes.
    """

    def __init__(
        self,
        policy: Kernels,
        engine: Engine,
        state: State,
        params: Params,
        arms: int,
        real: type[np.floating[Any]] = np.float64,
    ) -> None:
        if not has_device():
            raise ParameterError(
                "the engine 'cuda' needs an NVIDIA GPU and its driver, but none was found: "
                "use the engine 'roundwise'"
            )
        layout = _Layout(state, engine.memory, arms, real)
        self._arms, self._shapes, self._real = arms, layout.shared_shapes, np.dtype(real)
        self._kernel, clones = _make_kernel(make_driver(policy, engine.kernels), layout)
        self._given = tuple(
            map_arrays(_send, each) for each in (state, params, engine.world, engine.covariates)
        )
        self._room = 0
        self._shared: tuple[Any, ...] = ()
        nothing = np.zeros((1, 1)), np.zeros((1, arms)), np.zeros(1, dtype=np.int64)
        try:
            self.play(0, range(1), 0, (1,), *nothing)  # compiles
        except _FAILURES as error:
            raise one_line_error(str(error), clones, "for a GPU") from None

    def play(
        self,
        seed: int,
        replications: range,
        horizon: int,
        checkpoints: tuple[int, ...],
        regret: Matrix,
        pulls: Matrix,
        rounds: Slots,
        block: int = BLOCK,
    ) -> float:
        """Play so many slots of these replications, in as many launches as memory asks for.

        It writes results by replication, as a driver does, and returns the seconds that it took.
        """
        with _turn:
            begin = time.perf_counter()
            for part, there in self._launch(seed, replications, horizon, checkpoints, block):
                for each, into in zip(there, (regret, pulls, rounds), strict=True):
                    each.copy_to_host(into[part])
            return time.perf_counter() - begin

    def digest(
        self,
        seed: int,
        replications: range,
        horizon: int,
        checkpoints: tuple[int, ...],
        regret: Matrix,
        pulls: Matrix,
        rounds: Slots,
        into: Digest,
        block: int = BLOCK,
    ) -> tuple[float, int | None]:
        """Do the same, but leave a digest, and only as many results as there is room for.

        It returns the seconds too, and which replication ended early, if one did.
        """
        with _turn:
            begin = time.perf_counter()
            counts = cuda.to_device(into.counts)
            for part, there in self._launch(seed, replications, horizon, checkpoints, block, GROUP):
                played = there[2].copy_to_host()
                ended = np.flatnonzero(played < 0)
                if len(ended) > 0:
                    return 0.0, replications[part.start + int(ended[0])]
                count = len(played)
                groups = slice(part.start // GROUP, part.start // GROUP - (-count // GROUP))
                pairs = (there[0], into.regret[groups]), (there[1], into.pulls[groups])
                for table, found in pairs:
                    measured = cuda.device_array(found.shape)
                    _measure[_count_blocks(found[..., 0].size), BLOCK](table, measured)
                    measured.copy_to_host(found)
                _count[_count_blocks(there[0].size), BLOCK](there[0], counts)
                into.rounds[groups] = np.add.reduceat(played, range(0, count, GROUP))
                kept = min(max(len(rounds) - part.start, 0), count)
                for each, whole in zip(there, (regret, pulls, rounds), strict=True):
                    if kept:
                        each[:kept].copy_to_host(whole[part.start : part.start + kept])
            counts.copy_to_host(into.counts)
            return time.perf_counter() - begin, None

    def release(self) -> None:
        """Give back the memory that launches took; the next takes some again."""
        self._room, self._shared = 0, ()
        if not _IS_SIMULATED:
            cuda.current_context().deallocations.clear()

    def _find_most(self, checkpoints: int, group: int) -> int:
        """How many replications one launch can hold, in whole groups."""
        free, _ = cuda.current_context().get_memory_info()
        held = sum(each.nbytes for each in self._shared)
        needed = 8 * (checkpoints + self._arms + 1)
        needed += self._real.itemsize * sum(math.prod(shape) for shape in self._shapes)
        most = int(min(_MEMORY_SHARE * (free + held) / needed, MAX_LAUNCH))
        if most < group:
            what = "one replication needs" if group == 1 else f"{group:,} replications need"
            raise ParameterError(
                f"{what} {needed * group:,} bytes, more than the GPU has free: "
                "use the engine 'roundwise'"
            )
        return most - most % group

    def _launch(
        self,
        seed: int,
        replications: range,
        horizon: int,
        checkpoints: tuple[int, ...],
        block: int,
        group: int = 1,
    ) -> Iterator[tuple[slice, tuple[Any, Any, Any]]]:
        """Play them in as many launches as memory asks for, each of whole groups but the last.

        Yields where the replications of a launch are, and their results on the device.
        """
        self._take_over()
        most = self._find_most(len(checkpoints), group)
        settings = horizon, _send(np.array(checkpoints, dtype=np.int64))
        key = np.uint64(seed_key(seed))
        for first in range(0, len(replications), most):
            count = min(most, len(replications) - first)
            if count > self._room:
                self._room, self._shared = count, ()  # what was taken is free before more is
                self._shared = tuple(
                    cuda.device_array((*shape, count), self._real) for shape in self._shapes
                )
            there = (
                cuda.device_array((count, len(checkpoints))),
                cuda.device_array((count, self._arms)),
                cuda.device_array(count, np.int64),
            )
            stream = key, replications[first]
            groups = -(-count // block)
            self._kernel[groups, block](*self._given, *settings, *stream, *there, self._shared)
            yield slice(first, first + count), there

    def _take_over(self) -> None:
        """Have the device's memory for itself: the driver that played last gives its own back."""
        global _last
        last = None if _last is None else _last()
        if last is not None and last is not self:
            last.release()
        _last = weakref.ref(self)


def _count_blocks(cells: int) -> int:
    """How many groups of threads have one for each cell."""
    return -(-cells // BLOCK)


def _send(array: Any) -> Any:
    """Copy an array to the device; its kernels may not write to it."""
    return array if _IS_SIMULATED else cuda.to_device(np.ascontiguousarray(array))


class _Layout:
    """Where the arrays of a replication lie; writes the kernel that plays one in each thread.

    ``names`` are types that its source names.
    """

    def __init__(self, state: State, memory: tuple[int, int], arms: int, real: Any) -> None:
        self.shared_shapes: list[tuple[int, ...]] = []
        self._names: dict[str, Any] = {"real": real}
        self._lines: list[str] = []
        self._left, self._item = LOCAL_BYTES, np.dtype(real).itemsize
        self._place("pulls", (arms,))
        self._place("memory", memory)
        placed = self._place_state(state, "initial")
        lines = "\n    ".join(self._lines)
        source = _KERNEL.format(lines=lines, state=placed, words=STREAM_WORDS)
        self.source = source.replace("POLICY", str(POLICY)).replace("WORLD", str(WORLD))
        self.names = tuple(self._names.items())

    def _place(self, name: str, shape: tuple[int, ...], initial: str = "") -> None:
        """Write the lines that make an array; it begins as zeros, or as `initial`."""
        axes = [f"i{axis}" for axis in range(len(shape))]
        size = self._item * math.prod(shape)
        if size <= self._left:
            self._left -= size
            # There are no empty arrays in a thread's memory, but empty parts of them.
            least = tuple(max(length, 1) for length in shape)
            part = "" if least == shape else f"[{', '.join(f':{length}' for length in shape)}]"
            self._lines.append(f"{name} = cuda.local.array({least}, real){part}")
        else:
            whole = ", ".join(":" for _ in shape)
            self._lines.append(f"{name} = shared[{len(self.shared_shapes)}][{whole}, r]")
            self.shared_shapes.append(shape)
        for depth, (axis, length) in enumerate(zip(axes, shape, strict=True)):
            self._lines.append(f"{4 * depth * ' '}for {axis} in range({length}):")
        cell = f"[{', '.join(axes)}]"
        value = initial + cell if initial else "0.0"
        self._lines.append(f"{4 * len(shape) * ' '}{name}{cell} = {value}")

    def _place_state(self, part: Any, path: str) -> str:
        """Place the arrays of a state; returns how to write the state that holds them."""
        name = path.replace(".", "_")
        if isinstance(part, np.ndarray):
            self._place(f"own_{name}", part.shape, path)
            return f"own_{name}"
        self._names[f"Tuple_{name}"] = type(part)
        fields = zip(type(part)._fields, part, strict=True)
        inner = [self._place_state(each, f"{path}.{field}") for field, each in fields]
        return f"Tuple_{name}({', '.join(inner)})"


def _make_kernel(play: Any, layout: _Layout) -> tuple[Any, Clones]:
    """Make the kernel around a driver, and its clones; its first launch compiles it."""
    clones = Clones(play, play, inline=False, shared=False, located=True)
    key = clones.root.__qualname__, layout.source, layout.names
    with _turn:
        if key not in _kernels:
            names = dict(layout.names) | {
                "cuda": cuda,
                "uint64": np.uint64,
                "play": play if _IS_SIMULATED else _compile(clones),
                "as_stream": _as_stream,
            }
            exec(compile(layout.source, __file__, "exec"), names)
            _kernels[key] = cuda.jit(names["kernel"]), clones
        return _kernels[key]


#: ``regret``, ``counts`` and ``rounds`` are the results; threads beyond them do nothing.
_KERNEL = """
def kernel(
    initial, params, world, covariates, horizon, checkpoints, key, first,
    regret, counts, rounds, shared,
):
    r = cuda.grid(1)
    if r >= rounds.shape[0]:
        return
    {lines}
    policy_words = cuda.local.array({words}, uint64)
    world_words = cuda.local.array({words}, uint64)
    policy_words[0] = world_words[0] = key
    policy_words[1] = world_words[1] = uint64(first + r)
    policy_words[2] = uint64(POLICY)
    world_words[2] = uint64(WORLD)
    policy_words[3] = world_words[3] = policy_words[4] = world_words[4] = uint64(0)
    rounds[r] = play(
        {state}, params, memory, world, covariates, horizon, checkpoints, regret[r], pulls,
        as_stream(policy_words), as_stream(world_words),
    )
    for arm in range(pulls.shape[0]):
        counts[r, arm] = pulls[arm]
"""


def _compile(clones: Clones) -> Any:
    """Have a function compiled for the device, and all that it names."""
    compiled: dict[Any, Any] = {each: cuda.jit(each, device=True) for each in clones.made}
    compiled |= _WHOLE_NUMBERS
    for function in clones.made:
        names = function.__globals__
        names.update({name: _replace(value, compiled) for name, value in names.items()})
        for cell in function.__closure__ or ():
            cell.cell_contents = _replace(cell.cell_contents, compiled)
    return compiled[clones.root]


def _replace(value: Any, compiled: dict[Any, Any]) -> Any:
    if value is math:
        return _device_math
    return compiled.get(value, value) if callable(value) else value


def _make_whole(function: Any) -> Any:
    """Have a function of `math` return whole numbers, as everywhere but on a GPU."""
    return cuda.jit(lambda x: int(function(x)), device=True)


def _offer_methods() -> None:
    """Give arrays of words the methods of a generator."""
    words = _types.Array(_types.uint64, 1, "C")
    for name, function in METHODS.items():
        clones = Clones(function, function, inline=False, shared=False)
        _compile(clones)

        def choose(*given: Any, function: Any = clones.root) -> Any:
            return function if given[0] == words else None

        choose.__signature__ = inspect.signature(clones.root)  # type: ignore[attr-defined]  # Python reads it
        _extending.overload_method(_types.Array, name)(choose)


_find_bin: Any = cuda.jit(find_bin, device=True)
_measure_group: Any = cuda.jit(measure_group, device=True)


@cuda.jit  # type: ignore[untyped-decorator]  # numba has no types
def _measure(table: Any, found: Any) -> None:
    """A thread measures a column of a group."""
    cell = cuda.grid(1)
    columns = found.shape[1]
    if cell < found.shape[0] * columns:
        group, column = cell // columns, cell % columns
        _measure_group(table, group, column, found[group, column])


@cuda.jit  # type: ignore[untyped-decorator]  # numba has no types
def _count(table: Any, counts: Any) -> None:
    """A thread counts a number of a table."""
    cell = cuda.grid(1)
    columns = table.shape[1]
    if cell < table.shape[0] * columns:
        row, column = cell // columns, cell % columns
        cuda.atomic.add(counts, (column, _find_bin(table[row, column])), 1)


_FAILURES: tuple[type[BaseException], ...] = ()
#: What is called on a GPU instead of functions of `math`, and the module that has these.
_WHOLE_NUMBERS: dict[Any, Any] = {}
_device_math = ModuleType("math")
vars(_device_math).update(vars(math))
_as_stream: Any = Stream
if not _IS_SIMULATED:
    numba.cuda.core.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # small runs may be small
    _FAILURES = (numba.cuda.core.errors.NumbaError, numba.core.errors.NumbaError)
    for each in (math.ceil, math.floor, math.trunc):
        _WHOLE_NUMBERS[each] = _make_whole(each)
        setattr(_device_math, each.__name__, _WHOLE_NUMBERS[each])
    _offer_methods()
    _as_stream = cuda.jit(lambda words: words, device=True)
