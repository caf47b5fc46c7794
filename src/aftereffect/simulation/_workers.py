"""Distributes tasks over workers: in chunks of a fitting size, a bounded number at a time.

Workers are threads, or those of any executor. The first chunks are of one replication each. As soon
as one is back, their size follows from the measured time: long enough that handing them out costs
nothing, short enough that losing one, or waiting for the last one, does not hurt. What was measured
for a task also serves similar tasks. Towards the end chunks shrink.
"""

import os
import pickle
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import NamedTuple, TypeAlias

from aftereffect._core import check_int
from aftereffect.errors import AftereffectError, ParameterError, WorkerError
from aftereffect.simulation._replications import (
    ChunkResult,
    PreparedTasks,
    Runs,
    Task,
    run_chunk,
)

MAX_THREADS, MAX_WORKERS = 1_024, 1_000_000
#: What ``jobs`` is for all cores.
ALL_CORES = -1
#: Seconds. A chunk for another process must be worth sending; one for a thread must only last
#: longer than taking the interpreter's lock.
_MAX_CHUNK, _MIN_CHUNK_ELSEWHERE, _MIN_CHUNK_HERE = 1.0, 0.3, 0.02
#: A chunk has at most so many times the replications that were measured so far.
_MAX_GROWTH = 16
#: The first chunk for a GPU: so many slots, but between so many replications. A GPU plays tens of
#: thousands at a time, and one takes as long.
_FIRST_SLOTS, _FIRST_LEAST, _FIRST_MOST = 2**31, 2**10, 2**16
#: Chunks handed out per worker: one that it plays and one that waits, so that no worker does.
_IN_FLIGHT = 2
#: How Python says that something cannot be pickled, or was not found by another process.
_PICKLE_ERRORS = (pickle.PicklingError, AttributeError, TypeError)
_PICKLE_MESSAGE = re.compile("pickle|Can't get attribute")


class Workers(NamedTuple):
    """How to hand out a chunk, the number of workers, and whether chunks leave this process."""

    submit: Callable[[str, Task], "Future[ChunkResult]"]
    size: int
    elsewhere: bool

    @property
    def min_chunk(self) -> float:
        """Seconds of the shortest chunk that is worth handing out."""
        return _MIN_CHUNK_ELSEWHERE if self.elsewhere else _MIN_CHUNK_HERE


@contextmanager
def worker_pool(jobs: int | None = None, executor: Executor | None = None) -> Iterator[Workers]:
    """Start `jobs` threads, or use an executor that has `jobs` workers.

    >>> with worker_pool(2) as workers:
    ...     workers.size
    2
    """
    count = check_jobs(jobs, MAX_THREADS if executor is None else MAX_WORKERS)
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise ParameterError(
                f"executor must be a concurrent.futures.Executor, got {executor!r}"
            )
        yield Workers(
            lambda name, task: executor.submit(run_chunk, name, task), count, elsewhere=True
        )
        return
    pool = ThreadPoolExecutor(count)
    prepared = PreparedTasks()  # freed with the pool: its reward tables may be large
    try:
        yield Workers(
            lambda name, task: pool.submit(run_chunk, name, task, prepared), count, elsewhere=False
        )
    finally:  # without waiting: after an interrupt, running chunks end by themselves
        pool.shutdown(wait=False, cancel_futures=True)


def check_jobs(jobs: int | None, at_most: int = MAX_THREADS) -> int:
    """Return the number of workers: as many as there are cores if `jobs` is None or -1.

    >>> check_jobs(3)
    3
    >>> check_jobs(-1) == check_jobs(None) > 0
    True
    """
    if jobs is None or (isinstance(jobs, int) and jobs == ALL_CORES):
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return check_int("jobs", jobs, at_least=1, at_most=at_most)


def run_tasks(
    tasks: Iterable[Task],
    workers: Workers,
    progress: Callable[[Task, int, float], None] | None = None,
) -> Iterator[tuple[Task, ChunkResult]]:
    """Run tasks, and yield each with its result as soon as it is complete, in any order.

    ``progress(task, replications, seconds)`` is called with what each chunk finished and the
    processor time it took.
    """
    costs: defaultdict[_Kind, _Cost] = defaultdict(_Cost)
    finished: SimpleQueue[Future[ChunkResult]] = SimpleQueue()
    in_flight: dict[Future[ChunkResult], tuple[_Job, range]] = {}

    def collect() -> Iterator[tuple[Task, ChunkResult]]:
        future = finished.get()
        job, chunk = in_flight.pop(future)
        result = _take_result(future, job, workers)
        job.add(chunk, result)
        if progress is not None:
            progress(job.task, len(chunk), result.seconds)
        if job.is_complete:
            yield job.task, ChunkResult(job.runs, job.seconds, job.made_by)

    try:
        for task in tasks:
            job = _Job(task, costs[_kind_of(task)])
            while not job.is_handed_out:
                while len(in_flight) >= _IN_FLIGHT * workers.size:
                    yield from collect()
                chunk = job.next_chunk(workers)
                future = _submit(workers, job, chunk)
                in_flight[future] = job, chunk
                future.add_done_callback(finished.put)
        while in_flight:
            yield from collect()
    finally:
        for future in in_flight:
            future.cancel()


