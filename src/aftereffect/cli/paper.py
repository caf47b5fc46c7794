"""``aftereffect paper``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from aftereffect.cli.progress import progress_bar
from aftereffect.cli.values import Number, Numbers
from aftereffect.cli.workers import DaskAddress, Jobs, workers
from aftereffect.paper import DEFAULT, FAR_HORIZON, FIGURES, QUICK, REPORT_PAGE, numbered, reproduce, steps, verdict


def paper(
    *,
    figure: Numbers | None = None,
    out: Path | None = None,
    quick: bool = False,
    horizon: Number | None = None,
    replications: Number | None = None,
    seed: Number = DEFAULT.seed,
    jobs: Jobs | None = None,
    dask: DaskAddress | None = None,
    data: Path | None = None,
    claims: bool = False,
) -> None:
    """Draw the paper's figures and report which of its claims hold.

    Pictures, report.html, report.md and results.parquet go into one folder. What is there already, with the same settings, is
    not played again; after an interrupt the next run goes on where the last one ended.

    Parameters
    ----------
    figure
        Which ones, by the paper's numbers, with commas: 14,15. All that there are by default (aftereffect list figures).
    out
        The folder, made if it does not exist; "paper" by default, "paper-quick" with --quick. Results of other settings that
        are there are replaced, figure by figure.
    quick
        Shorter and fewer runs, for a first look.
    horizon
        Slots per replication of a figure; by default 1e5, and 1e7 in figures 6 to 9; with --quick 1e4 and 1e6. How the regret
        of ARS-UCB grows is judged by runs of 1e7, or 1e6.
    replications
        Runs of each policy; by default 200, and 50 in figures 6 to 9; with --quick 50 and 10.
    seed
        The same seed gives the same results.
    data
        A folder with the original files of Outbrain and Coupon, for figures 6 to 9 (all in it, or in outbrain/ and coupon/);
        stand-ins are drawn from published shares by default.
    claims
        Judge also by runs of 1e8 slots which regrets in figures 6 and 7 are linear; takes minutes more.
    """
    given: dict[str, Any] = {
        "horizon": horizon,
        "replications": replications,
        "adversarial_horizon": horizon,
        "adversarial_replications": replications,
        "seed": seed,
        "data": data,
        "far_horizon": FAR_HORIZON if claims else None,
    }
    settings = replace(QUICK if quick else DEFAULT, **{name: value for name, value in given.items() if value is not None})
    folder = out or Path("paper-quick" if quick else "paper")
    chosen = numbered(figure or FIGURES)
    with workers(dask, jobs) as crew, progress_bar(steps(chosen, settings)) as progress:
        results = reproduce(folder, chosen, settings, **crew, progress=progress)
    for claim, judgements in results:
        print(claim.title)
        for case, judgement in judgements.items():
            print(f"  {case}: {verdict(judgement)}; {judgement.count}")
    print(f"report: {folder / REPORT_PAGE}")
