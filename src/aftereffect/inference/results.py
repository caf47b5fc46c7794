"""Who won, by how much, and what it costs to stop now."""

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Matrix, Vector, text_table
from aftereffect.errors import ParameterError
from aftereffect.inference._scores import list_segments
from aftereffect.inference._sequence import EFFECTS, Evidence, find_intervals, weigh_evidence
from aftereffect.inference._trial import Trial, check_trial

LEVELS = (0.8, 0.9, 0.95, 0.99)
#: The standard deviation of the logarithm of a lift, before anything is known.
_PRIOR = 0.1
#: The number of times at which past intervals are given.
_MAX_LOOKS = 200


class Effect(NamedTuple):
    """How much more an arm brings than another, in percent, and per slot in the unit of the totals.

    `low` and `high` are the ends of the interval: None where there is no end yet.

    Examples
    --------
    >>> Effect("B", "A", percent=7.9, low=3.1, high=12.7, amount=4.0, amount_low=1.6,
    ...     amount_high=6.4).is_shown
    True
    """

    arm: str
    versus: str
    percent: float
    low: float | None
    high: float | None
    amount: float
    amount_low: float | None
    amount_high: float | None

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes 0."""
        return (self.low is not None and self.low > 0) or (self.high is not None and self.high < 0)

    def __str__(self) -> str:
        """One sentence."""
        if self.is_shown:
            word = "more" if self.percent > 0 else "less"
            ends = sorted(abs(end) for end in (self.low, self.high) if end is not None)
            span = " to ".join(f"{end:.1f}" for end in ends)
            least = "at least " if len(ends) == 1 else ""
            amount = f"{abs(self.percent):.1f} % {word}"
            return f"{self.arm} brings {amount} than {self.versus} ({least}{span} %)."
        if self.low is None or self.high is None:
            return f"Not yet: too little is known to compare {self.arm} with {self.versus}."
        return (
            f"Not yet: {self.arm} may bring up to {-self.low:.1f} % less or {self.high:.1f} % more "
            f"than {self.versus}."
        )


class Results(NamedTuple):
    """What an experiment has shown so far.

    `effects` compare each arm with the control, and `leads` the leader with each other arm. All
    their intervals hold together, with the probability `level`, at every look. `probabilities`
    are those that each arm is the best. `loss` is what shipping the leader is expected to cost
    per slot, against shipping the best arm. `mean` is what the control brings per slot. `blocks` is
    the number of blocks that count, and `slots` the slots until the last of them settled.
    `history` has the effects on the control of earlier times.

    Examples
    --------
    >>> results = analyse(Trial(
    ...     totals=np.ones(4), played=np.zeros(4, int), starts=np.array([0]),
    ...     decided=np.array([0]), probabilities=np.array([[0.5, 0.5]]), places=np.zeros(4, int),
    ... ), ["A", "B"])
    >>> print(results.effects[0])
    Not yet: too little is known to compare B with A.
    """

    control: str
    leader: str
    level: float
    slots: int
    blocks: int
    mean: float
    effects: tuple[Effect, ...]
    leads: tuple[Effect, ...]
    probabilities: dict[str, float]
    loss: float
    history: tuple[tuple[int, tuple[Effect, ...]], ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in types that JSON has."""
        return self._asdict() | {
            "effects": [effect._asdict() for effect in self.effects],
            "leads": [effect._asdict() for effect in self.leads],
            "history": [
                {"slots": slots, "effects": [effect._asdict() for effect in effects]}
                for slots, effects in self.history
            ],
        }

    def describe(self, unit: str | None = None) -> list[str]:
        """What is known, in a few sentences."""
        amount = f"{self.loss:,.3g} {unit}" if unit else f"{self.loss:,.3g}"
        leader, others = self.leader, [effect for effect in self.leads if effect.is_shown]
        if len(others) == len(self.leads):
            first = [f"{leader} is the best arm."]
        else:
            chance = self.probabilities[leader]
            first = [f"{leader} leads; it is the best with a probability of {chance:.0%}."]
        cost = f"Shipping {leader} now is expected to cost at most {amount} per slot."
        return [*first, *(str(effect) for effect in self.effects), cost]

    def __str__(self) -> str:
        """A table of the effects, and the sentences."""
        rows: list[tuple[str, ...]] = [("arm", "against", "effect", "low", "high", "best")]
        for effect in self.effects:
            ends = ["-" if end is None else f"{end:+.1f} %" for end in (effect.low, effect.high)]
            chance = f"{self.probabilities[effect.arm]:.0%}"
            rows.append((effect.arm, effect.versus, f"{effect.percent:+.1f} %", *ends, chance))
        return "\n".join([text_table(rows), *self.describe()])


