"""FixedUnitSwitchback: blocks of a fixed length, arms balanced over units; then the best for all.

A total is divided by what is usual for its unit. From that ratio, the mean over all units in the
same slot is subtracted: what is common to all units cancels, as arms are balanced. The arm with the
largest mean is the best.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, UnitKernels, Vector, check_int, register
from aftereffect.policies._deals import deal_arms
from aftereffect.policies._season import CalendarPolicy
from aftereffect.policies._unit_slots import UnitSlots, blank_slots, learn_seasons, observe_units
from aftereffect.policies.base import Policy
from aftereffect.policies.planned_switchback import (
    MAX_BLOCK,
    FixedSwitchback,
    SwitchbackParams,
    count_week,
)
from aftereffect.policies.unit_policy import UnitPolicy


class FixedUnitState(NamedTuple):
    """What was observed, and the last deal."""

    slots: UnitSlots
    choices: Vector
    probabilities: Matrix


def decide(
    state: FixedUnitState, params: SwitchbackParams, t: int, rng: np.random.Generator
) -> int:
    """Deal the arms of the block that begins, or give the best one to all units."""
    left, arms = params.length - t % params.length, state.probabilities.shape[1]
    if t // params.length < params.blocks:
        state.probabilities[:] = 1 / arms
        deal_arms(state.choices, state.probabilities[0], rng)
        return left
    state.choices[:] = _find_best(state, params)
    state.probabilities[:] = np.arange(arms) == state.choices[:, None]
    return left


def _find_best(state: FixedUnitState, params: SwitchbackParams) -> int:
    """The arm with the largest mean over the second halves of all blocks; 0 if none is known."""
    week, (before, known) = params.slots_per_week, state.slots.find_known()
    seasons = learn_seasons(state.slots, week, params.first)
    slots = np.arange(min(known, params.length * params.blocks))
    slots = slots[slots % params.length >= params.length // 2]
    ratios = state.slots.totals[before + slots] / seasons[(params.first + slots) % week]
    is_known = ~np.isnan(ratios)
    counts = is_known.sum(axis=0)
    levels = np.where(is_known, ratios, 0.0).sum(axis=0) / np.maximum(counts, 1)
    values = np.where(is_known, ratios, 0.0) / np.where(levels > 0, levels, 1.0)
    common = values.sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)
    apart = np.where(is_known, values - common[:, None], 0.0)
    played = state.slots.arms[before + slots]
    means = np.full(state.probabilities.shape[1], -np.inf)
    for arm in range(len(means)):
        here = is_known & (played == arm)
        if here.any():
            means[arm] = apart[here].mean()
    return int(np.argmax(means))


_KERNELS = UnitKernels(decide, observe_units)


@register
@dataclass(frozen=True)
class FixedUnitSwitchback(CalendarPolicy, UnitPolicy):
    """Blocks of fixed length, arms dealt anew to all units in each; then the best arm for all.

    A baseline for several units. Only the second half of each block counts.

    Parameters
    ----------
    block
        The number of slots in a block.
    blocks_per_arm
        The arms are compared for so many blocks, times their number.
    slots_per_day, first
        How slots lie in days, and the place of slot 0 in its week, from Monday on.

    Examples
    --------
    >>> import numpy as np
    >>> policy = FixedUnitSwitchback(block=12, blocks_per_arm=2)
    >>> state, params = policy.initial_for_units(2, units=6, slots=100), policy.params(2, 100)
    >>> slots = policy.kernels().decide(state, params, 0, np.random.default_rng(1))
    >>> slots, state.choices.sum().item(), state.probabilities[0].tolist()
    (12, 3.0, [0.5, 0.5])
    """

    block: int = 24
    blocks_per_arm: int = 2
    slots_per_day: int | None = None
    first: int = 0

    def __post_init__(self) -> None:
        self._check_calendar()
        self._set(
            block=check_int("block", self.block, at_least=1, at_most=MAX_BLOCK),
            blocks_per_arm=check_int(
                "blocks_per_arm", self.blocks_per_arm, at_least=1, at_most=MAX_BLOCK
            ),
        )

    def kernels(self) -> UnitKernels:
        return _KERNELS

    def for_one_unit(self) -> Policy:
        return FixedSwitchback(self.block, self.blocks_per_arm, self.slots_per_day, self.first)

    def params(self, arms: int, horizon: int) -> SwitchbackParams:
        self._check_horizon(horizon)
        return SwitchbackParams(
            count_week(self.slots_per_day), self.first, self.block, arms * self.blocks_per_arm
        )

    def initial_for_units(
        self, arms: int, units: int, slots: int, covariates: int = 0
    ) -> FixedUnitState:
        return FixedUnitState(
            blank_slots(units, slots), np.zeros(units), np.full((units, arms), 1 / arms)
        )
