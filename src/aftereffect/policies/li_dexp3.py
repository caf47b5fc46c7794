"""The DEXP3 of Li, Chen and Giannakis (2019), for rewards that an adversary chose: an oracle.

It knows of which arm a reward is, but not of which pull. So it divides by the probability of the
arm in the slot of the arrival, and bounds estimates and probabilities. Each reward that arrives
changes the law in turn. d is the lag at which the last part of a pull arrives, d_max the largest, D
the sum of d over T pulls, and K the number of arms::

    p(arm) becomes p(arm) exp(-eta min(delta, (1 - reward) / p_t(arm))), then sums are made 1,
    then p = max(p, 1 / (K (T + D))), then sums are made 1
    eta = sqrt((1 + ln K) / (K (T + D))),    delta = (1 / (2 d_max) - 1 / (T + D)) / eta

Its regret is O(sqrt(d_max K (T + D))) without logarithms. The paper has eta up to a constant.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import AttributedKernels, Vector, register
from aftereffect.policies._learners import draw_arm
from aftereffect.policies._waits import TunedForWaits


class LawState(NamedTuple):
    """The law, and the one that the arm of this slot was drawn from."""

    law: Vector
    drawn_from: Vector


class LawParams(NamedTuple):
    """The rate, the largest estimate, and the least probability."""

    rate: float
    most: float
    least: float


def normalise(law: Vector) -> None:
    """Make a law sum to 1."""
    total = 0.0
    for arm in range(law.shape[0]):
        total += law[arm]
    for arm in range(law.shape[0]):
        law[arm] /= total


def decide_law(state: LawState, params: LawParams, t: int, rng: np.random.Generator) -> int:
    """Draw an arm from the law."""
    for arm in range(state.law.shape[0]):
        state.drawn_from[arm] = state.law[arm]
    return draw_arm(state.law, rng)


def arrive_law(
    state: LawState,
    params: LawParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Learn from a complete pull, without its slot."""
    if math.isnan(reward):
        return
    law = state.law
    law[arm] *= math.exp(-params.rate * min(params.most, (1.0 - reward) / state.drawn_from[arm]))
    normalise(law)
    for each in range(law.shape[0]):
        law[each] = max(law[each], params.least)
    normalise(law)


@register
@dataclass(frozen=True)
class LiDexp3(TunedForWaits):
    """DEXP3 of Li, Chen and Giannakis: knows the arm of each reward, but not the slot: an oracle.

    Parameters
    ----------
    mean_wait, longest_wait
        The mean and the largest lag of the last part of a pull. A simulation fills in true values.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(LiDexp3(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    102
    """

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_law, arrive_law)

    def initial_within(self, arms: int, pending: int) -> LawState:
        return LawState(np.full(arms, 1.0 / arms), np.full(arms, 1.0 / arms))

    def params(self, arms: int, horizon: int) -> LawParams:
        mean, longest = self.known_waits()
        waited = horizon * (1.0 + mean)
        rate = math.sqrt((1.0 + math.log(arms)) / (arms * waited))
        share = math.inf if longest == 0 else 1.0 / (2.0 * longest)
        # In runs shorter than two of the largest waits it would be below 0.
        return LawParams(rate, max(share - 1.0 / waited, 0.0) / rate, 1.0 / (arms * waited))
