"""Compare all arms of a trial: effects with intervals, the leader, and the expected loss."""

import math
from collections.abc import Collection, Sequence
from functools import cache

import numpy as np

from aftereffect._core import Matrix, Vector
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
from aftereffect.inference.results import Effect, Look, Results

LEVELS = (0.8, 0.9, 0.95, 0.99)
#: The most times at which past intervals are given, and the most intervals in all: a picture needs
#: no more, and as JSON they have about 100 kB.
_MAX_LOOKS, _MAX_PAST = 200, 600


def analyse(
    trial: Trial | UnitTrial,
    names: Sequence[str],
    level: float = 0.95,
    retired: Collection[str] = (),
) -> Results:
    """Compare all arms.

    Parameters
    ----------
    trial
        What was recorded, of one unit or several. Arms must have been drawn with the probabilities
        that it says; the amounts of several units are those of all of them together.
    names
        The names of the arms.
    level
        The probability with which all intervals hold, at all looks: 0.8, 0.9, 0.95 or 0.99.
    retired
        The names of arms that cannot be shipped: none of them leads or is the best.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> starts = np.arange(0, 240, 2)
    >>> decided = rng.choice(2, len(starts), p=[0.5, 0.5])
    >>> played = np.repeat(decided, 2)
    >>> totals = 500 * (1 + 0.1 * played) * np.exp(rng.normal(0, 0.03, 240))
    >>> chances = np.full((len(starts), 2), 0.5)
    >>> trial = Trial(totals, played, starts, decided, chances, places=np.zeros(240, int))
    >>> print(analyse(trial, ["A", "B"]).effects[0])
    B brings 9.8 % more than A (8.2 to 11.3 %).
    """
    check_trials(trial)
    if level not in LEVELS:
        raise ParameterError(f"level must be one of {', '.join(map(str, LEVELS))}, got {level!r}")
    segments, arms, control = list_bets(trial), range(trial.arms), trial.control
    alpha = (1 - level) / math.comb(trial.arms, 2)

    @cache
    def weigh(arm: int, other: int) -> Evidence:
        return weigh_evidence(segments, arm, other)

    slots = weigh(1, 0).slots
    lifts = np.exp(EFFECTS)
    certain = np.where(EFFECTS == 0, 1.0, 0.0)  # that the control has no effect
    beliefs = np.array(
        [certain if arm == control else believe(weigh(arm, control).capital[-1]) for arm in arms]
    )
    means = beliefs @ lifts
    choices = [arm for arm in arms if names[arm] not in retired]
    leader = choices[int(np.argmax(means[choices]))]
    by_unit = [(_find_mean(unit, means), unit) for unit in list_units(trial)]
    mean = sum(brought for brought, _ in by_unit)
    chances, best = np.zeros(trial.arms), 0.0
    chances[choices], best = _compare(beliefs[choices])

    def compare(arm: int, other: int, look: int = -1) -> Effect:
        capital = weigh(arm, other).capital[look]
        low, high = find_intervals(capital[None], alpha)[0]
        # Rounded, since at first nothing is known, and the sum is only nearly 0.
        middle = round(float(np.clip(believe(capital) @ EFFECTS, low, high)), 9) + 0.0
        return _make_effect(names[arm], names[other], (middle, low, high), mean)

    others = [arm for arm in arms if arm != control]
    count = min(_MAX_LOOKS, max(_MAX_PAST // len(others), 2))
    looks = np.unique(np.linspace(0, len(slots) - 1, count).astype(int))
    return Results(
        control=names[control],
        leader=names[leader],
        level=level,
        slots=int(slots[-1]),
        blocks=len(slots) - 1,
        mean=mean,
        effects=tuple(compare(arm, control) for arm in others),
        leads=tuple(compare(leader, arm) for arm in choices if arm != leader),
        probabilities=dict(zip(names, chances.tolist(), strict=True)),
        loss=mean * max(best - float(means[leader]), 0.0),
        lost=sum(brought * float((best - means[unit.played]).sum()) for brought, unit in by_unit)
        if len(slots) > 1
        else None,
        history=tuple(
            Look(int(slots[look]), tuple(compare(arm, control, look) for arm in others))
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
