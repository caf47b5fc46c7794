"""The stochastic chapter: ARS-UCB and ODAAF, in figures 2-5 and 10-19.

Here are its pictures and its sections of the report; its figures, studies and claims are beside it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from aftereffect.policies import Policy
from aftereffect.reproduction._claims import judge_claim
from aftereffect.reproduction._pictures import add_legend, describe_runs, make_canvas, save_canvas
from aftereffect.reproduction._report import (
    ABSENT,
    format_command_block,
    format_final,
    markdown_table,
)
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.chapters import Chapter, Findings
from aftereffect.reproduction.stochastic.claims import CLAIMS, LONG_RUNS, Evidence
from aftereffect.reproduction.stochastic.figures import (
    FIGURES,
    MEANS,
    RECOMMENDED,
    STYLES,
    StochasticFigure,
    list_choices,
)
from aftereffect.reproduction.stochastic.studies import (
    ORDERS,
    PAPER_ORDER,
    EvidenceByOrder,
    Order,
    list_studies,
    long_study,
    shown_study,
)
from aftereffect.simulation import DASHES, CurveStyle, Study, draw_curves

__all__ = ["CHAPTER", "CLAIMS", "FIGURES", "MEANS", "RECOMMENDED"]


#: Settings have colours of their own, so that no curve of a setting is taken for a policy.
SETTING_COLOURS = (
    *("#1f77b4", "#aec7e8", "#2ca02c", "#98df8a", "#d62728", "#ff9896"),
    *("#9467bd", "#c5b0d5", "#8c564b", "#c49c94", "#7f7f7f", "#bcbd22"),
)
ABOUT_FIGURES = (
    "Mean pseudo-regret (regret in generated reward) with 95 % bands of the mean: all policies on "
    "the left, ARS-UCB alone on the right. The tables give the regret at the horizon: its mean, "
    "the standard error of the mean, and the 95th percentile of the replications. Naive UCB1, "
    "about which the paper claims nothing, does not play with the arms relabelled. Figures 2 and "
    "3, and 4 and 5, share their setting: a policy that plays in both has the same runs there."
)


def load_evidence(settings: Settings, folder: Path) -> EvidenceByOrder:
    """The evidence of all figures of which a folder holds every study."""
    evidence: dict[Order, list[Evidence]] = {order: [] for order in ORDERS}
    for figure in FIGURES.values():
        loaded = {}
        for order in ORDERS:
            shown = shown_study(figure, order, settings).load(folder)
            long = long_study(figure, order, settings).load(folder)
            if shown is not None and long is not None:
                loaded[order] = Evidence(figure, shown.final_only(), long)
        if len(loaded) == len(ORDERS):
            for order, each in loaded.items():
                evidence[order].append(each)
    return evidence


def make_findings(settings: Settings, folder: Path) -> Findings:
    """Judge the claims by what a folder holds, and draw the long runs."""
    evidence = load_evidence(settings, folder)
    shown = evidence[PAPER_ORDER]
    if shown:
        draw_long_runs(shown, folder)
    claims = [
        (claim, {order.name: judge_claim(claim, evidence[order]) for order in ORDERS})
        for claim in CLAIMS
    ]
    sections = [ABOUT_FIGURES]
    for place in range(len(shown)):
        sections += _write_figure(evidence, place, settings)
    return Findings([each.figure for each in shown], claims, sections, list_choices(settings))


def draw_figure(figure: StochasticFigure, settings: Settings, folder: Path) -> None:
    """Write the picture of a figure whose study is stored."""
    study = shown_study(figure, PAPER_ORDER, settings).load(folder)
    assert study is not None
    draw_study(figure, study, folder)


def draw_study(figure: StochasticFigure, study: Study, folder: Path) -> None:
    """Draw all policies on the left, and ARS-UCB alone, on its own scale, on the right."""
    styles = [STYLES[policy] for policy in figure.policies]
    canvas = make_canvas(len(styles))
    left, right = canvas.subplots(1, 2)
    draw_curves(study, left, styles)
    left.set_title("all policies", fontsize="medium")
    variants = len(figure.variants)
    draw_curves(replace(study, runs=study.runs[:variants]), right, styles[:variants])
    right.set_title("ARS-UCB alone, on its own scale", fontsize="medium")
    canvas.suptitle(f"{figure.title}\n{describe_runs(study)}", fontsize="large")
    add_legend(canvas, left)
    save_canvas(canvas, figure.name, folder)


def draw_long_runs(evidence: Sequence[Evidence], folder: Path) -> None:
    """Draw the long runs of the recommended policy in every setting.

    The right half is enlarged, as one setting with a high regret flattens the others on the left.
    """
    studies = {each.figure.setting: each.long for each in evidence}
    styles = [
        CurveStyle(name, colour, DASHES[place % len(DASHES)])
        for place, (name, colour) in enumerate(zip(studies, SETTING_COLOURS, strict=False))
    ]
    canvas = make_canvas(len(styles))
    left, right = canvas.subplots(1, 2)
    for axes in (left, right):
        for style in styles:
            draw_curves(studies[style.name], axes, [style])
    finals = [study[RECOMMENDED].mean[-1] for study in studies.values()]
    left.set_ylim(top=1.5 * max(finals))
    left.set_title("all settings", fontsize="medium")
    right.set_ylim(top=1.5 * float(np.median(finals)))
    right.set_title("the same, enlarged", fontsize="medium")
    runs = describe_runs(evidence[0].long)
    canvas.suptitle(
        f"{STYLES[RECOMMENDED].name}, in every setting, best arm first\n{runs}", fontsize="large"
    )
    add_legend(canvas, left)
    save_canvas(canvas, LONG_RUNS, folder)


def list_options(figure: StochasticFigure, settings: Settings) -> list[tuple[str, str]]:
    """The options of ``aftereffect simulate`` that play what a figure shows."""
    bandit = figure.bandit
    return [
        *(("--policy", str(policy)) for policy in figure.policies),
        ("--means", ",".join(f"{mean:g}" for mean in bandit.means)),
        ("--delay", str(bandit.delay)),
        ("--horizon", str(settings.horizon)),
        ("--replications", str(settings.replications)),
        ("--seed", str(settings.seed)),
    ]


def _write_figure(evidence: EvidenceByOrder, place: int, settings: Settings) -> list[str]:
    """A figure of the report."""
    figure = evidence[PAPER_ORDER][place].figure
    rows = [
        (
            STYLES[policy].name,
            *(cell for order in ORDERS for cell in _final(evidence[order][place], order, policy)),
        )
        for policy in figure.policies
    ]
    columns = [
        f"{name}, {order.name.lower()}" if name == "mean" else name
        for order in ORDERS
        for name in ("mean", "sem", "p95")
    ]
    return [
        f"### {figure.title}",
        f"![{figure.title}]({figure.name}.png)",
        markdown_table(("policy", *columns), rows),
        "This command plays what the first three columns show:",
        format_command_block(list_options(figure, settings)),
    ]


def _final(evidence: Evidence, order: Order, policy: Policy) -> tuple[str, str, str]:
    if policy not in order.policies(evidence.figure):
        return ABSENT, ABSENT, ABSENT
    return format_final(evidence.shown[policy])


CHAPTER = Chapter(
    "stochastic",
    "Stochastic bandits",
    FIGURES,
    of_paper=True,
    list_studies=list_studies,
    draw_figure=draw_figure,
    make_findings=make_findings,
    other_pictures=(LONG_RUNS,),
)
