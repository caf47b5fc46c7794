"""OptimalSwitchback: the design that is best for a known carryover, then the best arm for good.

Bojinov, Simchi-Levi and Zhao (Management Science, 2023) derive it for effects that last at most m
slots. Arms are drawn in slot 0 and in the slots 2m, 3m, 4m, ...; the last one is played for 2m
slots. A slot counts if the m slots before it had the same arm.
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
