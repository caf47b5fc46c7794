"""Phased elimination: the loop that ODAAF and its generalisation share.

::

    draw an order of the arms, once
    phase m = 1, 2, ...: play every active arm, in that order, until it has n_m plays in all
                         drop every arm whose average lies more than 2^-m below the best
                         bridge (where required): play the best arm n_m - n_(m-1) times more and forget what is seen
    when one arm is left, or after the last phase: play the best arm to the end

Averages are over all phases; plays on a bridge do not count.
"""

import math
from collections.abc import Callable

import numpy as np

from aftereffect.checks import MOST_SLOTS
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies.base import State

ROWS = PLAYS, COLLECTED, DROPPED, ORDER = range(4)
OWN = PHASE, CURSOR, ON_BRIDGE, BRIDGE_DONE = range(4)
HORIZON, BRIDGED, PHASES, TARGETS = range(4)


def initial(arms: int) -> State:
    """Before the first slot; phase 0 has no order yet."""
    return State(np.zeros((len(ROWS), arms)), np.zeros(len(OWN)))


def params(horizon: int, targets: list[int], *, bridged: bool) -> Vector:
    """What the kernels read: ``targets`` are n_1, n_2, ..., n_(last phase)."""
    return np.array([horizon, bridged, len(targets), *targets], dtype=float)


def leader(arms: Matrix) -> tuple[int, int]:
    """The active arm with the highest average, and how many are active."""
    best, active, highest = 0, 0, -math.inf
    for arm in range(arms.shape[1]):
        if arms[DROPPED, arm] == 0.0:
            active += 1
            average = arms[COLLECTED, arm] / max(arms[PLAYS, arm], 1.0)
            if average > highest:
                best, highest = arm, average
    return best, active


def drop(arms: Matrix, margin: float) -> None:
    """Drop the arms whose average lies more than a margin below the best."""
    best, _ = leader(arms)
    highest = arms[COLLECTED, best] / max(arms[PLAYS, best], 1.0)
    for arm in range(arms.shape[1]):
        if arms[COLLECTED, arm] / max(arms[PLAYS, arm], 1.0) + margin < highest:
            arms[DROPPED, arm] = 1.0


def shuffle(arms: Matrix, rng: np.random.Generator) -> None:
    """Draw the order of the arms: each place takes one of those left."""
    count = arms.shape[1]
    for place in range(count):
        arms[ORDER, place] = place
    for place in range(count - 1, 0, -1):
        other = int(rng.random() * (place + 1))
        arms[ORDER, place], arms[ORDER, other] = arms[ORDER, other], arms[ORDER, place]


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """The next arm of the phase, or the bridge, or the last arm to the end."""
    if own[PHASE] == 0.0:
        shuffle(arms, rng)
        own[PHASE] = 1.0
    while True:
        phase = int(own[PHASE])
        best, active = leader(arms)
        if active == 1 or phase > params[PHASES]:
            rest = max(int(params[HORIZON]) - t, 1)
            return best, rest, rest
        target = params[TARGETS + phase - 1]
        while own[CURSOR] < arms.shape[1]:
            arm = int(arms[ORDER, int(own[CURSOR])])
            if arms[DROPPED, arm] == 0.0 and arms[PLAYS, arm] < target:
                slots = int(target - arms[PLAYS, arm])
                return arm, slots, slots
            own[CURSOR] += 1
        if own[BRIDGE_DONE] == 0.0:
            drop(arms, 2.0**-phase)
            own[BRIDGE_DONE] = 1.0
            best, active = leader(arms)
            slots = int(target - params[TARGETS + phase - 2]) if phase > 1 else int(target)
            if params[BRIDGED] == 1.0 and active > 1 and slots > 0:
                own[ON_BRIDGE] = 1.0
                return best, slots, 0
        else:
            own[PHASE] += 1
            own[CURSOR] = own[BRIDGE_DONE] = 0.0


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """Credit the plays, except those on a bridge."""
    if own[ON_BRIDGE] == 1.0:
        own[ON_BRIDGE] = 0.0
    else:
        arms[PLAYS, arm] += slots
        arms[COLLECTED, arm] += total


KERNELS = PolicyKernels(decide, absorb)


def rising(horizon: int, plays: Callable[[int], int]) -> list[int]:
    """n_1, n_2, ... while T 4^-m is above e: gaps of later phases are too small to be told apart in T slots."""
    targets: list[int] = []
    while horizon / 4.0 ** (len(targets) + 1) > math.e:
        # No run lasts longer than MOST_SLOTS, and what is more does not fit into compiled whole numbers.
        targets.append(min(max(plays(len(targets) + 1), *targets[-1:], 1), MOST_SLOTS))
    return targets
