"""The report as Markdown: which of the paper's claims hold, the figures with their numbers, and what we chose."""

from collections.abc import Sequence

from aftereffect.paper.half import Findings, Judged
from aftereffect.paper.halves import FIGURES, HALVES
from aftereffect.paper.markdown import claim_sections, table, verdict
from aftereffect.paper.settings import Settings
from aftereffect.provenance import made_by

TITLE = "Bandits with composite and anonymous feedback: the paper's experiments, played again"


def markdown(findings: Sequence[Findings], settings: Settings) -> str:
    """The whole report."""
    played = sum(len(each.figures) for each in findings)
    covered = f"all {len(FIGURES)} figures" if played == len(FIGURES) else f"{played} of the {len(FIGURES)} figures"
    sections = [
        f"# {TITLE}",
        f"The experiments of *Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous Feedback*: {covered}, "
        f"seed {settings.seed}, by {made_by()}. Claims are judged by the figures that are here alone. Behind a ± stands a "
        f"standard error; in brackets, from .. to, the middle 95 % of the bootstrap's draws.",
    ]
    number = 1
    for half, found in zip(HALVES, findings, strict=True):
        if found.figures:
            sections += [f"## {half.title}: the claims", summary(found.judged)]
            for claim, judgements in found.judged:
                sections += claim_sections(number, claim, judgements)
                number += 1
            sections += [f"## {half.title}: the figures", *found.about_figures]
    sections += [
        "## What the paper does not say, and what we chose",
        table(("open in the paper", "here"), [choice for found in findings if found.figures for choice in found.choices]),
        "Every replication of every policy is in `results.parquet`: regret at each checkpoint, plays of each arm, rounds.",
    ]
    return "\n\n".join(sections) + "\n"


def summary(judged: Judged) -> str:
    """All verdicts at a glance."""
    cases = list(judged[0][1])
    return table(("claim", *cases), [(claim.title, *map(verdict, judgements.values())) for claim, judgements in judged])
