"""Exp3, blind to delay; ARS-EXP3, which plays it over rounds that grow; and mini-batches.

Exp3 (Auer, Cesa-Bianchi, Freund, Schapire, 2002)::

    gain    gamma = min(1, sqrt(N ln N / ((e - 1) T)))
            p = (1 - gamma) softmax(W) + gamma / N;      W_a += gamma y / (N p_a)
    loss    eta = sqrt(2 ln N / (N T))
            p  ~  exp(-eta L);                           L_a += (1 - y) / p_a

where y is the slot's total, at most 1, taken as the gain of the arm just played. Without delay the
expected regret of the gain form is at most 2.63 sqrt(G N ln N), where G is the reward of the best
arm. With delay it is a baseline.

ARS-EXP3 (Wang, Wang and Huang, 2021)::

    K = the largest number of rounds with g(1) + ... + g(K) <= T
    gamma = min(1, sqrt(N ln N / ((e - 1) K)))
    round k = 1 .. K: p = (1 - gamma) softmax(w / g(K)) + gamma / N
                      draw an arm a from p, play it for g(k) slots
                      Z = the total of these slots, at most g(k);  w_a += gamma Z / (N p_a)
    then: draw once more and play that arm to the end

with g(k) = k^beta, rounded up. What leaks into a round or out of it is at most d, so delay costs at
most d K. The regret is at most 3 g(K) sqrt(N ln N K) + 2 d K + g(K + 1), which is
O((d + sqrt(N ln N)) T^(2/3)) for beta = 1/2. This holds even if an adversary chooses delays by the
arms that are played.

Without a horizon the whole is repeated, in epochs of 1024, 2048, 4096, ... slots.

The mini-batch wrapper (Wan, Sun, Zhang, 2022) does the same with rounds of constant length, around
Exp3 or any other policy::

    repeat floor(T / size) times: the base policy chooses an arm; play it for a whole batch
                                  give the base the batch's average, at most 1
    then: stay with the last arm

What leaks into a batch or out of it is at most d. The regret is size times the base's for T / size
slots, plus O(d T / size).
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from aftereffect._core import (
    MAX_SLOTS,
    Chance,
    PolicyKernels,
    Vector,
    as_spec,
    check_flag,
    check_float,
    check_int,
    register,
)
from aftereffect.delays import DelayFacts
from aftereffect.growth import Power, power_slots, rounds_within
from aftereffect.policies._learners import (
    LEARNERS,
    LearnerName,
    LearnerState,
    blank_learner,
    draw,
    feed,
    forget,
    gain_of,
    probability,
    reinforce,
)
from aftereffect.policies.base import Policy, check_anonymous, round_kernels

Form = Literal["gain", "loss"]
LEARNER_OF: dict[Form, LearnerName] = {"gain": "exp3-gain", "loss": "exp3"}
#: Slots of the first epoch where `ArsExp3` does without the horizon.
FIRST_EPOCH = 1_024


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


class ArsExp3State(NamedTuple):
    """The learner, the numbers of the epoch and of its round, and the slots planned for the round.

    No slots are planned for the rest of an epoch, from which nothing is learned.
    """

    learner: LearnerState
    epoch: Vector
    round: Vector
    planned: Vector


class ArsExp3Params(NamedTuple):
    """Beta; by epoch the slot at which it ends, its rounds K, the longest, g(K), and gamma."""

    beta: Vector
    end: Vector
    rounds: Vector
    longest: Vector
    gamma: Vector


@register
@dataclass(frozen=True)
class ArsExp3(Policy):
    """ARS-EXP3: Exp3 over rounds that grow; needs the horizon, and nothing about the delay.

    Parameters
    ----------
    beta
        Round k lasts k^beta slots, rounded up; above 0, and 1/2 is best.
    doubling
        Do without the horizon: start again in epochs of 1024, 2048, 4096, ... slots.

    Examples
    --------
    >>> ArsExp3(beta=0.5).rounds(100_000)
    2796
    """

    beta: float = 0.5
    doubling: bool = False
    learns_from_any_arm = False

    @property
    def needs_horizon(self) -> bool:
        return not self.doubling

    def __post_init__(self) -> None:
        self._set(
            beta=check_float("beta", self.beta, above=0, at_most=100),
            doubling=check_flag("doubling", self.doubling),
        )

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide_ars_exp3, absorb_ars_exp3)

    def chance(self) -> Chance:
        return chance_ars_exp3

    def initial(self, arms: int) -> ArsExp3State:
        return ArsExp3State(blank_learner(arms), *(np.zeros(1) for _ in range(3)))

    def params(self, arms: int, horizon: int) -> ArsExp3Params:
        epochs = self._epochs(horizon)
        rounds = [self.rounds(slots) for slots in epochs]
        return ArsExp3Params(
            beta=np.array([self.beta]),
            end=np.cumsum(epochs, dtype=float),
            rounds=np.array(rounds, dtype=float),
            longest=np.array([Power(self.beta)(each) for each in rounds], dtype=float),
            gamma=np.array([exploration_rate(arms, each) for each in rounds]),
        )

    def rounds(self, slots: int) -> int:
        """K, the number of whole rounds in that many slots."""
        return rounds_within(self.beta, slots)

    def _epochs(self, horizon: int) -> list[int]:
        if not self.doubling:
            return [horizon]
        epochs = [FIRST_EPOCH]
        while sum(epochs) < horizon:
            epochs.append(2 * epochs[-1])
        return epochs


def decide_ars_exp3(
    state: ArsExp3State, params: ArsExp3Params, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next round of the epoch, or its rest."""
    while t >= params.end[int(state.epoch[0])] and state.epoch[0] < params.end.shape[0] - 1:
        forget(state.learner)
        state.epoch[0] += 1
        state.round[0] = 0.0
    epoch = int(state.epoch[0])
    arm = draw(state.learner, params.gamma[epoch], rng)
    state.round[0] += 1
    if state.round[0] > params.rounds[epoch]:
        state.planned[0] = 0.0
        return arm, max(int(params.end[epoch]) - t, 1), 0
    slots = power_slots(params.beta, int(state.round[0]))
    state.planned[0] = slots
    return arm, slots, slots


