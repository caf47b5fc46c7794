"""Worlds made of a history: what the coming weeks may be like, and what arms and effects may be.

A world's totals are pieces of the history, each copied to the same place of the week and followed
by another one whose level fits (a matched-block bootstrap, Carlstein et al. 1998). So hours and
weekdays, bursts and how the level wanders remain, but the order of the weeks is new. Both the weeks
before the experiment and its own weeks are drawn so: the policy cannot have seen the weeks in which
it is judged. A season that was estimated from the same weeks explains too much of them; so what
differs from it is made larger by sqrt(weeks / (weeks - 1)).
"""

import math
import re
from typing import NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import Vector, check_float, short_repr
from aftereffect.bandits import Defects, HistoryBandit
from aftereffect.delays import Geometric, Immediate, Interval, LagLaw, LinearDecay
from aftereffect.errors import ParameterError
from aftereffect.planning._history import Past
from aftereffect.rewards import SLOT_LENGTHS, SlotName, as_history

#: The most weeks of totals that policies see before the experiment.
_SEEN_WEEKS = 12
#: The mean length of a piece of the history, as a part of it, and the least and most in weeks.
_PIECE, _MIN_PIECE, _MAX_PIECE = 0.25, 1.0, 4.0
#: Differences from the season are made larger for this many weeks at least.
_LEAST_WEEKS = 2.0
#: The largest lag in slots, and lift.
_MAX_LAG, _MAX_LIFT = 400, 1.0
#: What of an effect has arrived within the lag, if it fades.
_NEARLY_ALL = 0.95
#: The lifts of the worlds in which the smallest lift that is found is looked for.
POWER_LIFTS = (0.01, 0.3)
_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+))"
_LIFT = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER})?(%?)")
_LAG = re.compile(rf"{_NUMBER}(?:\.\.{_NUMBER})?\s*(min|h|d|w|)")
_MINUTES = {"min": 1, "h": 60, "d": 1_440, "w": 10_080}


