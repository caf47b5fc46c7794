"""An estimate as a picture."""

import os
from typing import TYPE_CHECKING

from aftereffect.extras import imported
from aftereffect.outputs import save_figure

if TYPE_CHECKING:
    import matplotlib.axes

    from aftereffect.lag.estimate import LagEstimate


SIZE = (7, 4)


def plot_landing(estimate: "LagEstimate", ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
    """The share that has landed by each lag, with its band, and the mean lag with its own."""
    imported("matplotlib")
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.figure(figsize=SIZE, layout="constrained").add_subplot()
    band = f"{estimate.level:.0%} band"
    ax.fill_between(estimate.lags, estimate.landed_low, estimate.landed_high, step="post", alpha=0.25, lw=0, label=band)
    ax.step(estimate.lags, estimate.landed, where="post", label="landed by then")
    if estimate.known:
        ax.axvspan(estimate.low, estimate.high, color="C1", alpha=0.2, lw=0)
        ax.axvline(estimate.mean, color="C1", ls="--", label=f"mean lag {estimate.mean:.1f}")
    ax.set(xlabel="slots after the pull", ylabel="share of a reward", ylim=(0, 1.02), title=str(estimate).split(";")[0])
    ax.set_xlim(left=0)
    ax.title.set_fontsize("medium")
    ax.legend(loc="lower right", frameon=False)
    return ax


def save_landing(estimate: "LagEstimate", path: str | os.PathLike[str]) -> None:
    """Write the picture; the ending of the path says in which format."""
    imported("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    plot_landing(estimate, figure.add_subplot())
    save_figure(figure, path)
