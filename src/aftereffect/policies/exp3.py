"""Exp3, blind to delay.

Exp3 (Auer, Cesa-Bianchi, Freund, Schapire, 2002)::

    gain    gamma = min(1, sqrt(N ln N / ((e - 1) T)))
            p = (1 - gamma) softmax(W) + gamma / N;      W_a += gamma y / (N p_a)
    loss    eta = sqrt(2 ln N / (N T))
            p  ~  exp(-eta L);                           L_a += (1 - y) / p_a

where y is the slot's total, at most 1, taken as the gain of the arm just played. Without delay the
expected regret of the gain form is at most 2.63 sqrt(G N ln N), where G is the reward of the best
arm. With delay it is a baseline.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from aftereffect._core import Chance, PolicyKernels, register
from aftereffect.policies._learners import (
    LEARNERS,
    LearnerName,
    LearnerState,
    blank_learner,
    draw,
    feed,
    gain_of,
    probability,
)
from aftereffect.policies.base import Policy

Form = Literal["gain", "loss"]
LEARNER_OF: dict[Form, LearnerName] = {"gain": "exp3-gain", "loss": "exp3"}


class Exp3Params(NamedTuple):
    """The learner, its rate, and the share of slots with a uniformly drawn arm."""

    learner: int
    rate: float
    mix: float


@register
@dataclass(frozen=True)
class Exp3(Policy):
    """Exp3 that takes each slot's total as the gain of the arm just played; needs the horizon.

    Parameters
    ----------
    form
        ``gain`` (with a share of random draws) or ``loss`` (without).

    Examples
    --------
    >>> import aftereffect as ae
    >>> study = ae.simulate(Exp3(), ae.StochasticBandit([0.9, 0.5]), horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    54.9
    """

    form: Form = "gain"
    needs_horizon = True
    learns_from_any_arm = False

    def __post_init__(self) -> None:
        self._check_choices(form=Form)

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_exp3, absorb_exp3)

    def chance(self) -> Chance:
        return exp3_chance

    def initial(self, arms: int) -> LearnerState:
        return blank_learner(arms)

    def params(self, arms: int, horizon: int) -> Exp3Params:
        learner = LEARNERS.index(LEARNER_OF[self.form])
        if self.form == "loss":
            return Exp3Params(learner, math.sqrt(2 * math.log(arms) / (arms * horizon)), 0.0)
        gamma = exploration_rate(arms, horizon)
        return Exp3Params(learner, gamma, gamma)


def exploration_rate(arms: int, updates: int) -> float:
    """The gamma of the gain form for that many updates."""
    return min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1) * updates)))


def exp3_chance(state: LearnerState, params: Exp3Params, arm: int) -> float:
    """With which probability `decide` draws an arm."""
    return probability(state, params.mix, arm)


def decide_exp3(
    state: LearnerState, params: Exp3Params, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """One slot of an arm that is drawn."""
    return draw(state, params.mix, rng), 1, 1


def absorb_exp3(
    state: LearnerState, params: Exp3Params, arm: int, window: int, total: float
) -> None:
    """Feed the learner with the total of the slot."""
    feed(state, params.learner, params.rate, arm, gain_of(total, window))
