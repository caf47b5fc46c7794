"""Oracles with an index per arm, which know from which pull each reward comes.

They differ in what they do about pulls that are pending.

Delayed-UCB1 (Joulani, György and Szepesvári, 2013, section 4) and KL-UCB learn from complete pulls
only; the latter may also know a whole reward from its first part. S_i counts those of arm i, and
m_i is the average of their rewards::

    play the arm with the highest  m_i + sqrt(2 ln t / S_i)             Delayed-UCB1
    play the arm with the highest  max{q : S_i kl(m_i, q) <= ln t}      attributed KL-UCB
    first, arms with S_i = 0: the one with the fewest pulls

The regret of Delayed-UCB1 is at most sum_i (8 ln T / gap_i + 3.5 gap_i) + sum_i gap_i G_i, where
G_i is the expected number of pulls of arm i that are pending at a time, at most.

DelayedUCB and DelayedKLUCB (Vernade, Cappé and Perchet, 2017) know the law of the lags instead, the
same for all arms, and count every pull as the share of it that should have arrived. tau(x) is the
share that arrives within x slots, m a lag after which nothing counts, N_i the pulls of arm i, X_i
what arrived of them, and E_i the sum of tau(age) over them, where ages stop at m::

    q_i = X_i / E_i,    b = (1 + epsilon) ln t
    DelayedUCB      q_i + sqrt(N_i / E_i) sqrt(b / (2 E_i))
    DelayedKLUCB    max{q in [q_i, 1] : E_i (q_i ln(q_i / q) + q - q_i) <= b}
    first, arms with E_i = 0: the one with the fewest pulls

The second divergence is that of Poisson laws. The paper has rewards of 0 and 1 which arrive whole.
With rewards that arrive in parts, E_i is still what should have arrived.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import (
    MAX_LAG,
    AttributedKernels,
    Params,
    Vector,
    as_spec,
    check_float,
    check_int,
    register,
)
from aftereffect.delays import ArmwiseDelay, Delay, LagLaw
from aftereffect.errors import ParameterError
from aftereffect.policies._averages import (
    Averages,
    blank_averages,
    credit,
    kl_bernoulli,
    kl_poisson,
    shared_width,
    upper_bound,
)
from aftereffect.policies.base import AttributedPolicy

#: The width of UCB1's bound.
_ALPHA = 2.0
#: Newton's method for an index: its steps at most, the step at which it stops, and where it begins
#: at the highest, as the divergence is infinite at 1.
_MAX_STEPS, _TINY, _HIGHEST = 60, 1e-12, 1.0 - 1e-9

#: The part of a pull from which its reward is read.
Reads = Literal["last", "first"]

#: ``divergence(p, q)``: the evidence of one pull with average p against the mean q.
Divergence: TypeAlias = Callable[[float, float], float]
#: ``index_of(average, pulls, log)``: the highest mean with evidence of at most `log`.
IndexOf: TypeAlias = Callable[[float, float, float], float]
#: ``choose(total, information, pulls, log)``: the arm with the highest index.
ChooseArm: TypeAlias = Callable[[Vector, Vector, Vector, float], int]


class CompleteState(NamedTuple):
    """The averages of complete pulls, and all pulls by arm."""

    averages: Averages
    pulls: Vector


def find_fewest(pulls: Vector, information: Vector) -> int:
    """The arm with the fewest pulls among those without information; -1 if there is none."""
    fewest = -1
    for arm in range(pulls.shape[0]):
        if information[arm] == 0.0 and (fewest < 0 or pulls[arm] < pulls[fewest]):
            fewest = arm
    return fewest


def arrive_complete(
    state: CompleteState,
    params: Params,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Credit a pull once its last part has arrived."""
    if not math.isnan(reward):
        credit(state.averages, arm, 1, reward)


def decide_delayed_ucb1(
    state: CompleteState, params: Params, t: int, rng: np.random.Generator
) -> int:
    """The arm with the highest index of UCB1."""
    chosen = find_fewest(state.pulls, state.averages.pulls)
    if chosen < 0:
        width, highest = shared_width(_ALPHA, t), -math.inf
        for arm in range(state.pulls.shape[0]):
            index = upper_bound(state.averages, arm, width)
            if index > highest:
                chosen, highest = arm, index
    state.pulls[chosen] += 1.0
    return chosen


def bernoulli_index(average: float, pulls: float, log: float) -> float:
    """The highest mean in [0, 1] against which the evidence of Bernoulli rewards is at most `log`.

    >>> round(bernoulli_index(0.5, 100, 4.6), 3)
    0.648
    """
    # The divergence is convex and at least 2 (q - p)^2: Newton's method falls from there to q.
    mean = min(average + math.sqrt(log / (2.0 * pulls)), _HIGHEST)
    for _ in range(_MAX_STEPS):
        excess = kl_bernoulli(average, mean) - log / pulls
        if excess <= 0.0:
            break
        step = excess * mean * (1.0 - mean) / max(mean - average, _TINY)
        mean -= step
        if step <= _TINY:
            break
    return max(mean, average)


