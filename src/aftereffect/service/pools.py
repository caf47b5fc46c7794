"""Threads for each kind of work, so that no kind can take those of another; what finds its queue full is refused at once."""

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

from aftereffect.service.problems import RefusalError

T = TypeVar("T")


class Limits(NamedTuple):
    """How much of one kind is done and waits.

    Threads at work at once, and of those at most so many for one experiment; requests that may wait beside them; and after
    how many seconds a request is answered without a result, while its thread goes on.
    """

    threads: int
    of_one: int
    waiting: int
    seconds: float


#: By kind of work. `access` looks up tokens; `write` changes experiments; `read` tells how they stand; `scan` reads pieces of a
#: log and `heavy` a whole one, both in a process of their own.
LIMITS = {
    "access": Limits(4, 4, 1_024, 20.0),
    "health": Limits(1, 1, 256, 5.0),
    "write": Limits(16, 4, 256, 25.0),
    "read": Limits(2, 2, 64, 25.0),
    "scan": Limits(2, 2, 64, 60.0),
    "heavy": Limits(2, 1, 64, 300.0),
}


#: How many times as long as it worked a thread rests while others come first, and for how many seconds at most.
_RESTS, _MAX_REST = 5, 0.25


@dataclass(eq=False)
class _Job:
    work: Callable[[], object]
    about: str
    begun: float = 0.0
    answer: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def do(self) -> tuple[object, BaseException | None]:
        try:
            return self.work(), None
        except BaseException as error:
            return None, error


class Pool:
    """The threads of one kind of work.

    They are daemons: one that hangs, in a database that no longer answers for example, does not keep the service from ending.
    A request that is given up leaves its thread occupied until the work is done: hanging work cannot pile up.

    Parameters
    ----------
    kind
        The kind of work.
    before
        The pool of those who come first: while these are at work, each thread here rests after its work for some times as long
        as that took. All threads share one interpreter, and without it short work that is asked for often enough takes most.
    """

    def __init__(self, kind: str, before: "Pool | None" = None) -> None:
        self.kind, self.limits = kind, LIMITS[kind]
        self._before = before
        # All of these but the queue of the threads belong to the event loop.
        self._waiting: list[_Job] = []
        self._at_work: Counter[str] = Counter()
        self._threads = 0
        self._begun: queue.SimpleQueue[tuple[_Job, asyncio.AbstractEventLoop]] = queue.SimpleQueue()

    async def run(self, work: Callable[[], T], about: str = "") -> T:
        """What the work gives, done in one of the threads.

        Parameters
        ----------
        work
            Takes nothing; what it raises is raised here.
        about
            The experiment that it is about.

        Raises
        ------
        RefusalError
            If too much waits already (429), or it takes too long (503).
        """
        if len(self._waiting) >= self.limits.waiting:
            raise RefusalError(429, f"{len(self._waiting)} requests of this kind wait already: try again in a moment")
        job = _Job(work, about)
        self._waiting.append(job)
        self._begin()
        try:
            async with asyncio.timeout(self.limits.seconds):
                return cast(T, await job.answer)
        except TimeoutError:
            if not job.answer.cancelled():  # the work itself raised it
                raise
            message = f"no answer within {self.limits.seconds:g} seconds: the storage is away or busy, try again"
            raise RefusalError(503, message) from None
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    def _begin(self) -> None:
        """Hand out what may be worked on now."""
        for job in list(self._waiting):
            if self._at_work.total() >= self.limits.threads:
                return
            if job.about and self._at_work[job.about] >= self.limits.of_one:
                continue
            self._waiting.remove(job)
            self._at_work[job.about] += 1
            job.begun = time.monotonic()
            if self._threads < self._at_work.total():
                self._threads += 1
                threading.Thread(target=self._serve, name=f"{self.kind}-{self._threads}", daemon=True).start()
            self._begun.put((job, asyncio.get_running_loop()))

    def _serve(self) -> None:
        while True:
            job, loop = self._begun.get()
            done = job.do()
            try:
                loop.call_soon_threadsafe(self._finish, job, *done)
            except RuntimeError:  # the service has ended meanwhile
                return

    @property
    def busy(self) -> bool:
        """Whether anything is being done or waits."""
        return bool(self._at_work or self._waiting)

    def _finish(self, job: _Job, result: object, error: BaseException | None) -> None:
        rest = _RESTS * (time.monotonic() - job.begun) if self._before is not None and self._before.busy else 0.0
        asyncio.get_running_loop().call_later(min(rest, _MAX_REST), self._free, job)
        if job.answer.done():  # given up
            return
        if error is not None:
            job.answer.set_exception(error)
        else:
            job.answer.set_result(result)

    def _free(self, job: _Job) -> None:
        self._at_work[job.about] -= 1
        if not self._at_work[job.about]:
            del self._at_work[job.about]
        self._begin()
