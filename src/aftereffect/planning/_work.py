"""Hands out the worlds of a plan to processes, and keeps what is finished in a folder."""

import hashlib
import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from threading import Thread
from typing import TypeAlias

from aftereffect._core import (
    PACKAGE,
    atomic_write,
    check_creatable_folder,
    describe_code,
    lock_folder,
    make_folder,
    sources_digest,
)
from aftereffect.errors import ParameterError
from aftereffect.planning._jobs import Job, Outcome, play_job, prepare_job
from aftereffect.simulation import check_jobs, check_made_by, explain_failure

#: Seconds between two looks at whether the parent is there.
_PAUSE = 1.0
#: What came back: the code that played, and the outcomes.
Played: TypeAlias = tuple[str, list[Outcome]]
#: Hands out a job.
Submit = Callable[[Job], "Future[Played]"]


@contextmanager
def open_folder(folder: str | os.PathLike[str] | None) -> Iterator[Path | None]:
    """Make and lock a folder, if there is one."""
    if folder is None:
        yield None
        return
    target = check_creatable_folder(Path(folder))
    make_folder(target)
    with lock_folder(target):
        yield target


@contextmanager
def open_pool(
    jobs: int | None, executor: Executor | None, examples: Sequence[Job]
) -> Iterator[Submit]:
    """Start `jobs` processes, or use an executor. One process is this one.

    A job of each design is an example: what it needs is compiled before the processes start.
    """
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise ParameterError(
                f"executor must be a concurrent.futures.Executor, got {executor!r}"
            )
        yield lambda job: executor.submit(play_there, job)
        return
    count = check_jobs(jobs)
    if count == 1:
        yield _play_here
        return
    # A forked process knows what is imported and compiled. Other ones import the script of the
    # user again.
    method = "fork" if "fork" in get_all_start_methods() else "spawn"
    for job in examples:
        prepare_job(job)
    pool = ProcessPoolExecutor(
        count,
        mp_context=get_context(method),
        initializer=_follow_parent,
        initargs=(os.getpid(),),
    )

    def submit(job: Job) -> "Future[Played]":
        with warnings.catch_warnings():
            # Python warns of forks if there are threads, such as those of linear algebra, which
            # know how to be forked.
            warnings.simplefilter("ignore", DeprecationWarning)
            return pool.submit(play_there, job)

    try:
        yield submit
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _follow_parent(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when it has ended, however it did."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def play_there(job: Job) -> Played:
    """Play a job in another process, and say which code played it."""
    return _describe_sources(), play_job(job)


def _play_here(job: Job) -> "Future[Played]":
    done: Future[Played] = Future()
    done.set_result((_describe_sources(), play_job(job)))
    return done


def play_jobs(
    jobs: Sequence[Job], submit: Submit, folder: Path | None, note: Callable[[Job], None]
) -> dict[int, list[Outcome]]:
    """Play jobs, or take what the folder has of them; by their number."""
    found: dict[int, list[Outcome]] = {}
    waiting: dict[Future[Played], int] = {}
    for number, job in enumerate(jobs):
        known = None if folder is None else _load(folder, job)
        if known is not None:
            found[number] = known
            note(job)
            continue
        with _explaining(job):
            future = submit(job)
        if future.done():  # it was played here
            _keep(found, number, job, future, folder)
            note(job)
        else:
            waiting[future] = number
    try:
        for future in as_completed(waiting):
            number = waiting[future]
            _keep(found, number, jobs[number], future, folder)
            note(jobs[number])
    finally:
        for future in waiting:
            future.cancel()
    return found


def _keep(
    found: dict[int, list[Outcome]],
    number: int,
    job: Job,
    future: "Future[Played]",
    folder: Path | None,
) -> None:
    with _explaining(job):
        made_by, found[number] = future.result()
    check_made_by(made_by, _describe_sources())
    if folder is not None:
        with atomic_write(_name(folder, job)) as draft:
            draft.write_text(json.dumps(found[number]), encoding="utf-8")


@contextmanager
def _explaining(job: Job) -> Iterator[None]:
    """Say why workers could not do a job, if it is not the job that failed."""
    try:
        yield
    except Exception as error:
        reason = explain_failure(error, str(job.design))
        if reason is None:
            raise
        raise reason from error


def _name(folder: Path, job: Job) -> Path:
    """The file of a job: its name says all that the outcomes depend on."""
    recipe = job.recipe
    described = [_describe_sources(), str(job.design), job[2:], recipe[1:], recipe.past[2:]]
    digest = hashlib.sha256(repr(described).encode() + recipe.past.totals.tobytes()).hexdigest()
    return folder / f"{digest[:24]}.json"


@cache
def _describe_sources() -> str:
    """The code that outcomes depend on."""
    digest = sources_digest(PACKAGE / name for name in ("inference", "planning"))
    return f"{describe_code()}, plans {digest[:12]}"


def _load(folder: Path, job: Job) -> list[Outcome] | None:
    try:
        rows = json.loads(_name(folder, job).read_text(encoding="utf-8"))
        outcomes = [Outcome(*row)._replace(found=tuple(row[-1])) for row in rows]
    except (OSError, ValueError, TypeError):
        return None  # not there, or damaged: it is played again
    return outcomes if len(outcomes) == len(job.worlds) else None