def analyse(trial: Trial, names: Sequence[str], level: float = 0.95) -> Results:
    """Compare all arms.

    Parameters
    ----------
    trial
        What was recorded. Arms must have been drawn with the probabilities that it says.
    names
        The names of the arms.
    level
        The probability with which all intervals hold, at all looks: 0.8, 0.9, 0.95 or 0.99.
    """
    check_trial(trial)
    if level not in LEVELS:
        raise ParameterError(f"level must be one of {', '.join(map(str, LEVELS))}, got {level!r}")
    segments, arms, control = list_segments(trial), range(trial.arms), trial.control
    alpha = (1 - level) / math.comb(trial.arms, 2)
    pairs = {pair: weigh_evidence(segments, *pair) for pair in permutations(arms, 2)}
    slots = pairs[1, 0].slots
    lifts = np.exp(EFFECTS)
    beliefs = np.array([_believe(pairs, arm, control) for arm in arms])
    means = beliefs @ lifts
    leader = int(np.argmax(means))
    mean = _find_mean(trial, means)
    chances, best = _compare(beliefs)

    def compare(arm: int, other: int, look: int = -1) -> Effect:
        capital = pairs[arm, other].capital[look]
        low, high = find_intervals(capital[None], alpha)[0]
        middle = float(np.clip(weigh(capital) @ EFFECTS, low, high))
        return _make_effect(names[arm], names[other], (middle, low, high), mean)

    others = [arm for arm in arms if arm != control]
    looks = np.unique(np.linspace(0, len(slots) - 1, _MAX_LOOKS).astype(int))
    return Results(
        control=names[control],
        leader=names[leader],
        level=level,
        slots=int(slots[-1]),
        blocks=len(slots) - 1,
        mean=mean,
        effects=tuple(compare(arm, control) for arm in others),
        leads=tuple(compare(leader, arm) for arm in arms if arm != leader),
        probabilities=dict(zip(names, chances.tolist(), strict=True)),
        loss=mean * max(best - float(means[leader]), 0.0),
        history=tuple(
            (int(slots[look]), tuple(compare(arm, control, look) for arm in others))
            for look in looks
        ),
    )


def _make_effect(
    arm: str, versus: str, logarithms: tuple[float, float, float], mean: float
) -> Effect:
    """An effect from logarithms of its middle and ends; they may be infinite."""
    percents = [
        100 * math.expm1(number) if math.isfinite(number) else None for number in logarithms
    ]
    amounts = [None if percent is None else percent / 100 * mean for percent in percents]
    return Effect(
        arm,
        versus,
        percent=percents[0] or 0.0,
        low=percents[1],
        high=percents[2],
        amount=amounts[0] or 0.0,
        amount_low=amounts[1],
        amount_high=amounts[2],
    )


def weigh(capital: Vector) -> Vector:
    """How much each effect is believed: as the capital against it is small, and by a prior."""
    logarithms = -capital - 0.5 * (EFFECTS / _PRIOR) ** 2
    weights = np.exp(logarithms - logarithms.max())
    beliefs: Vector = weights / weights.sum()
    return beliefs


def _believe(pairs: dict[tuple[int, int], Evidence], arm: int, control: int) -> Vector:
    """The belief in each effect of an arm; that the control has none is certain."""
    if arm == control:
        return np.where(EFFECTS == 0, 1.0, 0.0)
    return weigh(pairs[arm, control].capital[-1])


def _compare(beliefs: Matrix) -> tuple[Vector, float]:
    """The probability that each arm is the best, and the mean of the largest lift."""
    up_to = np.cumsum(beliefs, axis=1)
    below = up_to - beliefs
    chances = np.array(
        [
            belief @ np.prod(np.delete((up_to + below) / 2, arm, axis=0), axis=0)
            for arm, belief in enumerate(beliefs)
        ]
    )
    largest = np.diff(np.prod(up_to, axis=0), prepend=0.0)
    return chances / chances.sum(), float(largest @ np.exp(EFFECTS))


def _find_mean(trial: Trial, lifts: Vector) -> float:
    """What the control brings per slot: what came is that, times the lifts of what was played."""
    known = ~np.isnan(trial.totals)
    if not known.any():
        return 0.0
    return float(trial.totals[known].sum() / lifts[trial.played[known]].sum())
