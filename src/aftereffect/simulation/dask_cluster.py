"""Dask as the way beyond one machine."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, NamedTuple

from aftereffect.errors import ParameterError, WorkerError
from aftereffect.extras import imported
from aftereffect.simulation.crew import check_jobs

LOCAL = "local"
#: A worker that dies takes its pieces with it; the scheduler gives each to others so many times.
_RETRIES = 2
#: Seconds until a scheduler must have answered, and until a first worker must have joined it.
_ANSWER, _JOIN = 10, 60


class Cluster(NamedTuple):
    """An executor and how many workers it has: what `simulate` takes as ``executor`` and ``jobs``."""

    executor: Executor
    jobs: int


@contextmanager
def dask_cluster(address: str, jobs: int | None = None) -> Iterator[Cluster]:
    """The workers of a Dask scheduler, or processes of this machine.

    Parameters
    ----------
    address
        Of a running scheduler, such as ``tcp://10.0.0.1:8786``; or ``local`` for workers on this machine, which end with the
        block.
    jobs
        How many workers to use; as many as there are, locally as many as there are cores, by default.

    Examples
    --------
    ::

        with dask_cluster("tcp://10.0.0.1:8786") as (executor, jobs):
            study = simulate(policies, environment, horizon, 10_000, executor=executor, jobs=jobs)
    """
    distributed = imported("distributed")
    if address != LOCAL and "://" not in address:
        raise ParameterError(f"a Dask scheduler must be {LOCAL!r} or an address such as tcp://10.0.0.1:8786, got {address!r}")
    with _client(distributed, address, jobs) as client:
        executor = client.get_executor(pure=False, retries=_RETRIES)
        try:
            yield Cluster(executor, jobs or sum(client.nthreads().values()))
        except distributed.KilledWorker as error:
            raise WorkerError(f"Dask gave up: {str(error).partition(chr(10))[0]}") from error
        finally:
            executor.shutdown(wait=False)


@contextmanager
def _client(distributed: Any, address: str, jobs: int | None) -> Iterator[Any]:
    if address == LOCAL:
        with (
            distributed.LocalCluster(
                n_workers=check_jobs(jobs), threads_per_worker=1, dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout=_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:  # also its time-outs; the latter for what is no address
        reason = str(error).partition("\n")[0]
        raise WorkerError(f"no Dask scheduler answers at {address}: {reason}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_JOIN)
        except TimeoutError as error:
            raise WorkerError(
                f"the Dask scheduler at {address} has no workers: start some with dask worker {address}"
            ) from error
        yield client
