"""Oracles that follow the regularised leader, for rewards that an adversary chose.

They estimate the loss of an arm as (1 - reward) / p(arm), with the probability p at the pull, from
complete pulls. The regulariser is a hybrid of the 1/2-Tsallis entropy and the usual one. L are the
sums of estimates, and K is the number of arms::

    p minimises  sum p_i L_i - 2 a sum sqrt(p_i) + b sum p_i ln p_i

    simple      a = sqrt(t),          b = sqrt(2 S / ln K)              S: pending pulls, summed
    advanced    a = sqrt(t),          b = sqrt(S / ln K)                over slots; in the advanced
    both        a = sqrt(t + eta_0),  b = sqrt((S + gamma_0) / ln K)    one, without the pulls that
                                                                        were pending more than b

The first two are by Zimmert and Seldin (2020): regret of 4 sqrt(K T) + sqrt(8 D ln K), with D the
sum over pulls of the lag at which the last part arrives, knowing nothing. The third is by
Masoudian, Zimmert and Seldin (2022), for the best of both worlds: its regret is logarithmic if
rewards are stochastic. It knows d_max, the largest of these lags::

    eta_0 = 10 d_max + d_max^2 / (K^(1/3) ln K)^2,    gamma_0 = 24^2 d_max^2 K^(2/3) ln K

These two constants were noted from memory. Only the abstract could be read since: it confirms the
order of regret, but has no constants.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from aftereffect._core import AttributedKernels, Vector, register
from aftereffect.delays import Delay
from aftereffect.errors import ParameterError
from aftereffect.policies._learners import draw_arm
from aftereffect.policies._waits import check_wait, find_waits
from aftereffect.policies.base import AttributedPolicy


class LeaderState(NamedTuple):
    """By arm the estimated losses, the probabilities and 1 / sqrt of them; by pull its probability.

    ``counted`` says of each pull whether it is pending and counts as such, and ``pending`` how many
    do. ``waited`` sums that up over slots.
    """

    losses: Vector
    law: Vector
    roots: Vector
    chance: Vector
    counted: Vector
    pending: Vector
    waited: Vector


class LeaderParams(NamedTuple):
    """a^2 - t, gamma_0, and b^2 ln K / S; ln K; and whether pulls may stop to count (1 or 0)."""

    early: float
    least: float
    factor: float
    log: float
    skips: float


#: Newton's method for a law: its steps at most, and how far from 1 the sum may be.
_MAX_STEPS, _PRECISION = 100, 1e-12


def find_law(losses: Vector, law: Vector, roots: Vector, a: float, b: float) -> None:
    """Write the law that minimises the regularised loss, p = 1 / u^2 with a u + 2 b ln u = c + z.

    c is what the loss of an arm exceeds the least by, plus a. The sum of p falls with z, and both
    equations are convex or concave, so that Newton's method never goes too far in either.
    """
    least = losses[0]
    for arm in range(1, losses.shape[0]):
        least = min(least, losses[arm])
    for arm in range(losses.shape[0]):
        roots[arm] = 1.0
    z = 0.0
    for _ in range(_MAX_STEPS):
        total = slope = 0.0
        for arm in range(losses.shape[0]):
            u, wanted = roots[arm], a + losses[arm] - least + z
            for _ in range(_MAX_STEPS):
                step = (wanted - a * u - 2.0 * b * math.log(u)) / (a + 2.0 * b / u)
                u += step
                if step <= _PRECISION * u:
                    break
            roots[arm] = u
            law[arm] = 1.0 / (u * u)
            total += law[arm]
            slope += 2.0 * law[arm] / (u * (a + 2.0 * b / u))
        if total <= 1.0 + _PRECISION:
            break
        z += (total - 1.0) / slope
    for arm in range(losses.shape[0]):
        law[arm] /= total


def decide_leader(
    state: LeaderState, params: LeaderParams, t: int, rng: np.random.Generator
) -> int:
    """Draw an arm from the law of the leader."""
    size = state.chance.shape[0]
    state.waited[0] += state.pending[0]
    a = math.sqrt(t + 1.0 + params.early)
    b = math.sqrt((params.factor * state.waited[0] + params.least) / params.log)
    if params.skips == 1.0:
        for pulled in range(max(t - size + 1, 0), t):
            if t - pulled <= b:
                break
            if state.counted[pulled % size] == 1.0:  # the oldest one only
                state.counted[pulled % size] = 0.0
                state.pending[0] -= 1.0
                break
    find_law(state.losses, state.law, state.roots, a, b)
    arm = draw_arm(state.law, rng)
    state.chance[t % size] = state.law[arm]
    state.counted[t % size] = 1.0
    state.pending[0] += 1.0
    return arm


def arrive_leader(
    state: LeaderState,
    params: LeaderParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Learn from a complete pull."""
    if not math.isnan(reward):
        pull = pulled % state.chance.shape[0]
        state.pending[0] -= state.counted[pull]
        state.counted[pull] = 0.0
        state.losses[arm] += (1.0 - reward) / state.chance[pull]


Tuning = Literal["simple", "advanced", "both"]


@register
@dataclass(frozen=True)
class DelayedLeader(AttributedPolicy):
    """Follows the regularised leader, with a hybrid regulariser: an oracle.

    Parameters
    ----------
    tuning
        ``simple`` or ``advanced``, by Zimmert and Seldin, or ``both``, the best of both worlds of
        Masoudian, Zimmert and Seldin.
    longest_wait
        The largest lag of the last part of a pull, for ``both``. A simulation fills it in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(DelayedLeader(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    111
    """

    tuning: Tuning = "simple"
    longest_wait: float | None = None

    def __post_init__(self) -> None:
        self._check_choices(tuning=Tuning)
        check_wait(self, "longest_wait")

    def with_delay(self, delay: Delay, arms: int) -> "DelayedLeader":
        if self.tuning != "both" or self.longest_wait is not None:
            return self
        return replace(self, longest_wait=find_waits(delay, arms)[1])

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_leader, arrive_leader)

    def initial_within(self, arms: int, pending: int) -> LeaderState:
        return LeaderState(
            losses=np.zeros(arms),
            law=np.zeros(arms),
            roots=np.zeros(arms),
            chance=np.zeros(pending),
            counted=np.zeros(pending),
            pending=np.zeros(1),
            waited=np.zeros(1),
        )

    def params(self, arms: int, horizon: int) -> LeaderParams:
        log = math.log(arms)
        if self.tuning == "simple":
            return LeaderParams(0.0, 0.0, 2.0, log, 0.0)
        if self.tuning == "advanced":
            return LeaderParams(0.0, 0.0, 1.0, log, 1.0)
        if self.longest_wait is None:
            raise ParameterError(f"{self} must know the longest wait: pass longest_wait=...")
        wait = self.longest_wait
        early = 10 * wait + wait**2 / (arms ** (1 / 3) * log) ** 2
        return LeaderParams(early, 24**2 * wait**2 * arms ** (2 / 3) * log, 1.0, log, 0.0)
