"""The open experiments of a service, and the threads and the process that work on them.

Each kind of work has its own threads, so no kind can take those of another. A request that finds
the queue of its kind full is refused at once.
"""

import asyncio
import functools
import inspect
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from fastapi.routing import APIRoute

from aftereffect.errors import StorageError
from aftereffect.live import Experiment, Storage
from aftereffect.service._errors import RefusalError, refuse_for_storage
from aftereffect.service._monitoring import Metrics
from aftereffect.service._opening import NamedCache, open_experiment
from aftereffect.service._scans import Scans
from aftereffect.service._worker import Worker

T = TypeVar("T")


class Limits(NamedTuple):
    """The limits of one kind of work.

    Attributes
    ----------
    threads
        Threads that work at once.
    per_experiment
        Those of them that may work on one experiment.
    waiting
        Requests that may wait for a thread.
    seconds
        After this time a request is answered without a result, while its thread goes on. To compile
        a policy, once on a machine, may take longer if the machine is busy.
    """

    threads: int
    per_experiment: int
    waiting: int
    seconds: float


#: By kind of work. `access` looks up tokens; `write` changes experiments; `read` reads their
#: status; `scan` reads parts of a log and `heavy` a whole one, both in a process of their own.
LIMITS = {
    "access": Limits(4, 4, 1_024, 20.0),
    "health": Limits(1, 1, 256, 5.0),
    "write": Limits(16, 4, 256, 25.0),
    "read": Limits(2, 2, 64, 25.0),
    "scan": Limits(2, 2, 64, 60.0),
    "heavy": Limits(2, 1, 64, 300.0),
}

#: While work with priority is under way, a thread rests after its work: for this many times as long
#: as the work took, and at most for so many seconds.
_REST_FACTOR, _MAX_REST = 5, 0.25


@dataclass(eq=False)
class _Job:
    work: Callable[[], object]
    about: str
    started: float = 0.0
    answer: "asyncio.Future[Any]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def run(self) -> tuple[object, BaseException | None]:
        try:
            return self.work(), None
        except BaseException as error:
            return None, error


class Pool:
    """The threads of one kind of work.

    They are daemon threads: one that hangs, for example because the database no longer answers,
    does not keep the service from ending. A request that is given up leaves its thread occupied
    until the work is done, so hanging work cannot pile up.

    Parameters
    ----------
    kind
        The kind of work.
    before
        A pool with priority: while it is busy, each thread of this one rests after its work. All
        threads share one interpreter; without the rest, many short requests would take most of it.
    """

    def __init__(self, kind: str, before: "Pool | None" = None) -> None:
        self.kind, self.limits = kind, LIMITS[kind]
        self._before = before
        # Only the event loop touches these, except for the queue that the threads read.
        self._waiting: list[_Job] = []
        self._running: Counter[str] = Counter()
        self._threads = 0
        self._jobs: queue.SimpleQueue[tuple[_Job, asyncio.AbstractEventLoop]] = queue.SimpleQueue()

    async def run(self, work: Callable[[], T], about: str = "") -> T:
        """Run the work in one of the threads and return its result.

        Parameters
        ----------
        work
            A function without parameters; what it raises is raised here.
        about
            The name of the experiment that the work is about.

        Raises
        ------
        RefusalError
            If too many requests are waiting (429), or the work takes too long (503).
        """
        if len(self._waiting) >= self.limits.waiting:
            raise RefusalError(
                429,
                f"{len(self._waiting)} requests of this kind are waiting: try again in a second",
            )
        job = _Job(work, about)
        self._waiting.append(job)
        self._start_jobs()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return cast(T, await job.answer)
        except TimeoutError:
            if not job.answer.cancelled():  # the work itself raised it
                raise
            compiles = ", or a policy is compiled" if self.kind in ("read", "write") else ""
            raise RefusalError(
                503,
                f"no answer within {self.limits.seconds:g} seconds: "
                f"the storage is busy or unreachable{compiles}, try again",
            ) from None
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    def _start_jobs(self) -> None:
        """Start the waiting jobs that may run now."""
        for job in list(self._waiting):
            if self._running.total() >= self.limits.threads:
                return
            if job.about and self._running[job.about] >= self.limits.per_experiment:
                continue
            self._waiting.remove(job)
            self._running[job.about] += 1
            job.started = time.monotonic()
            if self._threads < self._running.total():
                self._threads += 1
                threading.Thread(
                    target=self._work, name=f"{self.kind}-{self._threads}", daemon=True
                ).start()
            self._jobs.put((job, asyncio.get_running_loop()))

    def _work(self) -> None:
        while True:
            job, loop = self._jobs.get()
            done = job.run()
            try:
                loop.call_soon_threadsafe(self._finish, job, *done)
            except RuntimeError:  # the service has ended
                return

    @property
    def is_busy(self) -> bool:
        """Whether any work is running or waiting."""
        return bool(self._running or self._waiting)

    def _finish(self, job: _Job, result: object, error: BaseException | None) -> None:
        rest = (
            _REST_FACTOR * (time.monotonic() - job.started)
            if self._before is not None and self._before.is_busy
            else 0.0
        )
        asyncio.get_running_loop().call_later(min(rest, _MAX_REST), self._free, job)
        if job.answer.done():  # the request was given up
            return
        if error is not None:
            job.answer.set_exception(error)
        else:
            job.answer.set_result(result)

    def _free(self, job: _Job) -> None:
        self._running[job.about] -= 1
        if not self._running[job.about]:
            del self._running[job.about]
        self._start_jobs()


