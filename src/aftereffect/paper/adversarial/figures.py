"""Figures 6 to 9 as data: who plays for which rewards under which delays.

The paper says: clicks of Outbrain with rewards held back for 10 or 20 slots; coupons with delays uniform on 5 .. 10 or
10 .. 20; CLW told d, or 10 % off. It does not say how many arms, slots or runs. What comes out depends on these, so a figure
may have several panels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aftereffect.environments import AdversarialBandit
from aftereffect.paper.adversarial.sources import CLUSTERS, COUPONS, THREE, TWELVE, Source
from aftereffect.paper.settings import Settings
from aftereffect.policies import ArsClw, ArsExp3, Clw, Exp3, Policy
from aftereffect.simulation.plotting import Look
from aftereffect.spreads import Delaying, HoldBack, UniformDelay

OURS = ArsExp3()
LOOKS: Mapping[str, Look] = {
    "ours": Look("ARS-EXP3", "#0072B2", "-"),
    "told": Look("CLW, told d", "#D55E00", (0, (9, 3))),
    "less": Look("CLW, told 10 % less", "#E69F00", (0, (5, 1, 1, 1, 1, 1))),
    "more": Look("CLW, told 10 % more", "#CC79A7", (0, (6, 1, 6, 1, 1, 1))),
    "guessing": Look("ARS-CLW", "#009E73", "-."),
    "naive": Look("Exp3, naive", "#000000", (0, (1, 4))),
}


def clw(d: int) -> Clw:
    """The rival as the paper names it."""
    return Clw(d, variant="colt", base="exp3")


@dataclass(frozen=True)
class Panel:
    """One game: rewards, delays, and the d that CLW is told."""

    key: str
    source: Source
    delays: Delaying
    d: int
    about: str
    off: bool = False

    @property
    def players(self) -> dict[str, Policy]:
        """Who plays, by the name of the look."""
        wrong = {"less": clw(round(0.9 * self.d)), "more": clw(round(1.1 * self.d))} if self.off else {}
        return {"ours": OURS, "told": clw(self.d), **wrong, "guessing": ArsClw(), "naive": Exp3()}

    def environment(self, settings: Settings, slots: int) -> AdversarialBandit:
        """The game for that many slots."""
        return AdversarialBandit(self.source.schedule(settings.data, slots), self.delays)

    def told(self, settings: Settings) -> str:
        """What a caption says."""
        return f"{self.source.told(settings.data)}, {self.about}"


@dataclass(frozen=True)
class AdversarialFigure:
    """A figure with one panel or several; the first is the paper's, as we read it."""

    number: int
    caption: str
    panels: tuple[Panel, ...]

    @property
    def name(self) -> str:
        """The stem of its files."""
        return f"figure-{self.number}"

    @property
    def oblivious(self) -> bool:
        """Whether delays do not look at the play."""
        return not isinstance(self.panels[0].delays, HoldBack)


def _held_back(number: int, d: int) -> AdversarialFigure:
    across = f"held back {d} slots"
    panels = (
        Panel("", THREE, HoldBack(d), d, across),
        Panel("-restarted", THREE, HoldBack(d, reset_on_round=True), d, f"{across}, rows of pulls counted within rounds"),
        Panel("-twelve", TWELVE, HoldBack(d), d, across),
        Panel("-clusters", CLUSTERS, HoldBack(d), d, across),
    )
    return AdversarialFigure(number, f"Outbrain, the best arm's rewards held back {d} slots", panels)


def _uniform(number: int, a: int, b: int) -> AdversarialFigure:
    panel = Panel("", COUPONS, UniformDelay(a, b), b, f"delay uniform on {a} .. {b}", off=True)
    return AdversarialFigure(number, f"Coupon, delay uniform on {a} .. {b}", (panel,))


FIGURES: Mapping[int, AdversarialFigure] = {
    figure.number: figure for figure in (_held_back(6, 10), _held_back(7, 20), _uniform(8, 5, 10), _uniform(9, 10, 20))
}
