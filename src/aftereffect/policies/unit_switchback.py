"""UnitSwitchback: finds the best arm from the totals of several units, such as stores.

It plays blocks that begin and end for all units at the same slot. For each block, it finds how
likely each arm is the best, given all that units have shown together (Thompson sampling), and deals
the arms to units by these probabilities (`_deals`). What it learns is in `_unit_model`.

Probabilities follow from counts of draws. So the last bits of sums over whole arrays, which may
differ from machine to machine, do not show in them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import (
    Calendar,
    Matrix,
    UnitKernels,
    Vector,
    as_spec,
    check_float,
    register,
)
from aftereffect.delays import LagLaw
from aftereffect.errors import ParameterError
from aftereffect.policies._deals import deal_arms
from aftereffect.policies._delay_shapes import DelayShapes, cut_delay, list_shapes
from aftereffect.policies._season import CalendarPolicy
from aftereffect.policies._unit_model import (
    Posterior,
    draw_order,
    learn_lifts,
)
from aftereffect.policies._unit_slots import UnitSlots, blank_slots, observe_units
from aftereffect.policies._unit_windows import see_windows
from aftereffect.policies.adaptive_switchback import MAX_ARMS, AdaptiveSwitchback
from aftereffect.policies.base import Policy, move_into
from aftereffect.policies.unit_policy import UnitPolicy

#: Draws from the posterior per decision.
_DRAWS = 256
#: The smallest probability of all arms together, in the first decision; it falls with their number.
_FLOOR = 0.3
#: The part of the mean lag of all shapes that a block takes at least into account.
_MIN_LAG = 0.5
#: The largest least share of all arms together.
_MAX_SHARES = 0.9


class UnitSwitchbackParams(NamedTuple):
    """The calendar, shapes of delay, and the least share of an arm."""

    calendar: Calendar
    shapes: DelayShapes
    least_share: float


class UnitSwitchbackState(NamedTuple):
    """What was observed, the last deal, the number of decisions, and which arms may be played."""

    slots: UnitSlots
    choices: Vector
    probabilities: Matrix
    decisions: Vector
    active: Vector


def decide(
    state: UnitSwitchbackState, params: UnitSwitchbackParams, t: int, rng: np.random.Generator
) -> int:
    """Deal arms to units by how likely they are the best; return the length of the block."""
    lifts, shapes, window = len(state.active) - 1, params.shapes, params.calendar.window
    windows = see_windows(state.slots, params.calendar, shapes.by_lag.shape[1], lifts)
    posterior = learn_lifts(windows, shapes, lifts)
    chances = _find_chances(posterior, state.active, rng)
    floor = max(
        min(_FLOOR / (state.decisions[0] + 1.0), 0.5) / state.active.sum(), params.least_share
    )
    chances = np.where(
        state.active == 1.0, chances * (1.0 - state.active.sum() * floor) + floor, 0.0
    )
    state.probabilities[:] = chances / chances.sum()
    deal_arms(state.choices, state.probabilities[0], rng)
    state.decisions[0] += 1.0
    # How long effects last is not known. So the delay that the block is made for is drawn as well.
    mean_lags, place = shapes.mean_lags, rng.random()
    row = min(
        int(np.searchsorted(np.cumsum(posterior.weights), place, side="right")), len(mean_lags) - 1
    )
    lag = max(float(mean_lags[row]), _MIN_LAG * float(posterior.weights @ mean_lags))
    count = max(int(lag / window + 0.5), 1)
    return count * window - t % window  # blocks end with windows


def _find_chances(posterior: Posterior, active: Vector, rng: np.random.Generator) -> Vector:
    """How often each arm is the best in draws from the posterior; likely arms become likelier."""
    counts = np.zeros(len(active))
    for row, draws in draw_order(posterior, _DRAWS):
        if draws > 0:
            factor = np.linalg.cholesky(posterior.covariances[row])
            normals = _draw_normals(draws * len(factor), rng).reshape(draws, -1)
            lifts = np.zeros((draws, len(active)))
            lifts[:, 1:] = posterior.means[row] + normals @ factor.T
            lifts[:, active == 0.0] = -np.inf
            np.add.at(counts, lifts.argmax(axis=1), 1.0)
    squares = counts**2
    chances: Vector = squares / squares.sum()
    return chances


def _draw_normals(count: int, rng: np.random.Generator) -> Vector:
    """Normal numbers by Box and Muller: a kernel draws with rng.random() only."""
    numbers = np.array([rng.random() for _ in range(count + count % 2)]).reshape(2, -1)
    radius, angle = np.sqrt(-2.0 * np.log1p(-numbers[0])), 2.0 * math.pi * numbers[1]
    both: Vector = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
    return both


_KERNELS = UnitKernels(decide, observe_units)


@register
@dataclass(frozen=True)
class UnitSwitchback(CalendarPolicy, UnitPolicy):
    """Thompson sampling on a model of the totals of several units, which share lifts and delay.

    Level, season and noise are each unit's own. Arms are balanced over units in every slot, so a
    drift that is common to all units hardly matters. With a single unit, it is AdaptiveSwitchback.

    Parameters
    ----------
    slots_per_day
        24 for slots of an hour, 1 for days, 0 for longer slots or for none.
    first
        The place of slot 0 in its week, in slots since Monday 0:00.
    delay
        How effects arrive, such as ``interval(0, 23)``, if you know it; else it is learned.
    least_share
        The least share of the units that each arm has on average, so that arms can be compared to
        the end.

    Examples
    --------
    >>> import numpy as np
    >>> policy = UnitSwitchback(slots_per_day=24)
    >>> state, params = policy.initial_for_units(2, units=6, slots=100), policy.params(2, 100)
    >>> slots = policy.kernels().decide(state, params, 0, np.random.default_rng(1))
    >>> slots % 4, state.probabilities[0].sum().item()
    (0, 1.0)
    """

    slots_per_day: int | None = None
    first: int = 0
    delay: LagLaw | None = None
    least_share: float = 0.0

    def __post_init__(self) -> None:
        self._check_calendar()
        if self.delay is not None:
            self._set(delay=as_spec(self.delay, LagLaw))
            cut_delay(self.delay)  # refuses one that is too long
        share = check_float("least_share", self.least_share, at_least=0, at_most=_MAX_SHARES / 2)
        self._set(least_share=share)

    def kernels(self) -> UnitKernels:
        return _KERNELS

    def for_one_unit(self) -> Policy:
        if self.least_share > 0:
            raise ParameterError(
                "least_share is a share of several units, and here is one: give floors instead"
            )
        return AdaptiveSwitchback(self.slots_per_day, self.first, self.delay)

    def params(self, arms: int, horizon: int) -> UnitSwitchbackParams:
        self._check_horizon(horizon)
        if arms > MAX_ARMS:
            raise ParameterError(f"unit-switchback takes at most {MAX_ARMS} arms, got {arms:,}")
        if arms * self.least_share > _MAX_SHARES:
            raise ParameterError(
                f"least_share must be at most {_MAX_SHARES / arms:.3g} for {arms} arms, "
                f"got {self.least_share:g}"
            )
        calendar = Calendar(self.slots_per_day or 0, self.first)
        shapes = list_shapes(calendar.window, self.delay)
        return UnitSwitchbackParams(calendar, shapes, self.least_share)

    @property
    def allows_new_arms(self) -> bool:
        return True

    def change_arms(
        self, state: UnitSwitchbackState, active: Sequence[bool]
    ) -> UnitSwitchbackState:
        (slots, units), before = state.slots.totals.shape, len(state.active)
        if len(active) > before:
            state = move_into(self.initial_for_units(len(active), units, slots), state)
            state.probabilities[:, before:] = 0.0
        state.active[:] = active
        return state

    def initial_for_units(
        self, arms: int, units: int, slots: int, covariates: int = 0
    ) -> UnitSwitchbackState:
        return UnitSwitchbackState(
            blank_slots(units, slots),
            np.zeros(units),
            np.full((units, arms), 1 / arms),
            np.zeros(1),
            np.ones(arms),
        )
