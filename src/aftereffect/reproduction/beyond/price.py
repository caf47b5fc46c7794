"""The price of anonymity: what our policies lose beside oracles.

Oracles learn from which pull each part of a total comes (see `aftereffect.policies`). What they
lose says what knowing that would bring; a policy's price is its mean regret divided by that of
attributed KL-UCB.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aftereffect.policies import (
    AttributedKlUcb,
    DelayedKlUcb,
    DelayedUcb,
    DelayedUcb1,
    Policy,
    QpmD,
)
from aftereffect.reproduction._claims import Claim, Judgement, judge_claim
from aftereffect.reproduction._pictures import add_legend, save_canvas
from aftereffect.reproduction._report import format_digits, markdown_table
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.beyond.figures import (
    ARS,
    ARS_KL,
    NAMES,
    OTHER_SETTINGS,
    PAPER_SETTINGS,
    SETTLE,
    RegretEvidence,
    Setting,
    claim_everywhere,
    divide_regrets,
    measure_all,
)
from aftereffect.reproduction.chapters import Findings, StoredStudy
from aftereffect.simulation import PLAIN_NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: The oracle that prices are relative to, and the others.
BEST = AttributedKlUcb("first")
OTHER_ORACLES: Mapping[Policy, str] = {
    AttributedKlUcb(): "KL-UCB, complete pulls",
    DelayedUcb1(): "Delayed-UCB1",
    QpmD(): "QPM-D(UCB1)",
    DelayedUcb(): "DelayedUCB",
    DelayedKlUcb(): "DelayedKLUCB",
}
ORACLES: Mapping[Policy, str] = {BEST: "KL-UCB", **OTHER_ORACLES}
OURS = (SETTLE, ARS_KL, ARS)
#: Oracles play every slot, so more runs would take long.
MAX_PRICE_RUNS = 200
MAX_MEAN_PRICE, MAX_WORST = 2.5, 3
#: How policies are marked in the picture: shape and colour.
MARKS: Mapping[Policy, tuple[str, str]] = {
    SETTLE: ("o", "#0072B2"),
    ARS_KL: ("D", "#009E73"),
    ARS: ("X", "#000000"),
    DelayedUcb1(): ("s", "#D55E00"),
    DelayedUcb(): ("^", "#CC79A7"),
    DelayedKlUcb(): ("v", "#E69F00"),
}
WIDTH, ROW, MARGINS, LEGEND_COLUMNS = 10, 0.33, 2.1, 4


@dataclass(frozen=True)
class PriceFigure:
    """What policies lose beside attributed KL-UCB: the paper's settings, and two with long lags."""

    settings: tuple[Setting, ...]
    key: str = "price"
    title: str = "The price of anonymity"
    caption: str = "what our policies lose beside oracles that know which pull a reward is from"

    @property
    def name(self) -> str:
        """The name of its files, without a suffix."""
        return "price-of-anonymity"


PRICE = PriceFigure(
    (*PAPER_SETTINGS, *(each for each in OTHER_SETTINGS if each.name.endswith(("200", "500"))))
)


def find_horizon(settings: Settings) -> int:
    """The horizon at which prices are compared: a tenth of the chapter's."""
    return settings.beyond_horizon // 10


def list_price_studies(figure: PriceFigure, settings: Settings) -> list[StoredStudy]:
    """Two studies per setting: of the oracles, which take long, and of ours."""
    return [
        StoredStudy(
            f"{figure.name}-{number:02}-{group}",
            tuple(policies),
            setting.bandit,
            (find_horizon(settings),),
            min(MAX_PRICE_RUNS, settings.beyond_replications),
            settings.beyond_seed,
            in_picture=True,
        )
        for number, setting in enumerate(figure.settings, 1)
        for group, policies in (("oracles", ORACLES), ("ours", OURS))
    ]


def load_prices(figure: PriceFigure, settings: Settings, folder: Path) -> list[RegretEvidence]:
    """The evidence of all settings; none if a study is not stored."""
    evidence = []
    studies = [each.load(folder) for each in list_price_studies(figure, settings)]
    for setting, oracles, ours in zip(figure.settings, studies[::2], studies[1::2], strict=True):
        if oracles is None or ours is None:
            return []
        regret = {policy: oracles[policy].regret for policy in ORACLES}
        regret |= {policy: ours[policy].regret for policy in OURS}
        evidence.append(RegretEvidence(setting, ours.checkpoints, regret))
    return evidence


def mean_price(evidence: Sequence[RegretEvidence], policy: Policy) -> float:
    """The geometric mean of the prices of a policy."""
    prices = [each.ratio(policy, BEST, each.horizons[-1]) for each in evidence]
    with np.errstate(divide="ignore"):  # a price may be 0
        return float(np.exp(np.mean(np.log(prices))))


