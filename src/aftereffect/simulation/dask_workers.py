"""Dask as the way beyond one machine."""

import logging
import pickle
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from aftereffect.errors import ParameterError, WorkerError
from aftereffect.extras import imported
from aftereffect.provenance import made_by
from aftereffect.simulation.crew import MOST_WORKERS, check_jobs

LOCAL = "local"
#: How often a piece that failed on a worker is tried again. Pieces of workers that die go to others without being counted here.
_RETRIES = 2
#: Seconds until a scheduler must have answered, and until it must have workers: at first, and again when it has lost all.
_ANSWER, _JOIN = 10, 60
_ADDRESS = re.compile(r"[a-z]+://.+:\d+")


class Cluster(NamedTuple):
    """An executor and how many workers it has: what `simulate` takes as ``executor`` and ``jobs``."""

    executor: Executor
    jobs: int


@contextmanager
def dask_cluster(address: str, jobs: int | None = None) -> Iterator[Cluster]:
    """The workers of a Dask scheduler, or processes of this machine. Needs the extra ``dask``.

    Parameters
    ----------
    address
        Of a running scheduler, such as ``tcp://10.0.0.1:8786``; or ``local`` for workers on this machine, which end with the
        block. A script that starts those must do so below ``if __name__ == "__main__":``, as they import it.
    jobs
        How many workers to keep busy; as many as there are, locally as many as there are cores, by default.

    Examples
    --------
    ::

        with dask_cluster("tcp://10.0.0.1:8786") as (executor, jobs):
            study = simulate(policies, environment, horizon, 10_000, executor=executor, jobs=jobs)
    """
    distributed = imported("distributed")
    workers = None if jobs is None else check_jobs(jobs, MOST_WORKERS)
    if address != LOCAL and not _ADDRESS.fullmatch(address):
        raise ParameterError(f"a Dask scheduler must be {LOCAL!r} or an address such as tcp://10.0.0.1:8786, got {address!r}")
    connected = _local(distributed, workers) if address == LOCAL else _remote(distributed, address)
    with connected as client:
        executor = _Packing(client.get_executor(pure=False, retries=_RETRIES), distributed.protocol.pickle.dumps)
        with _watched(client, executor):
            try:
                yield Cluster(executor, workers or sum(client.nthreads().values()))
            except (distributed.KilledWorker, distributed.comm.CommClosedError) as error:
                raise WorkerError(f"Dask gave up: {str(error).partition(chr(10))[0]}") from error
            finally:
                executor.shutdown(wait=False)


class _Packing(Executor):
    """Sends calls as bytes: what a worker cannot unpack is then an error of that call, and not the end of the worker."""

    def __init__(self, inner: Executor, pack: Callable[[Any], bytes]) -> None:
        self._inner, self._pack = inner, pack

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **settings: Any) -> "Future[Any]":
        return self._inner.submit(_call, self._pack((function, arguments, settings)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait)  # Dask's cancels what waits, and takes no other word


def _call(packed: bytes) -> Any:
    function, arguments, settings = pickle.loads(packed)
    return function(*arguments, **settings)


@contextmanager
def _local(distributed: Any, workers: int | None) -> Iterator[Any]:
    settings = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with _ignored_by_children():
        cluster = distributed.LocalCluster(n_workers=check_jobs(workers), **settings)
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _ignored_by_children() -> Iterator[None]:
    """Processes that start meanwhile do not hear Ctrl-C: it is for the one that started them, which will end them."""
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
    except (OSError, ValueError) as error:  # also its time-outs; the latter for what is no address
        raise WorkerError(f"no Dask scheduler answers at {address}: {str(error).partition(chr(10))[0]}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_JOIN)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {address} has no workers: start some with dask worker {address}"
            ) from error
        try:
            client.run(made_by)  # what they run is compared with each result; here, that they have it
        except ImportError as error:
            raise WorkerError(f"the Dask workers at {address} lack this package ({error}): install it there") from error
        yield client


@contextmanager
def _watched(client: Any, executor: Executor) -> Iterator[None]:
    """Give up when no worker is left for a while: Dask would wait for ever, and say nothing."""
    over = threading.Event()

    def watch() -> None:
        alone = 0
        while not over.wait(1):
            with suppress(OSError, ValueError):  # while the connection is lost, or closed meanwhile
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
