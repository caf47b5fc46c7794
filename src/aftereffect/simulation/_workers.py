"""Who plays: the threads of this process, or the workers of any executor; and why they may fail."""

import os
import pickle
import re
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from aftereffect._core import check_int
from aftereffect.errors import AftereffectError, ParameterError, WorkerError
from aftereffect.simulation._replications import ChunkResult, PreparedTasks, run_chunk
from aftereffect.simulation._tasks import Task

MAX_THREADS, MAX_WORKERS = 1_024, 1_000_000
#: What ``jobs`` is for all cores.
ALL_CORES = -1
#: Seconds. A chunk for another process must be worth sending; one for a thread must only last
#: longer than taking the interpreter's lock.
_MIN_CHUNK_ELSEWHERE, _MIN_CHUNK_HERE = 0.3, 0.02
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


def check_made_by(there: str, here: str) -> None:
    """Refuse what a worker has made with other code than that of this process.

    >>> check_made_by("aftereffect 1", "aftereffect 1")
    """
    if there != here:
        raise WorkerError(
            f"a worker runs {there}, but this process runs {here}: install the "
            "same versions everywhere, and restart workers that loaded their code before"
        )


def explain_failure(error: BaseException, work: str) -> WorkerError | None:
    """Why workers could not do some work; None if the error is one of the work itself.

    >>> print(explain_failure(BrokenExecutor(), "a study"))
    the executor failed (BrokenExecutor): its workers died or lost their scheduler
    """
    if isinstance(error, AftereffectError):
        return None
    if isinstance(error, (CancelledError, BrokenExecutor)):
        name = type(error).__name__
        return WorkerError(
            f"the executor failed ({name}): its workers died or lost their scheduler"
        )
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    for each in causes:
        if isinstance(each, ModuleNotFoundError) and each.name:
            return WorkerError(
                f"the workers lack the module {each.name!r}: "
                "install it, or put its file on their PYTHONPATH, on every worker"
            )
    for each in causes:
        if isinstance(each, _PICKLE_ERRORS) and _PICKLE_MESSAGE.search(str(each)):
            return WorkerError(
                f"{work} cannot be sent to other processes "
                f"({' '.join(str(each).split())}): define its classes and functions at the top of "
                "a module that they can import"
            )
    return None
