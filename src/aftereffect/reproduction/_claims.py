"""Claims, and how numbers decide whether they hold.

A rule that looks at numbers alone decides whether a claim holds. Chance is measured by a bootstrap:
replications are drawn again, with replacement, from those that were played.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from aftereffect._core import Matrix, Vector

Verdict: TypeAlias = Literal["reproduced", "partly", "not reproduced", "not judged"]
#: Whether a claim holds in one case, such as one setting.
CaseVerdict: TypeAlias = Literal["holds", "open", "fails"]
Cells: TypeAlias = tuple[str, ...]
#: The share of the bootstrap draws that must agree for a case to hold or to fail.
LEVEL = 0.975
#: How often the bootstrap draws.
DRAWS = 2_000
_SEED = 20_210_426
_MAX_CELLS = 4_000_000


@dataclass(frozen=True)
class Judgement:
    """A verdict, how many cases it rests on, and the numbers behind it as a table.

    ``why`` is the same in one sentence.

    >>> judge_cases("settings", ("setting",), [("holds", ("a",)), ("open", ("b",))]).verdict
    'partly'
    """

    verdict: Verdict
    count: str
    columns: Cells
    rows: Sequence[Cells]
    why: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim in one sentence, the rule that judges it in words, and the same rule as a function.

    ``judge`` takes the evidence of the chapter that the claim belongs to. ``picture`` is the name,
    without its suffix, of a picture that shows the evidence.

    >>> claim = Claim("Two is even.", "Divide by two.", lambda evidence: Judgement(
    ...     "reproduced", f"holds in all {len(evidence)} cases", (), []))
    >>> claim.judge([2, 4]).count
    'holds in all 2 cases'
    """

    title: str
    rule: str
    judge: Callable[[Sequence[Any]], Judgement]
    picture: str = ""


#: Each claim with its judgements, by the name of what was varied.
JudgedClaims: TypeAlias = Sequence[tuple[Claim, Mapping[str, Judgement]]]


def judge_claim(claim: Claim, evidence: Sequence[Any]) -> Judgement:
    """Judge a claim, unless there is only one replication: that says nothing about chance."""
    if any(each.replications < 2 for each in evidence):
        return Judgement("not judged", "one replication is too few to measure chance", (), [])
    return claim.judge(evidence)


def judge_draws(agrees: np.ndarray) -> CaseVerdict:
    """Judge one case by the bootstrap draws, each of which agrees with the claim or does not."""
    share = agrees.mean()
    return "holds" if share >= LEVEL else "fails" if share <= 1 - LEVEL else "open"


def require_both(one: CaseVerdict, other: CaseVerdict) -> CaseVerdict:
    """Judge a case in which two things must hold."""
    if one == other == "holds":
        return "holds"
    return "fails" if "fails" in (one, other) else "open"


def judge_cases(
    what: str,
    columns: Cells,
    cases: Sequence[tuple[CaseVerdict, Cells]],
    note: str = "",
    reason: str = "",
) -> Judgement:
    """Judge a claim that should hold in every case; `what` names the cases, in the plural.

    `reason` says what the numbers show, in half a sentence.
    """
    verdicts = [verdict for verdict, _ in cases]
    if not verdicts:
        return Judgement("not judged", f"the figures played have no {what} for it", columns, [])
    verdict: Verdict = "partly"
    if verdicts.count("holds") == len(verdicts):
        verdict = "reproduced"
    elif 2 * verdicts.count("fails") > len(verdicts):
        verdict = "not reproduced"
    counts = ", ".join(f"{name} in {verdicts.count(name)}" for name in get_args(CaseVerdict))
    count = f"{counts} of {len(verdicts)} {what}{f'; {note}' if note else ''}"
    rows = [(*cells, found) for found, cells in cases]
    why = f"{_count_in_words(verdicts, what)}{f': {reason}' if reason else ''}."
    return Judgement(verdict, count, (*columns, "claim"), rows, why)


def _count_in_words(verdicts: Sequence[CaseVerdict], what: str) -> str:
    holds, cases = verdicts.count("holds"), len(verdicts)
    others = [f"{each} in {count}" for each in ("open", "fails") if (count := verdicts.count(each))]
    of = f"all {cases}" if 1 < cases == holds else f"{holds} of {cases}"
    return ", ".join((f"Holds in {of} {what}", *others))


def format_range(text: str, numbers: Sequence[float], form: str) -> str:
    """A text with the smallest and the largest of some numbers in it; nothing if there are none.

    >>> format_range("rivals lose {} times as much", [1.24, 3.0, 2.0], ".1f")
    'rivals lose 1.2 to 3.0 times as much'
    """
    if not numbers:
        return ""
    ends = dict.fromkeys(f"{end:{form}}" for end in (min(numbers), max(numbers)))
    return text.format(" to ".join(ends))


def resample_means(samples: Matrix) -> Matrix:
    """The mean of each column, once for each bootstrap draw of the rows (the replications).

    The draws are always the same.
    """
    rng = np.random.default_rng(_SEED)
    count = len(samples)
    size = max(1, min(DRAWS, _MAX_CELLS // samples.size))
    blocks = (
        rng.integers(count, size=(min(size, DRAWS - done), count)) for done in range(0, DRAWS, size)
    )
    return np.concatenate([samples[chosen].mean(axis=1) for chosen in blocks])


def middle_95(draws: Vector) -> tuple[float, float]:
    """The ends of the middle 95 % of some draws; always two of the draws, as some may be infinite.

    >>> middle_95(np.arange(1001.0))
    (25.0, 975.0)
    """
    low, high = np.quantile(draws, (0.025, 0.975), method="inverted_cdf")
    return float(low), float(high)


def format_with_interval(number: float, draws: Vector, form: str) -> str:
    """A number, and in brackets the middle 95 % of its bootstrap draws."""
    low, high = middle_95(draws)
    return f"{number:{form}} ({low:{form}} .. {high:{form}})"
