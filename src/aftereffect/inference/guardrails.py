"""Guardrails: further totals, such as complaints, in which an arm may do harm.

They are compared with the control as the totals are, by intervals that hold at every look. With a
probability of 95 %, all intervals of all guardrails of an experiment contain the true effects: see
`find_level`. So no more than 5 % of experiments ever show harm that is not there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from aftereffect._core import (
    Spec,
    check_choice,
    check_flag,
    check_float,
    check_names,
    register,
    text_table,
)

#: The most guardrails of an experiment: each has a part of the level.
MAX_GUARDRAILS = 5
#: The most harm that may be tolerated, in percent: intervals hold for effects of usual size.
MAX_TOLERATED = 20.0
#: In which direction a change of the total does harm.
Direction: TypeAlias = Literal["more", "less"]
#: What the interval of an arm says about harm beyond what is tolerated.
Verdict: TypeAlias = Literal["harm shown", "tolerated", "not shown"]


@register
@dataclass(frozen=True)
class Guardrail(Spec):
    """A further total of each slot, in which an arm may do harm.

    Parameters
    ----------
    name
        What is counted, such as complaints.
    harm
        Whether ``more`` or ``less`` of it does harm.
    tolerated
        How much more, or less, is acceptable, in percent of the control: 0 to 20.
    stops
        Whether an arm is stopped when harm beyond that is shown. If not, harm is only reported.

    Examples
    --------
    >>> import aftereffect as ae
    >>> str(ae.Guardrail("complaints", tolerated=5, stops=True))
    'guardrail(complaints, harm=more, tolerated=5, stops=true)'
    """

    kind = "guardrail"

    name: str
    harm: Direction = "more"
    tolerated: float = 0.0
    stops: bool = False

    def __post_init__(self) -> None:
        check_names("guardrails", [self.name], "a guardrail")
        check_choice("harm", self.harm, get_args(Direction))
        tolerated = check_float("tolerated", self.tolerated, at_least=0, at_most=MAX_TOLERATED)
        self._set(tolerated=tolerated, stops=check_flag("stops", self.stops))

    def judge(self, low: float | None, high: float | None) -> Verdict:
        """What an interval in percent says: None is an end that is not known yet.

        >>> Guardrail("complaints", tolerated=5).judge(low=7.0, high=None)
        'harm shown'
        """
        if self.harm == "less":
            low, high = (None if end is None else -end for end in (high, low))
        if low is not None and low > self.tolerated:
            return "harm shown"
        return "tolerated" if high is not None and high <= self.tolerated else "not shown"


def describe_span(low: float | None, high: float | None) -> str:
    """An interval that does not contain 0, without signs.

    >>> describe_span(-9.14, -5.0), describe_span(5.0, None)
    ('5.0 to 9.1', 'at least 5.0')
    """
    ends = sorted(abs(end) for end in (low, high) if end is not None)
    return f"{'at least ' if len(ends) == 1 else ''}{' to '.join(f'{end:.1f}' for end in ends)}"


class GuardedArm(NamedTuple):
    """The effect of an arm on the total of a guardrail, as in `Effect`, and what it says.

    The `verdict` is ``harm shown`` if the whole interval is beyond what is tolerated, and
    ``tolerated`` if the whole interval is not. Else it is ``not shown`` which of both is true.

    Examples
    --------
    >>> GuardedArm("B", "A", 12.0, 5.0, None, 0.4, 0.2, None, "harm shown").low
    5.0
    """

    arm: str
    versus: str
    percent: float
    low: float | None
    high: float | None
    amount: float
    amount_low: float | None
    amount_high: float | None
    verdict: Verdict

    def describe_span(self) -> str:
        """The interval of an arm that does harm, without signs."""
        return describe_span(self.low, self.high)


class GuardrailResults(NamedTuple):
    """What the total of a guardrail has shown so far, by arm.

    `blocks` is the number of blocks that count, and `mean` what the control brings per slot.
    `problem` says why the guardrail cannot be judged, if it cannot; `arms` is empty then.

    Examples
    --------
    >>> GuardrailResults("complaints", "more", 0.0, False, 0.95, 0, 0.0, ()).level
    0.95
    """

    guardrail: str
    harm: Direction
    tolerated: float
    stops: bool
    level: float
    blocks: int
    mean: float
    arms: tuple[GuardedArm, ...]
    problem: str | None = None

    def describe(self) -> list[str]:
        """One sentence for each arm of which something is known, or why nothing is."""
        if self.problem is not None:
            return [f"{self.guardrail} cannot be judged: {self.problem}."]
        limit = f"{self.tolerated:g} % {self.harm}"
        beyond = f"more than {limit}" if self.tolerated else self.harm
        most = f"at most {limit}" if self.tolerated else f"not {self.harm}"
        sentences = [
            f"Harm: {arm.arm} brings {beyond} {self.guardrail} than {arm.versus} "
            f"({arm.describe_span()} %)."
            if arm.verdict == "harm shown"
            else f"{arm.arm} brings {most} {self.guardrail} than {arm.versus}."
            for arm in self.arms
            if arm.verdict != "not shown"
        ]
        if len(sentences) < len(self.arms):
            other = "another arm" if sentences else "an arm"
            than = f"than {self.arms[0].versus}"
            sentences.append(f"Not yet: whether {other} brings {beyond} {self.guardrail} {than}.")
        return sentences


def find_level(guardrails: int) -> float:
    """The level of each guardrail, so that all hold at once with a probability of 95 %.

    >>> find_level(1), find_level(5)
    (0.95, 0.99)
    """
    return 0.95 if guardrails == 1 else 0.99


def lay_out_guardrails(guardrails: Sequence[GuardrailResults]) -> str:
    """A table with a row for each guardrail and arm, and the sentences; empty without guardrails.

    >>> lay_out_guardrails([])
    ''
    """
    if not guardrails:
        return ""
    rows: list[tuple[str, ...]] = [
        ("guardrail", "arm", "against", "effect", "low", "high", "tolerated", "harm")
    ]
    for found in guardrails:
        sign = "" if not found.tolerated else "+" if found.harm == "more" else "-"
        limit = f"{sign}{found.tolerated:g} %"
        for arm in found.arms:
            is_known = arm.low is not None or arm.high is not None
            numbers = arm[2:5] if is_known else (None,) * 3
            percents = ("-" if each is None else f"{each:+.1f} %" for each in numbers)
            rows.append((found.guardrail, arm.arm, arm.versus, *percents, limit, arm.verdict))
    sentences = [sentence for found in guardrails for sentence in found.describe()]
    table = [text_table(rows, left=3)] if len(rows) > 1 else []
    return "\n".join([*table, *sentences])
