"""ARS-EXP3, the paper's algorithm for adversarial bandits: Exp3 over rounds that grow.

::

    K = the largest number of rounds with g(1) + ... + g(K) <= T;  gamma = min(1, sqrt(N ln N / ((e - 1) K)))
    round k = 1 .. K: p = (1 - gamma) softmax(w / g(K)) + gamma / N;  draw an arm a, play it for g(k) slots
                      Z = all that was seen, at most g(k);  w_a += gamma Z / (N p_a)
    then: draw once more and play that to the end

with g(k) = k^beta, rounded up. What leaks into a round or out of it is at most d, so that d K is all that delay can cost:
the regret is at most 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1), which is O((d + sqrt(N ln N)) T^(2/3)) for beta = 1/2, even
if the adversary chooses delays by looking at the play.

Where the horizon is not told the whole is repeated, in epochs of 1024, 2048, 4096, ... slots.
"""

from dataclasses import dataclass

import numpy as np

from aftereffect.checks import flag, real
from aftereffect.growth import Power, power_slots, rounds_within
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.base import Policy, State
from aftereffect.policies.exp3 import exploration
from aftereffect.policies.learners import CELLS, blank, draw, forget, probability, reinforce
from aftereffect.spec import register

FIRST_EPOCH = 1_024
OWN = EPOCH, ROUND, LEARNS = range(len(CELLS), len(CELLS) + 3)
#: Parameters: beta and the number of epochs; then, for each, where it ends, its rounds K, g(K) and gamma.
BETA, EPOCHS, TABLE = range(3)
END, ROUNDS, LONGEST, GAMMA = range(4)
WIDTH = 4


@register
@dataclass(frozen=True)
class ArsExp3(Policy):
    """ARS-EXP3: Exp3 over rounds that grow; knows the horizon, and nothing of the delay.

    Parameters
    ----------
    beta
        Round k lasts k^beta slots, rounded up; above 0, and 1/2 is best.
    doubling
        Do without the horizon: start anew in epochs of 1024, 2048, 4096, ... slots.

    Examples
    --------
    >>> ArsExp3(beta=0.5).rounds(100_000)
    2796
    """

    beta: float = 0.5
    doubling: bool = False

    @property
    def needs_horizon(self) -> bool:
        return not self.doubling

    def __post_init__(self) -> None:
        self._set(beta=real("beta", self.beta, above=0, at_most=100), doubling=flag("doubling", self.doubling))

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> State:
        return blank(arms, len(OWN))

    def params(self, arms: int, horizon: int) -> Vector:
        epochs = []
        end = 0
        for slots in self._epochs(horizon):
            end += slots
            rounds = self.rounds(slots)
            epochs.append([end, rounds, Power(self.beta)(rounds), exploration(arms, rounds)])
        return np.array([self.beta, len(epochs), *np.array(epochs).ravel()])

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


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """The next round of the epoch, or its rest."""
    while t >= params[TABLE + int(own[EPOCH]) * WIDTH + END] and own[EPOCH] < params[EPOCHS] - 1:
        forget(arms, own)
        own[EPOCH] += 1
        own[ROUND] = 0.0
    epoch = TABLE + int(own[EPOCH]) * WIDTH
    arm = draw(arms, own, params[epoch + GAMMA], rng)
    own[ROUND] += 1
    if own[ROUND] > params[epoch + ROUNDS]:
        own[LEARNS] = 0.0
        return arm, max(int(params[epoch + END]) - t, 1), 0
    slots = power_slots(params, int(own[ROUND]))
    own[LEARNS] = slots
    return arm, slots, slots


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """Credit the round's total, at most one per slot, to the arm that was played."""
    if own[LEARNS] > 0.0:
        epoch = TABLE + int(own[EPOCH]) * WIDTH
        gamma = params[epoch + GAMMA]
        seen = min(max(total, 0.0), float(slots)) * (own[LEARNS] / slots)  # as much as the slots that were planned would show
        gain = seen / params[epoch + LONGEST]
        reinforce(arms, own, arm, gamma * gain / (arms.shape[1] * probability(arms, own, gamma, arm)))
