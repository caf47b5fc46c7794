"""`reproduce`: play the figures, draw them, judge the claims, write the report."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect.extras import imported, require
from aftereffect.outputs import creatable_folder, replacing, writable
from aftereffect.paper.half import Figure, Judged
from aftereffect.paper.halves import FIGURES, HALF_OF, HALVES
from aftereffect.paper.page import page
from aftereffect.paper.part import PARTS, Part
from aftereffect.paper.pictures import pictures
from aftereffect.paper.report import TITLE, markdown
from aftereffect.paper.settings import DEFAULT, Settings
from aftereffect.simulation.crew import Crew, hired

if TYPE_CHECKING:
    import polars

RESULTS, REPORT_TEXT, REPORT_PAGE = "results.parquet", "report.md", "report.html"
#: Rows, each a curve, that are held in memory until they are written.
_ROWS = 4_096
#: Called with what is being played and the number of replications finished since the last call.
Progress = Callable[[str, int], None]


def reproduce(
    folder: Path,
    figures: Iterable[Figure] = tuple(FIGURES.values()),
    settings: Settings = DEFAULT,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
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
        Threads; all cores by default. With an executor, how many workers it has.
    executor
        Who plays instead of threads, as in `simulate`.
    progress
        Called now and then with what is being played and the number of replications finished since the last call.

    Returns
    -------
    Judged
        Each claim with its judgements.
    """
    require("paper")
    for module in ("matplotlib.figure", "polars", "markdown_it"):
        import_module(module)  # now, as an interrupt could leave it half imported when the report needs it
    chosen = list(figures)
    for target in (folder, folder / PARTS):
        creatable_folder(target)
    for target in _targets(chosen, folder, settings):
        if target.exists():
            writable(target, (target.suffix,))
    try:
        with hired(jobs, executor) as crew:
            for place, figure in enumerate(chosen, 1):
                note = partial(progress or _silent, f"figure {figure.number} ({place} of {len(chosen)})")
                complete(figure, folder, settings, crew, note)
    except KeyboardInterrupt:
        with suppress(Exception):  # who interrupts wants the end, not another problem
            write_report(folder, settings)
        raise
    return write_report(folder, settings)


def steps(figures: Iterable[Figure], settings: Settings) -> int:
    """Replications in all, for a progress bar."""
    return sum(part.steps for figure in figures for part in _parts(figure, settings))


def complete(figure: Figure, folder: Path, settings: Settings, crew: Crew, progress: Callable[[int], None]) -> None:
    """Play what is missing of a figure, and draw it."""
    half = HALF_OF[figure.number]
    stale = False
    for part in sorted(half.parts(figure, settings), key=lambda part: not part.drawn):
        if stale and not part.drawn:
            half.draw(figure, settings, folder)
            stale = False
        progress(0)
        if part.kept(folder):
            progress(part.steps)
            continue
        study = part.play(crew, progress)
        if part.drawn:
            for picture in pictures(figure.name, folder):  # of other settings, from here on
                picture.unlink(missing_ok=True)
            stale = True
        part.keep(study, folder)


def write_report(folder: Path, settings: Settings) -> Judged:
    """Report on every figure that a folder holds with these settings."""
    findings = [half.findings(settings, folder) for half in HALVES]
    figures = [FIGURES[number] for found in findings for number in found.figures]
    judged = [each for found in findings if found.figures for each in found.judged]
    if not figures:  # interrupted before anything was finished
        return judged
    with replacing(folder / RESULTS) as draft:
        _gathered(figures, folder, settings).sink_parquet(draft, row_group_size=_ROWS)
    for figure in figures:
        if not all(_is_there(path) for path in pictures(figure.name, folder)):  # someone took it away
            HALF_OF[figure.number].draw(figure, settings, folder)
    text = markdown(findings, settings)
    for name, content in ((REPORT_TEXT, text), (REPORT_PAGE, page(text, TITLE, folder))):
        with replacing(folder / name) as draft:
            draft.write_text(content, encoding="utf-8")
    return judged


def _parts(figure: Figure, settings: Settings) -> list[Part]:
    return HALF_OF[figure.number].parts(figure, settings)


def _gathered(figures: Iterable[Figure], folder: Path, settings: Settings) -> "polars.LazyFrame":
    """All studies as one table, read as it is written: it need not fit into memory."""
    pl = imported("polars")
    frames: polars.LazyFrame = pl.concat(
        pl.scan_parquet(part.path(folder)).select(
            pl.lit(figure.number).alias("figure"), pl.lit(part.name).alias("part"), pl.all()
        )
        for figure in figures
        for part in _parts(figure, settings)
    )
    return frames


def _targets(figures: Iterable[Figure], folder: Path, settings: Settings) -> list[Path]:
    """All files that a run may write."""
    names = [name for half in HALVES for name in half.further_pictures] + [figure.name for figure in figures]
    return [
        *(folder / name for name in (RESULTS, REPORT_TEXT, REPORT_PAGE)),
        *(path for name in names for path in pictures(name, folder)),
        *(part.path(folder) for figure in figures for part in _parts(figure, settings)),
    ]


def _is_there(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _silent(title: str, finished: int) -> None:
    """Say nothing."""
