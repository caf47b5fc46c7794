"""Distributes tasks over workers: in chunks of a fitting size, a bounded number at a time.

The first chunks are of one replication each. As soon as one is back, their size follows from the
measured time: long enough that handing them out costs nothing, short enough that losing one, or
waiting for the last one, does not hurt. What was measured for a task also serves similar tasks.
Towards the end chunks shrink.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TypeAlias

from aftereffect.simulation._digest import GROUP, Digest
from aftereffect.simulation._engine_choice import is_for_gpu
from aftereffect.simulation._replications import ChunkResult
from aftereffect.simulation._tasks import Runs, Task
from aftereffect.simulation._workers import Workers, check_made_by, explain_failure

#: Seconds that a chunk may take.
_MAX_CHUNK = 1.0
#: A chunk has at most so many times the replications that were measured so far.
_MAX_GROWTH = 16
#: The results of a chunk have at most so many bytes: some chunks are on their way at a time.
_MAX_RESULTS = 2**28
#: The first chunk for a GPU: so many slots, but between so many replications. A GPU plays tens of
#: thousands at a time, and one takes as long.
_FIRST_SLOTS, _FIRST_LEAST, _FIRST_MOST = 2**31, 2**10, 2**16
#: Chunks handed out per worker: one that it plays and one that waits, so that no worker does.
_IN_FLIGHT = 2


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
