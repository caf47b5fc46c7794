"""Prints how far something is: as a bar on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_BAR = 30
#: Seconds between two updates of a bar, and between two lines.
_BAR_PAUSE, _LINE_PAUSE = 0.2, 10.0


@contextmanager
def print_progress(total: int, unit: str) -> Iterator[Callable[..., None]]:
    """Yield a function to call with the number of steps just finished, and perhaps a remark.

    Elsewhere than on a terminal nothing is printed before the first ten seconds, so that short runs
    stay silent but for one last line.
    """
    is_terminal = sys.stderr.isatty()
    pause = _BAR_PAUSE if is_terminal else _LINE_PAUSE
    done, printed = 0, time.monotonic()

    def show(finished: int, remark: str = "") -> None:
        nonlocal done, printed
        done += finished
        if time.monotonic() - printed >= pause and done < total:
            printed = time.monotonic()
            _print(done, total, unit, remark, is_terminal=is_terminal)

    try:
        yield show
        _print(done, total, unit, "", is_terminal=is_terminal)
    finally:
        if is_terminal:
            print(file=sys.stderr)


def _print(done: int, total: int, unit: str, remark: str, *, is_terminal: bool) -> None:
    text = f"{done:,} of {total:,} {unit}{f', {remark}' if remark else ''}"
    if is_terminal:
        filled = _BAR * done // max(total, 1)
        bar = "#" * filled + "-" * (_BAR - filled)
        print(f"\r[{bar}] {text}\x1b[K", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)
