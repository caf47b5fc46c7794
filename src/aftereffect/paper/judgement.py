"""Verdicts about claims: a rule looks at numbers alone; other regrets, another verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from aftereffect.kernels import Vector
from aftereffect.paper.bootstrap import interval

Verdict = Literal["reproduced", "partly", "not reproduced", "not judged"]
Outcome = Literal["holds", "open", "fails"]
Cells = tuple[str, ...]
#: Of the bootstrap's draws, how many must agree for an outcome that is not open.
LEVEL = 0.975


@dataclass(frozen=True)
class Judgement:
    """A verdict, the count that it follows from, and the numbers behind it as a table."""

    verdict: Verdict
    count: str
    columns: Cells
    rows: Sequence[Cells]


@dataclass(frozen=True)
class Claim:
    """What the paper says, in short, and how it is judged."""

    title: str
    rule: str
    #: From a sequence of evidence, of whatever kind it is about.
    judge: Callable[[Sequence[Any]], Judgement]
    #: The stem of a picture that shows it.
    picture: str = ""


def judged(claim: Claim, evidence: Sequence[Any]) -> Judgement:
    """A claim's judgement; without two runs there is no telling what chance did."""
    if any(each.panel.replications < 2 for each in evidence):
        return Judgement("not judged", "a single replication does not tell what chance did", (), [])
    return claim.judge(evidence)


def outcome_of(agreeing: np.ndarray) -> Outcome:
    """What draws say, of which each agrees with a claim or not."""
    share = agreeing.mean()
    return "holds" if share >= LEVEL else "fails" if share <= 1 - LEVEL else "open"


def tally(what: str, columns: Cells, findings: Sequence[tuple[Outcome, Cells]]) -> Judgement:
    """The verdict on a claim that should hold everywhere, from what was found in each case."""
    outcomes = [outcome for outcome, _ in findings]
    if not outcomes:
        return Judgement("not judged", f"there are no {what} to judge it by in the figures played", columns, [])
    verdict: Verdict = "partly"
    if outcomes.count("holds") == len(outcomes):
        verdict = "reproduced"
    elif 2 * outcomes.count("fails") > len(outcomes):
        verdict = "not reproduced"
    count = ", ".join(f"{outcome} in {outcomes.count(outcome)}" for outcome in get_args(Outcome))
    rows = [(*cells, outcome) for outcome, cells in findings]
    return Judgement(verdict, f"{count} of {len(outcomes)} {what}", (*columns, "claim"), rows)


def with_interval(value: float, draws: Vector, form: str) -> str:
    """A number with the middle 95 % of what it might have been."""
    low, high = interval(draws)
    return f"{value:{form}} ({low:{form}} .. {high:{form}})"