def poisson_index(average: float, pulls: float, log: float) -> float:
    """The highest mean in [0, 1] against which the evidence of Poisson rewards is at most `log`.

    >>> round(poisson_index(0.5, 100, 4.6), 3)
    0.746
    """
    mean = 1.0
    for _ in range(_MAX_STEPS):
        excess = kl_poisson(average, mean) - log / pulls
        if excess <= 0.0:
            break
        step = excess * mean / max(mean - average, _TINY)
        mean -= step
        if step <= _TINY:
            break
    return max(mean, average)


@cache
def choose_by(divergence: Divergence, index_of: IndexOf) -> ChooseArm:
    """How to choose the arm with the highest index; ties go to the arm with the fewest pulls."""

    def choose(total: Vector, information: Vector, pulls: Vector, log: float) -> int:
        chosen, highest = 0, -1.0
        for arm in range(pulls.shape[0]):
            average = min(max(total[arm] / information[arm], 0.0), 1.0)
            if average < highest < 1.0 and divergence(average, highest) * information[arm] > log:
                continue  # its index is below the highest so far; how far below does not matter
            index = index_of(average, information[arm], log)
            if index > highest or (index == highest and pulls[arm] < pulls[chosen]):
                chosen, highest = arm, index
        return chosen

    return choose


_choose_bernoulli = choose_by(kl_bernoulli, bernoulli_index)
_choose_poisson = choose_by(kl_poisson, poisson_index)


def decide_attributed_kl_ucb(
    state: CompleteState, params: Params, t: int, rng: np.random.Generator
) -> int:
    """The arm with the highest index of KL-UCB."""
    chosen = find_fewest(state.pulls, state.averages.pulls)
    if chosen < 0:
        averages, log = state.averages, math.log(max(t, 1))
        chosen = _choose_bernoulli(averages.total, averages.pulls, averages.pulls, log)
    state.pulls[chosen] += 1.0
    return chosen


class _FromCompletePulls(AttributedPolicy):
    """An oracle that learns from complete pulls."""

    def initial_within(self, arms: int, pending: int) -> CompleteState:
        return CompleteState(blank_averages(arms), np.zeros(arms))


@register
@dataclass(frozen=True)
class DelayedUcb1(_FromCompletePulls):
    """UCB1 that counts a pull once its whole reward has arrived: an oracle.

    Without delay it is `Ucb1`.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(["delayed-ucb1", "ucb1"], bandit, horizon=1_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [25, 96]
    """

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_delayed_ucb1, arrive_complete)


class EarlyParams(NamedTuple):
    """By arm the first lag at which parts arrive, and their share; -1 to wait for the last part."""

    first: Vector
    share: Vector


