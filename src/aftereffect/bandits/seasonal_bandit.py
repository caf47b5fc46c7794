"""The bandit whose arms multiply a demand that is made up.

It has hours, weekdays, a trend, a level that wanders, and noise.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from aftereffect._core import Memory, check_choice, check_float, register
from aftereffect.bandits._defects import Defects
from aftereffect.bandits._demand import DemandBandit
from aftereffect.bandits._demand_kernels import BASE, DemandWorld, FillBase
from aftereffect.delays import Delay, Immediate
from aftereffect.errors import ParameterError
from aftereffect.rewards import SlotName

Season: TypeAlias = Literal["flat", "weekday", "trend", "ar", "ar+weekday"]
Tails: TypeAlias = Literal["normal", "heavy", "poisson"]
_TAILS: tuple[Tails, ...] = get_args(Tails)
_NORMAL, _HEAVY, _POISSON = range(len(_TAILS))

#: The hours of a day go up and down by this share, with the highest at three in the afternoon.
_HOURS, _HIGHEST = 0.6, 15 / 24
#: The days of a week go up and down by this share.
_WEEKDAYS = 0.25
#: The trend over the run.
_TREND = (0.8, 1.2)
#: The standard deviation of the logarithm of the level, and how many days it remembers.
_LEVEL, _DAYS = 0.15, 14.0
#: Less noise would take larger counts than the draw of a count is good for.
_MIN_POISSON = 1e-3
#: A binomial count of so many trials is as good as a Poisson count, which numba cannot draw without
#: an allocation.
_TRIALS = 2**40


class Course(NamedTuple):
    """What the demand is made of; 0 for what is not in it."""

    slots_per_day: int
    weekdays: float
    trend: float
    level: float
    memory: float
    noise: float
    tails: int


@register
@dataclass(frozen=True)
class SeasonalBandit(DemandBandit):
    """A made-up demand that arms multiply: hours, weekdays, trend, wandering level, noise.

    The demand of slots below a day goes up and down over the day. The delay spreads what a pull
    brings over later slots. Before the first slot, the first arm was played, with the same delay.
    Everything is drawn anew in each replication.

    The regret is the lost share in percent: the difference between what the best arm would have
    brought by the horizon and what the pulled arms brought, divided by the former. Totals are
    divided by the largest reward that a pull of the run could bring.

    Parameters
    ----------
    lifts
        How much more than the demand each arm brings, such as 0, .05 and .1.
    delay
        When a reward arrives. It arrives in the expected shares, also where its lag is random.
    slot
        The length of a slot: 15min, 1h, 1d or 1w.
    season
        ``weekday``: days of the week go up and down by a quarter, with a random phase. ``trend``:
        from .8 to 1.2 over the run. ``ar``: an AR(1) level with a standard deviation of 15 % that
        forgets within 14 days. ``ar+weekday``: both. ``flat``: none.
    noise
        The standard deviation of the demand of each slot, as a share of it.
    tails
        Noise is normal, or heavy-tailed (Student's t with three degrees of freedom), or demand is a
        count with Poisson noise, so large that its noise is that where demand is 1.
    weeks_before
        How many weeks before the first slot policies may see.
    shuffle
        Whether each replication puts the arms into a random order.
    feed
        What is wrong with the totals that policies get, and with the demand.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = SeasonalBandit([0, .1], ae.Interval(0, 6), slot="1d", season="ar+weekday")
    >>> study = ae.simulate("fixed-switchback(block=14)", bandit, 364, 20, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    2.6
    """

    lifts: tuple[float, ...]
    delay: Delay = Immediate()
    slot: SlotName = "1h"
    season: Season = "flat"
    noise: float = 0.03
    tails: Tails = "normal"
    weeks_before: int = 8
    shuffle: bool = True
    feed: Defects = Defects()

    def __post_init__(self) -> None:
        self._check_shared()
        check_choice("season", self.season, get_args(Season))
        check_choice("tails", self.tails, _TAILS)
        noise = check_float("noise", self.noise, at_least=0, at_most=1)
        if self.tails == "poisson" and 0 < noise < _MIN_POISSON:
            raise ParameterError(
                f"noise of counts must be 0 or at least {_MIN_POISSON:g}, got {noise:g}: use 0"
            )
        self._set(noise=noise)

    def _source(self, horizon: int) -> tuple[FillBase, Any]:
        slots_per_day = self.calendar.slots_per_day
        days = 1 / slots_per_day if slots_per_day else 7.0
        has_weekdays = "weekday" in self.season and slots_per_day > 0
        return draw_course, Course(
            slots_per_day=slots_per_day,
            weekdays=_WEEKDAYS if has_weekdays else 0.0,
            trend=1.0 if self.season == "trend" else 0.0,
            level=_LEVEL if self.season.startswith("ar") else 0.0,
            memory=math.exp(-days / _DAYS),
            noise=self.noise,
            tails=_TAILS.index(self.tails),
        )


def draw_course(memory: Memory, world: DemandWorld, rng: np.random.Generator) -> None:
    """Draw the demand of a run, and of the slots before it."""
    course = world.source
    phase = rng.random()
    level = course.level * rng.standard_normal()
    step = course.level * math.sqrt(1.0 - course.memory * course.memory)
    low, high = _TREND
    for place in range(world.lead + world.horizon):
        slot = place - world.lead
        base = math.exp(level)
        if course.slots_per_day > 1:
            hour = (slot % course.slots_per_day) / course.slots_per_day
            base *= 1.0 + _HOURS * math.cos(2.0 * math.pi * (hour - _HIGHEST))
        if course.weekdays > 0.0:
            day = (slot % (7 * course.slots_per_day)) // course.slots_per_day
            base *= 1.0 + course.weekdays * math.cos(2.0 * math.pi * (day / 7.0 - phase))
        if course.trend > 0.0:
            base *= low + (high - low) * max(slot, 0) / world.horizon
        memory[BASE, place] = add_noise(course, base, rng)
        if course.level > 0.0:
            level = course.memory * level + step * rng.standard_normal()


def add_noise(course: Course, base: float, rng: np.random.Generator) -> float:
    """The demand of one slot with its noise; never below 0."""
    if course.noise == 0.0:
        return base
    if course.tails == _POISSON:
        count = 1.0 / (course.noise * course.noise)
        return float(rng.binomial(_TRIALS, base * count / _TRIALS)) / count
    deviate = rng.standard_normal()
    if course.tails == _HEAVY:  # Student's t with 3 degrees of freedom, over its deviation
        squares = 0.0
        for _ in range(3):
            other = rng.standard_normal()
            squares += other * other
        deviate /= math.sqrt(squares)
    return max(base * (1.0 + course.noise * deviate), 0.0)
