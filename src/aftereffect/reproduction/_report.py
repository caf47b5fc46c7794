"""The report: pieces of Markdown, the whole as Markdown, and the same as one HTML page."""

import base64
import html
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from aftereffect._core import describe_code, import_optional
from aftereffect.reproduction._claims import Claim, Judgement
from aftereffect.reproduction._settings import Settings
from aftereffect.reproduction.chapters import Chapter, Findings
from aftereffect.simulation import PolicyRuns

PAPER_TITLE = "Bandits with composite and anonymous feedback: the paper's experiments, reproduced"
PAPER = (
    "*Adaptive Algorithms for Multi-armed Bandit with Composite and Anonymous Feedback* (Siwei "
    "Wang, Haoyun Wang, Longbo Huang, AAAI 2021, arXiv:2012.07048)"
)
#: Stands for a number that does not exist.
ABSENT = "-"
MARKS = {"reproduced": "✔", "partly": "◐", "not reproduced": "✘", "not judged": ABSENT}
_NUMBER = re.compile(r"-?[\d.]|-$|$")
_STYLE = Path(__file__).with_name("report.css")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, aligned also as plain text: columns of numbers to the right.

    >>> print(markdown_table(("policy", "mean"), [("ucb1", "1,234"), ("ars-ucb", "56")]))
    | policy  |  mean |
    | ------- | ----: |
    | ucb1    | 1,234 |
    | ars-ucb |    56 |
    """
    body = list(rows)
    numeric = [all(_NUMBER.match(row[place]) for row in body) for place in range(len(columns))]
    widths = [max(3, *map(len, column)) for column in zip(columns, *body, strict=True)]
    rule = [
        f"{'-' * (width - 1)}{':' if right else '-'}"
        for width, right in zip(widths, numeric, strict=True)
    ]
    return "\n".join(
        f"| {' | '.join(map(_pad, line, widths, numeric))} |" for line in (columns, rule, *body)
    )


def _pad(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


def format_digits(number: float, digits: int) -> str:
    """A number from 0 on with so many significant digits, no exponent; a dash if not finite.

    >>> [format_digits(number, 2) for number in (0.571, 12.1, 56_700, float("nan"))]
    ['0.57', '12', '57,000', '-']
    """
    if not math.isfinite(number):
        return ABSENT
    value = float(f"{number:.{digits}g}")
    decimals = digits - 1 - math.floor(math.log10(value)) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def format_verdict(judgement: Judgement) -> str:
    """A verdict with its mark.

    >>> format_verdict(Judgement("reproduced", "holds in 3 of 3 settings", (), []))
    '✔ reproduced'
    """
    return f"{MARKS[judgement.verdict]} {judgement.verdict}"


def format_final(runs: PolicyRuns) -> tuple[str, str, str]:
    """Mean, standard error and 95th percentile of the regret at the horizon."""
    return (
        f"{runs.mean[-1]:,.1f}",
        ABSENT if runs.sem is None else f"{runs.sem[-1]:,.1f}",
        f"{runs.p95[-1]:,.1f}",
    )


def format_command(options: Iterable[tuple[str, str]]) -> str:
    """The command line that plays a study with these options."""
    return " \\\n    ".join(["aftereffect simulate", *(shlex.join(option) for option in options)])


def format_command_block(options: Iterable[tuple[str, str]]) -> str:
    """The same as a block of code."""
    return f"```sh\n{format_command(options)}\n```"


def write_markdown(
    chapters: Sequence[tuple[Chapter, Findings]], settings: Settings
) -> tuple[str, str]:
    """The title of the report and the report, on all chapters that have a finished figure.

    It begins with all claims and their verdicts, on one screen; then come contents and chapters.
    """
    finished = [(chapter, found) for chapter, found in chapters if found.figures]
    figures = sum(
        len(_of_paper(chapter.figures.values())) for chapter, _ in chapters if chapter.of_paper
    )
    played = sum(len(_of_paper(found.figures)) for chapter, found in finished if chapter.of_paper)
    title = finished[0][0].title if not any(c.of_paper for c, _ in finished) else PAPER_TITLE
    head = [f"# {title}"]
    if played:
        covered = (
            f"all {figures} figures" if played == figures else f"{played} of the {figures} figures"
        )
        head.append(f"The experiments of {PAPER}: {covered}, seed {settings.seed}.")
    sections: list[str] = []
    overview: list[tuple[str, ...]] = []
    for chapter, found in finished:
        sections.append(f"## {chapter.title}: the claims")
        for claim, judgements in found.claims:
            written = _write_claim(len(overview) + 1, claim, judgements)
            overview.append(_summarize_claim(claim, written[0], judgements))
            sections += written
        sections += [f"## {chapter.title}: the figures", *found.sections]
    choices = [choice for _, found in finished for choice in found.choices]
    if choices:
        sections += [
            "## What the paper does not say, and what we chose",
            markdown_table(("open in the paper", "here"), choices),
        ]
    made_by = (
        f"Made by {describe_code()}. Each claim is judged only by the figures in this report. "
        "A number after ± is a standard error; a range in brackets is the middle 95 % of the "
        "bootstrap draws. `results.parquet` has every replication of every policy: the regret at "
        "each checkpoint, the pulls of each arm, the number of rounds."
    )
    head.append(markdown_table(("claim", "verdict", "why"), overview))
    return title, "\n\n".join([*head, _list_contents(sections), made_by, *sections]) + "\n"


def _of_paper(figures: Iterable[Any]) -> list[Any]:
    return [figure for figure in figures if figure.key.isdecimal()]


def _summarize_claim(
    claim: Claim, heading: str, judgements: Mapping[str, Judgement]
) -> tuple[str, str, str]:
    """A claim with its verdict, and why, in one line; it links its section.

    Further cases are named only where something else came out.
    """
    (_, first), *others = judgements.items()
    verdict, why = format_verdict(first), first.why or f"{first.count.capitalize()}."
    for case, other in others:
        if (other.verdict, other.count) != (first.verdict, first.count):
            short = (other.why or other.count).partition(":")[0].rstrip(".")
            why += f" {case}: {format_verdict(other)}, {short[0].lower()}{short[1:]}."
    return f"[{claim.title}](#{make_anchor(heading)})", verdict, why


def make_anchor(heading: str) -> str:
    """Where links to a heading lead, as pages that show Markdown have it.

    >>> make_anchor("### Claim 2: ARS-UCB, on its own")
    'claim-2-ars-ucb-on-its-own'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _list_contents(sections: Iterable[str]) -> str:
    """Links to all headings: a line for each part, with the claims and figures in it."""
    lines = ["## Contents", ""]
    for section in sections:
        heading, mark, link = section.lstrip("#"), section.partition(" ")[0], make_anchor(section)
        if mark == "##":
            lines.append(f"- [{heading.strip()}](#{link})")
        elif mark == "###":
            joint = " · " if lines[-1].count("](") > 1 else ": "
            lines[-1] += f"{joint}[{heading.partition(':')[0].strip()}](#{link})"
    return "\n".join(lines)


