"""ARS-CLW, which plays CLW with a guess of d that grows.

ARS-CLW (the appendix of Wang, Wang and Huang, 2021)::

    phases end after T1, 2 T1, 4 T1, ... slots; in the one that ends after T' slots
        d = h(T');  gamma = min(1, sqrt(2 d N ln N / (T' + d)));  forget everything
        repeat: draw an arm and stay with it for a block (coins of 1 / (2d), as in `clw`)
                feed Exp3 (gain form) with the total of the last d slots, divided by 2d

A block that the end of a phase cuts short is not fed. From the phase on in which h(T') passes the
true d, the policy plays as if it knew d. The regret is O(sqrt(T h(2T) N ln N) + h^-1(d)) for delays
that do not depend on the arms that are played.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import MAX_LAG, Chance, PolicyKernels, Vector, check_int, register
from aftereffect.growth import Growth, Power, as_growth
from aftereffect.policies._learners import (
    LearnerState,
    blank_learner,
    draw,
    feed_gain,
    forget,
    gain_of,
    probability,
)
from aftereffect.policies.base import Policy
from aftereffect.policies.clw import draw_seed_length, gain_gamma


class ArsClwState(NamedTuple):
    """The learner, the number of the phase, and whether the block is fed (1) or cut short (0)."""

    learner: LearnerState
    phase: Vector
    learns: Vector


class ArsClwParams(NamedTuple):
    """By phase: the slot at which it ends, its d, and its gamma."""

    end: Vector
    d: Vector
    gamma: Vector


@register
@dataclass(frozen=True)
class ArsClw(Policy):
    """ARS-CLW: CLW with a guess of d that grows with time; needs to know nothing.

    Parameters
    ----------
    h
        The guess of d in a phase that ends after T slots: a growth, such as power(0.2), or any
        callable. With the paper's square root the policy plays almost at random up to T = 1e7.
    first_phase
        The slots of the first phase.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(ArsClw(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    192.2
    """

    h: Growth = Power(0.2)
    first_phase: int = 1_024
    learns_from_any_arm = False

    def __post_init__(self) -> None:
        first_phase = check_int("first_phase", self.first_phase, at_least=2, at_most=2**40)
        self._set(h=as_growth(self.h), first_phase=first_phase)

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_ars_clw, absorb_ars_clw)

    def chance(self) -> Chance:
        return chance_ars_clw

    def initial(self, arms: int) -> ArsClwState:
        return ArsClwState(blank_learner(arms), phase=np.zeros(1), learns=np.zeros(1))

    def params(self, arms: int, horizon: int) -> ArsClwParams:
        ends = [self.first_phase]
        while ends[-1] < horizon:
            ends.append(2 * ends[-1])
        guesses = [self.guess(end) for end in ends]
        gammas = [gain_gamma(d, arms, end) for d, end in zip(guesses, ends, strict=True)]
        return ArsClwParams(np.array(ends, float), np.array(guesses, float), np.array(gammas))

    def guess(self, slots: int) -> int:
        """h(T): the d of the phase that ends after that many slots."""
        return max(1, min(slots - 1, self.h(slots), MAX_LAG))


def decide_ars_clw(
    state: ArsClwState, params: ArsClwParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next block of the phase."""
    while t >= params.end[int(state.phase[0])] and state.phase[0] < params.end.shape[0] - 1:
        forget(state.learner)
        state.phase[0] += 1
    phase = int(state.phase[0])
    arm = draw(state.learner, params.gamma[phase], rng)
    d = int(params.d[phase])
    slots, left = draw_seed_length(d, rng), max(int(params.end[phase]) - t, 1)
    state.learns[0] = slots <= left
    return (arm, slots, d) if slots <= left else (arm, left, 0)


def chance_ars_clw(state: ArsClwState, params: ArsClwParams, arm: int) -> float:
    """With which probability `decide` has just drawn an arm."""
    return probability(state.learner, params.gamma[int(state.phase[0])], arm)


def absorb_ars_clw(
    state: ArsClwState, params: ArsClwParams, arm: int, window: int, total: float
) -> None:
    """Feed the window's total, unless the block was cut short."""
    if state.learns[0] == 1.0:
        gamma = params.gamma[int(state.phase[0])]
        feed_gain(state.learner, gamma, arm, gain_of(total, 2.0 * window))
