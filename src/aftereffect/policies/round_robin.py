"""Every arm in turn, one slot each."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import PolicyKernels, Vector, register
from aftereffect.policies.base import Policy


class Turn(NamedTuple):
    """The arm whose turn it is."""

    arm: Vector


class RoundRobinParams(NamedTuple):
    """The number of arms."""

    arms: int


@register
@dataclass(frozen=True)
class RoundRobin(Policy):
    """Every arm in turn, one slot each; learns nothing: a baseline.

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate(RoundRobin(), ae.StochasticBandit([0.9, 0.5]), horizon=1_000, seed=1)
    >>> round(float(study["round-robin"].final.mean()), 1)
    200.0
    """

    #: An arm whose turn `Floors` takes has it afterwards.
    learns_from_any_arm = False

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_turn, absorb_turn)

    def initial(self, arms: int) -> Turn:
        return Turn(np.zeros(1))

    def params(self, arms: int, horizon: int) -> RoundRobinParams:
        return RoundRobinParams(arms)


def decide_turn(
    state: Turn, params: RoundRobinParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The arm whose turn it is, for one slot that is not looked at."""
    return int(state.arm[0]), 1, 0


def absorb_turn(state: Turn, params: RoundRobinParams, arm: int, window: int, total: float) -> None:
    """Pass the turn on."""
    state.arm[0] = (arm + 1) % params.arms
