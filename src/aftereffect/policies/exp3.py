"""Exp3 (Auer, Cesa-Bianchi, Freund, Schapire, 2002), naively: every slot's total is taken as the gain of the arm just played.

::

    gain    gamma = min(1, sqrt(N ln N / ((e - 1) T)));  p = (1 - gamma) softmax(W) + gamma / N;  W_a += gamma y / (N p_a)
    loss    eta = sqrt(2 ln N / (N T));                  p  ~  exp(-eta L);                        L_a += (1 - y) / p_a

where y is the slot's total, at most 1. Without delay the expected regret of the gain form is at most 2.63 sqrt(G N ln N), G
being what the best arm brings. With delay it is a yardstick.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np

from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.base import Policy, State
from aftereffect.policies.learners import LEARNERS, LearnerName, blank, draw, gain_of
from aftereffect.spec import one_of, register

Form = Literal["gain", "loss"]
LEARNER_OF: dict[Form, LearnerName] = {"gain": "exp3-gain", "loss": "exp3"}
RATE, MIX = range(2)


@register
@dataclass(frozen=True)
class Exp3(Policy):
    """Exp3 that takes each slot's total as the gain of the arm just played, blind to delay; knows the horizon.

    Parameters
    ----------
    form
        ``gain`` (with a share of random draws) or ``loss`` (without).

    Examples
    --------
    >>> print(Exp3())
    exp3(form=gain)
    """

    form: Form = "gain"
    needs_horizon = True

    def __post_init__(self) -> None:
        one_of("form", self.form, get_args(Form))

    def kernels(self) -> PolicyKernels:
        return kernels(LEARNER_OF[self.form])

    def initial(self, arms: int) -> State:
        return blank(arms)

    def params(self, arms: int, horizon: int) -> Vector:
        if self.form == "loss":
            return np.array([math.sqrt(2 * math.log(arms) / (arms * horizon)), 0.0])
        gamma = exploration(arms, horizon)
        return np.array([gamma, gamma])


def exploration(arms: int, updates: int) -> float:
    """The gamma of the gain form for that many updates."""
    return min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1) * updates)))


@cache
def kernels(learner: LearnerName) -> PolicyKernels:
    """One slot at a time."""
    feed, _ = LEARNERS[learner]

    def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
        return draw(arms, own, params[MIX], rng), 1, 1

    def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
        feed(arms, own, params[RATE], arm, gain_of(total, slots))

    return PolicyKernels(decide, absorb)
