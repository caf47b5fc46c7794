"""The paper's figures and claims, as data, and what plays, draws, judges and reports them."""

from aftereffect.paper.figures import FIGURES, Figure, numbered
from aftereffect.paper.report import verdict
from aftereffect.paper.run import REPORT_PAGE, reproduce, steps
from aftereffect.paper.settings import DEFAULT, QUICK, Settings

__all__ = ["DEFAULT", "FIGURES", "QUICK", "REPORT_PAGE", "Figure", "Settings", "numbered", "reproduce", "steps", "verdict"]
