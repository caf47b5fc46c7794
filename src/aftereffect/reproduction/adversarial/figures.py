"""The adversarial figures as data: policies, rewards and delays.

The paper gives clicks of Outbrain with rewards held back for 10 or 20 slots; coupons with delays
uniform on 5 .. 10 or 10 .. 20; and CLW with the true d, or a d that is 10 % off. It does not give
the number of arms, slots or runs. The results depend on these, so a figure may have several panels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aftereffect.bandits import AdversarialBandit
from aftereffect.delays import Delay, HoldBack, UniformDelay
from aftereffect.policies import ArsClw, ArsExp3, Clw, Exp3, Policy
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.adversarial.rewards import (
    COUPONS,
    PAGE_CLUSTERS,
    THREE_CATEGORIES,
    TWELVE_CATEGORIES,
    RewardsOfPanel,
)
from aftereffect.simulation import CurveStyle

OURS = ArsExp3()
#: By role, as in `Panel.players`.
STYLES: Mapping[str, CurveStyle] = {
    "ours": CurveStyle("ARS-EXP3", "#0072B2", "-"),
    "true d": CurveStyle("CLW with the true d", "#D55E00", (0, (9, 3))),
    "less": CurveStyle("CLW with d 10 % too low", "#E69F00", (0, (5, 1, 1, 1, 1, 1))),
    "more": CurveStyle("CLW with d 10 % too high", "#CC79A7", (0, (6, 1, 6, 1, 1, 1))),
    "guesses d": CurveStyle("ARS-CLW", "#009E73", "-."),
    "naive": CurveStyle("Exp3, naive", "#000000", (0, (1, 4))),
}


def make_clw(d: int) -> Clw:
    """CLW with this d, in the variant that the paper names."""
    return Clw(d, variant="colt", base="exp3")


@dataclass(frozen=True)
class Panel:
    """One bandit of a figure: its rewards, its delays, and the d that CLW gets.

    With ``wrong_d``, CLW also plays with a d that is 10 % off.
    """

    suffix: str
    rewards: RewardsOfPanel
    delay: Delay
    d: int
    about: str
    wrong_d: bool = False

    @property
    def players(self) -> dict[str, Policy]:
        """The policies that play, by role."""
        wrong = {"less": make_clw(round(0.9 * self.d)), "more": make_clw(round(1.1 * self.d))}
        return {
            "ours": OURS,
            "true d": make_clw(self.d),
            **(wrong if self.wrong_d else {}),
            "guesses d": ArsClw(),
            "naive": Exp3(),
        }

    def bandit(self, settings: Settings, slots: int) -> AdversarialBandit:
        """The bandit for that many slots."""
        return AdversarialBandit(self.rewards.schedule(settings.data, slots), self.delay)

    def describe(self, settings: Settings) -> str:
        """What a caption says."""
        return f"{self.rewards.describe(settings.data)}, {self.about}"


@dataclass(frozen=True)
class AdversarialFigure:
    """A figure of the paper with one panel or several; the first is the paper's, as we read it."""

    number: int
    caption: str
    panels: tuple[Panel, ...]

    @property
    def key(self) -> str:
        """What ``--figure`` takes."""
        return str(self.number)

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return f"figure-{self.number}"

    @property
    def title(self) -> str:
        """The title of the picture, and the heading in the report."""
        return f"Figure {self.number}: {self.caption}"

    @property
    def is_oblivious(self) -> bool:
        """Whether the delays do not depend on which arms are pulled."""
        return not isinstance(self.panels[0].delay, HoldBack)


@dataclass(frozen=True)
class PriceFigure:
    """Not a figure of the paper: the regret of CLW against the d that it is given."""

    panels: tuple[Panel, ...]
    key: str = "price-of-not-knowing"
    title: str = "The price of not knowing d"
    caption: str = "regret of CLW given from a quarter of the true d to four times as much"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return self.key


def _hold_back(number: int, d: int) -> AdversarialFigure:
    about = f"held back {d} slots"
    within = f"{about}, pulls in a row counted within rounds"
    panels = (
        Panel("", THREE_CATEGORIES, HoldBack(d), d, about),
        Panel("-restarted", THREE_CATEGORIES, HoldBack(d, reset_on_round=True), d, within),
        Panel("-twelve", TWELVE_CATEGORIES, HoldBack(d), d, about),
        Panel("-clusters", PAGE_CLUSTERS, HoldBack(d), d, about),
    )
    caption = f"Outbrain, the best arm's rewards held back {d} slots"
    return AdversarialFigure(number, caption, panels)


def _uniform(number: int, a: int, b: int) -> AdversarialFigure:
    about = f"delay uniform on {a} .. {b}"
    panel = Panel("", COUPONS, UniformDelay(a, b), b, about, wrong_d=True)
    return AdversarialFigure(number, f"Coupon, {about}", (panel,))


_OBLIVIOUS = (_uniform(8, 5, 10), _uniform(9, 10, 20))
FIGURES: Mapping[str, AdversarialFigure | PriceFigure] = {
    figure.key: figure
    for figure in (
        _hold_back(6, 10),
        _hold_back(7, 20),
        *_OBLIVIOUS,
        PriceFigure(tuple(figure.panels[0] for figure in _OBLIVIOUS)),
    )
}


def list_choices(settings: Settings) -> list[tuple[str, str]]:
    """What the paper does not say about this chapter, and what we chose."""
    data = (
        "stand-ins drawn once from published shares: independent slots, and independent weekdays"
        if settings.data is None
        else "the original files, in order; if there are fewer rows than slots, that many rows "
        "drawn from all of them; clusters of pages are a stand-in drawn from published shares"
    )
    return [
        ("adversarial horizon", f"{settings.adversarial_horizon:,} slots"),
        ("adversarial replications", f"{settings.adversarial_replications:,} of each policy"),
        ("data", data),
        (
            "arms of Outbrain",
            "the three largest parent categories; also all twelve, and ten clusters of pages",
        ),
        (
            "coupons",
            "those that are not usable every day; a weekday pays if the coupon is usable on it",
        ),
        (
            "when a reward is held back",
            "from the 3d-th pull in a row on, counted across rounds; also counted within rounds",
        ),
        ("variant of CLW", "that of 2018 on Exp3, with losses; with d = 10 or 20, or 10 % off"),
        (
            "guess of ARS-CLW",
            "h(T) = T^0.2, rounded up; the square root would play almost at random up to 1e7 slots",
        ),
        ("rounds of ARS-EXP3", "k^(1/2) slots, rounded up; gamma by the exact number of rounds"),
        ("a policy that ignores delay", "Exp3, naive, in every adversarial figure"),
    ]
