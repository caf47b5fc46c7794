"""What all commands share: how users write values, who does the work, and how progress is shown."""

import logging
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar

from cyclopts import Parameter, Token

from aftereffect._core import PICTURE_SUFFIXES, check_writable, require_extra
from aftereffect.errors import ParameterError
from aftereffect.simulation import check_jobs, dask_cluster

if TYPE_CHECKING:
    from aftereffect.sweeps import Progress

Format: TypeAlias = Literal["table", "json", "csv"]

#: Seconds between two lines about progress where standard error is not a terminal.
_PAUSE = 30
_WHOLE = re.compile(r"[+-]?\d+")
_interrupted = threading.Event()
T = TypeVar("T")


def read_number(text: str) -> int | float:
    """Read a number in plain digits.

    Python would also accept ``1_000``, the digits of other scripts, and 0 for a number too small.
    """
    plain = text.strip()
    try:
        if not plain.isascii() or "_" in plain:
            raise ValueError
        number = int(plain) if _WHOLE.fullmatch(plain) else float(plain)
    except ValueError:
        raise ParameterError(f"expected a number, got {text!r}") from None
    if number == 0 and re.search("[1-9]", plain.lower().partition("e")[0]):
        raise ParameterError(
            f"expected 0, or a number of at least {math.ulp(0.0):.0g} without its sign, "
            f"got {text!r}"
        )
    return number


def read_share(text: str) -> float:
    """Read a share: .1 or 10%.

    >>> read_share("10%")
    0.1
    """
    whole, percent, rest = text.strip().partition("%")
    if rest:
        raise ParameterError(f"expected a share such as .1 or 10%, got {text!r}")
    return read_number(whole) / (100 if percent else 1)


def read_by_name(
    what: str, example: str, text: str | None, read: Callable[[str], T]
) -> dict[str, T] | None:
    """Read several numbers or texts, each after its name; None if nothing is given.

    >>> read_by_name("floors", "B=5%,C=2%", "B=5%,C=.02", read_share)
    {'B': 0.05, 'C': 0.02}
    """
    if text is None:
        return None
    found: dict[str, T] = {}
    for part in text.split(","):
        name, equals, written = part.rpartition("=")
        if not equals or name.strip() in found:
            raise ParameterError(
                f"expected {what} by name, once each, such as {example}, got {text!r}"
            )
        found[name.strip()] = read(written)
    return found


def _convert_share(type_: Any, tokens: Sequence[Token]) -> float:
    share = read_share(tokens[0].value)
    if share > 1:
        raise ParameterError(f"expected a share such as .1 or 10%, got {tokens[0].value!r}")
    return share


def _convert_number(type_: Any, tokens: Sequence[Token]) -> int | float:
    return read_number(tokens[0].value)


def _convert_slot(type_: Any, tokens: Sequence[Token]) -> int | float | str:
    """Read the number of a slot, or its time as text."""
    text = tokens[0].value
    if re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    try:
        return read_number(text)
    except ParameterError:
        raise ParameterError(
            "expected the number of a slot, or the time at which it begins, such as "
            f"2026-03-02T00:00, got {text!r}"
        ) from None


def _convert_numbers(type_: Any, tokens: Sequence[Token]) -> tuple[int | float, ...]:
    if len(tokens) > 1:
        together = ",".join(token.value for token in tokens)
        raise ParameterError(f"expected one list of numbers with commas, such as {together}")
    return tuple(read_number(part) for part in tokens[0].value.split(","))


def _convert_file(type_: Any, tokens: Sequence[Token]) -> Path:
    """Read a path to a file. A slash at the end, which Python's paths drop, means a folder."""
    text = tokens[0].value
    if text.endswith(("/", os.sep)):
        raise ParameterError(f"expected a file, got the folder {text!r}: name a file in it")
    return Path(text)


class _Unchecked:
    """Keeps pydantic from checking a converted value again, with other messages.

    Cyclopts uses pydantic wherever something else has imported it.
    """

    def __get_pydantic_core_schema__(self, *_: object) -> dict[str, str]:
        return {"type": "any"}


StorageUrl: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="URL",
        env_var="AFTEREFFECT_STORAGE",
        help="The database that contains the experiments: sqlite:///file.db or "
        "postgresql+psycopg://user:password@host/database.",
    ),
]
Name: TypeAlias = Annotated[str, Parameter(help="The name of the experiment.")]
PrintFormat: TypeAlias = Annotated[Format, Parameter(help="How to print the answer.")]
Flag: TypeAlias = Annotated[bool, Parameter(negative=(), show_default=False)]
SpecText: TypeAlias = Annotated[str, Parameter(metavar="SPEC")]
_NUMBER = Parameter(
    converter=_convert_number, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER"
)
#: Where a number is used, Python's own check says whether it is whole and in range.
Number: TypeAlias = Annotated[int, _NUMBER, _Unchecked()]
#: The number of a slot, or the time at which it begins.
SlotText: TypeAlias = Annotated[
    int | str,
    Parameter(
        converter=_convert_slot, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER|TIME"
    ),
    _Unchecked(),
]
RealNumber: TypeAlias = Annotated[float, _NUMBER, _Unchecked()]
#: A share, such as .1 or 10%.
Share: TypeAlias = Annotated[
    float,
    Parameter(
        converter=_convert_share, n_tokens=1, allow_leading_hyphen=True, metavar="NUMBER|PERCENT"
    ),
    _Unchecked(),
]
Numbers: TypeAlias = Annotated[
    tuple[float, ...],
    Parameter(
        converter=_convert_numbers,
        n_tokens=1,
        allow_leading_hyphen=True,
        negative=(),
        json_list=False,
        metavar="NUMBER,...",
    ),
    _Unchecked(),
]
OutputFile: TypeAlias = Annotated[
    Path, Parameter(converter=_convert_file, n_tokens=1, metavar="FILE"), _Unchecked()
]
#: An option that may be repeated, with a file each time.
_REPEATED = Parameter(negative=(), consume_multiple=False, metavar="FILE", show_default=False)
Files: TypeAlias = Annotated[tuple[Path, ...], _REPEATED]
OutputFiles: TypeAlias = Annotated[tuple[OutputFile, ...], _REPEATED]
Folder: TypeAlias = Annotated[Path, Parameter(metavar="FOLDER")]
Jobs: TypeAlias = Annotated[
    Number,
    Parameter(
        help="The number of threads, or with --dask the number of workers. The default is one "
        "thread per core, or all workers."
    ),
]
DaskAddress: TypeAlias = Annotated[
    str,
    Parameter(
        metavar="ADDRESS",
        help="Run on a Dask cluster: the address of its scheduler, such as tcp://10.0.0.1:8786, "
        'or "local" for one on this machine (needs the extra "dask").',
    ),
]


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
