"""Oracles that run policies for rewards without delay, by keeping rewards or copies in store.

QPM-D (Joulani, György and Szepesvári, 2013, algorithm 2) has a queue of rewards per arm::

    the base policy chooses arm i
    while the queue of arm i holds a reward: give it to the base, which chooses the next arm i
    play arm i;  put every reward that has arrived into the queue of its arm

So the base plays as without delay, on rewards in the order of their arrival. Its regret grows by at
most sum_i gap_i G_i, where G_i is the expected number of pulls of arm i that are pending at a time,
at most.

BOLD (algorithm 1 there) has copies of the base::

    play with a copy that waits for no reward, or with a new one if there is none
    give every reward that has arrived to the copy that it belongs to

With a constant delay d it is d + 1 copies that take turns (Weinberger and Ordentlich, 2002), as Neu
et al. (2010) have it for an adversary. Its regret is at most (G + 1) f(T / (G + 1)), if that of the
base in n slots is at most f(n), f is concave, and at most G pulls are pending at a time.

A pull counts once its last part has arrived. A base that plays rounds of several slots plays them
in pulls of its own, one after the other: its round is over when the rewards of all have come.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import (
    MAX_LAG,
    AttributedKernels,
    Matrix,
    Params,
    Vector,
    as_spec,
    check_int,
    register,
)
from aftereffect.delays import Delay, DelayFacts
from aftereffect.errors import ParameterError
from aftereffect.policies.base import (
    AttributedPolicy,
    Policy,
    TakeState,
    make_take_state,
    round_kernels,
    stack_states,
)
from aftereffect.policies.exp3 import Exp3
from aftereffect.policies.ucb1 import Ucb1


class Copies(NamedTuple):
    """Copies of a policy, and by copy its round: arm, pulls left, window, what that has shown.

    ``pulls`` counts the pulls of the copy whose rewards have come.
    """

    arm: Vector
    left: Vector
    window: Vector
    total: Vector
    pulls: Vector
    bases: Any


#: ``choose(copies, params, copy, rng)``: the arm that a copy wants to pull.
ChooseNext: TypeAlias = Callable[[Copies, Params, int, np.random.Generator], int]
#: ``learn(copies, params, copy, reward)``: give a copy the reward of its pull.
Learn: TypeAlias = Callable[[Copies, Params, int, float], None]


def blank_copies(base: Policy, arms: int, count: int) -> Copies:
    """So many copies that have not begun."""
    arm, left, window, total, pulls = np.zeros((5, count))
    return Copies(arm, left, window, total, pulls, stack_states(base.initial(arms), count))


@cache
def copy_kernels(base: Policy) -> tuple[ChooseNext, Learn]:
    """How copies of a policy play pulls, one reward at a time."""
    decide, absorb = round_kernels(base)
    take: TakeState = make_take_state(base.initial(2))

    def choose(copies: Copies, params: Params, copy: int, rng: np.random.Generator) -> int:
        if copies.left[copy] == 0.0:
            t = int(copies.pulls[copy])
            arm, slots, window = decide(take(copies.bases, copy), params, t, rng)
            copies.arm[copy], copies.left[copy], copies.window[copy] = arm, slots, window
            copies.total[copy] = 0.0
        return int(copies.arm[copy])

    def learn(copies: Copies, params: Params, copy: int, reward: float) -> None:
        if copies.left[copy] <= copies.window[copy]:
            copies.total[copy] += reward
        copies.left[copy] -= 1.0
        copies.pulls[copy] += 1.0
        if copies.left[copy] == 0.0:
            arm, window = int(copies.arm[copy]), int(copies.window[copy])
            absorb(take(copies.bases, copy), params, arm, window, copies.total[copy])

    return choose, learn


class QpmDState(NamedTuple):
    """One copy of the base; by arm the rewards in its queue, where that begins, its length."""

    copies: Copies
    rewards: Matrix
    first: Vector
    length: Vector


@register
@dataclass(frozen=True)
class QpmD(AttributedPolicy):
    """QPM-D: gives a policy rewards from queues, as if they came without delay: an oracle.

    Without delay it is its base. Do not confuse it with `Bold`.

    Parameters
    ----------
    base
        A policy that learns from totals, or its spec string.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate("qpm-d(ucb1)", bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    24
    """

    base: Policy = Ucb1()

    def __post_init__(self) -> None:
        self._set(base=check_base(self.base))

    @property
    def needs_horizon(self) -> bool:
        return self.base.needs_horizon

    def with_delay_facts(self, facts: DelayFacts) -> "QpmD":
        return replace(self, base=self.base.with_delay_facts(NO_DELAY))

    def kernels(self) -> AttributedKernels:
        return queue_kernels(self.base)

    def initial_within(self, arms: int, pending: int) -> QpmDState:
        return QpmDState(
            blank_copies(self.base, arms, 1),
            np.zeros((arms, pending)),
            np.zeros(arms),
            np.zeros(arms),
        )

    def params(self, arms: int, horizon: int) -> Params:
        return self.base.params(arms, horizon)


#: What a base knows that needs facts about the delay.
NO_DELAY = DelayFacts(0.0, 0.0, 0.0)


def check_base(base: Policy | str) -> Policy:
    """Check that a policy learns from totals of rounds.

    >>> print(check_base("ucb1"))
    ucb1
    """
    policy = as_spec(base, Policy)
    round_kernels(policy)
    return policy


@cache
def queue_kernels(base: Policy) -> AttributedKernels:
    """QPM-D around a policy."""
    choose, learn = copy_kernels(base)

    def decide(state: QpmDState, params: Params, t: int, rng: np.random.Generator) -> int:
        size = state.rewards.shape[1]
        arm = choose(state.copies, params, 0, rng)
        while state.length[arm] > 0.0:
            first = int(state.first[arm])
            state.first[arm] = first + 1 if first + 1 < size else 0
            state.length[arm] -= 1.0
            learn(state.copies, params, 0, state.rewards[arm, first])
            arm = choose(state.copies, params, 0, rng)
        return arm

    def arrive(
        state: QpmDState,
        params: Params,
        t: int,
        pulled: int,
        arm: int,
        amount: float,
        reward: float,
    ) -> None:
        if not math.isnan(reward):
            # An arm is pulled while its queue is empty, so no more rewards can ever be in it than
            # pulls can be pending.
            size = state.rewards.shape[1]
            state.rewards[arm, int(state.first[arm] + state.length[arm]) % size] = reward
            state.length[arm] += 1.0

    return AttributedKernels(decide, arrive)


class BoldState(NamedTuple):
    """The copies; the idle ones, how many are idle, and how many began; by pull its copy."""

    copies: Copies
    idle: Vector
    idle_count: Vector
    begun: Vector
    copy_of: Vector


@register
@dataclass(frozen=True)
class Bold(AttributedPolicy):
    """BOLD: each pull is one of a copy of a policy that waits for no reward: an oracle.

    Without delay it is its base. The paper that this package reproduces calls `QpmD` by this name.

    Parameters
    ----------
    base
        A policy that learns from totals, or its spec string.
    copies
        The number of copies that the base is tuned for: each has that part of the horizon. A
        simulation fills in the most pulls that are pending at a time.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate("bold(exp3)", bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()))
    153
    """

    base: Policy = Exp3()
    copies: int | None = None

    def __post_init__(self) -> None:
        self._set(base=check_base(self.base))
        if self.copies is not None:
            self._set(copies=check_int("copies", self.copies, at_least=1, at_most=MAX_LAG))

    @property
    def needs_horizon(self) -> bool:
        return self.base.needs_horizon

    def with_delay_facts(self, facts: DelayFacts) -> "Bold":
        return replace(self, base=self.base.with_delay_facts(NO_DELAY))

    def with_delay(self, delay: Delay, arms: int) -> "Bold":
        return self if self.copies else replace(self, copies=delay.count_pending(arms))

    def kernels(self) -> AttributedKernels:
        return copies_kernels(self.base)

    def initial_within(self, arms: int, pending: int) -> BoldState:
        return BoldState(
            blank_copies(self.base, arms, pending),
            np.zeros(pending),
            np.zeros(1),
            np.zeros(1),
            np.zeros(pending),
        )

    def params(self, arms: int, horizon: int) -> Params:
        if self.copies is None:
            raise ParameterError(f"{self} must know for how many copies: pass copies=...")
        return self.base.params(arms, math.ceil(horizon / self.copies))


@cache
def copies_kernels(base: Policy) -> AttributedKernels:
    """BOLD around a policy."""
    choose, learn = copy_kernels(base)

    def decide(state: BoldState, params: Params, t: int, rng: np.random.Generator) -> int:
        if state.idle_count[0] > 0.0:
            state.idle_count[0] -= 1.0
            copy = int(state.idle[int(state.idle_count[0])])
        else:  # as many as pulls can be pending
            copy = int(state.begun[0])
            state.begun[0] += 1.0
        state.copy_of[t % state.copy_of.shape[0]] = copy
        return choose(state.copies, params, copy, rng)

    def arrive(
        state: BoldState,
        params: Params,
        t: int,
        pulled: int,
        arm: int,
        amount: float,
        reward: float,
    ) -> None:
        if not math.isnan(reward):
            copy = int(state.copy_of[pulled % state.copy_of.shape[0]])
            learn(state.copies, params, copy, reward)
            state.idle[int(state.idle_count[0])] = copy
            state.idle_count[0] += 1.0

    return AttributedKernels(decide, arrive)
