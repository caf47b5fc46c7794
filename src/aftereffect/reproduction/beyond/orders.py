"""How the order of arms changes regret.

A policy that holds the first arm at the beginning learns more if it is a good one, and the best arm
is the first in the paper's settings. Here the same nine arms come in random orders.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aftereffect._core import MAX_SEED, Matrix
from aftereffect.bandits import StochasticBandit
from aftereffect.delays import Geometric, Interval, LagLaw, UniformDelay
from aftereffect.policies import Policy
from aftereffect.reproduction._claims import Claim, judge_claim
from aftereffect.reproduction._pictures import add_legend, make_canvas, save_canvas
from aftereffect.reproduction._report import format_digits, markdown_table
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.beyond.figures import (
    ARS,
    NAMES,
    SETTLE,
    Setting,
    claim_everywhere,
    divide_regrets,
)
from aftereffect.reproduction.chapters import Findings, StoredStudy
from aftereffect.reproduction.stochastic import MEANS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POLICIES = (SETTLE, ARS)
MAX_ORDERS, MAX_RUNS = 40, 50
#: A run that loses more than this share of all slots has stayed with a wrong arm to the end, or
#: nearly: the two best arms are 0.1 apart.
STAYED_SHARE = 0.05
MIN_RATIO, MAX_STAYED = 2.5, 0.01


@dataclass(frozen=True)
class OrderFigure:
    """The regret in random orders beside that with the best arm first."""

    delays: tuple[LagLaw, ...] = (
        UniformDelay(10, 30),
        Interval(30, 39),
        UniformDelay(0, 200),
        Geometric(0.8),
    )
    key: str = "orders"
    title: str = "The order of the arms"
    caption: str = "how the order of the arms changes the regret of SettleUcb and ARS-UCB"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return "orders-of-arms"


@dataclass(frozen=True, eq=False)
class OrderEvidence:
    """The regrets with one delay: with the best arm first, and a row for each order."""

    setting: Setting
    horizon: int
    first: Mapping[Policy, Matrix]
    mixed: Mapping[Policy, Matrix]

    @property
    def replications(self) -> int:
        """Runs of each order."""
        return int(self.mixed[SETTLE].shape[1])

    def stayed(self, policy: Policy) -> float:
        """The share of runs in random orders that stayed with a wrong arm."""
        return float(np.mean(self.mixed[policy] > STAYED_SHARE * self.horizon))

    def error(self, policy: Policy) -> float:
        """The standard error of the mean; runs of one order have the order in common."""
        means = self.mixed[policy].mean(axis=1)
        return float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else math.nan


ORDERS = OrderFigure()


def list_order_studies(figure: OrderFigure, settings: Settings) -> list[StoredStudy]:
    """For each delay a study with the best arm first, and one of each order."""
    rng = np.random.default_rng(settings.beyond_seed)
    runs = min(MAX_RUNS, settings.beyond_replications)
    orders = [tuple(rng.permutation(MEANS).tolist()) for _ in range(MAX_ORDERS)]
    return [
        StoredStudy(
            f"{figure.name}-{number}-{place:02}",
            POLICIES,
            StochasticBandit(means, delay),
            (settings.beyond_horizon // 10,),
            runs * (MAX_ORDERS if place == 0 else 1),
            (settings.beyond_seed + place) % (MAX_SEED + 1),
            in_picture=True,
        )
        for number, delay in enumerate(figure.delays, 1)
        for place, means in enumerate((MEANS, *orders))
    ]


def load_orders(figure: OrderFigure, settings: Settings, folder: Path) -> list[OrderEvidence]:
    """The evidence on all delays; none if a study is not stored."""
    stored = list_order_studies(figure, settings)
    studies = [study for each in stored if (study := each.load(folder)) is not None]
    if len(studies) < len(stored):
        return []
    evidence = []
    for number, delay in enumerate(figure.delays):
        first, *mixed = studies[number * (MAX_ORDERS + 1) : (number + 1) * (MAX_ORDERS + 1)]
        evidence.append(
            OrderEvidence(
                Setting(str(delay), StochasticBandit(MEANS, delay)),
                settings.beyond_horizon // 10,
                {policy: first[policy].final for policy in POLICIES},
                {policy: np.array([each[policy].final for each in mixed]) for policy in POLICIES},
            )
        )
    return evidence


def _compare_policies(evidence: OrderEvidence) -> float:
    return divide_regrets(float(evidence.mixed[ARS].mean()), float(evidence.mixed[SETTLE].mean()))


def _stayed(evidence: OrderEvidence) -> float:
    return evidence.stayed(SETTLE)


def list_order_claims(horizon: int) -> list[Claim]:
    """What we claim of random orders at this horizon."""
    where = f"At T = {horizon:,}, with the paper's nine arms in random orders,"
    return [
        claim_everywhere(
            f"{where} the mean regret of SettleUcb is at least {MIN_RATIO} times lower than that "
            "of ARS-UCB.",
            f"the ratio of mean regrets, {NAMES[ARS]} / {NAMES[SETTLE]},",
            _compare_policies,
            at_least=MIN_RATIO,
        ),
        claim_everywhere(
            f"{where} at most {MAX_STAYED:.0%} of the runs of SettleUcb stay with a wrong arm.",
            f"the share of runs with a regret above {STAYED_SHARE * horizon:,.0f}",
            _stayed,
            at_most=MAX_STAYED,
        ),
    ]


def order_table(evidence: Sequence[OrderEvidence]) -> str:
    """A row for each delay and policy."""
    columns = (
        *("delay", "policy", "best arm first", "random order", "±", "ratio", "median", "worst"),
        "stayed with a wrong arm",
    )
    rows = [
        (
            each.setting.name,
            NAMES[policy],
            f"{each.first[policy].mean():,.0f}",
            f"{each.mixed[policy].mean():,.0f}",
            f"{each.error(policy):,.0f}",
            format_digits(divide_regrets(each.mixed[policy].mean(), each.first[policy].mean()), 3),
            f"{np.median(each.mixed[policy]):,.0f}",
            f"{each.mixed[policy].max():,.0f}",
            f"{each.stayed(policy):.2%}",
        )
        for each in evidence
        for policy in POLICIES
    ]
    return markdown_table(columns, rows)


def describe_orders(evidence: Sequence[OrderEvidence], settings: Settings) -> str:
    """The table with its caption."""
    horizon = evidence[0].horizon
    caption = (
        f"Mean regret at T = {horizon:,} of the nine arms 0.9, 0.8, ..., 0.1, over {MAX_ORDERS} "
        f"random orders with {evidence[0].replications} runs each, seeds from "
        f"{settings.beyond_seed} on, beside as many runs in all with the best arm first. ± is the "
        "standard error of the mean over orders. A run with a regret of more than "
        f"{STAYED_SHARE * horizon:,.0f} has stayed with a wrong arm."
    )
    return f"{order_table(evidence)}\n\n{textwrap.fill(caption, width=100)}"


def find_orders(figure: OrderFigure, settings: Settings, folder: Path) -> Findings:
    """The claims, judged by what a folder holds, and the section of the report."""
    evidence = load_orders(figure, settings, folder)
    if not evidence:
        return Findings([], [], [], [])
    sections = [
        f"### {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        describe_orders(evidence, settings),
    ]
    case = f"{evidence[0].replications} runs of each order"
    claims = list_order_claims(evidence[0].horizon)
    judged = [(claim, {case: judge_claim(claim, evidence)}) for claim in claims]
    return Findings([figure], judged, sections, [])


def draw_orders(figure: OrderFigure, settings: Settings, folder: Path) -> None:
    """Draw the share of runs below each regret: a panel for each delay."""
    evidence = load_orders(figure, settings, folder)
    canvas = make_canvas(2 * len(POLICIES))
    panels: Sequence[Axes] = canvas.subplots(1, len(evidence), sharey=True, squeeze=False)[0]
    for axes, each in zip(panels, evidence, strict=True):
        for number, policy in enumerate(POLICIES):
            for runs, line, name in (
                (each.first[policy], "--", "best arm first"),
                (each.mixed[policy].ravel(), "-", "random order"),
            ):
                label = f"{NAMES[policy]}, {name}"
                axes.ecdf(runs, color=f"C{number}", linestyle=line, label=label)
        axes.set_xscale("log")
        axes.set_title(each.setting.name, fontsize="small")
        axes.set_xlabel("regret")
        axes.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("share of runs")
    canvas.suptitle(f"{figure.title}, T = {evidence[0].horizon:,}", fontsize="medium")
    add_legend(canvas, panels[0])
    save_canvas(canvas, figure.name, folder)
