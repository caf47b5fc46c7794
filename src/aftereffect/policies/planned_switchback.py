"""Planned switchbacks: blocks of a length fixed beforehand, then the best arm for good.

They differ in their blocks and in the slots that count; the arms are compared by the ratio of their
totals to a forecast (see `_switchback`). In each pass of `FixedSwitchback` every arm has a block,
in random order, and the second half of each block counts. `OptimalSwitchback` is the design that
is best for effects that last at most m slots (Bojinov, Simchi-Levi and Zhao, Management Science,
2023): arms are drawn in slot 0 and in the slots 2m, 3m, 4m, ...; the last one is played for 2m
slots; a slot counts if the m slots before it had the same arm.
"""

from dataclasses import dataclass

import numpy as np

from aftereffect._core import SlotKernels, check_int, register
from aftereffect.policies._switchback import (
    MAX_BLOCK,
    Switchback,
    SwitchbackParams,
    SwitchbackState,
    add_slot,
    begin_comparison,
    choose_best_ratio,
    count_week,
    draw_arm,
    find_slot,
    observe,
)


def decide_fixed(
    state: SwitchbackState, params: SwitchbackParams, t: int, rng: np.random.Generator
) -> tuple[int, int]:
    """The arm of the block that begins, or the best one."""
    length, number = params.length, t // params.length
    left = length - t % length
    if number >= params.blocks:
        begin_comparison(state, params)
        for slot in range(length * params.blocks):
            if slot % length >= length // 2:
                add_slot(state, params, slot)
        return choose_best_ratio(state), left
    if number % state.used.shape[0] == 0:
        for arm in range(state.used.shape[0]):
            state.used[arm] = 0.0
    arm = draw_arm(state, rng)
    state.used[arm] = 1.0
    return arm, left


@register
@dataclass(frozen=True)
class FixedSwitchback(Switchback):
    """Blocks of fixed length, every arm equally often in random order; then the best arm for good.

    A baseline that looks at every slot.

    Parameters
    ----------
    block
        The number of slots in a block. Only the second half of each block counts.
    blocks_per_arm
        The number of blocks of each arm.
    slots_per_day, first
        How slots lie in days, and the place of slot 0 in its week, from Monday on. A simulation
        fills them in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.SeasonalBandit([0, .1, .2], ae.Geometric(.8), season="ar+weekday")
    >>> study = ae.simulate(FixedSwitchback(24), bandit, horizon=1_344, replications=20, seed=1)
    >>> round(float(study[0].final.mean()), 2)
    0.94
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

    def kernels(self) -> SlotKernels:
        return SlotKernels(decide_fixed, observe)

    def params(self, arms: int, horizon: int) -> SwitchbackParams:
        self._check_horizon(horizon)
        return SwitchbackParams(
            count_week(self.slots_per_day), self.first, self.block, arms * self.blocks_per_arm
        )


def decide_optimal(
    state: SwitchbackState, params: SwitchbackParams, t: int, rng: np.random.Generator
) -> tuple[int, int]:
    """An arm drawn at random, or the best one."""
    length, last = params.length, params.length * params.blocks
    end = last + 2 * length
    if params.blocks == 1:
        last, end = 0, 2 * length
    if t < end:
        arm = draw_arm(state, rng)
        if t >= last:
            return arm, end - t
        return arm, 2 * length - t if t < 2 * length else length - t % length
    begin_comparison(state, params)
    same, before = 0, -1
    for slot in range(end):
        index = find_slot(state, slot)
        arm = int(state.arms[index]) if index < state.arms.shape[0] else -1
        same = same + 1 if arm == before else 0
        before = arm
        if arm >= 0 and same >= length:
            add_slot(state, params, slot)
    return choose_best_ratio(state), length


@register
@dataclass(frozen=True)
class OptimalSwitchback(Switchback):
    """The best switchback for a known carryover (Bojinov et al. 2023); then the best arm for good.

    A baseline that looks at every slot.

    Parameters
    ----------
    carryover
        For how many slots after its own a pull still brings something.
    blocks
        How often an arm is drawn before the best one is chosen.
    slots_per_day, first
        How slots lie in days, and the place of slot 0 in its week, from Monday on. A simulation
        fills them in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.SeasonalBandit([0, .1], ae.Interval(0, 12), season="ar")
    >>> study = ae.simulate(OptimalSwitchback(12), bandit, horizon=1_344, replications=20, seed=1)
    >>> round(float(study[0].final.mean()), 2)
    2.52
    """

    carryover: int = 12
    blocks: int = 8
    slots_per_day: int | None = None
    first: int = 0

    def __post_init__(self) -> None:
        self._check_calendar()
        self._set(
            carryover=check_int("carryover", self.carryover, at_least=1, at_most=MAX_BLOCK),
            blocks=check_int("blocks", self.blocks, at_least=1, at_most=MAX_BLOCK),
        )

    def kernels(self) -> SlotKernels:
        return SlotKernels(decide_optimal, observe)

    def params(self, arms: int, horizon: int) -> SwitchbackParams:
        self._check_horizon(horizon)
        return SwitchbackParams(
            count_week(self.slots_per_day), self.first, self.carryover, self.blocks
        )
