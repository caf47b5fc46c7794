"""The command ``reproduce``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from aftereffect.cli._shared import connect_workers, progress_bar
from aftereffect.cli._values import DaskAddress, Flag, Folder, Jobs, Number
from aftereffect.errors import ParameterError
from aftereffect.reproduction import (
    ADVERSARIAL_LONG_HORIZON,
    CHAPTERS,
    DEFAULT,
    PAPER_FIGURES,
    QUICK,
    REPORT_HTML,
    ChapterName,
    count_replications,
    find_figures,
    format_verdict,
)
from aftereffect.reproduction import reproduce as reproduce_figures


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
        the chapter "beyond". With --quick it is 1e4, 1e6 and 1e6. The
        growth of the regret of ARS-UCB is always judged at 1e7 slots, or at 1e6 with --quick.
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
