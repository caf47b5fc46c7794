"""The command ``plan``: what an experiment would bring, before it begins."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from aftereffect._core import check_writable, require_extra
from aftereffect.cli._formats import Printer
from aftereffect.cli._shared import connect_workers, progress_bar
from aftereffect.cli._values import (
    DaskAddress,
    Flag,
    Folder,
    Format,
    Jobs,
    Number,
    OutputFiles,
    RealNumber,
)
from aftereffect.planning import Plan
from aftereffect.planning import plan as make_plan

#: The suffixes of files that hold a plan.
_SUFFIXES = (".json", ".html")
#: The worlds of a quick plan.
_QUICK_RUNS = 8


def plan(
    history: Path,
    /,
    *,
    slot: Annotated[str, Parameter(metavar="LENGTH")] = "1h",
    arms: Number = 2,
    lift: Annotated[str, Parameter(metavar="PERCENT|RANGE", allow_leading_hyphen=True)] = "5%",
    lag: Annotated[str, Parameter(metavar="TIME|RANGE")] = "0",
    weeks: Number = 8,
    design: Annotated[
        tuple[str, ...], Parameter(negative=(), metavar="SPEC", show_default=False)
    ] = (),
    stop_when_loss_below: RealNumber | None = None,
    unit: Annotated[str | None, Parameter(metavar="UNIT")] = None,
    runs: Number | None = None,
    quick: Flag = False,
    seed: Number | None = None,
    resume: Folder | None = None,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    format: Format = "table",
    out: OutputFiles = (),
) -> None:
    """Plan an experiment: play candidate designs on worlds made of your history.

    The plan says of each design what it is expected to lose, when it ends, how often it ships the
    best arm, and which lifts it finds. Then it recommends one, with the command that creates that
    experiment, or says why not to run any. First figures appear while the others are computed. The
    first plan on a machine takes a minute or more longer, since the simulation is compiled.

    Parameters
    ----------
    history
        The totals before the experiment, while the control was played: a .csv, .csv.gz or .parquet
        file with the columns "time" and "total", two weeks at least.
    slot
        How long a slot lasts: 15min, 1h, 1d or 1w.
    arms
        The number of arms, with the control.
    lift
        How much more the best of the other arms brings than the control: 5%, or 3..10% if you are
        not sure. The range may begin below 0.
    lag
        Within which time nearly all of an effect has arrived: 12h, or 6..48h if you are not sure.
        By default, effects come at once.
    weeks
        How long the experiment lasts.
    design
        A design to try instead of the usual ones, such as "fixed-switchback(block=24)". Repeat the
        option to compare several.
    stop_when_loss_below
        When the rule stops: when shipping the leading arm is expected to cost less than this number
        per slot. By default 0.1 % of the mean total.
    unit
        The unit of the totals, such as EUR.
    runs
        The number of worlds for each design, 64 by default; fixed switchbacks, which are fast, are
        played in eight times as many.
    quick
        Give only first figures, of few worlds and without the smallest lifts.
    seed
        The same seed gives the same plan. By default, a seed is drawn and printed.
    resume
        A folder for the parts that are finished. If the command was interrupted, run it again with
        the same seed: it continues where it stopped.
    format
        How to print the plan. The csv format has one row per design.
    out
        Save the plan to a .json file, which Plan.load reads, or as an .html report (needs the extra
        "plot"). Repeat the option for both.
    """
    for path in out:
        check_writable(path, _SUFFIXES)
        if path.suffix.lower() == ".html":
            require_extra("plot")

    def show_rough(rough: Plan) -> None:
        print(f"{rough}\n", file=sys.stderr, flush=True)

    with (
        warnings.catch_warnings(record=True) as caught,
        connect_workers(dask, jobs) as options,
        progress_bar(None) as bar,
    ):
        warnings.simplefilter("always", UserWarning)
        before = 0

        def note(done: int, total: int) -> None:
            nonlocal before
            bar("planning", done - before, total)
            before = done

        found = make_plan(
            str(history),
            slot=slot,
            arms=arms,
            lift=lift,
            lag=lag,
            weeks=weeks,
            designs=design or None,
            stop_when_loss_below=stop_when_loss_below,
            unit=unit,
            power=not quick,
            seed=seed,
            folder=resume,
            progress=note,
            show_rough=None if quick else show_rough,
            **({"runs": _QUICK_RUNS} if quick else {} if runs is None else {"runs": runs}),
            **options,
        )
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    try:  # files first: whoever reads the printed output may stop early
        # The command in a report names the file of the plan.
        for path in sorted(out, key=lambda path: path.suffix.lower() != ".json"):
            found.save(path)
    finally:
        PLAN.show(found, format)


def _to_rows(found: Plan) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """A row per design: numbers with their errors in columns of their own."""
    rows = [promise.to_row() for promise in found.promises]
    return tuple(rows[0]), [tuple(row.values()) for row in rows]


PLAN = Printer(Plan.__str__, Plan.to_dict, _to_rows)
