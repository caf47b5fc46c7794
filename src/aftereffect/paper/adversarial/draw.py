"""Write the pictures of the adversarial half."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from aftereffect.paper.adversarial.evidence import AdversarialEvidence
from aftereffect.paper.adversarial.figures import LOOKS, OURS, AdversarialFigure
from aftereffect.paper.pictures import canvas_for, legend_below, runs_told, save
from aftereffect.paper.settings import Settings
from aftereffect.policies import ArsClw, Clw
from aftereffect.simulation import Study
from aftereffect.simulation.plotting import PLAIN_NUMBERS, draw_curves

MISJUDGED = "price-of-not-knowing"
COLUMNS = 2


def draw(figure: AdversarialFigure, studies: Sequence[Study], settings: Settings, folder: Path) -> None:
    """Write ``figure-N.png`` and ``figure-N.svg``: one pair of axes per panel, with time as it runs."""
    rows = -(-len(studies) // COLUMNS)
    canvas = canvas_for(len(figure.panels[0].players), rows)
    axes = canvas.subplots(rows, min(COLUMNS, len(studies)), squeeze=False).ravel()
    for panel, study, ax in zip(figure.panels, studies, axes, strict=False):
        draw_curves(study, ax, [LOOKS[player] for player in panel.players])
        ax.set_xscale("linear")
        ax.set_xlim(0, study.horizon)
        ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.tick_params(axis="x", labelsize="small")
        ax.set_ylabel("regret (generated reward lost)")
        ax.set_title(fill(panel.told(settings), 70), fontsize="small")
    canvas.suptitle(f"Figure {figure.number}: {figure.caption}\n{runs_told(studies[0])}", fontsize="large")
    legend_below(canvas, axes[0])
    save(canvas, figure.name, folder)


def draw_misjudged(evidence: Sequence[AdversarialEvidence], folder: Path) -> None:
    """Write ``price-of-not-knowing.png`` and ``.svg``: CLW's regret against the d that it was told."""
    canvas = canvas_for(3)
    for ax, each in zip(canvas.subplots(1, len(evidence), squeeze=False).ravel(), evidence, strict=True):
        assert each.misjudged is not None
        told = [(runs.policy.d, runs) for runs in each.misjudged if isinstance(runs.policy, Clw) and runs.policy.d is not None]
        look = LOOKS["told"]
        ax.errorbar(
            [d / each.of.d for d, _ in told],
            [runs.mean[-1] for _, runs in told],
            yerr=[0.0 if runs.sem is None else 1.96 * runs.sem[-1] for _, runs in told],
            color=look.colour,
            marker="o",
            capsize=3,
            label="CLW",
        )
        for player, policy in (("ours", OURS), ("guessing", ArsClw())):
            mean = each.misjudged[policy].mean[-1]
            ax.axhline(mean, color=LOOKS[player].colour, linestyle=LOOKS[player].dashes, label=LOOKS[player].name)
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
        ax.set_ylim(bottom=0)
        ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
        ax.set_xlabel(f"d that CLW is told, in terms of the true d = {each.of.d}")
        ax.set_ylabel("regret at the horizon (generated reward lost)")
        ax.set_title(fill(each.about, 70), fontsize="small")
        ax.grid(visible=True, alpha=0.3)
    canvas.suptitle(
        f"The price of not knowing d\n{runs_told(evidence[0].panel)}".replace("bands", "intervals"), fontsize="large"
    )
    legend_below(canvas, canvas.axes[0])
    save(canvas, MISJUDGED, folder)
