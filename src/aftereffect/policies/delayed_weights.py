"""Oracles for rewards that an adversary chose: exponential weights that learn from complete pulls.

All estimate the loss of an arm as (1 - reward) / p(arm), with the probability p at the pull, and
draw arms in proportion to exp(-eta L), L being the sums of estimates. d is the lag at which the
last part of a pull arrives, and K the number of arms::

    DEW      eta = min(sqrt(ln K / (e K T / 2 + D)), 1 / (4 e d_max))         D: all d of T pulls
    Skipper  eta = 1 / (4 e b),  b = sqrt(e K T / 2 + D) / (4 e sqrt(ln K)),  pulls with d < b only
    DEXP3    eta = sqrt(ln K / (K 2^h + 2^w)) / (2 e^2),                      pulls with
             d <= 1 / (e^2 eta) - 1 only; a new epoch, which forgets all,
             once t reaches 2^h or the sum of pending pulls over slots 2^w

The first two are by Thune, Cesa-Bianchi and Seldin (2019), the third by Bistritz et al. (2022). DEW
and Skipper know T, the mean of d and its maximum; DEXP3 knows nothing. Their regret is
O(sqrt((K T + D) ln K)).

The constants of DEW and of Skipper were noted from memory. Of these papers only abstracts could be
read since: they confirm the orders of regret, but have no constants. Others have found gaps in the
analysis of the earlier DEXP3 (Bistritz et al., 2019; see Schlisselberg et al., 2025).
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aftereffect._core import AttributedKernels, Vector, register
from aftereffect.delays import Delay
from aftereffect.errors import ParameterError
from aftereffect.policies._learners import (
    LearnerState,
    blank_learner,
    draw,
    forget,
    probability,
    reinforce,
)
from aftereffect.policies._waits import TunedForWaits, check_wait, find_waits
from aftereffect.policies.base import AttributedPolicy

_E = math.e


class WeightsState(NamedTuple):
    """The learner; by pending pull the probability of its arm and its epoch; and single numbers.

    ``pending`` counts the pulls that are pending, and ``waited`` sums that up over slots. ``slots``
    and ``waits`` are the h and w of the epoch, and ``epoch`` its number.
    """

    learner: LearnerState
    chance: Vector
    epoch_of: Vector
    pending: Vector
    waited: Vector
    slots: Vector
    waits: Vector
    epoch: Vector


class WeightsParams(NamedTuple):
    """The rate, or 0 for epochs; and the largest lag that counts."""

    rate: float
    longest: float


def blank_weights(arms: int, pending: int) -> WeightsState:
    """The state before the first slot."""
    rings = np.zeros(pending), np.zeros(pending)
    numbers = (np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1))
    return WeightsState(blank_learner(arms), *rings, *numbers)


def epoch_rate(arms: int, slots: float, waits: float) -> float:
    """The rate of DEXP3 in the epoch with these h and w."""
    return math.sqrt(math.log(arms) / (arms * 2.0**slots + 2.0**waits)) / (2.0 * _E * _E)


def decide_weights(
    state: WeightsState, params: WeightsParams, t: int, rng: np.random.Generator
) -> int:
    """Draw an arm; DEXP3 may begin a new epoch."""
    state.waited[0] += state.pending[0]
    if params.rate == 0.0 and (
        t + 1.0 >= 2.0 ** state.slots[0] or state.waited[0] >= 2.0 ** state.waits[0]
    ):
        while t + 1.0 >= 2.0 ** state.slots[0]:
            state.slots[0] += 1.0
        while state.waited[0] >= 2.0 ** state.waits[0]:
            state.waits[0] += 1.0
        state.epoch[0] += 1.0
        forget(state.learner)
    arm = draw(state.learner, 0.0, rng)
    pull = t % state.chance.shape[0]
    state.chance[pull] = probability(state.learner, 0.0, arm)
    state.epoch_of[pull] = state.epoch[0]
    state.pending[0] += 1.0
    return arm


def arrive_weights(
    state: WeightsState,
    params: WeightsParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Learn from a complete pull of this epoch that was not pending for too long."""
    if math.isnan(reward):
        return
    state.pending[0] -= 1.0
    pull = pulled % state.chance.shape[0]
    rate, longest = params.rate, params.longest
    if rate == 0.0:
        rate = epoch_rate(state.learner.score.shape[0], state.slots[0], state.waits[0])
        longest = 1.0 / (_E * _E * rate) - 1.0
    if state.epoch_of[pull] == state.epoch[0] and t - pulled <= longest:
        reinforce(state.learner, arm, -rate * (1.0 - reward) / state.chance[pull])


class _Weights(AttributedPolicy):
    """Delayed exponential weights."""

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_weights, arrive_weights)

    def initial_within(self, arms: int, pending: int) -> WeightsState:
        return blank_weights(arms, pending)


@register
@dataclass(frozen=True)
class Dexp3(_Weights):
    """DEXP3: delayed exponential weights in epochs; knows neither horizon nor delay: an oracle.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(Dexp3(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    199
    """

    def params(self, arms: int, horizon: int) -> WeightsParams:
        return WeightsParams(0.0, 0.0)


@register
@dataclass(frozen=True)
class Dew(_Weights, TunedForWaits):
    """DEW: delayed exponential weights, tuned for horizon and delay: an oracle.

    Parameters
    ----------
    mean_wait, longest_wait
        The mean and the largest lag of the last part of a pull. A simulation fills in true values.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(Dew(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    118
    """

    def params(self, arms: int, horizon: int) -> WeightsParams:
        mean, longest = self.known_waits()
        waited = _E * arms * horizon / 2 + mean * horizon
        rate = math.sqrt(math.log(arms) / waited)
        if longest > 0:
            rate = min(rate, 1 / (4 * _E * longest))
        return WeightsParams(rate, math.inf)


@register
@dataclass(frozen=True)
class Skipper(_Weights):
    """Skipper: DEW that does not learn from pulls which are pending for too long: an oracle.

    Parameters
    ----------
    mean_wait
        The mean lag of the last part of a pull. A simulation fills in the true value.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(Skipper(), bandit, horizon=10_000, seed=1)
    >>> round(float(study[0].final.mean()))
    394
    """

    mean_wait: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        check_wait(self, "mean_wait")

    def with_delay(self, delay: Delay, arms: int) -> "Skipper":
        mean, _ = find_waits(delay, arms)
        return self if self.mean_wait is not None else replace(self, mean_wait=mean)

    def params(self, arms: int, horizon: int) -> WeightsParams:
        if self.mean_wait is None:
            raise ParameterError(f"{self} must know waits: pass mean_wait=...")
        waited = _E * arms * horizon / 2 + self.mean_wait * horizon
        limit = math.sqrt(waited) / (4 * _E * math.sqrt(math.log(arms)))
        return WeightsParams(1 / (4 * _E * limit), math.ceil(limit) - 1.0)
