"""ARS-EXP3, which plays Exp3 over rounds that grow.

ARS-EXP3 (Wang, Wang and Huang, 2021)::

    K = the largest number of rounds with g(1) + ... + g(K) <= T
    gamma = min(1, sqrt(N ln N / ((e - 1) K)))
    round k = 1 .. K: p = (1 - gamma) softmax(w / g(K)) + gamma / N
                      draw an arm a from p, play it for g(k) slots
                      Z = the total of these slots, at most g(k);  w_a += gamma Z / (N p_a)
    then: draw once more and play that arm to the end

with g(k) = k^beta, rounded up. What leaks into a round or out of it is at most d, so delay costs at
most d K. The regret is at most 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1), which is
O((d + sqrt(N ln N)) T^(2/3)) for beta = 1/2. This holds even if an adversary chooses delays by the
arms that are played.

Without a horizon the whole is repeated, in epochs of 1024, 2048, 4096, ... slots.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import Chance, PolicyKernels, Vector, check_flag, check_float, register
from aftereffect.growth import Power, power_slots, rounds_within
from aftereffect.policies._learners import (
    LearnerState,
    blank_learner,
    draw,
    forget,
    probability,
    reinforce,
)
from aftereffect.policies.base import Policy
from aftereffect.policies.exp3 import exploration_rate

#: Slots of the first epoch where `ArsExp3` does without the horizon.
FIRST_EPOCH = 1_024


class ArsExp3State(NamedTuple):
    """The learner, the numbers of the epoch and of its round, and the slots planned for the round.

    No slots are planned for the rest of an epoch, from which nothing is learned.
    """

    learner: LearnerState
    epoch: Vector
    round: Vector
    planned: Vector


class ArsExp3Params(NamedTuple):
    """Beta; by epoch the slot at which it ends, its rounds K, the longest, g(K), and gamma."""

    beta: Vector
    end: Vector
    rounds: Vector
    longest: Vector
    gamma: Vector


@register
@dataclass(frozen=True)
class ArsExp3(Policy):
    """ARS-EXP3: Exp3 over rounds that grow; needs the horizon, and nothing about the delay.

    Parameters
    ----------
    beta
        Round k lasts k^beta slots, rounded up; above 0, and 1/2 is best.
    doubling
        Do without the horizon: start again in epochs of 1024, 2048, 4096, ... slots.

    Examples
    --------
    >>> ArsExp3(beta=0.5).rounds(100_000)
    2796
    """

    beta: float = 0.5
    doubling: bool = False
    learns_from_any_arm = False

    @property
    def needs_horizon(self) -> bool:
        return not self.doubling

    def __post_init__(self) -> None:
        self._set(
            beta=check_float("beta", self.beta, above=0, at_most=100),
            doubling=check_flag("doubling", self.doubling),
        )

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_ars_exp3, absorb_ars_exp3)

    def chance(self) -> Chance:
        return chance_ars_exp3

    def initial(self, arms: int) -> ArsExp3State:
        return ArsExp3State(blank_learner(arms), *(np.zeros(1) for _ in range(3)))

    def params(self, arms: int, horizon: int) -> ArsExp3Params:
        epochs = self._epochs(horizon)
        rounds = [self.rounds(slots) for slots in epochs]
        return ArsExp3Params(
            beta=np.array([self.beta]),
            end=np.cumsum(epochs, dtype=float),
            rounds=np.array(rounds, dtype=float),
            longest=np.array([Power(self.beta)(each) for each in rounds], dtype=float),
            gamma=np.array([exploration_rate(arms, each) for each in rounds]),
        )

    def rounds(self, slots: int) -> int:
        """K, the number of whole rounds in that many slots."""
        return rounds_within(self.beta, slots)

    def _epochs(self, horizon: int) -> list[int]:
        if not self.doubling:
            return [horizon]
        epochs = [FIRST_EPOCH]
        while sum(epochs) < horizon:
            epochs.append(2 * epochs[-1])
        return epochs


def decide_ars_exp3(
    state: ArsExp3State, params: ArsExp3Params, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next round of the epoch, or its rest."""
    while t >= params.end[int(state.epoch[0])] and state.epoch[0] < params.end.shape[0] - 1:
        forget(state.learner)
        state.epoch[0] += 1
        state.round[0] = 0.0
    epoch = int(state.epoch[0])
    arm = draw(state.learner, params.gamma[epoch], rng)
    state.round[0] += 1
    if state.round[0] > params.rounds[epoch]:
        state.planned[0] = 0.0
        return arm, max(int(params.end[epoch]) - t, 1), 0
    slots = power_slots(params.beta, int(state.round[0]))
    state.planned[0] = slots
    return arm, slots, slots


def chance_ars_exp3(state: ArsExp3State, params: ArsExp3Params, arm: int) -> float:
    """With which probability `decide` has just drawn an arm."""
    return probability(state.learner, params.gamma[int(state.epoch[0])], arm)


def absorb_ars_exp3(
    state: ArsExp3State, params: ArsExp3Params, arm: int, window: int, total: float
) -> None:
    """Credit the round's total, at most 1 per slot, to the arm that was played."""
    if state.planned[0] > 0.0:
        epoch = int(state.epoch[0])
        gamma = params.gamma[epoch]
        # What the planned slots would have shown.
        planned = min(max(total, 0.0), float(window)) * (state.planned[0] / window)
        gain = planned / params.longest[epoch]
        arms = state.learner.score.shape[0]
        reinforce(
            state.learner, arm, gamma * gain / (arms * probability(state.learner, gamma, arm))
        )
