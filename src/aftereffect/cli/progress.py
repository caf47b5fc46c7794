"""Progress on standard error, where that is a terminal, and interrupts."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_interrupted = threading.Event()


def catch_interrupts() -> None:
    """Handle Ctrl-C as usual, and remember it: raised while compiled code calls back, it would be lost, and not quietly."""
    signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _lost


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupted.set()
    raise KeyboardInterrupt


def _lost(unraisable: "sys.UnraisableHookArgs") -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)


@contextmanager
def progress_bar(total: int, *, clock: bool = True) -> Iterator[Callable[[str, int], None]]:
    """What to call with a title and the number of steps just finished; with `clock`, steps tell the time that is left."""
    if not sys.stderr.isatty():
        yield lambda *_: _go_on()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *([TimeRemainingColumn()] if clock else [])]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def show(title: str, finished: int) -> None:
            _go_on()
            bar.update(task, advance=finished, description=title)

        yield show


def _go_on() -> None:
    if _interrupted.is_set():
        raise KeyboardInterrupt
