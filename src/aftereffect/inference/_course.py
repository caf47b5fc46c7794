"""The course of an experiment: what the stop rule would have said at every look, and the promise.

`follow` does what `analyse` does, for all times at once. Plans follow many courses, and promise one
like them; an experiment remembers that, and compares.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import (
    MAX_SEED,
    Matrix,
    Slots,
    Vector,
    check_float,
    check_int,
    short_repr,
    show_amount,
)
from aftereffect.errors import ParameterError
from aftereffect.inference._sequence import (
    EFFECTS,
    Evidence,
    believe,
    find_intervals,
    weigh_evidence,
)
from aftereffect.inference._trial import Trial, UnitTrial, check_trials, list_units
from aftereffect.inference._unit_scores import list_bets
from aftereffect.rewards import SLOT_LENGTHS, SlotName

#: The most designs of a plan, and characters of its texts.
_MAX_DESIGNS, _MAX_DESIGN, _MAX_TEXT = 100, 1_000, 40


class Course(NamedTuple):
    """What was known by look: the leader, and the expected loss of shipping it, per slot.

    A look is a time at which a block has settled, when the first `slots` slots were known; the
    first is the beginning. `is_better` says whether each arm was shown to be better than the
    control, by look and arm. The rule stopped at the look `stop`; None if it never did.

    Examples
    --------
    >>> trial = Trial(
    ...     totals=np.ones(4), played=np.zeros(4, int), starts=np.array([0]),
    ...     decided=np.array([0]), probabilities=np.array([[0.5, 0.5]]), places=np.zeros(4, int),
    ... )
    >>> follow(trial, stop_when_loss_below=0.01).stop is None
    True
    """

    slots: Slots
    leaders: Slots
    losses: Vector
    is_better: NDArray[np.bool_]
    stop: int | None


def follow(trial: Trial | UnitTrial, stop_when_loss_below: float, level: float = 0.95) -> Course:
    """What `analyse` would have said whenever a block had settled, and when its rule stopped.

    Parameters
    ----------
    trial
        What was recorded.
    stop_when_loss_below
        The expected loss per slot below which the rule stops; see `Results.stops`.
    level
        The probability with which all intervals hold.
    """
    check_trials(trial)
    segments, control = list_bets(trial), trial.control
    alpha = (1 - level) / math.comb(trial.arms, 2)

    @cache
    def weigh(arm: int, other: int) -> Evidence:
        return weigh_evidence(segments, arm, other)

    slots = weigh(1, 0).slots
    # Of blocks that settle at the same time, the last one is what a look sees.
    looks = np.append(np.flatnonzero(np.diff(slots)), len(slots) - 1)
    beliefs = np.zeros((trial.arms, len(looks), len(EFFECTS)))
    beliefs[control, :, EFFECTS == 0] = 1.0
    is_better = np.zeros((len(looks), trial.arms), bool)
    for arm in range(trial.arms):
        if arm != control:
            capital = weigh(arm, control).capital[looks]
            beliefs[arm] = believe(capital)
            is_better[:, arm] = find_intervals(capital, alpha)[:, 0] > 0
    lifts = np.exp(EFFECTS)
    means = (beliefs @ lifts).T
    up_to = np.prod(np.cumsum(beliefs, axis=2), axis=0)
    best = np.diff(up_to, axis=1, prepend=0.0) @ lifts
    leaders = np.argmax(means, axis=1)
    brought = sum(_find_means(unit, slots[looks], means) for unit in list_units(trial))
    losses = brought * np.maximum(best - means.max(axis=1), 0.0)
    stop = None
    for at in np.flatnonzero(losses < stop_when_loss_below):
        leader = int(leaders[at])
        rows = (weigh(leader, arm).capital[looks[at]] for arm in range(trial.arms) if arm != leader)
        if all(math.isfinite(find_intervals(row[None], alpha)[0, 0]) for row in rows):
            stop = int(at)
            break
    return Course(slots[looks], leaders, losses, is_better, stop)


def _find_means(trial: Trial, slots: Slots, lifts: Matrix) -> Vector:
    """What the control brings per slot, as it was known at each look."""
    known = ~np.isnan(trial.totals)
    sums = np.append(0.0, np.cumsum(np.where(known, trial.totals, 0.0)))
    played = np.eye(trial.arms)[trial.played] * known[:, None]
    counts = np.vstack([np.zeros(trial.arms), np.cumsum(played, axis=0)])
    weights = (counts[slots] * lifts).sum(axis=1)
    means: Vector = np.where(weights > 0, sums[slots] / np.maximum(weights, 1e-300), 0.0)
    return means


class PlannedCourse(NamedTuple):
    """What a plan promised of an experiment with so many arms and slots.

    `design` is the policy, and `slot` the length of a slot. The experiment was expected to lose
    `loss` until its last slot, against always playing the best arm, in the unit of the totals; and
    to end after `end` slots, by its rule or its design. In nine of ten worlds, the loss lay from
    `loss_low` to `loss_high`, and the end from `end_low` to `end_high`: None if that is after the
    last slot. `seed`, `version` and `digest` are those of the plan.

    Examples
    --------
    >>> course = PlannedCourse("adaptive-switchback", "1d", arms=2, slots=56, loss=1234.5,
    ...     loss_low=600.0, loss_high=2900.0, end=17, end_low=10, end_high=None, seed=1,
    ...     version="1.0", digest="0123456789abcdef")
    >>> course.describe(12)[0]
    'The plan promised a stop on day 17 (day 10 or later); today is day 12.'
    """

    design: str
    slot: SlotName
    arms: int
    slots: int
    loss: float
    loss_low: float
    loss_high: float
    end: int | None
    end_low: int | None
    end_high: int | None
    seed: int
    version: str
    digest: str

    def describe(self, slots: int, unit: str | None = None) -> list[str]:
        """What was promised, and where the experiment is after so many slots, in two sentences."""
        name, at, now = ("week", "in", "this") if self.slot == "1w" else ("day", "on", "today")
        last = f"by {name} {self._number(self.slots)}"
        here = f"{now} is {name} {self._number(slots)}" if slots else "it has not begun"
        if self.end is not None:
            stop = f"a stop {at} {name} {self._number(self.end)}{self._name_ends(name)}"
        elif self.end_low is not None:
            stop = f"no stop before {name} {self._number(self.end_low)}"
        else:
            stop = f"no stop {last}"
        band = f"{show_amount(self.loss_low)} to {show_amount(self.loss_high)}"
        loss = f"{show_amount(self.loss)}{f' {unit}' if unit else ''}"
        return [
            f"The plan promised {stop}; {here}.",
            f"It promised to lose {loss} {last} ({band}).",
        ]

    def _name_ends(self, name: str) -> str:
        low = self._number(self.end_low or 0)
        if self.end_high is None:
            return f" ({name} {low} or later)"
        high = self._number(self.end_high)
        return f" ({low} to {high})" if low < high else ""

    def _number(self, slots: int) -> int:
        """The number of the day, or week, in which the last of so many slots lies."""
        return -(-slots // max(SLOT_LENGTHS[self.slot][1], 1))


def read_courses(given: object) -> tuple[PlannedCourse, ...]:
    """The courses that a plan promises, by design; of a plan, or of what JSON has of courses.

    >>> read_courses([])
    ()
    """
    if callable(promise := getattr(given, "promise_courses", None)):
        given = promise()
    rows: Any = [given] if isinstance(given, (PlannedCourse, Mapping)) else given
    is_list = isinstance(rows, Sequence) and not isinstance(rows, str)
    if not is_list or not all(isinstance(row, (PlannedCourse, Mapping)) for row in rows):
        raise ParameterError(
            f"plan must be a Plan, such as ae.Plan.load('plan.json'), got {short_repr(given)}"
        )
    if len(rows) > _MAX_DESIGNS:
        raise ParameterError(f"plan must have at most {_MAX_DESIGNS} designs, got {len(rows)}")
    return tuple(
        _check_course(row._asdict() if isinstance(row, PlannedCourse) else row) for row in rows
    )


def _check_course(given: Mapping[str, Any]) -> PlannedCourse:
    """Check the numbers and texts of a course, since they may come from a file or a request."""
    if set(given) != set(PlannedCourse._fields):
        raise ParameterError(
            f"plan must have {', '.join(PlannedCourse._fields)}, got {short_repr(sorted(given))}"
        )
    course = PlannedCourse(**given)
    for name, most in (("design", _MAX_DESIGN), ("version", _MAX_TEXT), ("digest", _MAX_TEXT)):
        text = given[name]
        if not isinstance(text, str) or not text.isprintable() or not 1 <= len(text) <= most:
            raise ParameterError(
                f"the {name} of a plan must be 1 to {most:,} printable characters, got "
                f"{short_repr(text)}"
            )
    if course.slot not in SLOT_LENGTHS:
        raise ParameterError(
            f"the slot of a plan must be one of {', '.join(SLOT_LENGTHS)}, got "
            f"{short_repr(course.slot)}"
        )
    slots = check_int("the slots of a plan", course.slots, at_least=1)
    low = check_float("the loss_low of a plan", course.loss_low)
    high = check_float("the loss_high of a plan", course.loss_high, at_least=low)
    ends = [
        None if end is None else check_int("an end of a plan", end, at_most=slots)
        for end in (course.end_low, course.end, course.end_high)
    ]
    in_order = [math.inf if end is None else end for end in ends]
    if in_order != sorted(in_order):
        raise ParameterError(f"the ends of a plan must be in order, got {ends}")
    return course._replace(
        arms=check_int("the arms of a plan", course.arms, at_least=2),
        slots=slots,
        loss=check_float("the loss of a plan", course.loss),
        loss_low=low,
        loss_high=high,
        end=ends[1],
        end_low=ends[0],
        end_high=ends[2],
        seed=check_int("the seed of a plan", course.seed, at_most=MAX_SEED),
    )