def chance_ars_exp3(state: ArsExp3State, params: ArsExp3Params, arm: int) -> float:
    """With which probability `decide` has just drawn an arm."""
    return probability(state.learner, params.gamma[int(state.epoch[0])], arm)


def absorb_ars_exp3(
    state: ArsExp3State, params: ArsExp3Params, arm: int, window: int, total: float
) -> None:
    """Credit the round's total, at most 1 per slot, to the arm that was played."""
    if state.planned[0] > 0.0:
        epoch = int(state.epoch[0])
        gamma = params.gamma[epoch]
        # What the planned slots would have shown.
        planned = min(max(total, 0.0), float(window)) * (state.planned[0] / window)
        gain = planned / params.longest[epoch]
        arms = state.learner.score.shape[0]
        reinforce(
            state.learner, arm, gamma * gain / (arms * probability(state.learner, gamma, arm))
        )


class MiniBatchState(NamedTuple):
    """The last arm, whether the base learns from this round (1 or 0), its window, its state."""

    last_arm: Vector
    learns: Vector
    window: Vector
    base: Any


class MiniBatchParams(NamedTuple):
    """The slots of a batch, the number of batches, and the parameters of the base."""

    size: int
    batches: int
    base: Any


@register
@dataclass(frozen=True)
class MiniBatch(Policy):
    """Runs another policy on batches of slots: each batch is one slot of that policy.

    Parameters
    ----------
    base
        The policy, or its spec string.
    size
        Slots of a batch; (T / (N ln N))^(1/3), rounded up, if not given.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(MiniBatch("exp3(form=loss)", size=20), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    169.2
    """

    base: Policy = Exp3()
    size: int | None = None
    needs_horizon = True

    def __post_init__(self) -> None:
        self._set(base=check_anonymous(as_spec(self.base, Policy)))
        if self.size is not None:
            self._set(size=check_int("size", self.size, at_least=1, at_most=MAX_SLOTS))

    @property
    def learns_from_any_arm(self) -> bool:
        return self.base.learns_from_any_arm

    def with_delay_facts(self, facts: DelayFacts) -> "MiniBatch":
        return replace(self, base=self.base.with_delay_facts(facts))

    def kernels(self) -> PolicyKernels:
        return mini_batch_kernels(round_kernels(self.base))

    def initial(self, arms: int) -> MiniBatchState:
        return MiniBatchState(np.zeros(1), np.zeros(1), np.zeros(1), self.base.initial(arms))

    def params(self, arms: int, horizon: int) -> MiniBatchParams:
        size = min(self.size or math.ceil((horizon / (arms * math.log(arms))) ** (1 / 3)), horizon)
        batches = horizon // size
        return MiniBatchParams(size, batches, self.base.params(arms, max(batches, 1)))


@cache
def mini_batch_kernels(base: PolicyKernels) -> PolicyKernels:
    """The base policy's kernels over batches."""
    base_decide, base_absorb = base

    def decide(
        state: MiniBatchState, params: MiniBatchParams, t: int, rng: np.random.Generator
    ) -> tuple[int, int, int]:
        size, done = params.size, t // params.size
        left = params.batches - done
        if left <= 0:
            state.learns[0] = 0.0
            return int(state.last_arm[0]), size, 0
        arm, batches, window = base_decide(state.base, params.base, done, rng)
        state.last_arm[0], state.learns[0], state.window[0] = arm, batches <= left, window
        return (arm, batches * size, window * size) if batches <= left else (arm, left * size, 0)

    def absorb(
        state: MiniBatchState, params: MiniBatchParams, arm: int, window: int, total: float
    ) -> None:
        if state.learns[0] == 1.0:
            # As many batches as the window covers, whatever was planned, each with the average
            # over all of them.
            size = float(params.size)
            batches = max(int(window / size + 0.5), 1) if state.window[0] > 0.0 else 0
            averages = min(total, float(window)) / size * (batches * size / max(window, 1))
            base_absorb(state.base, params.base, arm, batches, averages)

    return PolicyKernels(decide, absorb)
