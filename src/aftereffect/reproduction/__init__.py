"""The paper's experiments and ours, reproduced: figures, claims with verdicts, and a report.

A chapter is a set of figures as data, and the claims about them: "stochastic" and "adversarial" are
the paper's (Siwei Wang, Haoyun Wang, Longbo Huang, AAAI 2021, arXiv:2012.07048), "beyond" compares
`SettleUcb` with its rivals. `reproduce` plays figures, draws them, judges the claims and writes the
report.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from aftereffect._core import (
    atomic_write,
    check_creatable_folder,
    check_writable,
    import_optional,
    require_extra,
)
from aftereffect.errors import ParameterError
from aftereffect.reproduction import adversarial, beyond, stochastic
from aftereffect.reproduction._claims import Claim, JudgedClaims, Judgement, Verdict
from aftereffect.reproduction._pictures import picture_paths
from aftereffect.reproduction._report import (
    format_digits,
    format_verdict,
    markdown_table,
    write_html,
    write_markdown,
)
from aftereffect.reproduction._settings import ADVERSARIAL_LONG_HORIZON, DEFAULT, QUICK, Settings
from aftereffect.reproduction.beyond import (
    summarize_dynamical,
    summarize_exponents,
    summarize_orders,
    summarize_price,
    summarize_regret,
)
from aftereffect.reproduction.chapters import STUDIES, Chapter, ChapterName, Figure, StoredStudy
from aftereffect.simulation import Workers, worker_pool

if TYPE_CHECKING:
    import polars

__all__ = [
    "ADVERSARIAL_LONG_HORIZON",
    "CHAPTERS",
    "DEFAULT",
    "FIGURES",
    "PAPER_FIGURES",
    "QUICK",
    "REPORT_HTML",
    "Chapter",
    "ChapterName",
    "Claim",
    "Figure",
    "JudgedClaims",
    "Judgement",
    "Settings",
    "Verdict",
    "count_replications",
    "find_figures",
    "format_digits",
    "format_verdict",
    "markdown_table",
    "reproduce",
    "summarize_dynamical",
    "summarize_exponents",
    "summarize_orders",
    "summarize_price",
    "summarize_regret",
]

RESULTS, REPORT_MARKDOWN, REPORT_HTML = "results.parquet", "report.md", "report.html"
#: Rows, each a curve, that are held in memory until they are written.
_ROWS = 4_096
#: Called with what is being played and the number of replications finished since the last call.
Progress: TypeAlias = Callable[[str, int], None]

CHAPTERS: dict[ChapterName, Chapter] = {
    chapter.name: chapter for chapter in (stochastic.CHAPTER, adversarial.CHAPTER, beyond.CHAPTER)
}


def _sort_figures() -> Iterator[Figure]:
    """The paper's figures by number, then ours."""
    figures = [figure for chapter in CHAPTERS.values() for figure in chapter.figures.values()]
    numbered = [figure for figure in figures if figure.key.isdecimal()]
    yield from sorted(numbered, key=lambda figure: int(figure.key))
    yield from (figure for figure in figures if figure not in numbered)


#: Every figure of every chapter, by its key.
FIGURES: dict[str, Figure] = {figure.key: figure for figure in _sort_figures()}
_CHAPTER_OF = {key: chapter for chapter in CHAPTERS.values() for key in chapter.figures}
#: The figures of the chapters that reproduce the paper.
PAPER_FIGURES = tuple(figure for key, figure in FIGURES.items() if _CHAPTER_OF[key].of_paper)


def find_figures(keys: Iterable[str | float]) -> list[Figure]:
    """Figures by their keys (the paper's number, or a name), each once.

    >>> [figure.name for figure in find_figures([14, "price-of-not-knowing"])]
    ['figure-14', 'price-of-not-knowing']
    """
    names = [key if isinstance(key, str) else f"{key:g}" for key in keys]
    for name in names:
        if name not in FIGURES:
            raise ParameterError(f"there is no figure {name}; known: {', '.join(FIGURES)}")
    return [FIGURES[name] for name in dict.fromkeys(names)]


