"""What a chapter is: figures that rest on stored studies, and the claims about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from aftereffect._core import make_folder
from aftereffect.bandits import Bandit
from aftereffect.policies import Policy
from aftereffect.reproduction._claims import JudgedClaims
from aftereffect.reproduction._settings import Settings
from aftereffect.simulation import Plan, Study, Workers, plan_study, worker_pool

ChapterName: TypeAlias = Literal["stochastic", "adversarial", "beyond"]
#: The folder of all stored studies, within the folder of a reproduction.
STUDIES = "studies"


class Figure(Protocol):
    """A figure of the paper, whose key is its number, or one of ours, whose key is a name.

    >>> from aftereffect.reproduction import FIGURES
    >>> FIGURES["14"].title, len(FIGURES)
    ('Figure 14: geometric, gamma = 0.8, varying alpha', 24)
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
    {'stochastic': 14, 'adversarial': 5, 'beyond': 5}
    """

    name: ChapterName
    title: str
    figures: Mapping[str, Any]
    of_paper: bool
    list_studies: Callable[[Any, Settings], Sequence[StoredStudy]]
    draw_figure: Callable[[Any, Settings, Path], None]
    make_findings: Callable[[Settings, Path], Findings]
    other_pictures: tuple[str, ...] = ()
