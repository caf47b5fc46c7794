"""The paper's figures, as data, and what draws them."""

from aftereffect.paper.draw import draw
from aftereffect.paper.figures import FIGURES, Figure

__all__ = ["FIGURES", "Figure", "draw"]
