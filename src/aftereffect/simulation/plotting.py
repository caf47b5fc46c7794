"""Pictures of studies, through matplotlib."""

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect.extras import imported
from aftereffect.outputs import save_figure

if TYPE_CHECKING:
    import matplotlib.axes

    from aftereffect.simulation.study import Study

SIZE = (7.2, 5.4)


class Look(NamedTuple):
    """How a curve is drawn and what it is called in the legend."""

    name: str
    colour: str
    dashes: Any


#: Colours (Okabe and Ito's, for all kinds of colour vision) and dashes, for grey print; in step, 42 curves differ.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (9, 3)))
_LONGEST_IN_TWO_COLUMNS = 40
PLAIN_NUMBERS = "{x:,.12g}"
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "handlelength": 4}


def plot_regret(study: "Study", ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
    """Mean regret against time on a logarithmic axis, with 95 % bands of the mean."""
    imported("matplotlib")
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(figsize=SIZE, layout="constrained").add_subplot()
    looks = default_looks(runs.label for runs in study)
    draw_curves(study, ax, looks)
    # Below the axes it can cover no curve, whatever their shape.
    columns = 1 if len(study) < 3 or max(len(look.name) for look in looks) > _LONGEST_IN_TWO_COLUMNS else 2
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, **LEGEND)
    return ax


def draw_curves(study: "Study", ax: "matplotlib.axes.Axes", looks: Sequence[Look]) -> None:
    """The curves with their bands and axes, one look per policy, without a legend."""
    slots = np.array(study.checkpoints)
    for runs, look in zip(study, looks, strict=True):
        mark = "o" if len(slots) == 1 else ""
        ax.plot(slots, runs.mean, color=look.colour, linestyle=look.dashes, marker=mark, label=textwrap.fill(look.name, 90))
        if runs.sem is not None:
            band = 1.96 * runs.sem
            ax.fill_between(slots, runs.mean - band, runs.mean + band, color=look.colour, alpha=0.18, lw=0)
    ax.set_xscale("log")
    if len(slots) > 1:
        ax.set_xlim(slots[0], slots[-1])
    ax.set_ylim(bottom=min(0, ax.get_ylim()[0]) if min(runs.mean.min() for runs in study) < 0 else 0)
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
    ax.set_xlabel("slots played")
    ax.set_ylabel("pseudo-regret (generated reward lost)")
    ax.grid(visible=True, alpha=0.3)


def save_picture(study: "Study", path: str | os.PathLike[str]) -> None:
    """Write a picture of a study; the ending of the path says in which format."""
    imported("matplotlib")
    from matplotlib.figure import Figure

    width, height = SIZE
    figure = Figure(figsize=(width, height + 0.15 * len(study)), layout="constrained")
    ax = plot_regret(study, figure.add_subplot())
    ax.set_title(textwrap.fill(str(study.environment), 70), fontsize="medium")
    save_figure(figure, path)


def default_looks(names: Iterable[str]) -> list[Look]:
    """One look for each name."""
    return [Look(name, COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]) for number, name in enumerate(names)]
