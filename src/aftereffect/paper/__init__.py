"""The paper's figures and claims, as data, and what plays, draws, judges and reports them."""

from aftereffect.paper.half import Figure
from aftereffect.paper.halves import FIGURES, numbered
from aftereffect.paper.markdown import verdict
from aftereffect.paper.run import REPORT_PAGE, reproduce, steps
from aftereffect.paper.settings import DEFAULT, FAR_HORIZON, QUICK, Settings

__all__ = [
    "DEFAULT",
    "FAR_HORIZON",
    "FIGURES",
    "QUICK",
    "REPORT_PAGE",
    "Figure",
    "Settings",
    "numbered",
    "reproduce",
    "steps",
    "verdict",
]
