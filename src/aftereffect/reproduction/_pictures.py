"""Pictures of figures: their size, legend, titles and files."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from aftereffect._core import DPI, atomic_write
from aftereffect.simulation import LEGEND, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


WIDTH, ROW_HEIGHT, LEGEND_COLUMNS, LEGEND_ROW = 11.5, 4.8, 3, 0.22


def picture_paths(name: str, folder: Path) -> list[Path]:
    """The files of the picture of that name."""
    return [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]


def make_canvas(curves: int, rows: int = 1) -> "Canvas":
    """An empty picture with room for a legend of so many curves below."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(
        figsize=(WIDTH, rows * ROW_HEIGHT + LEGEND_ROW * ceil(curves / LEGEND_COLUMNS)),
        layout="constrained",
    )


def add_legend(canvas: "Canvas", axes: "Axes", columns: int = LEGEND_COLUMNS) -> None:
    """Put the legend of some axes below all axes, where it covers no curve."""
    canvas.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, **LEGEND
    )


def describe_runs(study: Study, what: str = "bands") -> str:
    """The second line of a title."""
    return f"{study.replications:,} replications, 95 % {what} of the mean"


def save_canvas(canvas: "Canvas", name: str, folder: Path) -> None:
    """Write a picture as PNG and SVG; the same results give the same files."""
    from matplotlib import rc_context

    for path in picture_paths(name, folder):
        # Without the date and a fixed salt, an SVG would differ from run to run.
        with atomic_write(path) as draft, rc_context({"svg.hashsalt": name}):
            canvas.savefig(
                draft, dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else None
            )
