"""The paper's figures and claims, as data, and what plays, draws, judges and reports them."""

from aftereffect.paper.figures import FIGURES, Figure, numbered
from aftereffect.paper.report import verdict
from aftereffect.paper.run import reproduce, steps
from aftereffect.paper.settings import DEFAULT, QUICK, Settings

__all__ = ["DEFAULT", "FIGURES", "QUICK", "Figure", "Settings", "numbered", "reproduce", "steps", "verdict"]
