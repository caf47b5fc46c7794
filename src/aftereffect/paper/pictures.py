"""What all pictures of the paper share: their size, a legend below all axes, and how they are saved."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect.outputs import DPI, replacing
from aftereffect.simulation import Study
from aftereffect.simulation.plotting import LEGEND

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTH, ROW_HEIGHT, LEGEND_COLUMNS, LEGEND_ROW = 11.5, 4.8, 3, 0.22


def pictures(name: str, folder: Path) -> list[Path]:
    """Where the pictures of that name are."""
    return [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]


def canvas_for(curves: int, rows: int = 1) -> "Canvas":
    """An empty picture with room for a legend below."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(WIDTH, rows * ROW_HEIGHT + LEGEND_ROW * ceil(curves / LEGEND_COLUMNS)), layout="constrained")


def legend_below(canvas: "Canvas", axes: "Axes") -> None:
    """Below all axes it can cover no curve."""
    canvas.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=LEGEND_COLUMNS, **LEGEND)


def runs_told(study: Study) -> str:
    """The second line of a title."""
    return f"{study.replications:,} replications, 95 % bands of the mean"


def save(canvas: "Canvas", name: str, folder: Path) -> None:
    """Write it as PNG and SVG."""
    from matplotlib import rc_context

    for path in pictures(name, folder):
        # Without a date and random names the same results give the same file.
        with replacing(path) as draft, rc_context({"svg.hashsalt": name}):
            canvas.savefig(draft, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None)
