"""Learners of adversarial bandits: what draws an arm with some probability, and what it makes of a gain.

Scores are kept as logarithms (or as losses), so that nothing overflows however long it runs ::

    exp3        p_i  ~  exp(-eta L_i),                       L_a += (1 - gain) / p_a                   no exploration
    exp3-gain   p_i = (1 - gamma) softmax(W)_i + gamma / N,  W_a += gamma gain / (N p_a)
    tsallis     p minimises <L, p> - 2 eta sum sqrt(p_i),    L_a += (1 - gain) / p_a

A policy that uses one keeps these rows and cells at the beginning of its state.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from aftereffect.kernels import Matrix, Vector
from aftereffect.policies.base import State

ROWS = SCORE, WEIGHT = range(2)
#: What the scores are taken against, the sum of the weights, that sum when all were last computed, and updates since.
CELLS = SHIFT, SUM, SUM_THEN, UPDATES = range(4)

#: An arm that is less likely is never drawn; it may have been played for other reasons.
_LEAST_CHANCE = 2.0**-53
#: The sum of weights is kept up to date by differences; errors must not add up for ever.
_MOST_UPDATES = 4_096

LearnerName = Literal["exp3", "exp3-gain", "tsallis"]
#: ``feed(arms, own, rate, arm, gain)``: learn that an arm gained so much, in [0, 1].
Feed: TypeAlias = Callable[[Matrix, Vector, float, int, float], None]


class Learner(NamedTuple):
    """How it learns, and whether its rate is also the share of slots in which it draws an arm at random."""

    feed: Feed
    mixes: bool


def blank(arms: int, further_cells: int = 0) -> State:
    """All arms alike."""
    state = State(np.zeros((len(ROWS), arms)), np.zeros(len(CELLS) + further_cells))
    forget(*state)
    return state


def forget(arms: Matrix, own: Vector) -> None:
    """Begin anew."""
    for arm in range(arms.shape[1]):
        arms[SCORE, arm] = 0.0
        arms[WEIGHT, arm] = 1.0
    own[SHIFT] = own[UPDATES] = 0.0
    own[SUM] = own[SUM_THEN] = arms.shape[1]


def probability(arms: Matrix, own: Vector, mix: float, arm: int) -> float:
    """How likely an arm is to be drawn."""
    chance: float = (1.0 - mix) * arms[WEIGHT, arm] / own[SUM] + mix / arms.shape[1]
    return chance


def gain_of(total: float, slots: float) -> float:
    """What a total over some slots brings per slot, as a learner takes it: at least 0 and at most 1."""
    return min(max(total / slots, 0.0), 1.0)


def draw(arms: Matrix, own: Vector, mix: float, rng: np.random.Generator) -> int:
    """An arm, each with its probability; all of them times the sum of the weights, which saves dividing by it."""
    left = rng.random() * own[SUM]
    random_share = mix * own[SUM] / arms.shape[1]
    for arm in range(arms.shape[1] - 1):
        left -= (1.0 - mix) * arms[WEIGHT, arm] + random_share
        if left < 0.0:
            return arm
    last = int(arms.shape[1]) - 1
    while last > 0 and arms[WEIGHT, last] == 0.0 and mix == 0.0:  # rounding must not draw what cannot be drawn
        last -= 1
    return last


def reinforce(arms: Matrix, own: Vector, arm: int, amount: float) -> None:
    """Add to an arm's logarithmic weight; the other weights are computed again only now and then."""
    arms[SCORE, arm] += amount
    weight = math.exp(min(arms[SCORE, arm] - own[SHIFT], 700.0))
    own[SUM] += weight - arms[WEIGHT, arm]
    arms[WEIGHT, arm] = weight
    own[UPDATES] += 1
    if own[UPDATES] >= _MOST_UPDATES or own[SUM] > 2.0 * own[SUM_THEN] or own[SUM] < 0.5 * own[SUM_THEN]:
        refresh(arms, own)


def refresh(arms: Matrix, own: Vector) -> None:
    """Compute all weights again, the largest as 1."""
    own[SHIFT] = arms[SCORE, 0]
    for arm in range(1, arms.shape[1]):
        own[SHIFT] = max(own[SHIFT], arms[SCORE, arm])
    own[SUM] = own[UPDATES] = 0.0
    for arm in range(arms.shape[1]):
        arms[WEIGHT, arm] = math.exp(arms[SCORE, arm] - own[SHIFT])
        own[SUM] += arms[WEIGHT, arm]
    own[SUM_THEN] = own[SUM]


def feed_loss(arms: Matrix, own: Vector, rate: float, arm: int, gain: float) -> None:
    """Exp3 on losses, without mixing."""
    reinforce(arms, own, arm, -rate * (1.0 - gain) / max(probability(arms, own, 0.0, arm), _LEAST_CHANCE))


def feed_gain(arms: Matrix, own: Vector, rate: float, arm: int, gain: float) -> None:
    """Exp3 on gains, with mixing."""
    if gain > 0.0:
        reinforce(arms, own, arm, rate * gain / (arms.shape[1] * probability(arms, own, rate, arm)))


def feed_tsallis(arms: Matrix, own: Vector, rate: float, arm: int, gain: float) -> None:
    """Follow the regularised leader with the 1/2-Tsallis entropy: p_i = eta^2 / (L_i - min L + y)^2, which sum to 1.

    Newton's steps for y, from the left, where they rise to the solution without passing it.
    """
    arms[SCORE, arm] += (1.0 - gain) / max(probability(arms, own, 0.0, arm), _LEAST_CHANCE)
    least = arms[SCORE, 0]
    for other in range(1, arms.shape[1]):
        least = min(least, arms[SCORE, other])
    y = rate
    for _ in range(100):
        total = slope = 0.0
        for other in range(arms.shape[1]):
            gap = arms[SCORE, other] - least + y
            total += rate * rate / (gap * gap)
            slope += rate * rate / (gap * gap * gap)
        step = (total - 1.0) / (2.0 * slope)
        y += step
        if step <= 1e-16 * y:
            break
    own[SUM] = 0.0
    for other in range(arms.shape[1]):
        gap = arms[SCORE, other] - least + y
        arms[WEIGHT, other] = rate * rate / (gap * gap)
        own[SUM] += arms[WEIGHT, other]


LEARNERS: Mapping[LearnerName, Learner] = {
    "exp3": Learner(feed_loss, mixes=False),
    "exp3-gain": Learner(feed_gain, mixes=True),
    "tsallis": Learner(feed_tsallis, mixes=False),
}
