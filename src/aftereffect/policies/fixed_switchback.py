"""FixedSwitchback: blocks of fixed length in random order, then the best arm for good.

In each pass every arm has a block; the second half of each block counts. The arms are compared by
the ratio of their totals to a forecast (see `_switchback`).
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
