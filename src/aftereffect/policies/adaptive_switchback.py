"""AdaptiveSwitchback: finds the best arm from totals with seasons, drift, noise and late effects.

It plays blocks, as a switchback experiment does, but draws the arm of each block from what it has
learned so far (Thompson sampling), and lets blocks be as long as effects seem to take. What it
learns is in `_switchback_models`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aftereffect._core import Calendar, SlotKernels, Vector, as_spec, register
from aftereffect.delays import LagLaw
from aftereffect.errors import ParameterError
from aftereffect.policies._delay_shapes import DelayShapes, cut_delay, list_shapes
from aftereffect.policies._demand_model import LAGS, LIFTS, NOISE_PARTS
from aftereffect.policies._season import CalendarPolicy
from aftereffect.policies._switchback_models import add_lift, advance
from aftereffect.policies._switchback_windows import (
    CELLS,
    DAYS,
    DECISIONS,
    MARKS,
    AdaptiveParams,
    AdaptiveState,
    observe,
)

#: The most arms: each model has a covariance of all of them.
MAX_ARMS = 64
#: The slots that a state holds where their number is not known.
_CAPACITY = 2**14
#: The length of a block, in mean lags: if the history shows totals, and if it shows demand. In the
#: second case the delay is known well, and short blocks can be told apart.
_BLOCK, _DEMAND_BLOCK = 1.0, 0.3
#: The part of the mean lag of all models that a block takes at least into account.
_MIN_LAG = 0.5
#: Draws from the posterior per decision.
_DRAWS = 128
#: The smallest probability of all arms together, in the first decision; it falls with their number.
_FLOOR = 0.3


def decide(
    state: AdaptiveState, params: AdaptiveParams, t: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Draw the arm of the next block by how likely it is the best, and the length of the block."""
    advance(state, params)
    mean_lag = _weigh_models(state, params)
    _find_probabilities(state, rng)
    arm = _draw(state.probabilities, state.probabilities.shape[0], rng)
    while state.active[arm] == 0.0:  # by rounding, the last arm may be left
        arm -= 1
    # How long effects last is not known. So the delay that the block is made for is drawn as well.
    row, rows = _draw(state.scratch, state.evidence.shape[0], rng), params.mean_lags.shape[0]
    lag = max(params.mean_lags[row % rows], _MIN_LAG * mean_lag)
    block = _BLOCK if row < rows else _DEMAND_BLOCK
    windows = max(int(block * lag / params.window + 0.5), 1)
    state.marks[DECISIONS] += 1.0
    return arm, windows * params.window - t % params.window  # blocks end with windows


def _draw(chances: Vector, count: int, rng: np.random.Generator) -> int:
    """Draw a number from 0 to count - 1 with these probabilities."""
    number, left = 0, rng.random() - chances[0]
    while left >= 0.0 and number < count - 1:
        number += 1
        left -= chances[number]
    return number


def _weigh_models(state: AdaptiveState, params: AdaptiveParams) -> float:
    """Put the posterior probability of each model into scratch; return the mean lag."""
    best, total, lag = -math.inf, 0.0, 0.0
    models, rows = state.evidence.shape[0], params.mean_lags.shape[0]
    for row in range(models):
        best = max(best, state.evidence[row])
    for row in range(models):
        state.scratch[row] = math.exp(max(state.evidence[row] - best, -700.0))
        total += state.scratch[row]
    for row in range(models):
        state.scratch[row] /= total
        lag += state.scratch[row] * params.mean_lags[row % rows]
    return lag


def _find_probabilities(state: AdaptiveState, rng: np.random.Generator) -> None:
    """Find how often each arm is the best in draws from the posteriors of all models."""
    chances, arms, active = state.probabilities, state.probabilities.shape[0], 0
    for arm in range(arms):
        chances[arm] = 0.0
        active += 1 if state.active[arm] == 1.0 else 0
    wanted, drawn = 0.0, 0
    for row in range(state.evidence.shape[0]):
        wanted += state.scratch[row] * _DRAWS
        count = int(wanted + 0.5) - drawn
        if count > 0:
            _factorise(state, row)
            for _ in range(count):
                chances[_draw_best(state, row, rng)] += 1.0
            drawn += count
    total = 0.0
    for arm in range(arms):
        chances[arm] *= chances[arm]  # likely arms become likelier
        total += chances[arm]
    floor = min(_FLOOR / (state.marks[DECISIONS] + 1.0), 0.5) / active
    for arm in range(arms):
        if state.active[arm] == 1.0:
            chances[arm] = chances[arm] / total * (1.0 - active * floor) + floor


def _factorise(state: AdaptiveState, row: int) -> None:
    """Put the Cholesky factor of the covariance of the lifts, scaled, into `state.factor`."""
    lifts = state.mix.shape[0] - 1
    for arm in range(lifts):
        for other in range(arm + 1):
            number = state.scales[row] * state.covariances[row, LIFTS + arm, LIFTS + other]
            for inner in range(other):
                number -= state.factor[arm, inner] * state.factor[other, inner]
            if arm == other:
                state.factor[arm, arm] = math.sqrt(max(number, 1e-12))
            else:
                state.factor[arm, other] = number / state.factor[other, other]


