"""Work is handed out: tasks in pieces of a fitting size, a bounded number at a time, to threads or to any executor.

The first pieces are of one replication each. As soon as one is back, they are as long as what was measured says: long enough
that handing them out costs nothing, short enough that losing one, or waiting for the last one, does not hurt. What was measured
of a task serves those that are alike, too. Towards the end pieces shrink.
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

import numpy as np

from aftereffect.checks import whole
from aftereffect.errors import AftereffectError, ParameterError, WorkerError
from aftereffect.simulation.replications import Outcome, Performed, Shelf, Task, perform

MOST_THREADS, MOST_WORKERS = 1_024, 1_000_000
#: Seconds. A piece sent elsewhere must be worth the journey; one for a thread need only outlast the interpreter's lock.
_LONGEST, _SHORTEST_ELSEWHERE, _SHORTEST_HERE = 1.0, 0.3, 0.02
#: How much more than was measured so far is trusted to take as long.
_TRUST = 16
#: Pieces handed out per worker: one that it plays and one that waits, so that it never does.
_IN_FLIGHT = 2
#: How Python says that something cannot be packed for another process, or was not found there.
_UNPICKLABLE, _ABOUT_PICKLES = (pickle.PicklingError, AttributeError, TypeError), re.compile("pickle|Can't get attribute")


class Crew(NamedTuple):
    """Who does the work: how to hand out a piece, how many workers there are, and whether pieces leave this process."""

    submit: Callable[[str, Task], "Future[Performed]"]
    workers: int
    elsewhere: bool

    @property
    def shortest(self) -> float:
        """The shortest piece worth handing out."""
        return _SHORTEST_ELSEWHERE if self.elsewhere else _SHORTEST_HERE


class Done(NamedTuple):
    """A whole task when all its pieces are back, with the processor time they took."""

    task: Task
    outcome: Outcome
    seconds: float


@contextmanager
def hired(jobs: int | None = None, executor: Executor | None = None) -> Iterator[Crew]:
    """As many threads as `jobs` says, or an executor with as many workers."""
    workers = check_jobs(jobs, MOST_THREADS if executor is None else MOST_WORKERS)
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise ParameterError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
        yield Crew(lambda name, task: executor.submit(perform, name, task), workers, elsewhere=True)
        return
    pool = ThreadPoolExecutor(workers)
    shelf = Shelf()  # of its own, so that tables are not kept for longer than they are used
    try:
        yield Crew(lambda name, task: pool.submit(perform, name, task, shelf), workers, elsewhere=False)
    finally:  # without waiting: after an interrupt, pieces under way end by themselves
        pool.shutdown(wait=False, cancel_futures=True)


def check_jobs(jobs: int | None, most: int = MOST_THREADS) -> int:
    """How many workers there are; as many as cores if not given."""
    return _cores() if jobs is None else whole("jobs", jobs, at_least=1, at_most=most)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work(tasks: Iterable[Task], crew: Crew, progress: Callable[[Task, int, float], None] | None = None) -> Iterator[Done]:
    """Have tasks played, and give each as soon as it is complete, which need not be in their order.

    ``progress(task, replications, seconds)`` is called with what each piece finished and the processor time it took.
    """
    costs: defaultdict[_Kind, _Cost] = defaultdict(_Cost)
    back: SimpleQueue[Future[Performed]] = SimpleQueue()
    out: dict[Future[Performed], tuple[_Job, range]] = {}

    def collect() -> Iterator[Done]:
        future = back.get()
        job, piece = out.pop(future)
        performed = _result(future, job, crew)
        job.add(piece, performed)
        if progress is not None:
            progress(job.task, len(piece), performed.seconds)
        if job.complete:
            yield Done(job.task, job.outcome, job.seconds)

    try:
        for task in tasks:
            job = _Job(task, costs[_kind(task)])
            while not job.handed_out:
                while len(out) >= _IN_FLIGHT * crew.workers:
                    yield from collect()
                piece = job.next_piece(crew)
                future = _submitted(crew, job, piece)
                out[future] = job, piece
                future.add_done_callback(back.put)
        while out:
            yield from collect()
    finally:
        for future in out:
            future.cancel()


@dataclass
class _Cost:
    """What replications of alike tasks took so far."""

    replications: int = 0
    seconds: float = 0.0

    @property
    def each(self) -> float:
        return max(self.seconds / self.replications, 1e-9)


#: Tasks are alike if these are the same.
_Kind: TypeAlias = tuple[type, str, str, int]


def _kind(task: Task) -> _Kind:
    return type(task.policy), str(task.environment), task.engine, task.horizon


@dataclass
class _Job:
    """One task: how much of it is handed out, and what is back."""

    task: Task
    cost: _Cost
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    _handed_out: int = 0
    _back: int = 0
    seconds: float = 0.0
    outcome: Outcome = field(init=False)
    made_by: str = field(init=False)

    def __post_init__(self) -> None:
        self.made_by = self.task.made_by
        count = len(self.task.replications)
        curves = np.empty((count, len(self.task.checkpoints)))
        self.outcome = Outcome(curves, np.empty((count, self.task.environment.arms)), np.empty(count, dtype=np.int64))

    @property
    def handed_out(self) -> bool:
        return self._handed_out == len(self.task.replications)

    @property
    def complete(self) -> bool:
        return self._back == len(self.task.replications)

    def next_piece(self, crew: Crew) -> range:
        """Which replications to hand out next."""
        left = len(self.task.replications) - self._handed_out
        count = 1
        if self.cost.replications:
            fair = left / (_IN_FLIGHT * crew.workers)  # so that all end at about the same time
            fitting = max(min(_LONGEST / self.cost.each, fair), crew.shortest / self.cost.each)
            count = int(max(1, min(left, _TRUST * self.cost.replications, fitting)))
        first = self._handed_out
        self._handed_out += count
        return range(first, first + count)

    def add(self, piece: range, performed: Performed) -> None:
        for whole_array, part in zip(self.outcome, performed.outcome, strict=True):
            whole_array[piece.start : piece.stop] = part
        self._back += len(piece)
        self.seconds += performed.seconds
        self.cost.replications += len(piece)
        self.cost.seconds += performed.seconds


def _submitted(crew: Crew, job: _Job, piece: range) -> "Future[Performed]":
    try:
        return crew.submit(job.name, job.task.only(job.task.replications[piece.start : piece.stop]))
    except BrokenExecutor as error:
        raise _lost(error) from error
    except Exception as error:
        problem = _unsent(error, job.task) if crew.elsewhere else None
        if problem is None:
            raise
        raise problem from error


def _result(future: "Future[Performed]", job: _Job, crew: Crew) -> Performed:
    """What a worker brought back, if it is what would have been played here."""
    try:
        performed = future.result()
    except (CancelledError, BrokenExecutor) as error:
        raise _lost(error) from error
    except Exception as error:
        problem = _unsent(error, job.task) if crew.elsewhere else None
        if problem is None:
            raise
        raise problem from error
    if performed.made_by != job.made_by:
        raise WorkerError(
            f"a worker runs {performed.made_by}, but here is {job.made_by}: install the same everywhere, and restart workers "
            "that had loaded their code before"
        )
    return performed


def _unsent(error: Exception, task: Task) -> WorkerError | None:
    """What to raise if a task could not be packed here or unpacked there; None if it was something else that failed."""
    causes: list[BaseException] = [] if isinstance(error, AftereffectError) else [error]
    while causes and (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    missing = next((each for each in causes if isinstance(each, ModuleNotFoundError) and each.name), None)
    if missing is not None:
        advice = "install it, or put its file on their PYTHONPATH, on every worker"
        return WorkerError(f"the workers lack the module {missing.name!r}: {advice}")
    unpicklable = next((each for each in causes if isinstance(each, _UNPICKLABLE) and _ABOUT_PICKLES.search(str(each))), None)
    if unpicklable is None:
        return None
    return WorkerError(
        f"{task.policy} in {task.environment} cannot be sent to other processes ({' '.join(str(unpicklable).split())}): "
        "define what it is made of at the top of a module that they can import"
    )


def _lost(error: BaseException) -> WorkerError:
    return WorkerError(f"the executor gave up its work ({type(error).__name__}): its workers or their scheduler are gone")
