"""The commands about simulations: ``simulate``, ``sweep`` and ``reproduce``; and ``list``."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from cyclopts import Parameter

from aftereffect._core import (
    Spec,
    check_writable,
    list_registered,
    parse,
    require_extra,
    summary,
    text_table,
    usage,
)
from aftereffect.bandits import Bandit, bandit_from_options
from aftereffect.cli._formats import Printer
from aftereffect.cli._shared import (
    DaskAddress,
    Flag,
    Folder,
    Format,
    Jobs,
    Number,
    Numbers,
    OutputFile,
    SpecText,
    check_picture,
    connect_workers,
    count_cells,
    progress_bar,
    show_progress_of_cells,
)
from aftereffect.delays import Delay
from aftereffect.errors import ParameterError
from aftereffect.growth import Growth
from aftereffect.policies import Policy
from aftereffect.reproduction import (
    ADVERSARIAL_LONG_HORIZON,
    CHAPTERS,
    DEFAULT,
    FIGURES,
    PAPER_FIGURES,
    QUICK,
    REPORT_HTML,
    ChapterName,
    count_replications,
    find_figures,
    format_verdict,
)
from aftereffect.reproduction import reproduce as reproduce_figures
from aftereffect.rewards import RewardLaw, Schedule
from aftereffect.simulation import (
    DEFAULT_CHECKPOINTS,
    EngineRequest,
    Study,
    plan_study,
    save_picture,
    worker_pool,
)
from aftereffect.simulation import STUDY_SUFFIXES as TABLES
from aftereffect.sweeps import Sweep, SweepResults


def simulate(
    *,
    policy: Annotated[list[str], Parameter(negative=(), metavar="SPEC")],
    horizon: Number,
    bandit: SpecText | None = None,
    means: Numbers | None = None,
    reward_law: SpecText | None = None,
    rewards: Annotated[str | None, Parameter(metavar="FILE")] = None,
    delay: SpecText | None = None,
    replications: Number = 100,
    seed: Number | None = None,
    engine: EngineRequest = "roundwise",
    checkpoints: Number = DEFAULT_CHECKPOINTS,
    keep: Number | None = None,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    format: Format = "table",
    out: OutputFile | None = None,
    plot: OutputFile | None = None,
) -> None:
    """Simulate policies on a bandit and print their regret.

    With --means, rewards are drawn at random. With --rewards, they are read from a file. With
    --bandit, you give any bandit. Give one of the three. "aftereffect list" shows all policies,
    delays, reward laws and bandits.

    Parameters
    ----------
    policy
        A policy such as "ars-ucb(alpha=4, growth=power(2))". Repeat the option to compare several.
    horizon
        The number of slots in each replication, such as 1e5.
    bandit
        A whole bandit such as 'history-bandit("sales.csv", [0,.05,.1], slot="1d")'.
    means
        The expected reward of each arm, from 0 to 1, separated by commas: .9,.8,.7
    reward_law
        How the reward of a pull is distributed around its mean, such as "beta(2)". The default is
        bernoulli.
    rewards
        A .csv, .npy or .parquet file with one row per slot. It has one column per arm, with rewards
        from 0 to 1. Or it has a single column with the number of the only arm that pays 1 in the
        slot; the first arm is 0. You can also give a schedule such as "drawn-arm([.5,.3,.2])".
    delay
        When the reward of a pull arrives, such as "interval(30,39)" for equal shares at the lags 30
        to 39. By default it arrives in the slot of the pull.
    replications
        How many independent runs of each policy to simulate.
    seed
        A whole number. The same seed gives the same results. Without this option, a seed is drawn
        and printed.
    engine
        How to simulate: "roundwise" is fast, "slotwise" simulates every slot, "cuda" is roundwise
        on an NVIDIA GPU (needs the extra "gpu"). All results have the same distribution.
        "cuda-single" computes in single precision there: faster, for policies of rounds and at most
        1e6 slots. "auto" takes a GPU for large studies, if there is one.
    checkpoints
        The number of slots at which to record the regret. They are spaced evenly on a log scale.
    keep
        How many replications to keep in memory, with the engine "cuda" or "cuda-single". The others
        leave only what the printed numbers need. Percentiles are then at most 0.4 % off. Without
        this option, all replications are kept. With it, --out cannot be given.
    format
        How to print the results. The csv format has the mean, its standard error and the 95th
        percentile at every checkpoint.
    out
        Save all replications to a .parquet file (needs the extra "data") or to a .csv file. In
        Python, Study.load reads the .parquet file.
    plot
        Save a picture of the regret curves to a .png, .svg or .pdf file (needs the extra "plot").
    """
    played = bandit_from_options(
        bandit=bandit,
        means=means,
        reward_law=reward_law,
        rewards=rewards,
        delay=delay,
        option="--{}",
    )
    players = [parse(text, Policy) for text in policy]
    if out is not None:
        if keep is not None:
            raise ParameterError("give --keep or --out, not both: a file has all replications")
        check_writable(out, TABLES)
        if out.suffix.lower() == ".parquet":
            require_extra("data")
    check_picture(plot)
    plan = plan_study(
        players,
        played,
        horizon,
        replications,
        seed=seed,
        engine=engine,
        checkpoints=checkpoints,
        keep=keep,
    )
    with (
        connect_workers(dask, jobs) as options,
        worker_pool(**options) as pool,
        progress_bar(len(players) * plan.replications) as progress,
    ):
        study = plan.play(pool, partial(progress, "simulating"))
    try:  # files first: whoever reads the printed output may stop early
        if out is not None:
            study.save(out)
        if plot is not None:
            save_picture(study, plot)
    finally:  # on a full disk, this is all that is left of the results
        STUDY.show(study, format)


def _list_points(study: Study) -> tuple[Sequence[str], list[list[object]]]:
    rows: list[list[object]] = []
    for runs in study:
        sems = [None] * len(study.checkpoints) if runs.sem is None else runs.sem.tolist()
        curve = zip(study.checkpoints, runs.mean.tolist(), sems, runs.p95.tolist(), strict=True)
        rows += [[runs.label, *point] for point in curve]
    return ("policy", "slot", "regret_mean", "regret_sem", "regret_p95"), rows


STUDY = Printer(Study.__str__, Study.summaries, _list_points)


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


def reproduce(
    *,
    chapter: ChapterName | None = None,
    figure: Annotated[str | None, Parameter(metavar="FIGURE,...")] = None,
    out: Folder | None = None,
    quick: Flag = False,
    horizon: Number | None = None,
    replications: Number | None = None,
    seed: Number | None = None,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    data: Folder | None = None,
    long: Flag = False,
) -> None:
    """Reproduce the paper's figures, and report which of its claims hold.

    The folder then has the pictures, report.html, report.md and results.parquet. If the command was
    interrupted, run it again: it continues where it stopped. Results that are in the folder and
    have the same settings are not computed again.

    Parameters
    ----------
    chapter
        Make the figures of one chapter. The chapters "stochastic" and "adversarial" are those of
        the paper. The chapter "beyond" compares SettleUcb with other policies. By default, both
        chapters of the paper are made.
    figure
        Make only these figures, separated by commas: 14,15. "aftereffect list figures" lists all.
    out
        The folder for the results. It is created if needed. The default is "paper", or "beyond" for
        that chapter; with --quick, "-quick" is added. If a figure is there with other settings, it
        is replaced.
    quick
        Make shorter and fewer runs, for a first look.
    horizon
        The number of slots in each replication. The default is 1e5; 1e7 in figures 6 to 9; 1e6 in
        the chapter "beyond". With --quick it is 1e4, 1e6 and 1e6. How the regret of ARS-UCB grows
        is always judged by runs of 1e7 slots, or 1e6 with --quick.
    replications
        The number of runs of each policy. The default is 200; 50 in figures 6 to 9; 1,000 in the
        chapter "beyond". With --quick it is 50, 10 and 50.
    seed
        The same seed gives the same results. The default is 7; 271828 in the chapter "beyond".
    data
        A folder with the original files of the data sets Outbrain and Coupon, for figures 6 to 9.
        The files are in the folder itself, or in its folders outbrain/ and coupon/. By default,
        rewards are drawn at random with published shares.
    long
        Also judge which regrets in figures 6 and 7 grow linearly, by runs of 1e8 slots. This takes
        some minutes more.
    """
    if chapter is not None and figure is not None:
        raise ParameterError("give --chapter or --figure, not both")
    if figure is not None:
        chosen = find_figures(part.strip() for part in figure.split(","))
    elif chapter is not None:
        chosen = list(CHAPTERS[chapter].figures.values())
    else:
        chosen = list(PAPER_FIGURES)
    is_beyond = any(each.key in CHAPTERS["beyond"].figures for each in chosen)
    given: dict[str, Any] = {
        "horizon": horizon,
        "replications": replications,
        "adversarial_horizon": horizon,
        "adversarial_replications": replications,
        "beyond_horizon": horizon if is_beyond else None,
        "beyond_replications": replications,
        "seed": seed,
        "beyond_seed": seed,
        "data": data,
        "adversarial_long_horizon": ADVERSARIAL_LONG_HORIZON if long else None,
    }
    settings = replace(
        QUICK if quick else DEFAULT,
        **{name: value for name, value in given.items() if value is not None},
    )
    folder = out or Path(f"{'beyond' if is_beyond else 'paper'}{'-quick' if quick else ''}")
    total = count_replications(chosen, settings)
    with connect_workers(dask, jobs) as options, progress_bar(total) as progress:
        results = reproduce_figures(folder, chosen, settings, **options, progress=progress)
    for claim, judgements in results:
        print(claim.title)
        for case, judgement in judgements.items():
            print(f"  {case}: {format_verdict(judgement)}; {judgement.count}")
    print(f"report: {folder / REPORT_HTML}")


Kind = Literal["policies", "delays", "growths", "reward-laws", "schedules", "bandits", "figures"]
Rows = list[tuple[str, str]]


def _specs(kind: type[Spec]) -> Callable[[], Rows]:
    return lambda: [(usage(cls), summary(cls)) for cls in list_registered(kind)]


def _figures() -> Rows:
    return [(key, figure.caption) for key, figure in FIGURES.items()]


LISTS: dict[Kind, Callable[[], Rows]] = {
    "policies": _specs(Policy),
    "delays": _specs(Delay),
    "growths": _specs(Growth),
    "reward-laws": _specs(RewardLaw),
    "schedules": _specs(Schedule),
    "bandits": _specs(Bandit),
    "figures": _figures,
}


def list_names(kind: Kind | None = None, /) -> None:
    """List all policies, delays, reward laws and more, in the form that other commands accept.

    Parameters
    ----------
    kind
        List only names of this kind.
    """
    kinds: tuple[Kind, ...] = get_args(Kind) if kind is None else (kind,)
    for number, each in enumerate(kinds):
        if kind is None:
            print(f"{'' if number == 0 else chr(10)}{each}:")
        print(text_table(LISTS[each](), left=2))
