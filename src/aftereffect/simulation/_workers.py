"""Distributes tasks over workers: in chunks of a fitting size, a bounded number at a time.

Workers are threads, or those of any executor, such as a Dask cluster. The first chunks are of one
replication each. As soon as one is back, their size follows from the measured time: long enough
that handing them out costs nothing, short enough that losing one, or waiting for the last one, does
not hurt. What was measured for a task also serves similar tasks. Towards the end chunks shrink.
"""

import asyncio
import logging
import os
import pickle
import re
import secrets
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakSet

from aftereffect._core import check_int, describe_code, import_optional
from aftereffect.errors import AftereffectError, ParameterError, WorkerError
from aftereffect.simulation._replications import (
    ChunkResult,
    PreparedTasks,
    Runs,
    Task,
    is_for_gpu,
    run_chunk,
)
from aftereffect.simulation._runs import GROUP, Digest

MAX_THREADS, MAX_WORKERS = 1_024, 1_000_000
#: What ``jobs`` is for all cores.
ALL_CORES = -1
#: Seconds. A chunk for another process must be worth sending; one for a thread must only last
#: longer than taking the interpreter's lock.
_MAX_CHUNK, _MIN_CHUNK_ELSEWHERE, _MIN_CHUNK_HERE = 1.0, 0.3, 0.02
#: A chunk has at most so many times the replications that were measured so far.
_MAX_GROWTH = 16
#: The results of a chunk have at most so many bytes: some chunks are on their way at a time.
_MAX_RESULTS = 2**28
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
            yield job.task, ChunkResult(job.runs, job.seconds, job.made_by, job.digest)

    try:
        for task in tasks:
            job = _Job(task, costs[_kind_of(task)])
            while not job.is_handed_out:
                while len(in_flight) >= _IN_FLIGHT * job.count_players(workers):
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
    digest: Digest | None = None

    def __post_init__(self) -> None:
        self.made_by = self.task.made_by
        self.runs = Runs.zeros(self.task)
        if self.task.keep is not None:
            sizes = len(self.task.checkpoints), self.task.bandit.arms
            self.digest = Digest.zeros(len(self.task.replications), *sizes)

    @property
    def is_handed_out(self) -> bool:
        return self._handed_out == len(self.task.replications)

    @property
    def is_complete(self) -> bool:
        return self._back == len(self.task.replications)

    def count_players(self, workers: Workers) -> int:
        """Count the chunks that are played at a time: threads share the GPU of this process."""
        return 1 if is_for_gpu(self.task.engine) and not workers.elsewhere else workers.size

    def next_chunk(self, workers: Workers) -> range:
        """Choose which replications to hand out next."""
        left = len(self.task.replications) - self._handed_out
        least = count = 1
        if is_for_gpu(self.task.engine):
            wanted = min(_FIRST_SLOTS // self.task.horizon, _FIRST_MOST)
            least = count = min(max(wanted, _FIRST_LEAST), left)
        if self.cost.replications:
            # So that all end at about the same time.
            fair = left / (_IN_FLIGHT * self.count_players(workers))
            fitting = max(
                min(_MAX_CHUNK / self.cost.each, fair), workers.min_chunk / self.cost.each
            )
            count = int(max(least, min(left, _MAX_GROWTH * self.cost.replications, fitting)))
        each = sum(part[:1].nbytes for part in self.runs)
        count = min(count, max(_MAX_RESULTS // each, 1))
        if self.digest is not None:  # by whole groups
            count = min(max(count - count % GROUP, GROUP), left)
        first = self._handed_out
        self._handed_out += count
        return range(first, first + count)

    def add(self, chunk: range, result: ChunkResult) -> None:
        for whole, part in zip(self.runs, result.runs, strict=True):
            whole[chunk.start : chunk.start + len(part)] = part
        if self.digest is not None and result.digest is not None:
            self.digest.add(chunk.start, result.digest)
        self._back += len(chunk)
        self.seconds += result.seconds
        self.cost.replications += len(chunk)
        self.cost.seconds += result.seconds


def _submit(workers: Workers, job: _Job, chunk: range) -> "Future[ChunkResult]":
    part = job.task.only(job.task.replications[chunk.start : chunk.stop])
    try:
        return workers.submit(job.name, part)
    except Exception as error:
        _raise_if_elsewhere(error, job.task, workers)
        raise


def _take_result(future: "Future[ChunkResult]", job: _Job, workers: Workers) -> ChunkResult:
    """Return what a worker brought back, if the same code played it as would have here."""
    try:
        result = future.result()
    except Exception as error:
        _raise_if_elsewhere(error, job.task, workers)
        raise
    check_made_by(result.made_by, job.made_by)
    return result


def _raise_if_elsewhere(error: BaseException, task: Task, workers: Workers) -> None:
    is_executor = isinstance(error, (CancelledError, BrokenExecutor))
    if workers.elsewhere or is_executor:
        reason = explain_failure(error, f"{task.policy} in {task.bandit}")
        if reason is not None:
            raise reason from error


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


LOCAL = "local"
#: How often a chunk that failed on a worker is tried again. Chunks of workers that die go to others
#: and do not count here.
_RETRIES = 2
#: Seconds in which a scheduler must answer, and in which it must have workers: at first, and again
#: after it has lost all.
_ANSWER, _JOIN = 10, 60
_ADDRESS = re.compile(r"[a-z]+://.+:\d+")


class Cluster(NamedTuple):
    """An executor and its number of workers: the ``executor`` and ``jobs`` of `simulate`."""

    executor: Executor
    jobs: int


@contextmanager
def dask_cluster(address: str, jobs: int | None = None) -> Iterator[Cluster]:
    """Connect to the workers of a Dask scheduler, or start local ones. Needs the extra ``dask``.

    Parameters
    ----------
    address
        The address of a running scheduler, such as ``tcp://10.0.0.1:8786``; or ``local`` for worker
        processes on this machine, which end with the block. A script must start local workers below
        ``if __name__ == "__main__":``, because they import it.
    jobs
        How many workers to keep busy. By default, and for -1, all that the scheduler has; locally
        one per core.

    Examples
    --------
    >>> from aftereffect import StochasticBandit
    >>> bandit = StochasticBandit([0.9, 0.5])
    >>> with dask_cluster("tcp://10.0.0.1:8786") as (executor, jobs):  # doctest: +SKIP
    ...     study = simulate("ucb1", bandit, 1_000, 10_000, executor=executor, jobs=jobs)
    >>> study.replications  # doctest: +SKIP
    10000
    """
    distributed = import_optional("distributed")
    workers = None if jobs in (None, ALL_CORES) else check_jobs(jobs, MAX_WORKERS)
    if address != LOCAL and not _ADDRESS.fullmatch(address):
        raise ParameterError(
            f"a Dask scheduler must be {LOCAL!r} or an address such as tcp://10.0.0.1:8786, "
            f"got {address!r}"
        )
    connected = _local(distributed, workers) if address == LOCAL else _remote(distributed, address)
    with connected as client:
        executor = _ClusterExecutor(client, distributed.protocol.pickle.dumps)
        with _watching(client, executor):
            try:
                yield Cluster(executor, workers or sum(client.nthreads().values()))
            except (distributed.KilledWorker, distributed.comm.CommClosedError) as error:
                raise WorkerError(f"Dask gave up: {str(error).partition(chr(10))[0]}") from error
            finally:
                executor.shutdown(wait=False)


class _ClusterExecutor(Executor):
    """Sends calls as bytes. If a worker cannot unpickle one, that call fails, and not the worker.

    Dask's own executor takes an answer for an error if the worker leaves just after it answered.
    """

    def __init__(self, client: Any, pack: Callable[[Any], bytes]) -> None:
        self._client, self._pack = client, pack
        self._sent: WeakSet[Any] = WeakSet()

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **settings: Any
    ) -> "Future[Any]":
        packed = self._pack((function, arguments, settings))
        sent = self._client.submit(_call, packed, pure=False, retries=_RETRIES)
        self._sent.add(sent)
        answer: Future[Any] = Future()
        answer.add_done_callback(lambda done: sent.cancel() if done.cancelled() else None)
        sent.add_done_callback(partial(_pass_on, answer))
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what waits: callers have taken all answers that they want."""
        self._client.cancel(list(self._sent))


def _pass_on(answer: "Future[Any]", sent: Any) -> None:
    """Give an answer of Dask, which gathers it again if it was lost with its worker."""
    with suppress(InvalidStateError):  # nobody waits for it any more
        try:
            result = sent.result()
        except asyncio.CancelledError:
            answer.cancel()
            answer.set_running_or_notify_cancel()  # which wakes those who wait
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(result)


def _call(packed: bytes) -> Any:
    function, arguments, settings = pickle.loads(packed)
    return function(*arguments, **settings)


@contextmanager
def _local(distributed: Any, workers: int | None) -> Iterator[Any]:
    settings = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
    }
    with _interrupts_ignored_by_children():
        cluster = distributed.LocalCluster(n_workers=check_jobs(workers), **settings)
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _interrupts_ignored_by_children() -> Iterator[None]:
    """Let processes that start meanwhile ignore Ctrl-C: this process gets it and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _remote(distributed: Any, address: str) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:  # includes time-outs; ValueError: not an address
        raise WorkerError(
            f"no Dask scheduler answers at {address}: {str(error).partition(chr(10))[0]}"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_JOIN)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {address} has no workers: "
                f"start some with dask worker {address}"
            ) from error
        try:
            client.run(describe_code)  # fails without this package; each result states its version
        except ImportError as error:
            raise WorkerError(
                f"the Dask workers at {address} lack this package ({error}): install it there"
            ) from error
        yield client


@contextmanager
def _watching(client: Any, executor: Executor) -> Iterator[None]:
    """Give up when no worker is left for a while: Dask would wait for ever without a message."""
    over = threading.Event()

    def watch() -> None:
        alone = 0
        while not over.wait(1):
            with suppress(OSError, ValueError):  # the connection is lost or closed
                alone = 0 if client.nthreads() else alone + 1
            if alone > _JOIN:
                executor.shutdown(wait=False)  # which cancels what waits
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
