"""Pictures of studies, through matplotlib."""

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from aftereffect._core import Slots, open_axes, save_figure

if TYPE_CHECKING:
    import matplotlib.axes

    from aftereffect.simulation._runs import PolicyRuns

SIZE = (7.2, 5.4)


class Curves(Protocol):
    """What can be drawn: a `Study`, or anything else with checkpoints and runs."""

    @property
    def checkpoints(self) -> tuple[int, ...]: ...

    @property
    def runs(self) -> "tuple[PolicyRuns, ...]": ...

    @property
    def bandit_label(self) -> str: ...


class CurveStyle(NamedTuple):
    """How a curve is drawn, and its name in the legend.

    >>> CurveStyle("UCB1", "#0072B2", "--").name
    'UCB1'
    """

    name: str
    colour: str
    dashes: Any


#: Colours that people with any kind of colour vision can tell apart (by Okabe and Ito), and dashes
#: for grey print. Both advance with every curve, so that 42 curves differ.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (9, 3)))
_MAX_NAME_IN_TWO_COLUMNS = 40
PLAIN_NUMBERS = "{x:,.12g}"
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": "small", "handlelength": 4}


def plot_regret(study: Curves, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
    """Plot mean regret against time on a logarithmic axis, with 95 % bands of the mean."""
    ax = open_axes(ax, SIZE)
    styles = default_styles(runs.label for runs in study.runs)
    draw_curves(study, ax, styles)
    has_long_names = max(len(style.name) for style in styles) > _MAX_NAME_IN_TWO_COLUMNS
    columns = 1 if len(styles) < 3 or has_long_names else 2
    # Below the axes it can cover no curve, whatever their shape.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, **LEGEND)
    return ax


def draw_curves(study: Curves, ax: "matplotlib.axes.Axes", styles: Sequence[CurveStyle]) -> None:
    """Draw the curves with their bands and axes, one style per policy, without a legend."""
    slots = np.array(study.checkpoints)
    for runs, style in zip(study.runs, styles, strict=True):
        mark = "o" if len(slots) == 1 else ""
        ax.plot(
            slots,
            runs.mean,
            color=style.colour,
            linestyle=style.dashes,
            marker=mark,
            label=textwrap.fill(style.name, 90),
        )
        if runs.sem is not None:
            band = 1.96 * runs.sem
            ax.fill_between(
                slots, runs.mean - band, runs.mean + band, color=style.colour, alpha=0.18, lw=0
            )
    ax.set_xscale("log")
    if len(slots) > 1:
        ax.set_xlim(slots[0], slots[-1])
    has_gains = min(runs.mean.min() for runs in study.runs) < 0
    ax.set_ylim(bottom=min(0, ax.get_ylim()[0]) if has_gains else 0)
    ax.yaxis.set_major_formatter(PLAIN_NUMBERS)
    ax.set_xlabel("slots played")
    ax.set_ylabel("pseudo-regret (generated reward lost)")
    ax.grid(visible=True, alpha=0.3)


def plot_pulls(arms: Slots, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
    """Plot which arm was pulled in which slots: a row per arm, a bar per round."""
    ax = open_axes(ax, SIZE)
    starts = np.append(0, np.flatnonzero(np.diff(arms)) + 1)
    lengths = np.diff(np.append(starts, len(arms)))
    count = int(arms.max()) + 1
    for arm in range(count):
        rounds = arms[starts] == arm
        bars = list(zip(starts[rounds], lengths[rounds], strict=True))
        ax.broken_barh(bars, (arm - 0.4, 0.8), color=COLOURS[arm % len(COLOURS)])
    ax.set_xlim(0, len(arms))
    ax.set_ylim(count - 0.4, -0.6)
    ax.set_yticks(range(count), [f"arm {arm}" for arm in range(count)])
    ax.xaxis.set_major_formatter(PLAIN_NUMBERS)
    ax.set_xlabel("slot")
    return ax


def save_picture(study: Curves, path: str | os.PathLike[str]) -> None:
    """Write a picture of a study in the format of the path's suffix."""
    width, height = SIZE

    def draw(ax: "matplotlib.axes.Axes") -> None:
        plot_regret(study, ax)
        ax.set_title(textwrap.fill(study.bandit_label, 70), fontsize="medium")

    save_figure(draw, (width, height + 0.15 * len(study.runs)), path)


def default_styles(names: Iterable[str]) -> list[CurveStyle]:
    """Return a style for each name."""
    return [
        CurveStyle(name, COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)])
        for number, name in enumerate(names)
    ]