class Range(NamedTuple):
    """All numbers from the first to the last.

    Examples
    --------
    >>> read_lifts("3..10%").last
    0.1
    """

    first: float
    last: float

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one, each as likely as any other."""
        return float(self.first + (self.last - self.first) * rng.random())


#: A number, two numbers, or a text such as ``3..10%``.
RangeLike: TypeAlias = str | float | tuple[float, float] | Range


def read_lifts(given: RangeLike) -> Range:
    """The lifts of the best arm but the control: .05, 5%, (.03, .1), or 3..10%.

    >>> read_lifts("-2..5%")
    Range(first=-0.02, last=0.05)
    """
    if isinstance(given, str):
        found = _LIFT.fullmatch(given.strip())
        ends = [float(each) for each in (found[1], found[2] or found[1])] if found else []
        if found is None or (not found[3] and max(ends) > 1):
            raise ParameterError(f"lift must be such as 5% or 3..10%, got {short_repr(given)}")
        if found[3]:
            ends = [each / 100 for each in ends]
    else:
        ends = list(given) if isinstance(given, tuple) else [given, given]
    return _check_range("lift", ends, -_MAX_LIFT / 2, _MAX_LIFT)


def read_lags(given: RangeLike, slot: SlotName) -> Range:
    """The slots within which nearly all of an effect arrives: 12 (slots), 12h, 6..48h, 2d.

    >>> read_lags("6..48h", "1h")
    Range(first=6.0, last=48.0)
    """
    ends: list[float]
    if isinstance(given, str):
        found = _LAG.fullmatch(given.strip())
        if found is None:
            raise ParameterError(f"lag must be such as 12h, 6..48h or 3d, got {short_repr(given)}")
        minutes = SLOT_LENGTHS[slot][0].total_seconds() / 60
        unit = _MINUTES[found[3]] / minutes if found[3] else 1.0
        ends = [float(each) * unit for each in (found[1], found[2] or found[1])]
    else:
        ends = list(given) if isinstance(given, tuple) else [given, given]
    return _check_range("lag", ends, 0, _MAX_LAG)


def _check_range(name: str, ends: list[float], least: float, most: float) -> Range:
    if len(ends) != 2:
        raise ParameterError(f"{name} must be a number or two, got {len(ends)}")
    first, last = (check_float(name, end, at_least=least, at_most=most) for end in ends)
    if first > last:
        raise ParameterError(f"{name} must go from the smaller number to the larger, got {ends}")
    return Range(first, last)


class Recipe(NamedTuple):
    """What worlds are drawn from: a history, arms, the ranges of lifts and lags, a seed."""

    past: Past
    arms: int
    lifts: Range
    lags: Range
    seed: int


class World(NamedTuple):
    """A world: a bandit, its totals before arms and delay, the lifts, and what 1 of its totals is.

    ``demand`` is that of the slots of the experiment.
    """

    bandit: HistoryBandit
    demand: Vector
    lifts: tuple[float, ...]
    scale: float


def draw_world(recipe: Recipe, number: int, slots: int, *, for_power: bool = False) -> World:
    """Draw the world of a number. Worlds for power have lifts that are spread evenly, in logs."""
    rng = np.random.default_rng([recipe.seed, number, int(for_power)])
    if for_power:
        low, high = (math.log(end) for end in POWER_LIFTS)
        best = math.exp(low + (high - low) * rng.random())
    else:
        best = recipe.lifts.draw(rng)
    lifts = draw_lifts(best, recipe.arms, rng)
    delay = draw_delay(recipe.lags.draw(rng), rng)
    return make_world(recipe.past, lifts, delay, slots, rng)


def make_world(
    past: Past, lifts: tuple[float, ...], delay: LagLaw, slots: int, rng: np.random.Generator
) -> World:
    """A world with these lifts and this delay, and totals made of the history."""
    calendar = past.calendar
    week = calendar.slots_per_week
    seen = min(int(past.weeks), _SEEN_WEEKS if week > 1 else len(past.totals))
    before = -(-_count_reach(delay) // week) + 1  # weeks that arrive in those that are seen
    start = (before + seen) * week + calendar.first
    series = resample(past, start + slots, rng)
    unseen = start - seen * week
    # The scale of the bandit's totals follows from the largest that is in use.
    series[:unseen] = np.minimum(series[:unseen], series[unseen:].max())
    bandit = HistoryBandit(
        as_history(series),
        lifts,
        delay,
        past.slot,
        start=start,
        weeks_before=seen,
        shuffle=False,
        feed=Defects(missing=past.missing),
        history_delayed=True,
    )
    scale = float(series.max()) * (1 + max(lifts))
    return World(bandit, series[start:], lifts, scale)


def _count_reach(delay: LagLaw) -> int:
    return int(min(delay.reach, 5 * _MAX_LAG))


def draw_lifts(best: float, arms: int, rng: np.random.Generator) -> tuple[float, ...]:
    """The lifts of all arms: the control's is 0, that of one other is given, others are no better.

    They lie between that and as much below 0.
    """
    low, high = min(-abs(best), best), best
    others = low + (high - low) * rng.random(arms - 2)
    return (0.0, *rng.permutation(np.append(others, best)).tolist())


def draw_delay(lag: float, rng: np.random.Generator) -> LagLaw:
    """Draw the shape of a delay of which nearly all has arrived within the lag."""
    slots = round(lag)
    if slots <= 1:
        return Immediate()
    fading = Geometric((1 - _NEARLY_ALL) ** (1 / slots))
    evenly, late = Interval(0, slots - 1), Interval(slots // 2, slots - 1)
    shapes: list[LagLaw] = [evenly, fading, LinearDecay(slots - 1), late]
    return shapes[int(rng.random() * len(shapes))]


def resample(past: Past, slots: int, rng: np.random.Generator) -> Vector:
    """Totals from a Monday on that are like those of a history."""
    week = past.calendar.slots_per_week
    length = len(past.totals)
    weeks = past.weeks if week > 1 else length / 8  # slots of a week have no weeks to differ
    grown = math.sqrt(1 + 1 / (max(weeks, _LEAST_WEEKS) - 1))
    source = past.usual * (past.totals / past.usual) ** grown
    near = max(past.calendar.slots_per_day, 2 if week == 1 else 3)
    level = _find_levels(past, near)
    mean_piece = min(max(_PIECE * length, _MIN_PIECE * week), _MAX_PIECE * max(week, 13))
    made, at, end = 0, -1, np.nan
    series = np.zeros(slots)
    while made < slots:
        choices = np.arange((made - past.place) % week, max(length - near, 1), week)
        if len(choices) == 0:  # a place that only the last days have
            choices = np.arange((made - past.place) % week, length, week)
        choices = choices[choices != at] if len(choices) > 1 else choices
        if not math.isnan(end):  # those whose level fits best
            nearest = np.argsort(np.abs(np.log(level[choices] / end)), kind="stable")
            choices = choices[nearest[: max(len(choices) // 2, 2)]]
        begin = int(choices[int(rng.random() * len(choices))])
        piece = max(int(rng.geometric(1 / mean_piece)), near)
        taken = min(piece, length - begin, slots - made)
        series[made : made + taken] = source[begin : begin + taken]
        made, at = made + taken, begin + taken
        end = level[min(at, length - 1)]
    return series


def _find_levels(past: Past, near: int) -> Vector:
    """The level before each slot: totals over what is usual, over the last slots."""
    sums, usual = (np.append(0.0, np.cumsum(each)) for each in (past.totals, past.usual))
    ends = np.maximum(np.arange(len(past.totals)), near)
    begins = ends - near
    ratio: Vector = (sums[ends] - sums[begins]) / (usual[ends] - usual[begins])
    return np.maximum(ratio, 1e-3)
