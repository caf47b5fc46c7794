"""Pieces of Markdown that both halves of the report are made of."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from aftereffect.paper.judgement import Claim, Judgement
from aftereffect.simulation import PolicyRuns

#: "-" stands for a number that is not there.
ABSENT = "-"
MARKS = {"reproduced": "✔", "partly": "◐", "not reproduced": "✘", "not judged": ABSENT}
_NUMBER = re.compile(r"-?[\d.]|-$")


def verdict(judgement: Judgement) -> str:
    """A verdict with its mark."""
    return f"{MARKS[judgement.verdict]} {judgement.verdict}"


def claim_sections(number: int, claim: Claim, judgements: Mapping[str, Judgement]) -> list[str]:
    """A claim with its rule, its verdicts and the numbers behind them."""
    sections = [f"### Claim {number}: {claim.title}", f"**Rule.** {claim.rule}"]
    if claim.picture:
        sections.append(f"![{claim.title}]({claim.picture}.png)")
    for case, judgement in judgements.items():
        sections.append(f"**{case}: {verdict(judgement)}**; {judgement.count}.")
        if judgement.rows:
            sections.append(table(judgement.columns, judgement.rows))
    return sections


def final_cells(runs: PolicyRuns) -> tuple[str, str, str]:
    """Mean, standard error and 95th percentile of the regret at the horizon."""
    return f"{runs.mean[-1]:,.1f}", ABSENT if runs.sem is None else f"{runs.sem[-1]:,.1f}", f"{runs.p95[-1]:,.1f}"


def command_block(options: Iterable[tuple[str, str]]) -> str:
    """A command line that plays a figure."""
    return "```sh\n" + command_line(options) + "\n```"


def command_line(options: Iterable[tuple[str, str]]) -> str:
    """The same, bare."""
    return " \\\n    ".join(["aftereffect simulate", *(shlex.join(option) for option in options)])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Words to the left, numbers to the right; a dash is a number that is not there."""
    body = list(rows)
    numeric = [all(_NUMBER.match(row[place]) for row in body) for place in range(len(columns))]
    lines = [columns, ["---:" if right else "---" for right in numeric], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
