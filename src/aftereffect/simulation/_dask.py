"""A Dask cluster as an executor: calls go as bytes, and a lost scheduler is an error."""

import asyncio
import logging
import pickle
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

from aftereffect._core import describe_code, import_optional
from aftereffect.errors import ParameterError, WorkerError
from aftereffect.simulation._workers import ALL_CORES, MAX_WORKERS, check_jobs

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
