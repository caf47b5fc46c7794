"""Learners for adversarial bandits: how they draw an arm, and how they learn from a gain.

::

    exp3        p_i  ~  exp(-eta L_i),                       L_a += (1 - gain) / p_a
    exp3-gain   p_i = (1 - gamma) softmax(W)_i + gamma / N,  W_a += gamma gain / (N p_a)
    tsallis     p minimises <L, p> - 2 eta sum sqrt(p_i),    L_a += (1 - gain) / p_a

Exp3 is by Auer, Cesa-Bianchi, Freund and Schapire (2002), Tsallis-INF by Zimmert and Seldin (2019).
Scores are stored as logarithms (or as losses), so that nothing overflows in a run of any length.
"""

import math
from typing import Literal, NamedTuple, get_args

import numpy as np

from aftereffect._core import Vector

#: The chance of an arm is taken to be at least this. An arm that is less likely is never drawn, but
#: a live experiment may have played it instead of another.
_MIN_CHANCE = 2.0**-53
#: The sum of weights is updated by differences; after so many it is computed again, so that
#: rounding errors do not add up.
_MAX_UPDATES = 4_096
#: exp(700) is finite.
_MAX_EXPONENT = 700.0
#: Newton's method for Tsallis-INF: its steps at most, and the relative step at which it stops.
_MAX_STEPS, _PRECISION = 100, 1e-16

LearnerName = Literal["exp3", "exp3-gain", "tsallis"]
#: Kernels get the learner as a number, so that one program plays with any of them.
LEARNERS: tuple[LearnerName, ...] = get_args(LearnerName)
_EXP3, _EXP3_GAIN = range(2)
#: Their rate is also the share of slots with a uniformly drawn arm.
MIXING = ("exp3-gain",)


class LearnerState(NamedTuple):
    """By arm a score and a weight, then single numbers.

    ``shift`` is subtracted from scores before they become weights. ``sum`` is the sum of the
    weights, ``last_sum`` that sum when all weights were last computed, and ``updates`` counts the
    updates since.
    """

    score: Vector
    weight: Vector
    shift: Vector
    sum: Vector
    last_sum: Vector
    updates: Vector


def blank_learner(arms: int) -> LearnerState:
    """A learner to which all arms are alike."""
    state = LearnerState(np.zeros(arms), np.zeros(arms), *(np.zeros(1) for _ in range(4)))
    forget(state)
    return state


def forget(state: LearnerState) -> None:
    """Start again with all arms alike."""
    for arm in range(state.score.shape[0]):
        state.score[arm] = 0.0
        state.weight[arm] = 1.0
    state.shift[0] = state.updates[0] = 0.0
    state.sum[0] = state.last_sum[0] = state.score.shape[0]


def probability(state: LearnerState, mix: float, arm: int) -> float:
    """How likely an arm is to be drawn."""
    chance: float = (1.0 - mix) * state.weight[arm] / state.sum[0] + mix / state.score.shape[0]
    return chance


def gain_of(total: float, slots: float) -> float:
    """The total per slot, cut to the gains from 0 to 1 that learners take."""
    return min(max(total / slots, 0.0), 1.0)


def draw(state: LearnerState, mix: float, rng: np.random.Generator) -> int:
    """Draw an arm; all probabilities are times the sum of the weights, which saves a division."""
    left = rng.random() * state.sum[0]
    random_share = mix * state.sum[0] / state.score.shape[0]
    for arm in range(state.score.shape[0] - 1):
        left -= (1.0 - mix) * state.weight[arm] + random_share
        if left < 0.0:
            return arm
    last = int(state.score.shape[0]) - 1
    # Rounding must not draw an arm whose probability is 0.
    while last > 0 and state.weight[last] == 0.0 and mix == 0.0:
        last -= 1
    return last


def draw_arm(law: Vector, rng: np.random.Generator) -> int:
    """Draw an arm from a law."""
    left, arm = rng.random(), 0
    while arm < law.shape[0] - 1 and left >= law[arm]:
        left -= law[arm]
        arm += 1
    return arm


def reinforce(state: LearnerState, arm: int, amount: float) -> None:
    """Add to an arm's score; the weights of the others are computed again only now and then."""
    state.score[arm] += amount
    weight = math.exp(min(state.score[arm] - state.shift[0], _MAX_EXPONENT))
    state.sum[0] += weight - state.weight[arm]
    state.weight[arm] = weight
    state.updates[0] += 1
    if (
        state.updates[0] >= _MAX_UPDATES
        or state.sum[0] > 2.0 * state.last_sum[0]
        or state.sum[0] < 0.5 * state.last_sum[0]
    ):
        refresh(state)


def refresh(state: LearnerState) -> None:
    """Compute all weights again, the largest as 1."""
    state.shift[0] = state.score[0]
    for arm in range(1, state.score.shape[0]):
        state.shift[0] = max(state.shift[0], state.score[arm])
    state.sum[0] = state.updates[0] = 0.0
    for arm in range(state.score.shape[0]):
        state.weight[arm] = math.exp(state.score[arm] - state.shift[0])
        state.sum[0] += state.weight[arm]
    state.last_sum[0] = state.sum[0]


def feed_loss(state: LearnerState, rate: float, arm: int, gain: float) -> None:
    """Exp3 on losses, without mixing."""
    chance = max(probability(state, 0.0, arm), _MIN_CHANCE)
    reinforce(state, arm, -rate * (1.0 - gain) / chance)


def feed_gain(state: LearnerState, rate: float, arm: int, gain: float) -> None:
    """Exp3 on gains, with mixing."""
    if gain > 0.0:
        reinforce(state, arm, rate * gain / (state.score.shape[0] * probability(state, rate, arm)))


def feed_tsallis(state: LearnerState, rate: float, arm: int, gain: float) -> None:
    """Follow the leader, regularised with the 1/2-Tsallis entropy.

    The probabilities are eta^2 / (L_i - min L + y)^2, with the y for which they sum to 1. Newton's
    method starts below that y and rises to it without passing it.
    """
    state.score[arm] += (1.0 - gain) / max(probability(state, 0.0, arm), _MIN_CHANCE)
    least = state.score[0]
    for other in range(1, state.score.shape[0]):
        least = min(least, state.score[other])
    y = rate
    for _ in range(_MAX_STEPS):
        total = slope = 0.0
        for other in range(state.score.shape[0]):
            gap = state.score[other] - least + y
            total += rate * rate / (gap * gap)
            slope += rate * rate / (gap * gap * gap)
        step = (total - 1.0) / (2.0 * slope)
        y += step
        if step <= _PRECISION * y:
            break
    state.sum[0] = 0.0
    for other in range(state.score.shape[0]):
        gap = state.score[other] - least + y
        state.weight[other] = rate * rate / (gap * gap)
        state.sum[0] += state.weight[other]


def feed(state: LearnerState, learner: int, rate: float, arm: int, gain: float) -> None:
    """Learn that an arm gained so much, in [0, 1]."""
    if learner == _EXP3:
        feed_loss(state, rate, arm, gain)
    elif learner == _EXP3_GAIN:
        feed_gain(state, rate, arm, gain)
    else:
        feed_tsallis(state, rate, arm, gain)
