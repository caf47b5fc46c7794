"""A sweep: a grid of studies, each kept in a file of its own as soon as it is complete."""

import os
import re
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from aftereffect.errors import InputError, SweepError
from aftereffect.extras import require
from aftereffect.outputs import creatable_folder, locked, make_folder
from aftereffect.simulation.crew import Crew, hired, work
from aftereffect.simulation.replications import Task
from aftereffect.sweeps.cells import Cell, cells_of
from aftereffect.sweeps.estimate import Estimate
from aftereffect.sweeps.grid import grid_of
from aftereffect.sweeps.places import places_in
from aftereffect.sweeps.problems import Problems
from aftereffect.sweeps.results import SweepResults


class Stage(NamedTuple):
    """How far a sweep is: cells complete, and about how many seconds until the end, once that is known."""

    complete: int
    seconds_left: float | None


@dataclass(frozen=True)
class Sweep:
    """The cells of a sweep file.

    Examples
    --------
    ::

        results = Sweep.read("sweep.toml").play("results")
        results.to_polars()  # a row per cell
        for cell, study in results: ...
    """

    cells: tuple[Cell, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Sweep":
        """Read a TOML file with a table ``[grid]``, and ``[parameters]`` for what its texts name in braces.

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
        except (ValueError, RecursionError) as error:  # the latter, and a plain ValueError, for what no one would write
            raise SweepError([_not_toml(source, text, error)]) from None
        problems = Problems(str(source), places_in(text))
        return cls(cells_of(grid_of(document, problems), source.parent, problems))

    def __len__(self) -> int:
        return len(self.cells)

    def play(
        self,
        folder: str | os.PathLike[str],
        *,
        jobs: int | None = None,
        executor: Executor | None = None,
        progress: Callable[[Stage], None] | None = None,
    ) -> SweepResults:
        """Play every cell that is not there yet.

        A cell's file, as `Study.save` writes it, appears when it is complete. Stopped at any time and played again, a sweep
        goes on where it was; cells that other code has played, or that are damaged, are played again. Files of cells that the
        sweep does not name any more stay where they are.

        Parameters
        ----------
        folder
            Where the results go; made if it does not exist.
        jobs, executor
            Who plays, as in `simulate`.
        progress
            Called now and then with how far it is.
        """
        require("data")
        target = creatable_folder(Path(folder))
        with hired(jobs, executor) as crew:
            make_folder(target)
            with locked(target):
                found = self._complete(target, crew, progress or (lambda _: None))
        return SweepResults(target, self.cells, found)

    def _complete(self, folder: Path, crew: Crew, progress: Callable[[Stage], None]) -> int:
        """Play what is missing, and tell how many cells were there."""
        missing = [cell for cell in self.cells if cell.plan.kept(cell.path(folder)) is None]
        owners: dict[Task, Cell] = {task: cell for cell in missing for task in cell.plan.tasks}
        estimate = Estimate(owners, crew.workers)
        found = complete = len(self.cells) - len(missing)

        left, told = None, 0.0

        def note(task: Task, replications: int, seconds: float) -> None:
            nonlocal left, told
            estimate.note(task, replications, seconds)
            if time.monotonic() > told + 1:  # pieces may be many
                left, told = estimate.seconds_left(), time.monotonic()
            progress(Stage(complete, left))

        progress(Stage(complete, left))
        for done in work(owners, crew, note):
            cell = owners[done.task]
            cell.plan.study([done]).save(cell.path(folder))
            complete += 1
        progress(Stage(complete, 0.0))
        return found


def _not_toml(source: Path, text: str, error: Exception) -> str:
    """What Python's reader says, with its place as other problems tell it."""
    place = re.search(r" \(at line (\d+), column (\d+)\)", str(error))
    if place is None:
        return f"{source}: not TOML: {error}"
    line, column = int(place[1]), int(place[2])
    hint = ", numbers begin with a digit, such as 0.9" if text.split("\n")[line - 1][column - 1 :].startswith(".") else ""
    return f"{source}:{line}: not TOML: {error}{hint}"