@dataclass
class _Cost:
    """What the replications of similar tasks took so far."""

    replications: int = 0
    seconds: float = 0.0

    @property
    def each(self) -> float:
        return max(self.seconds / self.replications, 1e-9)


#: Tasks are similar if these are equal.
_Kind: TypeAlias = tuple[type, str, str, int]


def _kind_of(task: Task) -> _Kind:
    return type(task.policy), str(task.bandit), task.engine, task.horizon


@dataclass
class _Job:
    """One task: how much of it is handed out, and what is back."""

    task: Task
    cost: _Cost
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    seconds: float = 0.0
    _handed_out: int = 0
    _back: int = 0
    runs: Runs = field(init=False)
    made_by: str = field(init=False)

    def __post_init__(self) -> None:
        self.made_by = self.task.made_by
        self.runs = Runs.zeros(self.task)

    @property
    def is_handed_out(self) -> bool:
        return self._handed_out == len(self.task.replications)

    @property
    def is_complete(self) -> bool:
        return self._back == len(self.task.replications)

    def next_chunk(self, workers: Workers) -> range:
        """Choose which replications to hand out next."""
        left = len(self.task.replications) - self._handed_out
        on_device = self.task.engine == "cuda"
        least = count = 1
        if on_device:
            wanted = min(_FIRST_SLOTS // self.task.horizon, _FIRST_MOST)
            least = count = min(max(wanted, _FIRST_LEAST), left)
        if self.cost.replications:
            fair = left / (_IN_FLIGHT * workers.size)  # so that all end at about the same time
            if on_device and not workers.elsewhere:
                fair = float(left)  # threads share the device
            fitting = max(
                min(_MAX_CHUNK / self.cost.each, fair), workers.min_chunk / self.cost.each
            )
            count = int(max(least, min(left, _MAX_GROWTH * self.cost.replications, fitting)))
        first = self._handed_out
        self._handed_out += count
        return range(first, first + count)

    def add(self, chunk: range, result: ChunkResult) -> None:
        for whole, part in zip(self.runs, result.runs, strict=True):
            whole[chunk.start : chunk.stop] = part
        self._back += len(chunk)
        self.seconds += result.seconds
        self.cost.replications += len(chunk)
        self.cost.seconds += result.seconds


def _submit(workers: Workers, job: _Job, chunk: range) -> "Future[ChunkResult]":
    part = job.task.only(job.task.replications[chunk.start : chunk.stop])
    try:
        return workers.submit(job.name, part)
    except BrokenExecutor as error:
        raise _executor_failed(error) from error
    except Exception as error:
        _raise_if_unsendable(error, job.task, workers)
        raise


def _take_result(future: "Future[ChunkResult]", job: _Job, workers: Workers) -> ChunkResult:
    """Return what a worker brought back, if the same code played it as would have here."""
    try:
        result = future.result()
    except (CancelledError, BrokenExecutor) as error:
        raise _executor_failed(error) from error
    except Exception as error:
        _raise_if_unsendable(error, job.task, workers)
        raise
    if result.made_by != job.made_by:
        raise WorkerError(
            f"a worker runs {result.made_by}, but this process runs {job.made_by}: install the "
            "same versions everywhere, and restart workers that loaded their code before"
        )
    return result


def _executor_failed(error: BaseException) -> WorkerError:
    return WorkerError(
        f"the executor failed ({type(error).__name__}): its workers died or lost their scheduler"
    )


def _raise_if_unsendable(error: Exception, task: Task, workers: Workers) -> None:
    """Raise WorkerError if a task could not be pickled here or unpickled there."""
    if not workers.elsewhere or isinstance(error, AftereffectError):
        return
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    for each in causes:
        if isinstance(each, ModuleNotFoundError) and each.name:
            raise WorkerError(
                f"the workers lack the module {each.name!r}: "
                "install it, or put its file on their PYTHONPATH, on every worker"
            ) from error
    for each in causes:
        if isinstance(each, _PICKLE_ERRORS) and _PICKLE_MESSAGE.search(str(each)):
            raise WorkerError(
                f"{task.policy} in {task.bandit} cannot be sent to other processes "
                f"({' '.join(str(each).split())}): define its classes and functions at the top of "
                "a module that they can import"
            ) from error
