"""`reproduce`: play the figures, draw them, judge the claims, write the report."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect.extras import imported, require
from aftereffect.outputs import creatable_folder, replacing
from aftereffect.paper.draw import draw, draw_long_runs, pictures
from aftereffect.paper.evidence import PAPER_ORDER, PARTS, collected, parts
from aftereffect.paper.figures import FIGURES, Figure
from aftereffect.paper.page import page
from aftereffect.paper.report import TITLE, Judged, judgements, markdown
from aftereffect.paper.settings import DEFAULT, Settings

if TYPE_CHECKING:
    import polars

#: Called with what is being played and the number of replications finished since the last call.
Progress = Callable[[str, int], None]


def reproduce(
    folder: Path,
    figures: Iterable[Figure] = tuple(FIGURES.values()),
    settings: Settings = DEFAULT,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Judged:
    """Reproduce figures of the paper into a folder, with a report on its claims.

    What an earlier run with the same settings finished is not played again, and the report covers it too. An interrupt
    leaves a report on what is finished.

    Parameters
    ----------
    folder
        Where pictures, ``results.parquet``, ``report.md`` and ``report.html`` go; made if it does not exist.
    figures
        Which of `FIGURES`; all by default.
    settings
        Horizons, replications and seed.
    jobs
        Threads; all cores by default.
    progress
        Called now and then with what is being played and the number of replications finished since the last call.

    Returns
    -------
    Judged
        Each claim with its judgements.
    """
    require("paper")
    chosen = list(figures)
    creatable_folder(folder)
    creatable_folder(folder / PARTS)
    try:
        for place, figure in enumerate(chosen, 1):
            note = partial(progress or _silent, f"figure {figure.number} ({place} of {len(chosen)})")
            complete(figure, folder, settings, jobs, note)
    except KeyboardInterrupt:
        write_report(folder, settings)
        raise
    return write_report(folder, settings)


def steps(figures: Iterable[Figure], settings: Settings) -> int:
    """Replications in all, for a progress bar."""
    return sum(part.steps for figure in figures for part in parts(figure, settings))


def complete(figure: Figure, folder: Path, settings: Settings, jobs: int | None, progress: Callable[[int], None]) -> None:
    """Play what is missing of a figure, and draw it."""
    panel, *others = parts(figure, settings)
    panel.complete(folder, jobs, progress, lambda study: draw(figure, study, folder))
    for part in others:
        part.complete(folder, jobs, progress)


def write_report(folder: Path, settings: Settings) -> Judged:
    """Report on every figure that a folder holds with these settings."""
    found = collected(FIGURES.values(), settings, folder)
    results = judgements(found)
    figures = [each.figure for each in found[PAPER_ORDER]]
    if not figures:  # interrupted before anything was finished
        return results
    with replacing(folder / "results.parquet") as draft:
        _gathered(figures, folder, settings).sink_parquet(draft)
    for each in found[PAPER_ORDER]:
        if not all(path.exists() for path in pictures(each.figure.name, folder)):  # someone took it away
            draw(each.figure, each.panel, folder)
    draw_long_runs(found[PAPER_ORDER], folder)
    text = markdown(found, results, settings)
    for name, content in (("report.md", text), ("report.html", page(text, TITLE, folder))):
        with replacing(folder / name) as draft:
            draft.write_text(content, encoding="utf-8")
    return results


def _gathered(figures: Iterable[Figure], folder: Path, settings: Settings) -> "polars.LazyFrame":
    """All studies as one table, read as it is written: it need not fit into memory."""
    pl = imported("polars")
    frames: polars.LazyFrame = pl.concat(
        pl.scan_parquet(part.path(folder)).select(
            pl.lit(figure.number).alias("figure"), pl.lit(part.name).alias("part"), pl.all()
        )
        for figure in figures
        for part in parts(figure, settings)
    )
    return frames


def _silent(title: str, finished: int) -> None:
    """Say nothing."""