def arrive_early(
    state: CompleteState,
    params: EarlyParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Credit a pull when its first part says what the whole is, or else with its last one."""
    if params.first[arm] < 0.0:
        arrive_complete(state, params, t, pulled, arm, amount, reward)
    elif t - pulled == params.first[arm]:
        credit(state.averages, arm, 1, amount / params.share[arm])


@register
@dataclass(frozen=True)
class AttributedKlUcb(_FromCompletePulls):
    """KL-UCB that counts a pull once its whole reward has arrived: an oracle.

    Parameters
    ----------
    reads
        ``last``: a pull counts once its last part has arrived. ``first``: it counts at its first
        part if the delay cuts every reward into the same shares, since that part then says what the
        whole is. Prices of anonymity are relative to this one.
    delay
        The delay, for ``first``. A simulation fills it in.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> policies = ["attributed-kl-ucb", "attributed-kl-ucb(first)", "settle-ucb"]
    >>> study = ae.simulate(policies, bandit, horizon=1_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [7, 6, 16]
    """

    reads: Reads = "last"
    delay: ArmwiseDelay | None = None

    def __post_init__(self) -> None:
        self._check_choices(reads=Reads)
        if self.delay is not None:
            self._set(delay=as_spec(self.delay, ArmwiseDelay))

    def with_delay(self, delay: Delay, arms: int) -> "AttributedKlUcb":
        if self.reads == "last" or self.delay is not None or not isinstance(delay, ArmwiseDelay):
            return self
        return replace(self, delay=delay)

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_attributed_kl_ucb, arrive_early)

    def params(self, arms: int, horizon: int) -> EarlyParams:
        first, share = np.full(arms, -1.0), np.ones(arms)
        if self.reads == "first":
            if self.delay is None:
                raise ParameterError(f"{self} must know the delay: pass delay=...")
            for arm, law in enumerate(self.delay.by_arm(arms)):
                if law.cuts_all_alike:
                    shares = law.share(np.arange(law.known_reach + 1))
                    first[arm] = np.flatnonzero(shares)[0]
                    share[arm] = shares[int(first[arm])]
        return EarlyParams(first, share)


class ExpectedState(NamedTuple):
    """By arm what arrived, the pulls, and what should have arrived; the arms of the last pulls."""

    arrived: Vector
    pulls: Vector
    expected: Vector
    last_arms: Vector


class ExpectedParams(NamedTuple):
    """The share that arrives at each lag that counts, the first lag with one, and 1 + epsilon."""

    shares: Vector
    first: int
    factor: float


def note_pull(state: ExpectedState, t: int, arm: int) -> None:
    """Remember the pull of slot t."""
    state.pulls[arm] += 1.0
    state.last_arms[t % state.last_arms.shape[0]] = arm


def expect_arrivals(state: ExpectedState, params: ExpectedParams, t: int) -> None:
    """Add the shares of earlier pulls that should have arrived in the last slot, t - 1."""
    lags = params.shares.shape[0]
    pull = (t - 1 - params.first) % lags
    arm = int(state.last_arms[pull])
    expected = state.expected[arm]  # written back when the arm changes, which is rarely
    for lag in range(params.first, min(lags, t)):
        pulled = int(state.last_arms[pull])
        if pulled != arm:
            state.expected[arm] = expected
            arm, expected = pulled, state.expected[pulled]
        expected += params.shares[lag]
        pull = pull - 1 if pull > 0 else lags - 1
    state.expected[arm] = expected


def arrive_expected(
    state: ExpectedState,
    params: ExpectedParams,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Add what arrives, unless it is too late to count."""
    if t - pulled < params.shares.shape[0]:
        state.arrived[arm] += amount


def decide_delayed_ucb(
    state: ExpectedState, params: ExpectedParams, t: int, rng: np.random.Generator
) -> int:
    """The arm with the highest index of DelayedUCB."""
    expect_arrivals(state, params, t)
    chosen = find_fewest(state.pulls, state.expected)
    if chosen < 0:
        log, highest = params.factor * math.log(max(t, 1)), -math.inf
        for arm in range(state.pulls.shape[0]):
            expected = state.expected[arm]
            width = math.sqrt(state.pulls[arm] / expected) * math.sqrt(log / (2.0 * expected))
            index = state.arrived[arm] / expected + width
            if index > highest:
                chosen, highest = arm, index
    note_pull(state, t, chosen)
    return chosen


def decide_delayed_kl_ucb(
    state: ExpectedState, params: ExpectedParams, t: int, rng: np.random.Generator
) -> int:
    """The arm with the highest index of DelayedKLUCB."""
    expect_arrivals(state, params, t)
    chosen = find_fewest(state.pulls, state.expected)
    if chosen < 0:
        log = params.factor * math.log(max(t, 1))
        chosen = _choose_poisson(state.arrived, state.expected, state.pulls, log)
    note_pull(state, t, chosen)
    return chosen


@dataclass(frozen=True)
class _FromExpectedArrivals(AttributedPolicy):
    """An oracle that knows the law of the lags."""

    delay: LagLaw | None = None
    window: int | None = None
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.delay is not None:
            self._set(delay=as_spec(self.delay, LagLaw))
        if self.window is not None:
            self._set(window=check_int("window", self.window, at_least=0, at_most=MAX_LAG))
        self._set(epsilon=check_float("epsilon", self.epsilon, at_least=0, at_most=1e6))

    def with_delay(self, delay: Delay, arms: int) -> "_FromExpectedArrivals":
        if self.delay is not None:
            return self
        if not isinstance(delay, LagLaw):
            raise ParameterError(
                f"{self} must know the law of the lags, the same for all arms, got {delay}: "
                "pass delay=..."
            )
        return replace(self, delay=delay)

    def initial_within(self, arms: int, pending: int) -> ExpectedState:
        lags = 1 if self.delay is None else len(self._shares())
        return ExpectedState(np.zeros(arms), np.zeros(arms), np.zeros(arms), np.zeros(lags))

    def params(self, arms: int, horizon: int) -> ExpectedParams:
        shares = self._shares()
        first = int(np.argmax(shares > 0.0))  # 0 if none counts
        return ExpectedParams(shares, first, 1.0 + self.epsilon)

    def _shares(self) -> Vector:
        """The shares at the lags 0 .. m."""
        if self.delay is None:
            raise ParameterError(f"{self} must know the law of the lags: pass delay=...")
        reach = self.delay.known_reach
        last = reach if self.window is None else min(self.window, reach)
        return self.delay.share(np.arange(last + 1))


@register
@dataclass(frozen=True)
class DelayedUcb(_FromExpectedArrivals):
    """DelayedUCB: counts of pulls are corrected by what should have arrived of them: an oracle.

    Parameters
    ----------
    delay
        The law of the lags, the same for all arms. A simulation fills in the true one.
    window
        The largest lag that counts; all that the law has, if not given.
    epsilon
        The confidence is (1 + epsilon) ln t. The proof wants it above 0.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate("delayed-ucb", bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    11
    """

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_delayed_ucb, arrive_expected)


@register
@dataclass(frozen=True)
class DelayedKlUcb(_FromExpectedArrivals):
    """DelayedKLUCB: DelayedUCB with an index by the divergence of Poisson laws: an oracle.

    Its parameters are those of `DelayedUcb`.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate("delayed-kl-ucb", bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    20
    """

    def kernels(self) -> AttributedKernels:
        return AttributedKernels(decide_delayed_kl_ucb, arrive_expected)
