"""The ratios as one picture: a row for each setting, a mark for each policy."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aftereffect as ae
from aftereffect.paper.pictures import save
from aftereffect.simulation.plotting import COLOURS, LEGEND, PLAIN_NUMBERS
from regret_runs import ARS, ARS_KL, NAIVE, NAMES, ODAAF, SETTLE, Played

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME, SHOWN = "regret", (10**5, 10**6)
WIDTH, ROW, MARGINS = 12.5, 0.3, 1.9
TICKS = (0.03, 0.1, 0.3, 1, 3, 10, 30)


class Mark(NamedTuple):
    """Shapes too, for grey print."""

    shape: str
    colour: str
    size: int


MARKS: Mapping[ae.Policy, Mark] = {
    SETTLE: Mark("o", COLOURS[0], 9),
    ARS_KL: Mark("D", COLOURS[2], 6),
    ODAAF: Mark("s", COLOURS[1], 6),
    NAIVE: Mark("X", COLOURS[6], 7),
}


def draw(results: Sequence[Played], folder: Path) -> None:
    """Write it as PNG and SVG into a folder."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(WIDTH, MARGINS + ROW * len(results)), layout="constrained")
    panels = canvas.subplots(1, len(SHOWN), sharex=True, sharey=True)
    for axes, horizon in zip(panels, SHOWN, strict=True):
        _panel(axes, results, horizon)
    panels[0].set_yticks(range(len(results)), [played.setting.name for played in results])
    panels[0].invert_yaxis()  # the first setting on top
    runs = len(results[0].regrets[SETTLE])
    canvas.suptitle(f"How many times below that of {NAMES[ARS]} is the mean regret? {runs:,} runs", fontsize="large")
    canvas.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(MARKS), **LEGEND)
    save(canvas, NAME, folder)


def _panel(axes: "Axes", results: Sequence[Played], horizon: int) -> None:
    """All ratios at one horizon; settings beyond the paper stand below a line."""
    for policy, mark in MARKS.items():
        ratios = [played.times_below(policy, ARS, horizon) for played in results]
        rows = [row for row, ratio in enumerate(ratios) if math.isfinite(ratio)]
        points = [ratios[row] for row in rows]
        (marks,) = axes.plot(points, rows, mark.shape, color=mark.colour, markersize=mark.size, label=NAMES[policy])
        marks.set_markeredgecolor("white")  # so that marks on top of each other stay apart
    axes.axvline(1, color="black", linewidth=1)
    axes.axhline(sum(played.setting.of_paper for played in results) - 0.5, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks(TICKS, minor=False)
    axes.set_xticks((), minor=True)
    axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
    axes.grid(visible=True, alpha=0.3)
    axes.set_ylim(-0.7, len(results) - 0.3)
    axes.set_title(f"T = {horizon:,}", fontsize="medium")
    axes.set_xlabel(f"mean regret of {NAMES[ARS]} / the policy's; right of 1 is better")
