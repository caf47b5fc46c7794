"""What the two halves of the paper have in common: figures that rest on studies, and claims judged by them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from aftereffect.paper.judgement import Claim, Judgement
from aftereffect.paper.part import Part
from aftereffect.paper.settings import Settings

#: Every claim, and its judgements by what was varied.
Judged = Sequence[tuple[Claim, Mapping[str, Judgement]]]


class Figure(Protocol):
    """A figure of the paper."""

    @property
    def number(self) -> int:
        """The paper's."""

    @property
    def name(self) -> str:
        """The stem of its files."""

    @property
    def caption(self) -> str:
        """What is shown."""


F = TypeVar("F", bound=Figure)


class Findings(NamedTuple):
    """What a folder says about a half: which figures are finished, what follows for the claims, and the report's sections."""

    figures: list[int]
    judged: Judged
    about_figures: list[str]
    choices: list[tuple[str, str]]


class Half(ABC, Generic[F]):
    """The stochastic or the adversarial half of the paper."""

    title: str
    figures: Mapping[int, F]
    #: The stems of pictures that belong to claims or to no figure of the paper.
    further_pictures: tuple[str, ...]

    @abstractmethod
    def parts(self, figure: F, settings: Settings) -> list[Part]:
        """All that a figure and the claims about it rest on."""

    @abstractmethod
    def draw(self, figure: F, settings: Settings, folder: Path) -> None:
        """Write the pictures of a figure whose studies are kept."""

    @abstractmethod
    def findings(self, settings: Settings, folder: Path) -> Findings:
        """Judge the claims by what the folder holds with these settings, and draw the further pictures."""