def _draw_best(state: AdaptiveState, row: int, rng: np.random.Generator) -> int:
    """Draw lifts from one model; return the best arm of those that are active."""
    lifts, best, highest = state.mix.shape[0] - 1, 0, 0.0
    if state.active[0] == 0.0:
        highest = -math.inf
    for arm in range(lifts):
        # Box and Muller: a kernel draws with rng.random() only.
        radius = math.sqrt(-2.0 * math.log(1.0 - rng.random()))
        state.normals[arm] = radius * math.cos(2.0 * math.pi * rng.random())
    for arm in range(lifts):
        lift = state.means[row, LIFTS + arm]
        for inner in range(arm + 1):
            lift += state.factor[arm, inner] * state.normals[inner]
        if lift > highest and state.active[arm + 1] == 1.0:
            highest, best = lift, arm + 1
    return best


_KERNELS = SlotKernels(decide, observe)


@register
@dataclass(frozen=True)
class AdaptiveSwitchback(CalendarPolicy):
    """Thompson sampling on a model of real totals: season, level, noise and late effects.

    It learns the season and the noise from a history, or on the way. It compares many shapes of
    delay. It plays blocks whose length follows from the delays that explain the totals.

    Parameters
    ----------
    slots_per_day
        24 for slots of an hour, 1 for days, 0 for longer slots or for none; taken from the bandit
        if not given.
    first
        The place of slot 0 in its week, in slots since Monday 0:00.
    delay
        How effects arrive, such as ``interval(0, 23)``, if you know it; else it is learned.

    Examples
    --------
    >>> import numpy as np
    >>> policy = AdaptiveSwitchback(slots_per_day=24)
    >>> state, params = policy.initial(arms=3), policy.params(arms=3, horizon=100)
    >>> arm, slots = policy.kernels().decide(state, params, 0, np.random.default_rng(1))
    >>> slots, state.probabilities.sum().round(6).item()
    (4, 1.0)
    """

    slots_per_day: int | None = None
    first: int = 0
    delay: LagLaw | None = None

    def __post_init__(self) -> None:
        self._check_calendar()
        if self.delay is not None:
            self._set(delay=as_spec(self.delay, LagLaw))
            cut_delay(self.delay)  # refuses one that is too long

    def kernels(self) -> SlotKernels:
        return _KERNELS

    def params(self, arms: int, horizon: int) -> AdaptiveParams:
        self._check_horizon(horizon)
        if arms > MAX_ARMS:
            raise ParameterError(
                f"adaptive-switchback takes at most {MAX_ARMS} arms, got {arms:,}: "
                "use another policy, such as ars-ucb"
            )
        calendar = self._calendar
        return AdaptiveParams(
            calendar.slots_per_week, self.first, calendar.window, *self._list_shapes()
        )

    def _list_shapes(self) -> DelayShapes:
        window = self._calendar.window
        return list_shapes(window, self.delay, is_fine=window == 1)

    @property
    def _calendar(self) -> Calendar:
        return Calendar(self.slots_per_day or 0, self.first)

    @property
    def allows_new_arms(self) -> bool:
        return True

    def change_arms(self, state: AdaptiveState, active: Sequence[bool]) -> AdaptiveState:
        slots, covariates = state.covariates.shape
        for arms in range(state.mix.shape[0] + 1, len(active) + 1):
            state = add_lift(self.initial_for(arms, slots, covariates), state)
        state.active[:] = active
        return state

    def initial(self, arms: int) -> AdaptiveState:
        return self.initial_for(arms, _CAPACITY)

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> AdaptiveState:
        calendar, lifts = self._calendar, arms - 1
        week, window = calendar.slots_per_week, calendar.window
        windows_per_day = calendar.windows_per_day
        season = 0 if week == 1 else DAYS + (2 * windows_per_day if windows_per_day > 1 else 0)
        entries = LIFTS + lifts + season + covariates + CELLS
        weekly, windows = week // window, slots // window + 1
        rows, ages = self._list_shapes().by_age.shape
        return AdaptiveState(
            totals=np.full(slots, np.nan),
            arms=np.zeros(slots),
            covariates=np.full((slots, covariates), np.nan),
            marks=np.zeros(MARKS),
            shape=np.ones(week),
            usual=np.zeros(weekly),
            arrivals=np.zeros((rows, weekly, ages)),
            noise=np.zeros((2 * rows, len(NOISE_PARTS))),
            factors=np.ones(windows_per_day),
            corrections=np.zeros(weekly),
            centres=np.zeros(covariates),
            spreads=np.ones(covariates),
            means=np.zeros((2 * rows, entries)),
            covariances=np.zeros((2 * rows, entries, entries)),
            evidence=np.zeros(2 * rows),
            scales=np.ones(2 * rows),
            probabilities=np.full(arms, 1 / arms),
            active=np.ones(arms),
            entries=np.zeros(entries),
            parts=np.zeros(entries),
            mix=np.zeros(arms),
            loads=np.zeros(entries),
            products=np.zeros(entries),
            gains=np.zeros(entries),
            residuals=np.zeros(windows),
            weights=np.ones(windows),
            together=np.zeros(LAGS),
            overlap=np.zeros(LAGS),
            scratch=np.zeros(max(2 * week + slots, 2 * rows)),
            factor=np.zeros((lifts, lifts)),
            normals=np.zeros(lifts),
        )
