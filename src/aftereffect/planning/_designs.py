"""Candidate designs, and a policy that also records what inference needs of its draws."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, SlotKernels, Vector, as_spec
from aftereffect.errors import ParameterError
from aftereffect.inference import Trial
from aftereffect.planning._history import Past
from aftereffect.planning._worlds import Range
from aftereffect.policies import AdaptiveSwitchback, FixedSwitchback, Floors, Policy

#: The share of the control in the adaptive design.
CONTROL_SHARE = 0.1
#: Blocks of fixed switchbacks, in lags; the part of the experiment in which arms are compared.
_BLOCKS, _COMPARED = (1.0, 2.0, 4.0), 0.25
#: Passes over all arms that a fixed switchback has at least.
MIN_PASSES = 2


class RecordedState(NamedTuple):
    """What happened, and the state of the base.

    ``counts`` are those of blocks and of the slots before the first. By block, ``starts`` and
    ``chances``; by slot, from the history on, ``played`` and ``totals``.
    """

    probabilities: Vector
    counts: Vector
    starts: Vector
    chances: Matrix
    played: Vector
    totals: Vector
    base: Any


@dataclass(frozen=True)
class Recorded(Policy):
    """A policy that looks at every slot, and a record of its draws."""

    base: Policy

    def __post_init__(self) -> None:
        self._set(base=as_spec(self.base, Policy))

    def with_calendar(self, calendar: Calendar) -> "Recorded":
        return replace(self, base=self.base.with_calendar(calendar))

    def kernels(self) -> SlotKernels:
        kernels = self.base.kernels()
        if not isinstance(kernels, SlotKernels):
            raise TypeError(f"{self.base} does not look at every slot")
        return record(kernels)

    def initial(self, arms: int) -> RecordedState:
        return self.initial_for(arms, 1)

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> RecordedState:
        return RecordedState(
            probabilities=np.zeros(arms),
            counts=np.zeros(2),
            starts=np.zeros(slots),
            chances=np.zeros((slots, arms)),
            played=np.zeros(slots),
            totals=np.full(slots, np.nan),
            base=self.base.initial_for(arms, slots, covariates),
        )

    def params(self, arms: int, horizon: int) -> Any:
        return self.base.params(arms, horizon)


@cache
def record(base: SlotKernels) -> SlotKernels:
    """The kernels of a base policy, which also write the record."""
    base_decide, base_observe = base

    def decide(
        state: RecordedState, params: Any, t: int, rng: np.random.Generator
    ) -> tuple[int, int]:
        arm, slots = base_decide(state.base, params, t, rng)
        row = int(state.counts[0])
        state.starts[row] = t
        for each in range(state.probabilities.shape[0]):
            state.probabilities[each] = state.base.probabilities[each]
            state.chances[row, each] = state.base.probabilities[each]
        state.counts[0] += 1.0
        return arm, slots

    def observe(
        state: RecordedState, params: Any, t: int, arm: int, total: float, covariates: Vector
    ) -> None:
        if t < 0 and state.counts[1] == 0.0:
            state.counts[1] = -t
        place = t + int(state.counts[1])
        state.played[place], state.totals[place] = arm, total
        base_observe(state.base, params, t, arm, total, covariates)

    return SlotKernels(decide, observe)


def read_trial(states: RecordedState, calendar: Calendar, slots: int) -> Trial:
    """The record of the first run of a batch, with so many slots."""
    blocks, before = (int(count) for count in states.counts[0])
    starts = states.starts[0, :blocks].astype(np.int64)
    played = states.played[0, before : before + slots].astype(np.int64)
    return Trial(
        totals=states.totals[0, before : before + slots],
        played=played,
        starts=starts,
        decided=played[starts],
        probabilities=states.chances[0, :blocks],
        places=(calendar.first + np.arange(slots)) % calendar.slots_per_week,
        calendar=calendar,
        history=states.totals[0, :before],
    )


def list_designs(past: Past, arms: int, lags: Range, slots: int) -> list[Policy]:
    """The usual candidates: an adaptive switchback with a control, and fixed ones."""
    adaptive = Floors(AdaptiveSwitchback(), (CONTROL_SHARE, *[0.0] * (arms - 1)))
    calendar = past.calendar
    # Blocks are whole parts of days, or whole days.
    unit = calendar.window
    fixed: list[FixedSwitchback] = []
    for lengths in _BLOCKS:
        block = max(round(lengths * max(lags.last, 1) / unit), 1) * unit
        if block >= calendar.slots_per_day > 0:
            block = round(block / calendar.slots_per_day) * calendar.slots_per_day
        block = min(block, slots // (2 * MIN_PASSES * arms))
        if block >= 1 and block not in [each.block for each in fixed]:
            passes = max(int(_COMPARED * slots) // (block * arms), MIN_PASSES)
            fixed.append(FixedSwitchback(block, passes))
    return [adaptive, *fixed]


def check_design(design: Policy | str, arms: int, slots: int) -> Policy:
    """Check that a design can be planned with so many arms and slots."""
    policy = as_spec(design, Policy)
    policy.params(arms, slots)
    if isinstance(policy, FixedSwitchback):
        needed = policy.block * policy.blocks_per_arm * arms
        if policy.blocks_per_arm < MIN_PASSES or needed > slots:
            raise ParameterError(
                f"{policy} must compare the arms at least {MIN_PASSES} times within {slots:,} "
                f"slots, but needs {needed:,} slots for {policy.blocks_per_arm:,} times: choose "
                "other blocks, or more weeks"
            )
    return policy


def name_design(design: Policy) -> str:
    """Its spec string, without the calendar, which everything fills in by itself.

    >>> name_design(FixedSwitchback(24, 3))
    'fixed-switchback(block=24, blocks_per_arm=3)'
    """
    return str(design).replace("(first=0)", "").replace(", first=0", "")
