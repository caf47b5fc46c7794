"""What all chapters have in common: settings, figures that rest on stored studies, and claims.

A rule that looks at numbers alone decides whether a claim holds. Chance is measured by a bootstrap:
replications are drawn again, with replacement, from those that were played.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np

from aftereffect._core import (
    DPI,
    MAX_SEED,
    MAX_SLOTS,
    Matrix,
    Vector,
    atomic_write,
    check_int,
    make_folder,
)
from aftereffect.bandits import Bandit
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy
from aftereffect.simulation import (
    LEGEND,
    MAX_REPLICATIONS,
    Plan,
    Study,
    Workers,
    plan_study,
    space_logarithmically,
    worker_pool,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

FIGURE_DECADES, FIGURE_CHECKPOINTS = 3, 50
#: Growth with time is judged by the last two decades of the long runs, so each of these decades
#: must begin at a checkpoint.
LONG_DECADES, CHECKPOINTS_PER_DECADE = 3, 10
#: Which checkpoints of the long runs those are: a hundredth of the horizon, a tenth, and all of it.
DECADES = slice(-1 - 2 * CHECKPOINTS_PER_DECADE, None, CHECKPOINTS_PER_DECADE)
#: Regret beyond the paper is compared at a hundredth of the horizon too, and no bandit there has
#: more than 20 arms.
MIN_BEYOND_HORIZON = 2_000


@dataclass(frozen=True)
class Settings:
    """Sizes of all runs, their seeds, and where the real data is. The paper does not say them.

    Parameters
    ----------
    horizon, replications
        Slots and runs of a stochastic figure.
    long_horizon
        Slots of the runs that show how the regret of ARS-UCB grows.
    adversarial_horizon, adversarial_replications
        Slots and runs of an adversarial figure.
    adversarial_long_horizon, adversarial_long_replications
        Slots and runs of further runs that judge which regrets are linear; 0 slots leave them out.
    beyond_horizon, beyond_replications
        Slots and runs of the comparisons beyond the paper. Regret is compared at this horizon, at
        a tenth and at a hundredth of it; runs ten times as long show how it grows.
    seed, beyond_seed
        The same seed gives the same results; `beyond_seed` is that of the chapter beyond the paper.
    data
        A folder with the original files of Outbrain and Coupon. Without it, rewards are drawn from
        published shares.

    Examples
    --------
    >>> Settings(horizon=10_000).checkpoints[-1]
    10000
    """

    horizon: int = 100_000
    replications: int = 200
    long_horizon: int = 10_000_000
    adversarial_horizon: int = 10_000_000
    adversarial_replications: int = 50
    adversarial_long_horizon: int = 0
    adversarial_long_replications: int = 12
    beyond_horizon: int = 1_000_000
    beyond_replications: int = 1_000
    seed: int = 7
    beyond_seed: int = 271_828
    data: Path | None = None

    def __post_init__(self) -> None:
        limits = {
            "horizon": (1, MAX_SLOTS),
            "replications": (1, MAX_REPLICATIONS),
            "long_horizon": (10**LONG_DECADES, MAX_SLOTS),
            "adversarial_horizon": (1, MAX_SLOTS),
            "adversarial_replications": (1, MAX_REPLICATIONS),
            "adversarial_long_horizon": (0, MAX_SLOTS),
            "adversarial_long_replications": (1, MAX_REPLICATIONS),
            "beyond_horizon": (MIN_BEYOND_HORIZON, MAX_SLOTS // 10),
            "beyond_replications": (1, MAX_REPLICATIONS),
            "seed": (0, MAX_SEED),
            "beyond_seed": (0, MAX_SEED),
        }
        for name, (least, most) in limits.items():
            label = name.removeprefix("adversarial_").removeprefix("beyond_")
            number = check_int(label, getattr(self, name), at_least=least, at_most=most)
            object.__setattr__(self, name, number)
        # Otherwise a tenth and a hundredth of it would be no checkpoints.
        if self.long_horizon % 10**LONG_DECADES:
            raise ParameterError(
                f"long_horizon must be a multiple of {10**LONG_DECADES:,}, "
                f"got {self.long_horizon:,}"
            )

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Where the curves of a stochastic figure are noted: its last three decades."""
        return space_logarithmically(
            max(1, self.horizon // 10**FIGURE_DECADES), self.horizon, FIGURE_CHECKPOINTS
        )

    @property
    def long_checkpoints(self) -> tuple[int, ...]:
        """Where the long runs are noted."""
        first = self.long_horizon // 10**LONG_DECADES
        return space_logarithmically(
            first, self.long_horizon, LONG_DECADES * CHECKPOINTS_PER_DECADE + 1
        )


def space_evenly(horizon: int) -> tuple[int, ...]:
    """Where adversarial curves are noted; half the horizon is always one of these slots.

    Even steps show linear regret as a straight line.
    """
    steps = range(1, FIGURE_CHECKPOINTS + 1)
    return tuple(sorted({max(1, horizon * step // FIGURE_CHECKPOINTS) for step in steps}))


DEFAULT = Settings()
QUICK = Settings(
    horizon=10_000,
    replications=50,
    long_horizon=1_000_000,
    adversarial_horizon=1_000_000,
    adversarial_replications=10,
    beyond_replications=50,
)
#: What ``--long`` sets `Settings.adversarial_long_horizon` to.
ADVERSARIAL_LONG_HORIZON = 100_000_000


Verdict: TypeAlias = Literal["reproduced", "partly", "not reproduced", "not judged"]
#: Whether a claim holds in one case, such as one setting.
CaseVerdict: TypeAlias = Literal["holds", "open", "fails"]
Cells: TypeAlias = tuple[str, ...]
#: The share of the bootstrap draws that must agree for a case to hold or to fail.
LEVEL = 0.975
#: How often the bootstrap draws.
DRAWS = 2_000
_SEED = 20_210_426
_MAX_CELLS = 4_000_000


@dataclass(frozen=True)
class Judgement:
    """A verdict, how many cases it rests on, and the numbers behind it as a table.

    ``why`` is the same in one sentence.

    >>> judge_cases("settings", ("setting",), [("holds", ("a",)), ("open", ("b",))]).verdict
    'partly'
    """

    verdict: Verdict
    count: str
    columns: Cells
    rows: Sequence[Cells]
    why: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim in one sentence, the rule that judges it in words, and the same rule as a function.

    ``judge`` takes the evidence of the chapter that the claim belongs to. ``picture`` is the name,
    without its suffix, of a picture that shows the evidence.

    >>> claim = Claim("Two is even.", "Divide by two.", lambda evidence: Judgement(
    ...     "reproduced", f"holds in all {len(evidence)} cases", (), []))
    >>> claim.judge([2, 4]).count
    'holds in all 2 cases'
    """

    title: str
    rule: str
    judge: Callable[[Sequence[Any]], Judgement]
    picture: str = ""


#: Each claim with its judgements, by the name of what was varied.
JudgedClaims: TypeAlias = Sequence[tuple[Claim, Mapping[str, Judgement]]]


def judge_claim(claim: Claim, evidence: Sequence[Any]) -> Judgement:
    """Judge a claim, unless there is only one replication: that says nothing about chance."""
    if any(each.replications < 2 for each in evidence):
        return Judgement("not judged", "one replication is too few to measure chance", (), [])
    return claim.judge(evidence)


def judge_draws(agrees: np.ndarray) -> CaseVerdict:
    """Judge one case by the bootstrap draws, each of which agrees with the claim or does not."""
    share = agrees.mean()
    return "holds" if share >= LEVEL else "fails" if share <= 1 - LEVEL else "open"


def require_both(one: CaseVerdict, other: CaseVerdict) -> CaseVerdict:
    """Judge a case in which two things must hold."""
    if one == other == "holds":
        return "holds"
    return "fails" if "fails" in (one, other) else "open"


def judge_cases(
    what: str,
    columns: Cells,
    cases: Sequence[tuple[CaseVerdict, Cells]],
    note: str = "",
    reason: str = "",
) -> Judgement:
    """Judge a claim that should hold in every case; `what` names the cases, in the plural.

    `reason` says what the numbers show, in half a sentence.
    """
    verdicts = [verdict for verdict, _ in cases]
    if not verdicts:
        return Judgement("not judged", f"the figures played have no {what} for it", columns, [])
    verdict: Verdict = "partly"
    if verdicts.count("holds") == len(verdicts):
        verdict = "reproduced"
    elif 2 * verdicts.count("fails") > len(verdicts):
        verdict = "not reproduced"
    counts = ", ".join(f"{name} in {verdicts.count(name)}" for name in get_args(CaseVerdict))
    count = f"{counts} of {len(verdicts)} {what}{f'; {note}' if note else ''}"
    rows = [(*cells, found) for found, cells in cases]
    why = f"{_count_in_words(verdicts, what)}{f': {reason}' if reason else ''}."
    return Judgement(verdict, count, (*columns, "claim"), rows, why)


def _count_in_words(verdicts: Sequence[CaseVerdict], what: str) -> str:
    holds, cases = verdicts.count("holds"), len(verdicts)
    others = [f"{each} in {count}" for each in ("open", "fails") if (count := verdicts.count(each))]
    of = f"all {cases}" if 1 < cases == holds else f"{holds} of {cases}"
    return ", ".join((f"Holds in {of} {what}", *others))


def format_range(text: str, numbers: Sequence[float], form: str) -> str:
    """A text with the smallest and the largest of some numbers in it; nothing if there are none.

    >>> format_range("rivals lose {} times as much", [1.24, 3.0, 2.0], ".1f")
    'rivals lose 1.2 to 3.0 times as much'
    """
    if not numbers:
        return ""
    ends = dict.fromkeys(f"{end:{form}}" for end in (min(numbers), max(numbers)))
    return text.format(" to ".join(ends))


def resample_means(samples: Matrix) -> Matrix:
    """The mean of each column, once for each bootstrap draw of the rows (the replications).

    The draws are always the same.
    """
    rng = np.random.default_rng(_SEED)
    count = len(samples)
    size = max(1, min(DRAWS, _MAX_CELLS // samples.size))
    blocks = (
        rng.integers(count, size=(min(size, DRAWS - done), count)) for done in range(0, DRAWS, size)
    )
    return np.concatenate([samples[chosen].mean(axis=1) for chosen in blocks])


def middle_95(draws: Vector) -> tuple[float, float]:
    """The ends of the middle 95 % of some draws; always two of the draws, as some may be infinite.

    >>> middle_95(np.arange(1001.0))
    (25.0, 975.0)
    """
    low, high = np.quantile(draws, (0.025, 0.975), method="inverted_cdf")
    return float(low), float(high)


def format_with_interval(number: float, draws: Vector, form: str) -> str:
    """A number, and in brackets the middle 95 % of its bootstrap draws."""
    low, high = middle_95(draws)
    return f"{number:{form}} ({low:{form}} .. {high:{form}})"


WIDTH, ROW_HEIGHT, LEGEND_COLUMNS, LEGEND_ROW = 11.5, 4.8, 3, 0.22


def picture_paths(name: str, folder: Path) -> list[Path]:
    """The files of the picture of that name."""
    return [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]


def make_canvas(curves: int, rows: int = 1) -> "Canvas":
    """An empty picture with room for a legend of so many curves below."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(
        figsize=(WIDTH, rows * ROW_HEIGHT + LEGEND_ROW * ceil(curves / LEGEND_COLUMNS)),
        layout="constrained",
    )


def add_legend(canvas: "Canvas", axes: "Axes", columns: int = LEGEND_COLUMNS) -> None:
    """Put the legend of some axes below all axes, where it covers no curve."""
    canvas.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, **LEGEND
    )


def describe_runs(study: Study, what: str = "bands") -> str:
    """The second line of a title."""
    return f"{study.replications:,} replications, 95 % {what} of the mean"


def save_canvas(canvas: "Canvas", name: str, folder: Path) -> None:
    """Write a picture as PNG and SVG; the same results give the same files."""
    from matplotlib import rc_context

    for path in picture_paths(name, folder):
        # Without the date and a fixed salt, an SVG would differ from run to run.
        with atomic_write(path) as draft, rc_context({"svg.hashsalt": name}):
            canvas.savefig(
                draft, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None
            )


ChapterName: TypeAlias = Literal["stochastic", "adversarial", "beyond"]
#: The folder of all stored studies, within the folder of a reproduction.
STUDIES = "studies"


class Figure(Protocol):
    """A figure of the paper, whose key is its number, or one of ours, whose key is a name.

    >>> from aftereffect.reproduction import FIGURES
    >>> FIGURES["14"].title, len(FIGURES)
    ('Figure 14: geometric, gamma = 0.8, varying alpha', 23)
    """

    @property
    def key(self) -> str:
        """What ``--figure`` takes: the paper's number, or a name."""

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""

    @property
    def title(self) -> str:
        """The title of the picture, and the heading in the report."""

    @property
    def caption(self) -> str:
        """What it shows, in one line."""


@dataclass(frozen=True)
class StoredStudy:
    """One study that a figure or a claim rests on, stored in a file of its own once it is played.

    ``in_picture`` says whether the figure's picture shows it. A ``timed`` study is played by one
    thread alone, so that processor times can be compared.
    """

    name: str
    policies: tuple[Policy, ...]
    bandit: Bandit
    checkpoints: tuple[int, ...]
    replications: int
    seed: int
    in_picture: bool = False
    timed: bool = False

    def path(self, folder: Path) -> Path:
        """Where it is stored."""
        return folder / STUDIES / f"{self.name}.parquet"

    @property
    def total_replications(self) -> int:
        """Replications of all its policies together."""
        return self.replications * len(self.policies)

    @property
    def plan(self) -> Plan:
        """The plan of the study."""
        return plan_study(
            self.policies,
            self.bandit,
            self.checkpoints[-1],
            self.replications,
            seed=self.seed,
            checkpoints=self.checkpoints,
        )

    def play(self, workers: Workers, progress: Callable[[int], None]) -> Study:
        """Play it."""
        if self.timed:
            with worker_pool(1, None) as alone:
                return self.plan.play(alone, progress)
        return self.plan.play(workers, progress)

    def save(self, study: Study, folder: Path) -> None:
        """Write its file, in place of one with other settings."""
        path = self.path(folder)
        make_folder(path.parent)
        study.save(path)

    def load(self, folder: Path) -> Study | None:
        """The study that an earlier run stored.

        None if there is none, or one with other settings or by other code.
        """
        return self.plan.load_finished(self.path(folder))


class Findings(NamedTuple):
    """What a folder says about a chapter."""

    #: The figures of which every study is stored.
    figures: list[Figure]
    claims: JudgedClaims
    #: The report's sections on the figures.
    sections: list[str]
    #: What the paper does not say, and what we chose.
    choices: list[tuple[str, str]]


@dataclass(frozen=True)
class Chapter:
    """Figures of one kind, the claims about them, and the three functions that handle them.

    ``list_studies`` names all studies that a figure and its claims rest on, ``draw_figure`` writes
    the pictures of a figure whose studies are stored, and ``make_findings`` judges the claims by
    what a folder holds and draws the pictures that belong to no single figure (``other_pictures``,
    names without a suffix).

    >>> from aftereffect.reproduction import CHAPTERS
    >>> {name: len(chapter.figures) for name, chapter in CHAPTERS.items()}
    {'stochastic': 14, 'adversarial': 5, 'beyond': 4}
    """

    name: ChapterName
    title: str
    figures: Mapping[str, Any]
    of_paper: bool
    list_studies: Callable[[Any, Settings], Sequence[StoredStudy]]
    draw_figure: Callable[[Any, Settings, Path], None]
    make_findings: Callable[[Settings, Path], Findings]
    other_pictures: tuple[str, ...] = ()
