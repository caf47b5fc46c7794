"""``aftereffect sweep``."""

import csv
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aftereffect.cli.progress import progress_bar
from aftereffect.cli.simulate import Format
from aftereffect.cli.workers import DaskAddress, Jobs, workers
from aftereffect.errors import ParameterError
from aftereffect.sweeps import Stage, Sweep, SweepResults

#: Seconds between two lines about progress where no bar can be drawn.
_PAUSE = 30


def sweep(
    file: Path,
    /,
    *,
    out: Path | None = None,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    format: Format = "table",
) -> None:
    """Play a grid of studies that a TOML file describes, and print their regret.

    Every combination of the values in [grid] is a cell, and one Parquet file in the folder of the results. What is there
    already, whole and played by the same code, is not played again: killed and started again, a sweep goes on where it was.

    Parameters
    ----------
    file
        The sweep: keys as the options of simulate, each with a value or a list of them.
    out
        The folder of the results, made if it does not exist; named as the file, without its ending, by default.
    format
        How results are printed: a row per cell, or in json its whole curve.
    """
    grid = Sweep.read(file)
    folder = file.with_suffix("") if out is None else out
    if folder == file:
        raise ParameterError(f"{file} has no ending to take away: name the folder of the results with --out")
    with workers(dask, jobs) as crew, _shown(len(grid)) as show:
        results = grid.play(folder, **crew, progress=show)
    print(f"{_cells(len(results))} in {results.folder}, {results.found} of them from before", file=sys.stderr)
    FORMATS[format](results)


@contextmanager
def _shown(cells: int) -> Iterator[Callable[[Stage], None]]:
    """A bar on a terminal; elsewhere a line now and then, as sweeps run for hours and logs are looked at."""
    before, told = 0, time.monotonic()
    with progress_bar(cells, clock=False) as bar:

        def show(stage: Stage) -> None:
            nonlocal before, told
            left = _time_left(stage.seconds_left)
            bar(left, stage.complete - before)
            before = stage.complete
            if not sys.stderr.isatty() and time.monotonic() - told > _PAUSE:
                told = time.monotonic()
                print(f"{stage.complete} of {_cells(cells)}, {left}", file=sys.stderr, flush=True)

        yield show


def _cells(count: int) -> str:
    return f"{count:,} cell{'' if count == 1 else 's'}"


def _time_left(seconds: float | None) -> str:
    if seconds is None:
        return "starting"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"about {f'{hours} h {minutes} min' if hours else f'{minutes} min' if seconds > 90 else f'{seconds:.0f} s'} left"


def _print_table(results: SweepResults) -> None:
    print(results)


def _print_json(results: SweepResults) -> None:
    cells = [
        {"part": cell.path(results.folder).name, "parameters": cell.parameters, **summary}
        for cell, study in results
        for summary in study.summaries()
    ]
    print(json.dumps(cells, indent=2))


def _print_csv(results: SweepResults) -> None:
    frame = results.to_polars()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows(frame.rows())


FORMATS: dict[Format, Callable[[SweepResults], None]] = {"table": _print_table, "json": _print_json, "csv": _print_csv}
