"""The estimate of a lag: numbers with their bands, as text, tables, weights and pictures."""

import html
import math
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aftereffect._core import open_axes, save_figure
from aftereffect.errors import ParameterError

if TYPE_CHECKING:
    import matplotlib.axes

#: The size of a picture in inches.
_FIGURE_SIZE = (7, 4)


class Quantity(NamedTuple):
    """A number of slots and its band.

    >>> print(Quantity(9.8, 8.1, 11.6))
    9.8 slots (8.1 to 11.6)
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} slots ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True, kw_only=True)
class LagEstimate:
    """How long rewards take to arrive, estimated from a history.

    Attributes
    ----------
    conclusive
        Whether the history is enough for an estimate. If not, `reason` says why, and the numbers
        are only hints.
    mean, low, high
        The mean lag of a unit of reward, in slots, and its band.
    p90
        The lag by which 90 % of a reward has arrived, and its band.
    level
        How often a band is right.
    slots
        How many slots of the history were used.
    lags, arrived, arrived_low, arrived_high
        The share of a reward that has arrived by each lag, and its band.

    Examples
    --------
    >>> from aftereffect import estimate_lag
    >>> print(estimate_lag(["A", "B"] * 20, [0.5] * 40).slots)
    40
    """

    conclusive: bool
    reason: str
    mean: float
    low: float
    high: float
    p90: Quantity
    level: float
    slots: int
    lags: tuple[int, ...]
    arrived: tuple[float, ...]
    arrived_low: tuple[float, ...]
    arrived_high: tuple[float, ...]

    def __str__(self) -> str:
        if not self.conclusive:
            return f"cannot tell the lag: {self.reason}"
        mean = Quantity(self.mean, self.low, self.high)
        bands = f"{self.level:.0%} bands from {self.slots:,} slots"
        return f"mean lag {mean}, 90% arrived after {self.p90}; {bands}"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        if not self.conclusive:
            return f"<p>{html.escape(str(self))}</p>"
        quantities = {
            "mean lag": Quantity(self.mean, self.low, self.high),
            "90 % arrived after": self.p90,
        }
        rows = "".join(
            f"<tr><th>{name}</th><td>{each}</td></tr>" for name, each in quantities.items()
        )
        caption = f"{self.level:.0%} bands from {self.slots:,} slots"
        return f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>"

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON takes them; numbers that are not finite are None."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def adstock(self) -> list[float]:
        """The share of a reward that arrives at each lag from 0 on, as weights that sum to 1.

        That is the adstock of a marketing mix model, which you would otherwise have to guess.
        """
        if not self.conclusive:
            raise ParameterError(
                f"there are no adstock weights, as the lag is not known: {self.reason}"
            )
        return [float(share) for share in np.diff(self.arrived, prepend=0.0) / self.arrived[-1]]

    def rows(self) -> list[dict[str, float]]:
        """A row per lag: the share that has arrived by then, and its band."""
        columns = zip(self.lags, self.arrived, self.arrived_low, self.arrived_high, strict=True)
        return [
            {"lag": lag, "arrived": arrived, "low": low, "high": high}
            for lag, arrived, low, high in columns
        ]

    def plot(self, ax: "matplotlib.axes.Axes | None" = None) -> "matplotlib.axes.Axes":
        """Draw the share that has arrived by each lag, with its band. Needs the extra ``plot``."""
        ax = open_axes(ax, _FIGURE_SIZE)
        low, high, band = self.arrived_low, self.arrived_high, f"{self.level:.0%} band"
        ax.fill_between(self.lags, low, high, step="post", alpha=0.25, lw=0, label=band)
        ax.step(self.lags, self.arrived, where="post", label="arrived by then")
        if self.conclusive:
            ax.axvspan(self.low, self.high, color="C1", alpha=0.2, lw=0)
            ax.axvline(self.mean, color="C1", ls="--", label=f"mean lag {self.mean:.1f}")
        ax.set(xlabel="slots after the pull", ylabel="share of a reward", ylim=(0, 1.02))
        ax.set_title(str(self).split(";")[0], fontsize="medium")
        ax.set_xlim(left=0)
        ax.legend(loc="lower right", frameon=False)
        return ax

    def save_plot(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, in the format of its suffix. Needs the extra ``plot``."""
        save_figure(self.plot, _FIGURE_SIZE, path)


def _plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