#: Seconds for which the storage's last answer to a health check holds.
_HEALTH_SECONDS = 1.0


class OpenExperiments:
    """Experiments to write to, and separate ones to read from.

    A reader thus never holds a lock that a writer waits for.

    Parameters
    ----------
    storage
        Where the experiments are stored.
    metrics
        What the service counts.
    scans
        Reads long logs, in this process or in another.
    plans
        Saved plans that the page shows, as `Plan.lay_out` gives them.
    """

    def __init__(
        self,
        storage: Storage,
        metrics: Metrics,
        scans: Scans | Worker,
        plans: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.storage, self.metrics, self._scans = storage, metrics, scans
        self.plans = list(plans)
        self.writers: NamedCache[Experiment] = NamedCache(
            storage, lambda name: open_experiment(name, storage)
        )
        self.readers: NamedCache[Experiment] = NamedCache(
            storage, lambda name: open_experiment(name, storage)
        )
        writing = Pool("write")
        self.pools = {kind: Pool(kind, before=writing) for kind in ("read", "scan", "heavy")}
        self.pools |= {kind: Pool(kind) for kind in ("access", "health")} | {"write": writing}
        self._health_lock = asyncio.Lock()
        self._healthy_until = 0.0
        self._health_refusal: RefusalError | None = None

    async def scan(self, kind: str, operation: str, *given: Any, about: str = "") -> Any:
        """Run an operation of `Scans` in the pool of this kind, apart from the writers."""
        return await self.pools[kind].run(lambda: self._scans.call(operation, *given), about)

    async def check_health(self) -> None:
        """Refuse (503) if the storage does not answer or cannot be written.

        The storage is asked at most once a second, however many ask. The reason is only logged.
        """
        async with self._health_lock:
            if time.monotonic() > self._healthy_until:
                self._health_refusal = await self._probe_storage()
                self._healthy_until = time.monotonic() + _HEALTH_SECONDS
        if self._health_refusal is not None:
            raise self._health_refusal

    def close(self) -> None:
        """End the process that reads logs, and close the storage."""
        self._scans.close()
        self.storage.close()

    async def _probe_storage(self) -> RefusalError | None:
        try:
            await self.pools["health"].run(self.storage.prepare)
        except StorageError as error:
            return refuse_for_storage(503, error)
        except RefusalError as refusal:
            return refusal
        return None


class PooledRoute(APIRoute):
    """A route that runs a plain function in a pool: `read` for a GET, `write` for the rest.

    The function has a parameter `experiments` and, mostly, `name`. Coroutines run as they are.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        kind = "read" if options.get("methods") in (None, ["GET"], {"GET"}) else "write"
        super().__init__(
            path,
            endpoint if inspect.iscoroutinefunction(endpoint) else _run_in_pool(endpoint, kind),
            **options,
        )


def _run_in_pool(operation: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @functools.wraps(operation)
    async def run(**given: Any) -> Any:
        pool: Pool = given["experiments"].pools[kind]
        return await pool.run(lambda: operation(**given), given.get("name", ""))

    return run
