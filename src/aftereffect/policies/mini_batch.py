"""Mini-batches: any policy, each of whose slots is a batch of slots.

The mini-batch wrapper (Wan, Sun, Zhang, 2022) does what `ArsExp3` does with rounds of constant
length, around Exp3 or any other policy::

    repeat floor(T / size) times: the base policy chooses an arm; play it for a whole batch
                                  give the base the batch's average, at most 1
    then: stay with the last arm

What leaks into a batch or out of it is at most d. The regret is size times the base's for T / size
slots, plus O(d T / size).
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from aftereffect._core import MAX_SLOTS, PolicyKernels, Vector, as_spec, check_int, register
from aftereffect.delays import DelayFacts
from aftereffect.policies.base import Policy, check_anonymous, round_kernels
from aftereffect.policies.exp3 import Exp3


class MiniBatchState(NamedTuple):
    """The last arm, whether the base learns from this round (1 or 0), its window, its state."""

    last_arm: Vector
    learns: Vector
    window: Vector
    base: Any


class MiniBatchParams(NamedTuple):
    """The slots of a batch, the number of batches, and the parameters of the base."""

    size: int
    batches: int
    base: Any


@register
@dataclass(frozen=True)
class MiniBatch(Policy):
    """Runs another policy on batches of slots: each batch is one slot of that policy.

    Parameters
    ----------
    base
        The policy, or its spec string.
    size
        Slots of a batch; (T / (N ln N))^(1/3), rounded up, if not given.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(MiniBatch("exp3(form=loss)", size=20), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    169.2
    """

    base: Policy = Exp3()
    size: int | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        self._set(base=check_anonymous(as_spec(self.base, Policy)))
        if self.size is not None:
            self._set(size=check_int("size", self.size, at_least=1, at_most=MAX_SLOTS))

    @property
    def learns_from_any_arm(self) -> bool:
        return self.base.learns_from_any_arm

    def with_delay_facts(self, facts: DelayFacts) -> "MiniBatch":
        return replace(self, base=self.base.with_delay_facts(facts))

    def kernels(self) -> PolicyKernels:
        return mini_batch_kernels(round_kernels(self.base))

    def initial(self, arms: int) -> MiniBatchState:
        return MiniBatchState(np.zeros(1), np.zeros(1), np.zeros(1), self.base.initial(arms))

    def params(self, arms: int, horizon: int) -> MiniBatchParams:
        size = min(self.size or math.ceil((horizon / (arms * math.log(arms))) ** (1 / 3)), horizon)
        batches = horizon // size
        return MiniBatchParams(size, batches, self.base.params(arms, max(batches, 1)))


@cache
def mini_batch_kernels(base: PolicyKernels) -> PolicyKernels:
    """The base policy's kernels over batches."""
    base_decide, base_absorb = base

    def decide(
        state: MiniBatchState, params: MiniBatchParams, t: int, rng: np.random.Generator
    ) -> tuple[int, int, int]:
        size, done = params.size, t // params.size
        left = params.batches - done
        if left <= 0:
            state.learns[0] = 0.0
            return int(state.last_arm[0]), size, 0
        arm, batches, window = base_decide(state.base, params.base, done, rng)
        state.last_arm[0], state.learns[0], state.window[0] = arm, batches <= left, window
        return (arm, batches * size, window * size) if batches <= left else (arm, left * size, 0)

    def absorb(
        state: MiniBatchState, params: MiniBatchParams, arm: int, window: int, total: float
    ) -> None:
        if state.learns[0] == 1.0:
            # As many batches as the window covers, whatever was planned, each with the average
            # over all of them.
            size = float(params.size)
            batches = max(int(window / size + 0.5), 1) if state.window[0] > 0.0 else 0
            averages = min(total, float(window)) / size * (batches * size / max(window, 1))
            base_absorb(state.base, params.base, arm, batches, averages)

    return PolicyKernels(decide, absorb)
