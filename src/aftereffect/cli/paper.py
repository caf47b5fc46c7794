"""``aftereffect paper``."""

from dataclasses import replace
from pathlib import Path

from aftereffect.cli.progress import progress_bar
from aftereffect.cli.values import Number, Numbers
from aftereffect.paper import DEFAULT, FIGURES, QUICK, REPORT_PAGE, numbered, reproduce, steps, verdict


def paper(
    *,
    figure: Numbers | None = None,
    out: Path | None = None,
    quick: bool = False,
    horizon: Number | None = None,
    replications: Number | None = None,
    seed: Number = DEFAULT.seed,
    jobs: Number | None = None,
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
        Slots per replication of a figure; 1e5 by default, 1e4 with --quick. How regret grows is judged by runs of 1e7, or 1e6.
    replications
        Runs of each policy; 200 by default, 50 with --quick.
    seed
        The same seed gives the same results.
    jobs
        Threads; all cores by default.
    """
    given = {"horizon": horizon, "replications": replications, "seed": seed}
    settings = replace(QUICK if quick else DEFAULT, **{name: value for name, value in given.items() if value is not None})
    folder = out or Path("paper-quick" if quick else "paper")
    chosen = numbered(figure or FIGURES)
    with progress_bar(steps(chosen, settings)) as progress:
        results = reproduce(folder, chosen, settings, jobs=jobs, progress=progress)
    for claim, by_order in results:
        print(claim.title)
        for order, judgement in by_order.items():
            print(f"  {order.name}: {verdict(judgement)}; {judgement.count}")
    print(f"report: {folder / REPORT_PAGE}")
