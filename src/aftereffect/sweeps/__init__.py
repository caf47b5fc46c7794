"""Sweeps: a grid of studies that a file describes, and that can be stopped and continued.

Each study is written to a file of its own as soon as it is complete.
"""

import math
import os
import re
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from aftereffect._core import check_creatable_folder, lock_folder, make_folder, require_extra
from aftereffect.errors import InputError, SweepError
from aftereffect.simulation import Task, Workers, print_progress, run_tasks, worker_pool
from aftereffect.sweeps._cells import Cell, make_cells
from aftereffect.sweeps._grid import read_grid
from aftereffect.sweeps._problems import Problems
from aftereffect.sweeps._results import SweepResults

__all__ = [
    "Cell",
    "Progress",
    "Sweep",
    "SweepResults",
]


#: In about the first so many seconds workers count as busy all the time, because they compile;
#: afterwards the measured share counts.
_WARM_UP = 10.0


class Progress(NamedTuple):
    """How far a sweep is: complete cells, and about how many seconds are left, once that is known.

    >>> Progress(complete=3, seconds_left=None).complete
    3
    """

    complete: int
    seconds_left: float | None


@dataclass(frozen=True)
class Sweep:
    r"""The cells of a sweep file.

    Examples
    --------
    >>> import pathlib
    >>> text = '[grid]\npolicy = ["ucb1", "round-robin"]\narms = [2, 3]\nhorizon = 100'
    >>> _ = pathlib.Path("sweep.toml").write_text(text)
    >>> sweep = Sweep.read("sweep.toml")
    >>> len(sweep)
    4
    >>> results = sweep.play("results")
    >>> results.reused, sweep.play("results").reused
    (0, 4)
    """

    cells: tuple[Cell, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Sweep":
        """Read a TOML file with a table ``[grid]``, and ``[parameters]`` for names in braces.

        Raises
        ------
        SweepError
            With a line for everything that is wrong.
        """
        source = Path(path)
        try:
            text = source.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise InputError(f"cannot read {source}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"cannot read {source}: it is not text in UTF-8") from None
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SweepError([f"{source}: not TOML: {error}{_hint(text, error)}"]) from None
        problems = Problems(str(source), document)
        return cls(make_cells(read_grid(document, problems), source.parent, problems))

    def __len__(self) -> int:
        return len(self.cells)

    def play(
        self,
        folder: str | os.PathLike[str],
        *,
        jobs: int | None = None,
        executor: Executor | None = None,
        progress: bool | Callable[[Progress], None] | None = None,
    ) -> SweepResults:
        """Play every cell that is not finished yet.

        A cell's file, as `Study.save` writes it, appears when the cell is complete. A sweep that
        was stopped at any time continues where it was. Cells that other code has played, or whose
        file is damaged, are played again. Files of cells that the sweep does not have any more
        stay where they are.

        Parameters
        ----------
        folder
            Where the results go; made if it does not exist.
        jobs, executor
            Who plays, as in `simulate`.
        progress
            True prints progress to standard error. A function is called now and then with how far
            it is.
        """
        require_extra("data")
        target = check_creatable_folder(Path(folder))
        printing = print_progress(len(self), "cells") if progress is True else nullcontext()
        with worker_pool(jobs, executor) as workers:
            make_folder(target)
            with lock_folder(target), printing as show:
                report = progress if callable(progress) else _reporter(show)
                reused = self._complete(target, workers, report)
        return SweepResults(target, self.cells, reused)

    def _complete(self, folder: Path, workers: Workers, report: Callable[[Progress], None]) -> int:
        """Play the missing cells, and return how many were there."""
        missing = [
            cell for cell in self.cells if cell.plan.load_finished(cell.path(folder)) is None
        ]
        owners: dict[Task, Cell] = {task: cell for cell in missing for task in cell.plan.tasks}
        estimate = Estimate(owners, workers.size)
        reused = complete = len(self.cells) - len(missing)
        left, estimated_at = None, 0.0

        def note(task: Task, replications: int, seconds: float) -> None:
            nonlocal left, estimated_at
            estimate.note(task, replications, seconds)
            if time.monotonic() > estimated_at + 1:  # there may be many chunks in a second
                left, estimated_at = estimate.seconds_left(), time.monotonic()
            report(Progress(complete, left))

        report(Progress(complete, left))
        for task, result in run_tasks(owners, workers, note):
            cell = owners[task]
            cell.plan.assemble([(task, result)]).save(cell.path(folder))
            complete += 1
        report(Progress(complete, 0.0))
        return reused


def _reporter(show: Callable[..., None] | None) -> Callable[[Progress], None]:
    if show is None:
        return lambda _: None
    before = 0

    def report(progress: Progress) -> None:
        nonlocal before
        left = progress.seconds_left
        show(progress.complete - before, "" if left is None else f"about {left:,.0f} s left")
        before = progress.complete

    return report


def _hint(text: str, error: Exception) -> str:
    """Return advice for a common mistake."""
    position = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
    if position is None:
        return ""
    line, column = int(position[1]), int(position[2])
    starts_with_dot = text.split("\n")[line - 1][column - 1 :].startswith(".")
    return ", numbers begin with a digit, such as 0.9" if starts_with_dot else ""


class _Group(NamedTuple):
    """Tasks that are assumed to take the same time per replication."""

    policy: str
    horizon: int
    arms: int

    @property
    def size(self) -> float:
        return math.sqrt(self.horizon) * self.arms


class Estimate:
    """How long a sweep will take, learned while it runs.

    Cells that were not measured yet are assumed to cost as much as others of the same policy, or
    else as all others: per arm, and per square root of the horizon, which is between what the
    fastest and the slowest policies take.
    """

    def __init__(self, tasks: Iterable[Task], workers: int) -> None:
        self._workers = workers
        self._start = time.monotonic()
        self._left: Counter[_Group] = Counter()
        self._measured: Counter[_Group] = Counter()
        self._seconds: defaultdict[_Group, float] = defaultdict(float)
        for task in tasks:
            self._left[_group_of(task)] += len(task.replications)

    def note(self, task: Task, replications: int, seconds: float) -> None:
        """Note that some replications of a task took so much processor time."""
        group = _group_of(task)
        self._left[group] -= replications
        self._measured[group] += replications
        self._seconds[group] += seconds

    def seconds_left(self) -> float | None:
        """Estimate the seconds until the end; None before anything is known."""
        if not self._measured:
            return None
        busy = sum(self._seconds.values())
        overall = busy / sum(count * group.size for group, count in self._measured.items())
        by_policy = {
            policy: self._rate(policy) for policy in {group.policy for group in self._measured}
        }
        to_do = 0.0
        for group, count in self._left.items():
            measured = self._measured.get(group)
            guess = by_policy.get(group.policy, overall) * group.size
            to_do += count * (self._seconds[group] / measured if measured else guess)
        passed = time.monotonic() - self._start
        return to_do * (passed + _WARM_UP) / (busy + _WARM_UP * self._workers)

    def _rate(self, policy: str) -> float:
        """Return the seconds of a replication of size 1."""
        groups = [group for group in self._measured if group.policy == policy]
        return sum(self._seconds[group] for group in groups) / sum(
            self._measured[group] * group.size for group in groups
        )


def _group_of(task: Task) -> _Group:
    return _Group(type(task.policy).__name__, task.horizon, task.bandit.arms)
