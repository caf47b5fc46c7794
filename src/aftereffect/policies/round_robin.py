"""Every arm in turn, one slot each, whatever is seen: the yardstick of learning nothing."""

from dataclasses import dataclass

import numpy as np

from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.base import Policy, State
from aftereffect.spec import register

NEXT = 0


@register
@dataclass(frozen=True)
class RoundRobin(Policy):
    """Every arm in turn, one slot each; learns nothing: a yardstick."""

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> State:
        return State(np.zeros((1, arms)), np.zeros(1))

    def params(self, arms: int, horizon: int) -> Vector:
        return np.zeros(1)


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """The arm whose turn it is, for one slot that is not looked at."""
    return int(own[NEXT]), 1, 0


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """Pass the turn on."""
    own[NEXT] = (arm + 1) % arms.shape[1]
