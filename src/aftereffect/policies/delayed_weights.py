"""Oracles for rewards that an adversary chose: they draw arms, and learn from complete pulls.

All estimate the loss of an arm as (1 - reward) / p(arm), with the probability p at the pull. d is
the lag at which the last part of a pull arrives, and K the number of arms.

Delayed exponential weights draw arms in proportion to exp(-eta L), L being the sums of estimates::

    DEW      eta = min(sqrt(ln K / (e K T / 2 + D)), 1 / (4 e d_max))         D: all d of T pulls
    Skipper  eta = 1 / (4 e b),  b = sqrt(e K T / 2 + D) / (4 e sqrt(ln K)),  pulls with d < b only
    DEXP3    eta = sqrt(ln K / (K 2^h + 2^w)) / (2 e^2),                      pulls with
             d <= 1 / (e^2 eta) - 1 only; a new epoch, which forgets all,
             once t reaches 2^h or the sum of pending pulls over slots 2^w

The first two are by Thune, Cesa-Bianchi and Seldin (2019), the third by Bistritz et al. (2022). DEW
and Skipper know T, the mean of d and its maximum; DEXP3 knows nothing. Their regret is
O(sqrt((K T + D) ln K)).

The DEXP3 of Li, Chen and Giannakis (2019) knows of which arm a reward is, but not of which pull. So
it divides by the probability of the arm in the slot of the arrival, and bounds estimates and
probabilities. Each reward that arrives changes the law in turn, with d_max the largest d::

    p(arm) becomes p(arm) exp(-eta min(delta, (1 - reward) / p_t(arm))), then sums are made 1,
    then p = max(p, 1 / (K (T + D))), then sums are made 1
    eta = sqrt((1 + ln K) / (K (T + D))),    delta = (1 / (2 d_max) - 1 / (T + D)) / eta

Its regret is O(sqrt(d_max K (T + D))) without logarithms. The paper has eta up to a constant.

Follow the regularised leader, with a hybrid of the 1/2-Tsallis entropy and the usual one::

    p minimises  sum p_i L_i - 2 a sum sqrt(p_i) + b sum p_i ln p_i

    simple      a = sqrt(t),          b = sqrt(2 S / ln K)              S: pending pulls, summed
    advanced    a = sqrt(t),          b = sqrt(S / ln K)                over slots; in the advanced
    both        a = sqrt(t + eta_0),  b = sqrt((S + gamma_0) / ln K)    one, without the pulls that
                                                                        were pending more than b

The first two are by Zimmert and Seldin (2020): regret of 4 sqrt(K T) + sqrt(8 D ln K), knowing
nothing. The third is by Masoudian, Zimmert and Seldin (2022), for the best of both worlds: its
regret is logarithmic if rewards are stochastic. It knows d_max::

    eta_0 = 10 d_max + d_max^2 / (K^(1/3) ln K)^2,    gamma_0 = 24^2 d_max^2 K^(2/3) ln K

The constants of DEW, of Skipper and of the last one were noted from memory. Of these papers only
abstracts could be read since: they confirm the orders of regret, but have no constants. Others have
found gaps in the analysis of the earlier DEXP3 (Bistritz et al., 2019; see Schlisselberg et al.,
2025).
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from aftereffect._core import MAX_LAG, AttributedKernels, Vector, check_float, register
from aftereffect.delays import ArmwiseDelay, Delay, RandomLag
from aftereffect.errors import ParameterError
from aftereffect.policies._learners import (
    LearnerState,
    blank_learner,
    draw,
    forget,
    probability,
    reinforce,
)
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


def find_waits(delay: Delay, arms: int) -> tuple[float, float]:
    """The mean and the largest lag of the last part of a pull, for the arm that waits longest.

    >>> from aftereffect import Interval, UniformDelay
    >>> find_waits(UniformDelay(10, 30), 2), find_waits(Interval(10, 30), 2)
    ((20.0, 30.0), (30.0, 30.0))
    """
    longest = float(delay.count_pending(arms) - 1)
    laws = delay.by_arm(arms) if isinstance(delay, ArmwiseDelay) else ()
    means = [law.mean_lag if isinstance(law, RandomLag) else float(law.known_reach) for law in laws]
    return max(means, default=longest), longest


def fill_in_waits(
    mean: float | None, longest: float | None, delay: Delay, arms: int
) -> tuple[float, float]:
    """The true waits in place of those that were not given."""
    true_mean, true_longest = find_waits(delay, arms)
    return true_mean if mean is None else mean, true_longest if longest is None else longest


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
class Dew(_Weights):
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

    mean_wait: float | None = None
    longest_wait: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        check_wait(self, "mean_wait")
        check_wait(self, "longest_wait")

    def with_delay(self, delay: Delay, arms: int) -> "Dew":
        mean, longest = fill_in_waits(self.mean_wait, self.longest_wait, delay, arms)
        return replace(self, mean_wait=mean, longest_wait=longest)

    def params(self, arms: int, horizon: int) -> WeightsParams:
        if self.mean_wait is None or self.longest_wait is None:
            raise ParameterError(f"{self} must know waits: pass mean_wait=... and longest_wait=...")
        waited = _E * arms * horizon / 2 + self.mean_wait * horizon
        rate = math.sqrt(math.log(arms) / waited)
        if self.longest_wait > 0:
            rate = min(rate, 1 / (4 * _E * self.longest_wait))
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


class LawState(NamedTuple):
    """The law, and the one that the arm of this slot was drawn from."""

    law: Vector
    drawn_from: Vector


class LawParams(NamedTuple):
    """The rate, the largest estimate, and the least probability."""

    rate: float
    most: float
    least: float


def draw_arm(law: Vector, rng: np.random.Generator) -> int:
    """Draw an arm from a law."""
    left, arm = rng.random(), 0
    while arm < law.shape[0] - 1 and left >= law[arm]:
        left -= law[arm]
        arm += 1
    return arm


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
class LiDexp3(AttributedPolicy):
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

    mean_wait: float | None = None
    longest_wait: float | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        check_wait(self, "mean_wait")
        check_wait(self, "longest_wait")

    def with_delay(self, delay: Delay, arms: int) -> "LiDexp3":
        mean, longest = fill_in_waits(self.mean_wait, self.longest_wait, delay, arms)
        return replace(self, mean_wait=mean, longest_wait=longest)

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_law, arrive_law)

    def initial_within(self, arms: int, pending: int) -> LawState:
        return LawState(np.full(arms, 1.0 / arms), np.full(arms, 1.0 / arms))

    def params(self, arms: int, horizon: int) -> LawParams:
        if self.mean_wait is None or self.longest_wait is None:
            raise ParameterError(f"{self} must know waits: pass mean_wait=... and longest_wait=...")
        waited = horizon * (1.0 + self.mean_wait)
        rate = math.sqrt((1.0 + math.log(arms)) / (arms * waited))
        share = math.inf if self.longest_wait == 0 else 1.0 / (2.0 * self.longest_wait)
        # In runs shorter than two of the largest waits it would be below 0.
        return LawParams(rate, max(share - 1.0 / waited, 0.0) / rate, 1.0 / (arms * waited))


def check_wait(policy: AttributedPolicy, name: str) -> None:
    """Check a lag that a policy was given, if there is one."""
    if (wait := getattr(policy, name)) is not None:
        policy._set(**{name: check_float(name, wait, at_least=0, at_most=MAX_LAG)})


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
