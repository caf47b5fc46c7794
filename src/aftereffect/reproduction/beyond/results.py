"""The tables and the picture of the chapter beyond the paper."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from aftereffect.policies import Policy
from aftereffect.reproduction._report import ABSENT, format_digits, markdown_table
from aftereffect.reproduction.beyond.claims import RegretEvidence
from aftereffect.reproduction.beyond.figures import (
    ARS,
    ARS_KL,
    NAIVE,
    NAMES,
    ODAAF,
    SETTLE,
    RegretFigure,
)
from aftereffect.reproduction.chapters import JudgedClaims, add_legend, save_canvas
from aftereffect.simulation import PLAIN_NUMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RIVALS = (ARS, ODAAF, NAIVE)
WIDTH, ROW, MARGINS = 12.5, 0.3, 1.9
TICKS = (0.03, 0.1, 0.3, 1, 3, 10, 30)


class Mark(NamedTuple):
    """How a policy is marked; shapes differ too, for grey print."""

    shape: str
    colour: str
    size: int


MARKS: Mapping[Policy, Mark] = {
    SETTLE: Mark("o", "#0072B2", 9),
    ARS_KL: Mark("D", "#009E73", 6),
    ODAAF: Mark("s", "#D55E00", 6),
    NAIVE: Mark("X", "#000000", 7),
}


def regret_table(evidence: Sequence[RegretEvidence], horizon: int) -> str:
    """Every policy in every setting, at one horizon."""
    columns = (
        *("setting", "policy", "mean", "p95", "worst"),
        *(f"{NAMES[rival]} / policy" for rival in RIVALS),
        "policy / floor",
    )
    rows = [
        (
            each.setting.name,
            name,
            *_format_runs(each, policy, horizon),
            *(format_digits(each.ratio(rival, policy, horizon), 3) for rival in RIVALS),
            format_digits(each.floor_ratio(policy, horizon), 3),
        )
        for each in evidence
        for policy, name in NAMES.items()
    ]
    return markdown_table(columns, rows)


def growth_table(evidence: Sequence[RegretEvidence], first: int, last: int) -> str:
    """How the mean regret of SettleUcb grows where the reach is finite."""
    columns = (
        "setting",
        f"T = {first:,}",
        f"T = {last:,}",
        "p",
    )
    rows = [
        (
            each.setting.name,
            f"{each.growth[0]:,.0f}",
            f"{each.growth[1]:,.0f}",
            f"{each.growth[2]:.2f}",
        )
        for each in evidence
        if each.growth is not None
    ]
    return markdown_table(columns, rows)


def cost_table(evidence: Sequence[RegretEvidence]) -> str:
    """The processor time of one replication."""
    rows = [
        (
            each.setting.name,
            *(f"{1e3 * seconds:.3g} ms" for seconds in each.cost),
            format_digits(each.cost[0] / each.cost[1], 3),
        )
        for each in evidence
        if each.cost is not None
    ]
    return markdown_table(("setting", NAMES[SETTLE], NAMES[ARS], "ratio"), rows)


def _format_runs(evidence: RegretEvidence, policy: Policy, horizon: int) -> list[str]:
    """Mean, 95th percentile and maximum of the regret."""
    numbers = (
        measure(policy, horizon) for measure in (evidence.mean, evidence.p95, evidence.worst)
    )
    return [f"{number:,.0f}" if math.isfinite(number) else ABSENT for number in numbers]


def summary_table(evidence: Sequence[RegretEvidence]) -> str:
    """SettleUcb alone, a row for each setting."""
    early, middle, late = evidence[0].horizons
    columns = (
        *("setting", "mean", "p95", "worst", f"ARS-UCB, T={_format_power(early)}"),
        *(_format_power(middle), _format_power(late), "ODAAF", "UCB1", "floor"),
    )
    rows = [
        (
            each.setting.name,
            *_format_runs(each, SETTLE, middle),
            *(format_digits(each.ratio(ARS, SETTLE, slot), 3) for slot in each.horizons),
            *(format_digits(each.ratio(rival, SETTLE, middle), 3) for rival in (ODAAF, NAIVE)),
            format_digits(each.floor_ratio(SETTLE, middle), 3),
        )
        for each in evidence
    ]
    return markdown_table(columns, rows)


def describe_summary(evidence: Sequence[RegretEvidence], claims: JudgedClaims, seed: int) -> str:
    """What the columns of the summary are, and how many claims were reproduced."""
    middle = evidence[0].horizons[1]
    judged = [(claim, found) for claim, cases in claims for found in cases.values()]
    missed = [(claim, found) for claim, found in judged if found.verdict != "reproduced"]
    text = (
        "The columns mean, p95 and worst are the mean, the 95th percentile and the maximum of the "
        f"regret of SettleUcb at T = {middle:,}, over {evidence[0].replications:,} runs with seed "
        f"{seed}. The columns of ARS-UCB are the mean regret of `ArsUcb(4, Power(2))` divided by "
        "that of SettleUcb, at three horizons. The columns ODAAF and UCB1 are the same ratio at "
        f"T = {middle:,}. ODAAF knows the horizon and the true mean lag; UCB1 ignores the delay. "
        "The column floor is the mean regret of SettleUcb divided by the Lai-Robbins slope times "
        "ln T, which is the floor for rewards that arrive at once. A dash means that ODAAF "
        "cannot play with an infinite mean lag, or that no floor is known. The first "
        f"{sum(each.setting.of_paper for each in evidence)} settings are the paper's. Of "
        f"{len(judged)} claims, {len(judged) - len(missed)} were reproduced."
    )
    for claim, found in missed:
        text += f' Not reproduced: "{claim.title}" ({found.count}).'
    return textwrap.fill(text, width=100)


def _format_power(slots: int) -> str:
    """A horizon in few characters: 1e5."""
    return f"{slots:.0e}".replace("e+0", "e")


def draw_ratios(figure: RegretFigure, evidence: Sequence[RegretEvidence], folder: Path) -> None:
    """Draw the ratios of mean regrets: a row for each setting, a mark for each policy."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(WIDTH, MARGINS + ROW * len(evidence)), layout="constrained")
    horizons = evidence[0].horizons[1:]
    panels = canvas.subplots(1, len(horizons), sharex=True, sharey=True)
    for axes, horizon in zip(panels, horizons, strict=True):
        _draw_panel(axes, evidence, horizon)
    panels[0].set_yticks(range(len(evidence)), [each.setting.name for each in evidence])
    panels[0].invert_yaxis()  # the first setting on top
    canvas.suptitle(
        f"Mean regret of {NAMES[ARS]} divided by the policy's, {evidence[0].replications:,} runs",
        fontsize="large",
    )
    add_legend(canvas, panels[0], len(MARKS))
    save_canvas(canvas, figure.name, folder)


def _draw_panel(axes: "Axes", evidence: Sequence[RegretEvidence], horizon: int) -> None:
    """All ratios at one horizon, with the settings beyond the paper below a dashed line."""
    for policy, mark in MARKS.items():
        ratios = [each.ratio(ARS, policy, horizon) for each in evidence]
        rows = [row for row, ratio in enumerate(ratios) if math.isfinite(ratio)]
        points = [ratios[row] for row in rows]
        (marks,) = axes.plot(
            points, rows, mark.shape, color=mark.colour, markersize=mark.size, label=NAMES[policy]
        )
        marks.set_markeredgecolor("white")  # separates marks that overlap
    axes.axvline(1, color="black", linewidth=1)
    border = sum(each.setting.of_paper for each in evidence) - 0.5
    axes.axhline(border, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks(TICKS, minor=False)
    axes.set_xticks((), minor=True)
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.grid(visible=True, alpha=0.3)
    axes.set_ylim(-0.7, len(evidence) - 0.3)
    axes.set_title(f"T = {horizon:,}", fontsize="medium")
    axes.set_xlabel(f"{NAMES[ARS]} / the policy; right of 1 the policy is better")
