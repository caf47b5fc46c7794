"""The adversarial figures as data: the policies, their rewards, and the delays.

The paper gives clicks of Outbrain with rewards held back for 10 or 20 slots; coupons with delays
uniform on 5 .. 10 or 10 .. 20; and CLW with the true d, or a d that is 10 % off. It does not give
the number of arms, slots or runs. The results depend on these, so a figure may have several panels.

Rewards are read from the original files where a user has them. If not, stand-ins are drawn from
averages of the data set that were published.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from aftereffect.bandits import AdversarialBandit
from aftereffect.delays import Delay, HoldBack, UniformDelay
from aftereffect.errors import InputError
from aftereffect.policies import ArsClw, ArsExp3, Clw, Exp3, Policy
from aftereffect.reproduction.datasets import load_coupon, load_outbrain
from aftereffect.reproduction.settings import Settings
from aftereffect.rewards import DrawnArm, DrawnRewards, Recorded, Rows, Schedule
from aftereffect.simulation import CurveStyle

SEED = 20_160_614
#: The share of each parent category among Outbrain's categorised documents, by category id.
OUTBRAIN_PARENTS = {
    10: 0.0009,
    11: 0.0387,
    12: 0.0504,
    13: 0.0129,
    14: 0.1928,
    15: 0.1202,
    16: 0.1070,
    17: 0.1780,
    18: 0.0820,
    19: 0.1469,
    20: 0.0474,
    21: 0.0228,
}
#: The three largest of these, 14, 17 and 19, divided by their sum.
OUTBRAIN_THREE_LARGEST = (0.372, 0.344, 0.284)
#: The share of each of ten clusters of categories among the pages on which ads were clicked.
OUTBRAIN_PAGE_CLUSTERS = (0.007, 0.001, 0.093, 0.110, 0.002, 0.717, 0.023, 0.008, 0.010, 0.029)
#: Of the 4,537 coupons that are not usable every day, the share usable on each day from Monday on.
COUPON_WEEKDAYS = (0.776, 0.799, 0.911, 0.921, 0.861, 0.652, 0.638)


@dataclass(frozen=True)
class RewardsOfPanel:
    """The rewards of a panel: a name, a stand-in, and a reader of the original files, if any."""

    name: str
    stand_in: Schedule
    read: Callable[[Path, int], Schedule] | None = None

    def schedule(self, data: Path | None, slots: int) -> Schedule:
        """The rewards of that many slots."""
        return self.stand_in if data is None or self.read is None else self.read(data, slots)

    def describe(self, data: Path | None) -> str:
        """The name, with a note if it is a stand-in."""
        if data is not None and self.read is not None:
            return self.name
        return f"{self.name} (stand-in drawn from published shares)"


def _normalize(shares: Iterable[float]) -> tuple[float, ...]:
    """Scale shares, which were rounded for publication, so that they sum to one."""
    given = tuple(shares)
    return tuple(share / sum(given) for share in given)


def _clicks_reader(arms: Literal["parents"] | int) -> Callable[[Path, int], Schedule]:
    @lru_cache(maxsize=2)
    def read(data: Path, slots: int) -> Schedule:
        clicks = load_outbrain(_find_folder(data, "outbrain"), arms=arms)
        return Recorded(_take_rows(clicks.paying, slots), paying_arms=len(clicks.names))

    return read


@lru_cache(maxsize=2)
def _read_coupons(data: Path, slots: int) -> Schedule:
    """The coupons that are not usable every day."""
    coupons = load_coupon(_find_folder(data, "coupon"), only_choosy=True)
    return Recorded(_take_rows(coupons.flags, slots))


def _take_rows(rows: Rows, slots: int) -> Rows:
    """The first rows; or if there are too few, that many rows drawn from all."""
    if slots <= len(rows):
        return rows[:slots]
    return rows[np.random.default_rng(SEED).integers(len(rows), size=slots)]


def _find_folder(data: Path, name: str) -> Path:
    """The folder of one competition's files: of that name, or the one that holds all files."""
    if not data.is_dir():
        raise InputError(f"cannot read {data}: there is no such folder")
    return data / name if (data / name).is_dir() else data


THREE_CATEGORIES = RewardsOfPanel(
    "clicks among the three largest Outbrain categories",
    DrawnArm(OUTBRAIN_THREE_LARGEST, SEED),
    _clicks_reader(3),
)
TWELVE_CATEGORIES = RewardsOfPanel(
    "clicks among the twelve Outbrain categories",
    DrawnArm(_normalize(OUTBRAIN_PARENTS.values()), SEED),
    _clicks_reader("parents"),
)
PAGE_CLUSTERS = RewardsOfPanel(
    "clicked pages by clusters of Outbrain categories",
    DrawnArm(_normalize(OUTBRAIN_PAGE_CLUSTERS), SEED),
)
COUPONS = RewardsOfPanel(
    "weekdays of coupons not usable every day, resampled",
    DrawnRewards(COUPON_WEEKDAYS, SEED),
    _read_coupons,
)


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


def clw(d: int) -> Clw:
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
        wrong = {"less": clw(round(0.9 * self.d)), "more": clw(round(1.1 * self.d))}
        return {
            "ours": OURS,
            "true d": clw(self.d),
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
