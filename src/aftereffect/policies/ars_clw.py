"""ARS-CLW, of the paper's appendix: CLW that guesses d, and guesses higher as time goes on.

::

    phases end after T1, 2 T1, 4 T1, ... slots; in the one that ends after T' slots
        d = h(T');  gamma = min(1, sqrt(2 d N ln N / (T' + d)));  forget everything
        repeat: draw an arm and stay with it for a block (coins of 1 / (2d), as in `blocks`)
                feed Exp3 (gain form) with what was seen in the last d slots, divided by 2d

A block that a phase's end cuts short is not fed. Once h(T') has passed the true d all is as if it had been known: the regret is
O(sqrt(T h(2T) N ln N) + h^-1(d)), where delays do not look at the play.
"""

from dataclasses import dataclass

import numpy as np

from aftereffect.checks import LONGEST_LAG, whole
from aftereffect.growth import Growth, Power, as_growth
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.base import Policy, State
from aftereffect.policies.blocks import seed_length
from aftereffect.policies.clw import gain_gamma
from aftereffect.policies.learners import CELLS, blank, draw, feed_gain, forget, gain_of
from aftereffect.spec import register

OWN = PHASE, LEARNS = range(len(CELLS), len(CELLS) + 2)
#: Parameters: the number of phases; then, for each, where it ends, its d and its gamma.
PHASES, TABLE = range(2)
END, D, GAMMA = range(3)
WIDTH = 3


@register
@dataclass(frozen=True)
class ArsClw(Policy):
    """ARS-CLW: CLW with a guess of d that grows with time; knows nothing.

    Parameters
    ----------
    h
        The guess of d in a phase that ends after T slots: a growth, such as power(0.2), or any callable. The paper's square
        root plays almost at random up to T = 1e7.
    first_phase
        The slots of the first phase.
    """

    h: Growth = Power(0.2)
    first_phase: int = 1_024

    def __post_init__(self) -> None:
        self._set(h=as_growth(self.h), first_phase=whole("first_phase", self.first_phase, at_least=2, at_most=2**40))

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> State:
        return blank(arms, len(OWN))

    def params(self, arms: int, horizon: int) -> Vector:
        phases: list[list[float]] = []
        end = self.first_phase
        while not phases or phases[-1][END] < horizon:
            d = self.guess(end)
            phases.append([end, d, gain_gamma(d, arms, end)])
            end *= 2
        return np.array([len(phases), *np.array(phases).ravel()])

    def guess(self, slots: int) -> int:
        """h(T): the d of the phase that ends after that many slots."""
        return max(1, min(slots - 1, self.h(slots), LONGEST_LAG))


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """The next block of the phase."""
    while t >= params[TABLE + int(own[PHASE]) * WIDTH + END] and own[PHASE] < params[PHASES] - 1:
        forget(arms, own)
        own[PHASE] += 1
    phase = TABLE + int(own[PHASE]) * WIDTH
    arm = draw(arms, own, params[phase + GAMMA], rng)
    d = int(params[phase + D])
    slots, left = seed_length(d, rng), max(int(params[phase + END]) - t, 1)
    own[LEARNS] = slots <= left
    return (arm, slots, d) if slots <= left else (arm, left, 0)


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """Feed what was seen, unless the block was cut short."""
    if own[LEARNS] == 1.0:
        phase = TABLE + int(own[PHASE]) * WIDTH
        feed_gain(arms, own, params[phase + GAMMA], arm, gain_of(total, 2.0 * slots))
