"""What several commands do: ask, show progress, stop when interrupted, and connect to workers."""

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypedDict

from aftereffect._core import PICTURE_SUFFIXES, check_writable, require_extra
from aftereffect.errors import ParameterError
from aftereffect.simulation import check_jobs, dask_cluster

if TYPE_CHECKING:
    from aftereffect.sweeps import Progress


#: Seconds between two lines about progress where standard error is not a terminal.
_PAUSE = 30
_interrupted = threading.Event()


class WorkerOptions(TypedDict):
    """The parameters `jobs` and `executor` of `simulate`, `Sweep.play` and `reproduce`."""

    jobs: int | None
    executor: Executor | None


@contextmanager
def connect_workers(dask: str | None, jobs: int | None) -> Iterator[WorkerOptions]:
    """Give the workers that the options ``--dask`` and ``--jobs`` ask for."""
    if dask is None:
        check_jobs(jobs)
        yield WorkerOptions(jobs=jobs, executor=None)
        return
    for name in ("distributed", "distributed.client", "tornado"):
        # What goes wrong is raised as an error of ours, and printed in one line.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask_cluster(dask, jobs) as cluster:
        yield WorkerOptions(jobs=cluster.jobs, executor=cluster.executor)


def check_picture(path: Path | None) -> None:
    """Refuse a picture that could not be written, before the work that it shows."""
    if path is not None:
        require_extra("plot")
        check_writable(path, PICTURE_SUFFIXES)


def confirm(command: str, question: str, *last: str) -> bool:
    """Ask the user whether to do what cannot be undone.

    `last` is a second question and the only answer to it that counts as yes.
    """
    if not sys.stdin.isatty():
        raise ParameterError(f"{command} asks before it acts, and there is no terminal: give --yes")
    try:
        if input(question).strip().lower() not in ("y", "yes"):
            return False
        return not last or input(last[0]).strip() == last[1]
    except EOFError:
        return False


def catch_interrupts() -> None:
    """Handle Ctrl-C as usual, and remember it.

    An interrupt raised inside a callback from compiled code would be swallowed, with a warning.
    """
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _hide_interrupts


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupted.set()
    raise KeyboardInterrupt


def _hide_interrupts(unraisable: "sys.UnraisableHookArgs") -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


def _stop_if_interrupted() -> None:
    if _interrupted.is_set():
        raise KeyboardInterrupt


@contextmanager
def progress_bar(total: int | None, *, clock: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error where that is a terminal.

    Gives a function to call with a title and the number of steps just finished; and with the number
    of all steps, if that was not known before. With `clock` the bar shows the time left.
    """
    if not sys.stderr.isatty():
        yield lambda *_: _stop_if_interrupted()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([TimeRemainingColumn()] if clock else []),
    ]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def show(title: str, finished: int, total: int | None = None) -> None:
            _stop_if_interrupted()
            bar.update(task, advance=finished, description=title, total=total)

        yield show


@contextmanager
def show_progress_of_cells(cells: int) -> Iterator[Callable[["Progress"], None]]:
    """Show a bar on a terminal, and elsewhere, for the logs of long sweeps, a line now and then."""
    before, printed_at = 0, time.monotonic()
    with progress_bar(cells, clock=False) as bar:

        def show(stage: "Progress") -> None:
            nonlocal before, printed_at
            left = _time_left(stage.seconds_left)
            bar(left, stage.complete - before)
            before = stage.complete
            if not sys.stderr.isatty() and time.monotonic() - printed_at > _PAUSE:
                printed_at = time.monotonic()
                line = f"{stage.complete:,} of {count_cells(cells)}, {left}"
                print(line, file=sys.stderr, flush=True)

        yield show


def count_cells(count: int) -> str:
    """A number of cells, in words."""
    return f"{count:,} cell{'' if count == 1 else 's'}"


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return "starting"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"about {hours} h {minutes} min left"
    return f"about {minutes} min left" if seconds > 90 else f"about {seconds:.0f} s left"
