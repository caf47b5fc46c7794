"""The mini-batch wrapper (Wan, Sun, Zhang, 2022): any policy, with a batch of slots in place of each of its slots.

::

    repeat floor(T / size) times: the base policy chooses an arm; play it for a whole batch
                                  tell the base the batch's average, at most 1
    then: stay with the last arm

What leaks into a batch or out of it is at most d: the regret is size times the base's for T / size slots, plus O(d T / size).
"""

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from aftereffect.checks import MOST_SLOTS, whole
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.knowledge import Knowledge
from aftereffect.policies.base import Policy, State
from aftereffect.policies.exp3 import Exp3
from aftereffect.spec import as_spec, register

#: Before the cells and the parameters of the base come these.
LAST_ARM, LEARNS, WINDOW, BASE_OWN = range(4)
SIZE, BATCHES, BASE_PARAMS = range(3)


@register
@dataclass(frozen=True)
class MiniBatch(Policy):
    """Any policy, with a batch of slots in place of each of its slots.

    Parameters
    ----------
    base
        The policy, or its spec string.
    size
        Slots of a batch; (T / (N ln N))^(1/3), rounded up, if not given.

    Examples
    --------
    >>> print(MiniBatch("exp3(form=loss)", size=20))
    mini-batch(base=exp3(form=loss), size=20)
    """

    base: Policy = Exp3()
    size: int | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        self._set(base=as_spec(self.base, Policy))
        if self.size is not None:
            self._set(size=whole("size", self.size, at_least=1, at_most=MOST_SLOTS))

    def told(self, knowledge: Knowledge) -> "MiniBatch":
        return replace(self, base=self.base.told(knowledge))

    def kernels(self) -> PolicyKernels:
        return kernels(self.base.kernels())

    def initial(self, arms: int) -> State:
        base = self.base.initial(arms)
        return State(base.arms, np.concatenate([np.zeros(BASE_OWN), base.own]))

    def params(self, arms: int, horizon: int) -> Vector:
        size = min(self.size or math.ceil((horizon / (arms * math.log(arms))) ** (1 / 3)), horizon)
        batches = horizon // size
        return np.concatenate([[size, batches], self.base.params(arms, max(batches, 1))])

    def radii(self, state: State, params: Vector, t: int) -> Vector | None:
        return self.base.radii(State(state.arms, state.own[BASE_OWN:]), params[BASE_PARAMS:], t // int(params[SIZE]))


@cache
def kernels(base: PolicyKernels) -> PolicyKernels:
    """The same over batches."""
    base_decide, base_absorb = base

    def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
        size, done = int(params[SIZE]), t // int(params[SIZE])
        left = int(params[BATCHES]) - done
        if left <= 0:
            own[LEARNS] = 0.0
            return int(own[LAST_ARM]), size, 0
        arm, batches, window = base_decide(arms, own[BASE_OWN:], params[BASE_PARAMS:], done, rng)
        own[LAST_ARM], own[LEARNS], own[WINDOW] = arm, batches <= left, window
        return (arm, batches * size, window * size) if batches <= left else (arm, left * size, 0)

    def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
        if own[LEARNS] == 1.0:
            # As many batches as were looked at, whatever was planned, each with the average over all of them.
            batches = max(int(slots / params[SIZE] + 0.5), 1) if own[WINDOW] > 0.0 else 0
            seen = min(total, float(slots)) / params[SIZE] * (batches * params[SIZE] / max(slots, 1))
            base_absorb(arms, own[BASE_OWN:], params[BASE_PARAMS:], arm, batches, seen)

    return PolicyKernels(decide, absorb)