def list_price_claims(horizon: int) -> list[Claim]:
    """What we claim of prices at this horizon."""

    def judge(evidence: Sequence[RegretEvidence]) -> Judgement:
        paper = [each for each in evidence if each.setting.of_paper]
        price = mean_price(paper, SETTLE)
        prices = measure_all(paper, lambda each: each.ratio(SETTLE, BEST, horizon))
        return Judgement(
            "reproduced" if price <= MAX_MEAN_PRICE else "not reproduced",
            f"geometric mean {format_digits(price, 3)} of {len(paper)} settings",
            ("setting", "number"),
            [(name, format_digits(number, 3)) for name, number in prices.items()],
        )

    return [
        claim_everywhere(
            f"At T = {horizon:,}, attributed KL-UCB loses less than SettleUcb in every setting.",
            "the ratio of mean regrets, SettleUcb / attributed KL-UCB,",
            lambda each: each.ratio(SETTLE, BEST, horizon),
            above=1,
        ),
        claim_everywhere(
            f"At T = {horizon:,}, the worst run of SettleUcb loses at most {MAX_WORST} times its "
            "mean in every setting.",
            "the highest regret of SettleUcb, divided by its mean,",
            lambda each: divide_regrets(each.worst(SETTLE, horizon), each.mean(SETTLE, horizon)),
            at_most=MAX_WORST,
        ),
        Claim(
            f"At T = {horizon:,}, the price of anonymity of SettleUcb is on average at most "
            f"{MAX_MEAN_PRICE} in the paper's settings.",
            "Reproduced if the geometric mean of the ratios of mean regrets, SettleUcb / "
            f"attributed KL-UCB, is at most {MAX_MEAN_PRICE}, otherwise not.",
            judge,
        ),
    ]


def price_table(evidence: Sequence[RegretEvidence]) -> str:
    """The mean regret of the oracles and of ours, and the prices of ours."""
    columns = (
        "setting",
        *ORACLES.values(),
        *(NAMES[policy] for policy in OURS),
        *(f"price of {NAMES[policy]}" for policy in OURS),
    )
    rows = []
    for each in evidence:
        horizon = each.horizons[-1]
        means = [f"{each.mean(policy, horizon):,.0f}" for policy in (*ORACLES, *OURS)]
        prices = [format_digits(each.ratio(policy, BEST, horizon), 3) for policy in OURS]
        rows.append((each.setting.name, *means, *prices))
    paper = [each for each in evidence if each.setting.of_paper]
    for name, chosen in (("paper's settings", paper), ("all settings", evidence)):
        prices = [format_digits(mean_price(chosen, policy), 3) for policy in OURS]
        rows.append((f"geometric mean, {name}", *[""] * (len(ORACLES) + len(OURS)), *prices))
    return markdown_table(columns, rows)


def describe_prices(evidence: Sequence[RegretEvidence], settings: Settings) -> str:
    """The table of prices with its caption."""
    caption = (
        f"Mean regret at T = {find_horizon(settings):,}, over {evidence[0].replications:,} runs "
        f"with seed {settings.beyond_seed}. The first {len(ORACLES)} columns are oracles, which "
        "learn from which pull each part of a total comes. KL-UCB knows a whole reward from its "
        "first part, if all are cut into the same shares; the next three wait for the last part, "
        "and where rewards arrive without end until a hundredth is left; DelayedUCB and "
        "DelayedKLUCB know the "
        "law of the lags instead of waiting. A price is the mean regret "
        "of a policy, which sees totals only, divided by that of KL-UCB, the first column."
    )
    return f"{price_table(evidence)}\n\n{textwrap.fill(caption, width=100)}"


def draw_prices(figure: PriceFigure, settings: Settings, folder: Path) -> None:
    """Draw the prices: a row for each setting, a mark for each policy."""
    from matplotlib.figure import Figure as Canvas

    evidence = load_prices(figure, settings, folder)
    canvas = Canvas(figsize=(WIDTH, MARGINS + ROW * len(evidence)), layout="constrained")
    axes: Axes = canvas.subplots()
    horizon = evidence[0].horizons[-1]
    names = {**NAMES, **ORACLES}
    for policy, (shape, colour) in MARKS.items():
        prices = [each.ratio(policy, BEST, horizon) for each in evidence]
        rows = [row for row, price in enumerate(prices) if math.isfinite(price)]
        points = [prices[row] for row in rows]
        (marks,) = axes.plot(points, rows, shape, color=colour, markersize=7, label=names[policy])
        marks.set_markeredgecolor("white")  # separates marks that overlap
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(evidence)), [each.setting.name for each in evidence])
    axes.invert_yaxis()  # the first setting on top
    axes.set_xscale("log")
    axes.set_xticks((1, 2, 3, 5, 10, 20, 50), minor=False)
    axes.set_xticks((), minor=True)
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.grid(visible=True, alpha=0.3)
    axes.set_title(
        f"Mean regret divided by that of attributed KL-UCB, T = {horizon:,}, "
        f"{evidence[0].replications:,} runs",
        fontsize="medium",
    )
    add_legend(canvas, axes, LEGEND_COLUMNS)
    save_canvas(canvas, figure.name, folder)


def find_prices(figure: PriceFigure, settings: Settings, folder: Path) -> Findings:
    """The claims, judged by what a folder holds, and the section of the report."""
    evidence = load_prices(figure, settings, folder)
    if not evidence:
        return Findings([], [], [], [])
    case = f"{evidence[0].replications:,} runs"
    sections = [
        f"### {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        describe_prices(evidence, settings),
    ]
    claims = list_price_claims(find_horizon(settings))
    judged = [(claim, {case: judge_claim(claim, evidence)}) for claim in claims]
    return Findings([figure], judged, sections, [])
