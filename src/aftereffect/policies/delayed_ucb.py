"""Oracles that know the law of the lags, DelayedUCB and DelayedKLUCB.

Both are by Vernade, Cappé and Perchet (2017). They count every pull as the share of it that should
have arrived. The law is the same for all arms. tau(x) is the share that arrives within x slots, m a
lag after which nothing counts, N_i the pulls of arm i, X_i what arrived of them, and E_i the sum of
tau(age) over them, where ages stop at m::

    q_i = X_i / E_i,    b = (1 + epsilon) ln t
    DelayedUCB      q_i + sqrt(N_i / E_i) sqrt(b / (2 E_i))
    DelayedKLUCB    max{q in [q_i, 1] : E_i (q_i ln(q_i / q) + q - q_i) <= b}
    first, arms with E_i = 0: the one with the fewest pulls

The second divergence is that of Poisson laws. The paper has rewards of 0 and 1 which arrive whole.
With rewards that arrive in parts, E_i is still what should have arrived.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aftereffect._core import (
    MAX_LAG,
    AttributedKernels,
    Vector,
    as_spec,
    check_float,
    check_int,
    register,
)
from aftereffect.delays import Delay, LagLaw
from aftereffect.errors import ParameterError
from aftereffect.policies._indices import choose_poisson, find_fewest
from aftereffect.policies.base import AttributedPolicy


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
        chosen = choose_poisson(state.arrived, state.expected, state.pulls, log)
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
