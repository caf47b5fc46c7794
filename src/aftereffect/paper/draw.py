"""Write the pictures."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aftereffect.outputs import replacing
from aftereffect.paper.evidence import Evidence
from aftereffect.paper.figures import RECOMMENDED, Figure
from aftereffect.paper.looks import LOOKS
from aftereffect.simulation import Study
from aftereffect.simulation.plotting import DASHES, DPI, LEGEND, Look, draw_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

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
SIZE, LEGEND_COLUMNS, LEGEND_ROW = (11.5, 4.8), 3, 0.22


def pictures(name: str, folder: Path) -> list[Path]:
    """Where the pictures of that name are."""
    return [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]


def draw(figure: Figure, study: Study, folder: Path) -> None:
    """Write ``figure-N.png`` and ``figure-N.svg`` into a folder.

    Two axes: all policies on the left, and on the right those of the paper alone, which some rivals press flat.
    """
    looks = [LOOKS[policy] for policy in figure.policies]
    canvas = _canvas(len(looks))
    left, right = canvas.subplots(1, 2)
    draw_curves(study, left, looks)
    left.set_title("all policies", fontsize="medium")
    ours = len(figure.ours)
    draw_curves(replace(study, runs=study.runs[:ours]), right, looks[:ours])
    right.set_title("ARS-UCB alone, on its own scale", fontsize="medium")
    canvas.suptitle(f"Figure {figure.number}: {figure.caption}\n{_runs(study)}", fontsize="large")
    _legend(canvas, left)
    _save(canvas, figure.name, folder)


def draw_long_runs(evidence: Sequence[Evidence], folder: Path) -> None:
    """Write ``long-runs.png`` and ``long-runs.svg``: the recommended policy alone, for long, in every setting.

    Two axes again: a setting in which regret explodes would press the others flat.
    """
    settings = {each.figure.setting: each.long for each in evidence}
    looks = [Look(name, *look) for name, look in zip(settings, SETTING_LOOKS, strict=False)]
    canvas = _canvas(len(looks))
    left, right = canvas.subplots(1, 2)
    for axes in (left, right):
        for look in looks:
            draw_curves(settings[look.name], axes, [look])
    finals = [study[RECOMMENDED].mean[-1] for study in settings.values()]
    left.set_ylim(top=1.5 * max(finals))
    left.set_title("all settings", fontsize="medium")
    right.set_ylim(top=1.5 * float(np.median(finals)))
    right.set_title("the same, enlarged", fontsize="medium")
    canvas.suptitle(f"{LOOKS[RECOMMENDED].name}, in every setting, best arm first\n{_runs(evidence[0].long)}", fontsize="large")
    _legend(canvas, left)
    _save(canvas, LONG_RUNS, folder)


def _canvas(curves: int) -> "Canvas":
    """An empty picture with room for a legend below."""
    from matplotlib.figure import Figure as Canvas

    width, height = SIZE
    return Canvas(figsize=(width, height + LEGEND_ROW * ceil(curves / LEGEND_COLUMNS)), layout="constrained")


def _legend(canvas: "Canvas", axes: "Axes") -> None:
    """Below all axes, where it can cover no curve."""
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=LEGEND_COLUMNS, **LEGEND)


def _runs(study: Study) -> str:
    return f"{study.replications:,} replications, 95 % bands of the mean"


def _save(canvas: "Canvas", name: str, folder: Path) -> None:
    from matplotlib import rc_context

    for path in pictures(name, folder):
        # Without a date and random names the same results give the same file.
        with replacing(path) as draft, rc_context({"svg.hashsalt": name}):
            canvas.savefig(draft, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None)