def _write_claim(number: int, claim: Claim, judgements: Mapping[str, Judgement]) -> list[str]:
    """A claim with its rule, its verdicts and the numbers behind them."""
    sections = [f"### Claim {number}: {claim.title}", f"**Rule.** {claim.rule}"]
    if claim.picture:
        sections.append(f"![{claim.title}]({claim.picture}.png)")
    for case, judgement in judgements.items():
        sections.append(f"**{case}: {format_verdict(judgement)}**; {judgement.count}.")
        if judgement.rows:
            sections.append(markdown_table(judgement.columns, judgement.rows))
    return sections


def write_html(markdown: str, title: str, folder: Path) -> str:
    """The report as one page that holds its style and its pictures, and opens from disk.

    Pictures are read from the folder as SVG, which is smaller than PNG and stays sharp.
    """
    reader = import_optional("markdown_it").MarkdownIt("commonmark").enable("table")
    tokens = reader.parse(markdown)
    for token, inside in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", make_anchor(inside.content))
    for picture in (
        child for token in tokens for child in token.children or () if child.type == "image"
    ):
        data = (folder / picture.attrGet("src")).with_suffix(".svg").read_bytes()
        picture.attrSet("src", f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}")
    body = reader.renderer.render(tokens, reader.options, {})
    # A wide table scrolls by itself, so that a phone shows the text at its own width. The first
    # table, that of all claims, does not: its rows become paragraphs there.
    body = body.replace("<table>", '<div class="claims"><table>', 1)
    body = body.replace("\n<table>", '\n<div class="table"><table>')
    body = body.replace("</table>", "</table></div>")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{_STYLE.read_text()}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""
