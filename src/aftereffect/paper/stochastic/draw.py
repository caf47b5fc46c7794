"""Write the pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from aftereffect.paper.pictures import canvas_for, legend_below, runs_told, save
from aftereffect.paper.stochastic.evidence import Evidence
from aftereffect.paper.stochastic.figures import RECOMMENDED, Figure
from aftereffect.paper.stochastic.looks import LOOKS
from aftereffect.simulation import Study
from aftereffect.simulation.plotting import DASHES, Look, draw_curves

LONG_RUNS = "long-runs"
#: Settings have colours of their own, so that none is taken for a policy.
SETTING_COLOURS = [
    "#1f77b4",
    "#aec7e8",
    "#2ca02c",
    "#98df8a",
    "#d62728",
    "#ff9896",
    "#9467bd",
    "#c5b0d5",
    "#8c564b",
    "#c49c94",
    "#7f7f7f",
    "#bcbd22",
]
SETTING_LOOKS = [(colour, DASHES[place % len(DASHES)]) for place, colour in enumerate(SETTING_COLOURS)]


def draw(figure: Figure, study: Study, folder: Path) -> None:
    """Write ``figure-N.png`` and ``figure-N.svg`` into a folder.

    Two axes: all policies on the left, and on the right those of the paper alone, which some rivals press flat.
    """
    looks = [LOOKS[policy] for policy in figure.policies]
    canvas = canvas_for(len(looks))
    left, right = canvas.subplots(1, 2)
    draw_curves(study, left, looks)
    left.set_title("all policies", fontsize="medium")
    ours = len(figure.ours)
    draw_curves(replace(study, runs=study.runs[:ours]), right, looks[:ours])
    right.set_title("ARS-UCB alone, on its own scale", fontsize="medium")
    canvas.suptitle(f"Figure {figure.number}: {figure.caption}\n{runs_told(study)}", fontsize="large")
    legend_below(canvas, left)
    save(canvas, figure.name, folder)


def draw_long_runs(evidence: Sequence[Evidence], folder: Path) -> None:
    """Write ``long-runs.png`` and ``long-runs.svg``: the recommended policy alone, for long, in every setting.

    Two axes again: a setting in which regret explodes would press the others flat.
    """
    settings = {each.figure.setting: each.long for each in evidence}
    looks = [Look(name, *look) for name, look in zip(settings, SETTING_LOOKS, strict=False)]
    canvas = canvas_for(len(looks))
    left, right = canvas.subplots(1, 2)
    for axes in (left, right):
        for look in looks:
            draw_curves(settings[look.name], axes, [look])
    finals = [study[RECOMMENDED].mean[-1] for study in settings.values()]
    left.set_ylim(top=1.5 * max(finals))
    left.set_title("all settings", fontsize="medium")
    right.set_ylim(top=1.5 * float(np.median(finals)))
    right.set_title("the same, enlarged", fontsize="medium")
    canvas.suptitle(
        f"{LOOKS[RECOMMENDED].name}, in every setting, best arm first\n{runs_told(evidence[0].long)}", fontsize="large"
    )
    legend_below(canvas, left)
    save(canvas, LONG_RUNS, folder)
