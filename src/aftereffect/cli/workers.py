"""Who does the work of a command: threads, or the workers of a Dask cluster."""

import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Annotated, TypeAlias, TypedDict

from cyclopts import Parameter

from aftereffect.cli.values import Number
from aftereffect.simulation.crew import check_jobs
from aftereffect.simulation.dask_workers import dask_cluster

Jobs: TypeAlias = Annotated[Number, Parameter(help="Threads, or with --dask its workers to keep busy; all of them by default.")]
DaskAddress: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="ADDRESS",
        help="Play on the workers of this Dask scheduler (tcp://10.0.0.1:8786), or on 'local' ones; needs the extra dask.",
    ),
]


class Workers(TypedDict):
    """As `simulate` and its kin take them."""

    jobs: int | None
    executor: Executor | None


@contextmanager
def workers(dask: str | None, jobs: int | None) -> Iterator[Workers]:
    """The workers that the options ``--dask`` and ``--jobs`` ask for."""
    if dask is None:
        check_jobs(jobs)
        yield Workers(jobs=jobs, executor=None)
        return
    for name in ("distributed", "distributed.client", "tornado"):  # what goes wrong is told in one line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask_cluster(dask, jobs) as cluster:
        yield Workers(jobs=cluster.jobs, executor=cluster.executor)
