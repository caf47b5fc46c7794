"""A policy that looks at every slot, with a record of what happened, for plans."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import Calendar, Matrix, SlotKernels, Vector, as_spec
from aftereffect.policies.base import Policy


class RecordingState(NamedTuple):
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
class Recording(Policy):
    """A policy that looks at every slot, and a record of its draws."""

    base: Policy

    def __post_init__(self) -> None:
        self._set(base=as_spec(self.base, Policy))

    def with_calendar(self, calendar: Calendar) -> "Recording":
        return replace(self, base=self.base.with_calendar(calendar))

    def kernels(self) -> SlotKernels:
        kernels = self.base.kernels()
        if not isinstance(kernels, SlotKernels):
            raise TypeError(f"{self.base} does not look at every slot")
        return record(kernels)

    def initial(self, arms: int) -> RecordingState:
        return self.initial_for(arms, 1)

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> RecordingState:
        return RecordingState(
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
        state: RecordingState, params: Any, t: int, rng: np.random.Generator
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
        state: RecordingState, params: Any, t: int, arm: int, total: float, covariates: Vector
    ) -> None:
        if t < 0 and state.counts[1] == 0.0:
            state.counts[1] = -t
        place = t + int(state.counts[1])
        state.played[place], state.totals[place] = arm, total
        base_observe(state.base, params, t, arm, total, covariates)

    return SlotKernels(decide, observe)
