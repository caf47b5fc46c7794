"""Plays the replications of tasks: in batches on the CPU, or on a GPU.

What the batches of a task share is prepared once.
"""

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aftereffect._core import AttributedKernels, Engine, Matrix, Params, SlotKernels, State
from aftereffect.policies import stack_states
from aftereffect.simulation._builders import Builder, compile_driver
from aftereffect.simulation._contents import describe_own_code
from aftereffect.simulation._digest import Digest
from aftereffect.simulation._driver import BatchPlay, Streams, bad_decision
from aftereffect.simulation._engine_choice import is_for_gpu
from aftereffect.simulation._rehearsal import rehearse
from aftereffect.simulation._tasks import Runs, Task

if TYPE_CHECKING:
    from aftereffect.simulation._cuda import DeviceDriver


class Prepared(NamedTuple):
    """What the batches of a task share: driver, engine, policy parameters, and which code plays.

    Tasks for a GPU have a driver there instead of one that plays batches.
    """

    play_batch: BatchPlay | None
    engine: Engine
    params: Params
    made_by: str
    device: "DeviceDriver | None" = None


def prepare(task: Task, build: Builder = compile_driver, engine: Engine | None = None) -> Prepared:
    """Prepare a task to be played, on the engine that it names or on another.

    A policy from outside this package is rehearsed first: machine code does not check indices.
    """
    if describe_own_code(task.policy):
        rehearse(task.policy, task.bandit.arms, task.horizon)
    chosen = engine or task.bandit_engine()
    params = task.policy.params(task.bandit.arms, task.horizon)
    state = task.initial_state()
    if is_for_gpu(task.engine):
        from aftereffect.simulation._cuda import DeviceDriver

        real = np.float32 if task.engine == "cuda-single" else np.float64
        device = DeviceDriver(
            task.policy.kernels(), chosen, state, params, task.bandit.arms, real=real
        )
        return Prepared(None, chosen, params, task.made_by, device)
    play_batch = build(task.policy.kernels(), chosen, state, params)
    return Prepared(play_batch, chosen, params, task.made_by)


class PreparedTasks:
    """A small cache of prepared tasks, by the name that `run_tasks` gave them.

    By name and not by content: a name belongs to one call of `simulate`, so that code which a user
    edits between two calls is not mistaken for what it was.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._prepared: dict[str, Future[Prepared]] = {}

    def get(self, name: str, task: Task) -> Prepared:
        """Prepare a task, once however many threads ask at a time: reward tables may be large."""
        with self._lock:
            first = name not in self._prepared
            promise = self._prepared.setdefault(name, Future())
            while len(self._prepared) > self._size:
                del self._prepared[next(iter(self._prepared))]
        if first:
            try:
                promise.set_result(prepare(task))
            except BaseException as error:
                promise.set_exception(error)
                with self._lock:  # a second attempt may succeed, say with more free memory
                    self._prepared.pop(name, None)
        return promise.result()


class ChunkResult(NamedTuple):
    """Replications of a task, the time they took a processor, and which code played them.

    If only some are kept, there is a digest of all.
    """

    runs: Runs
    seconds: float
    made_by: str
    digest: Digest | None = None


class _ThreadStreams(threading.local):
    """Generators that each thread has for itself."""

    def __init__(self) -> None:
        self.streams = Streams()


_prepared_here, _of_this_thread = PreparedTasks(), _ThreadStreams()


def run_chunk(name: str, task: Task, prepared: PreparedTasks = _prepared_here) -> ChunkResult:
    """Play any number of replications of the task of that name, in this thread of any process.

    Chunks of one task that follow each other in a process share what was compiled and tabulated
    for the first.
    """
    ready = prepared.get(name, task)
    if ready.device is not None:
        return _run_on_device(task, ready.device, ready.made_by)
    start = time.thread_time()
    parts = [run_batch(batch, ready, _of_this_thread.streams).runs for batch in task.batches()]
    runs = Runs(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return ChunkResult(runs, time.thread_time() - start, ready.made_by)


def _run_on_device(task: Task, device: "DeviceDriver", made_by: str) -> ChunkResult:
    runs, digest = Runs.zeros(task), None
    settings = task.seed, task.replications, task.horizon, task.checkpoints
    if task.keep is None:
        seconds = device.play(*settings, *runs)
    else:
        digest = Digest.zeros(len(task.replications), len(task.checkpoints), task.bandit.arms)
        seconds, ended = device.digest(*settings, *runs, digest)
        if ended is not None:  # by an invalid decision: say which
            alone = replace(task, replications=range(ended, ended + 1), keep=None)
            _run_on_device(alone, device, made_by)
    _check_decisions(task, runs)
    return ChunkResult(runs, seconds, made_by, digest)


class BatchResult(NamedTuple):
    """What one call of the driver leaves.

    Besides the runs: the states of the policy by replication, and the memory of the engine after
    the last one.
    """

    runs: Runs
    states: State
    memory: Matrix


def run_batch(task: Task, prepared: Prepared, streams: Streams | None = None) -> BatchResult:
    """Play the replications of a task, at most a batch, in one call of the driver.

    >>> import aftereffect as ae
    >>> from aftereffect.simulation import interpret_driver
    >>> bandit = ae.StochasticBandit([0.9, 0.5])
    >>> task = Task(ae.RoundRobin(), bandit, "roundwise", 10, (10,), 1, range(2))
    >>> run_batch(task, prepare(task, interpret_driver)).runs.pulls.tolist()
    [[5.0, 5.0], [5.0, 5.0]]
    """
    if prepared.play_batch is None:
        raise TypeError("a task for a GPU is not played in batches")
    result = BatchResult(
        runs=Runs.zeros(task),
        states=stack_states(task.initial_state(), len(task.replications)),
        memory=np.zeros(prepared.engine.memory),
    )
    arguments = (streams or Streams()).arguments_for(task.seed, task.replications)
    prepared.play_batch(
        result.states,
        prepared.params,
        result.memory,
        prepared.engine.world,
        prepared.engine.covariates,
        task.horizon,
        np.array(task.checkpoints, dtype=np.int64),
        result.runs.regret,
        result.runs.pulls,
        result.runs.rounds,
        *arguments,
    )
    _check_decisions(task, result.runs)
    return result


def _check_decisions(task: Task, runs: Runs) -> None:
    """Raise an error if a run ended with an invalid decision."""
    ended = np.flatnonzero(runs.rounds < 0)
    if len(ended) == 0:
        return
    regret, pulls, rounds = (each[ended[0]] for each in runs)
    kernels = task.policy.kernels()
    fields = [float(each) for each in (*pulls[:2], regret[0])]
    decision = tuple(int(each) if each.is_integer() else each for each in fields)
    shown: object = decision
    if isinstance(kernels, AttributedKernels):
        shown = decision[0]
    elif isinstance(kernels, SlotKernels):
        shown = decision[:2]
    raise bad_decision(str(task.policy), kernels, task.bandit.arms, -1 - int(rounds), shown)