def reproduce(
    folder: Path,
    figures: Iterable[Figure] = PAPER_FIGURES,
    settings: Settings = DEFAULT,
    *,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> JudgedClaims:
    """Reproduce figures into a folder, with a report on the claims about them.

    Studies that an earlier run with the same settings finished are not played again, and the report
    covers them too. An interrupt leaves a report on the figures that are finished.

    Parameters
    ----------
    folder
        Where pictures, ``results.parquet``, ``report.md`` and ``report.html`` go. It is made if it
        does not exist.
    figures
        Some of `FIGURES`; by default those of the paper's two chapters.
    settings
        Horizons, replications and seeds.
    jobs
        Threads; all cores by default. With an executor, how many workers it has.
    executor
        What plays instead of threads, as in `simulate`.
    progress
        Called now and then with what is being played and the number of replications finished since
        the last call.

    Returns
    -------
    JudgedClaims
        Each claim with its judgements.

    Examples
    --------
    How many replications `reproduce` would play for figure 14, and which claims the report judges:

    >>> count_replications(find_figures([14]), DEFAULT)
    2200
    >>> claims = reproduce(Path("paper"), find_figures([14]))  # doctest: +SKIP
    """
    require_extra("paper")
    # Import them now: an interrupt later could leave one half imported when the report needs it.
    for module in ("matplotlib.figure", "polars", "markdown_it"):
        import_module(module)
    chosen = list(figures)
    for target in (folder, folder / STUDIES):
        check_creatable_folder(target)
    for target in _list_outputs(chosen, folder, settings):
        if target.exists():
            check_writable(target, (target.suffix,))
    try:
        with worker_pool(jobs, executor) as workers:
            for place, figure in enumerate(chosen, 1):
                label = f"figure {figure.key} ({place} of {len(chosen)})"
                _complete_figure(
                    figure, folder, settings, workers, partial(progress or _ignore, label)
                )
    except KeyboardInterrupt:
        with suppress(Exception):  # a further problem must not hide the interrupt
            write_report(folder, settings)
        raise
    return write_report(folder, settings)


def count_replications(figures: Iterable[Figure], settings: Settings) -> int:
    """Replications of all studies of some figures, for a progress bar.

    >>> count_replications(find_figures([6, 8]), DEFAULT)
    1300
    """
    return sum(
        study.total_replications for figure in figures for study in _list_studies(figure, settings)
    )


def _complete_figure(
    figure: Figure,
    folder: Path,
    settings: Settings,
    workers: Workers,
    progress: Callable[[int], None],
) -> None:
    """Play the studies of a figure that are not stored yet, and draw it.

    Studies that the picture shows come first, and it is drawn as soon as they are there.
    """
    chapter = _CHAPTER_OF[figure.key]
    outdated = False
    for stored in sorted(_list_studies(figure, settings), key=lambda study: not study.in_picture):
        if outdated and not stored.in_picture:
            chapter.draw_figure(figure, settings, folder)
            outdated = False
        progress(0)
        if stored.load(folder):
            progress(stored.total_replications)
            continue
        study = stored.play(workers, progress)
        if stored.in_picture:
            for picture in picture_paths(figure.name, folder):  # it shows other settings
                picture.unlink(missing_ok=True)
            outdated = True
        stored.save(study, folder)


def write_report(folder: Path, settings: Settings) -> JudgedClaims:
    """Report on every figure that a folder holds with these settings."""
    findings = [(chapter, chapter.make_findings(settings, folder)) for chapter in CHAPTERS.values()]
    figures = [figure for _, found in findings for figure in found.figures]
    claims = [claim for _, found in findings if found.figures for claim in found.claims]
    if not figures:  # interrupted before anything was finished
        return claims
    with atomic_write(folder / RESULTS) as draft:
        _scan_studies(figures, folder, settings).sink_parquet(draft, row_group_size=_ROWS)
    for figure in figures:
        pictures = picture_paths(figure.name, folder)
        if not all(path.is_file() and path.stat().st_size > 0 for path in pictures):
            _CHAPTER_OF[figure.key].draw_figure(figure, settings, folder)
    title, text = write_markdown(findings, settings)
    for name, content in ((REPORT_MARKDOWN, text), (REPORT_HTML, write_html(text, title, folder))):
        with atomic_write(folder / name) as draft:
            draft.write_text(content, encoding="utf-8")
    return claims


def _list_studies(figure: Figure, settings: Settings) -> Iterable[StoredStudy]:
    return _CHAPTER_OF[figure.key].list_studies(figure, settings)


def _scan_studies(
    figures: Iterable[Figure], folder: Path, settings: Settings
) -> "polars.LazyFrame":
    """All studies as one table, which is read as it is written: it need not fit into memory."""
    pl = import_optional("polars")
    frames: polars.LazyFrame = pl.concat(
        pl.scan_parquet(study.path(folder)).select(
            pl.lit(figure.key).alias("figure"), pl.lit(study.name).alias("study"), pl.all()
        )
        for figure in figures
        for study in _list_studies(figure, settings)
    )
    return frames


def _list_outputs(figures: Iterable[Figure], folder: Path, settings: Settings) -> list[Path]:
    """All files that a run may write."""
    pictures = [name for chapter in CHAPTERS.values() for name in chapter.other_pictures]
    pictures += [figure.name for figure in figures]
    return [
        *(folder / name for name in (RESULTS, REPORT_MARKDOWN, REPORT_HTML)),
        *(path for name in pictures for path in picture_paths(name, folder)),
        *(study.path(folder) for figure in figures for study in _list_studies(figure, settings)),
    ]


def _ignore(label: str, finished: int) -> None:
    """Report no progress."""
