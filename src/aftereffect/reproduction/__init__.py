"""The paper's experiments and ours, reproduced: figures, claims with verdicts, and a report.

A chapter is a set of figures as data, and the claims about them: "stochastic" and "adversarial" are
the paper's (Siwei Wang, Haoyun Wang, Longbo Huang, AAAI 2021, arXiv:2012.07048), "beyond" compares
`SettleUcb` with its rivals.
"""

from aftereffect.reproduction._report import format_digits, format_verdict, markdown_table
from aftereffect.reproduction.beyond import summarize_regret
from aftereffect.reproduction.chapters import (
    Chapter,
    ChapterName,
    Claim,
    Figure,
    JudgedClaims,
    Judgement,
    Verdict,
)
from aftereffect.reproduction.run import (
    CHAPTERS,
    FIGURES,
    PAPER_FIGURES,
    REPORT_HTML,
    count_replications,
    find_figures,
    reproduce,
)
from aftereffect.reproduction.settings import (
    ADVERSARIAL_LONG_HORIZON,
    DEFAULT,
    QUICK,
    Settings,
)

__all__ = [
    "ADVERSARIAL_LONG_HORIZON",
    "CHAPTERS",
    "DEFAULT",
    "FIGURES",
    "PAPER_FIGURES",
    "QUICK",
    "REPORT_HTML",
    "Chapter",
    "ChapterName",
    "Claim",
    "Figure",
    "JudgedClaims",
    "Judgement",
    "Settings",
    "Verdict",
    "count_replications",
    "find_figures",
    "format_digits",
    "format_verdict",
    "markdown_table",
    "reproduce",
    "summarize_regret",
]
