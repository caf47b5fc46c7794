"""The command ``sweep``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aftereffect.cli._formats import Printer
from aftereffect.cli._shared import connect_workers, count_cells, show_progress_of_cells
from aftereffect.cli._values import DaskAddress, Folder, Format, Jobs
from aftereffect.errors import ParameterError
from aftereffect.sweeps import Sweep, SweepResults


def sweep(
    file: Path,
    /,
    *,
    out: Folder | None = None,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    format: Format = "table",
) -> None:
    """Simulate every combination of the settings in a TOML file and print the regrets.

    Each combination is a cell. Its results go into one Parquet file in the folder of the sweep. If
    a sweep was interrupted, run the command again: it continues where it stopped. Finished cells
    are simulated again only if the code or their settings have changed.

    Parameters
    ----------
    file
        The sweep: a TOML file whose keys are the options of "simulate", each with one value or a
        list of values.
    out
        The folder for the results. It is created if needed. By default it has the name of the
        TOML file without its suffix.
    format
        How to print the results. The table and csv formats have one row per cell; json has whole
        regret curves.
    """
    grid = Sweep.read(file)
    folder = file.with_suffix("") if out is None else out
    if folder == file:
        raise ParameterError(
            f"{file} has no suffix, so the folder of the results needs another name: give --out"
        )
    with connect_workers(dask, jobs) as options, show_progress_of_cells(len(grid)) as show:
        results = grid.play(folder, **options, progress=show)
    print(
        f"{count_cells(len(results))} in {results.folder}, {results.reused:,} of them from before",
        file=sys.stderr,
    )
    RESULTS.show(results, format)


def _list_summaries(results: SweepResults) -> list[dict[str, Any]]:
    return [
        {"part": cell.path(results.folder).name, "parameters": cell.parameters, **row}
        for cell, study in results
        for row in study.summaries()
    ]


def _list_cells(results: SweepResults) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    frame = results.to_polars()
    return frame.columns, frame.rows()


RESULTS = Printer(SweepResults.__str__, _list_summaries, _list_cells)
