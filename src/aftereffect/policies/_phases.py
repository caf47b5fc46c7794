"""Phased elimination: the loop that ODAAF and generalised ODAAF share.

::

    draw an order of the arms, once
    phase m = 1, 2, ...: play every active arm, in that order, until it has n_m pulls in all
                         drop every arm whose average is more than 2^-m below the best
                         bridge (where required): play the best arm n_m - n_(m-1) times more and
                         ignore the totals
    when one arm is left, or after the last phase: play the best arm to the end

Averages are over all phases; pulls on a bridge do not count.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aftereffect._core import MAX_SLOTS, PolicyKernels, Vector


class PhasesState(NamedTuple):
    """By arm: pulls, their total, and whether it is dropped; the order of arms; single numbers.

    ``cursor`` is the place in the order, ``on_bridge`` says that the round is a bridge, and
    ``after_bridge`` that arms of this phase have been dropped. Phase 0 has no order yet.
    """

    pulls: Vector
    total: Vector
    dropped: Vector
    order: Vector
    phase: Vector
    cursor: Vector
    on_bridge: Vector
    after_bridge: Vector


class PhasesParams(NamedTuple):
    """The horizon, whether there are bridges, and n_1, n_2, ... up to the last phase."""

    horizon: int
    bridged: bool
    targets: Vector


def blank_phases(arms: int) -> PhasesState:
    """The state before the first slot."""
    return PhasesState(*(np.zeros(arms) for _ in range(4)), *(np.zeros(1) for _ in range(4)))


def find_best(state: PhasesState) -> tuple[int, int]:
    """The active arm with the highest average, and how many arms are active."""
    best, active, highest = 0, 0, -math.inf
    for arm in range(state.pulls.shape[0]):
        if state.dropped[arm] == 0.0:
            active += 1
            average = state.total[arm] / max(state.pulls[arm], 1.0)
            if average > highest:
                best, highest = arm, average
    return best, active


def drop(state: PhasesState, margin: float) -> None:
    """Drop the arms whose average is more than a margin below the best."""
    best, _ = find_best(state)
    highest = state.total[best] / max(state.pulls[best], 1.0)
    for arm in range(state.pulls.shape[0]):
        if state.total[arm] / max(state.pulls[arm], 1.0) + margin < highest:
            state.dropped[arm] = 1.0


def shuffle(order: Vector, rng: np.random.Generator) -> None:
    """Draw the order of the arms (Fisher and Yates)."""
    for place in range(order.shape[0]):
        order[place] = place
    for place in range(order.shape[0] - 1, 0, -1):
        other = int(rng.random() * (place + 1))
        order[place], order[other] = order[other], order[place]


def decide(
    state: PhasesState, params: PhasesParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next arm of the phase, or the bridge, or the last arm to the end."""
    if state.phase[0] == 0.0:
        shuffle(state.order, rng)
        state.phase[0] = 1.0
    while True:
        phase = int(state.phase[0])
        best, active = find_best(state)
        if active == 1 or phase > params.targets.shape[0]:
            rest = max(params.horizon - t, 1)
            return best, rest, rest
        target = params.targets[phase - 1]
        while state.cursor[0] < state.order.shape[0]:
            arm = int(state.order[int(state.cursor[0])])
            if state.dropped[arm] == 0.0 and state.pulls[arm] < target:
                slots = int(target - state.pulls[arm])
                return arm, slots, slots
            state.cursor[0] += 1
        if state.after_bridge[0] == 0.0:
            drop(state, 2.0**-phase)
            state.after_bridge[0] = 1.0
            best, active = find_best(state)
            slots = int(target - params.targets[phase - 2]) if phase > 1 else int(target)
            if params.bridged and active > 1 and slots > 0:
                state.on_bridge[0] = 1.0
                return best, slots, 0
        else:
            state.phase[0] += 1
            state.cursor[0] = state.after_bridge[0] = 0.0


def absorb(state: PhasesState, params: PhasesParams, arm: int, window: int, total: float) -> None:
    """Credit the pulls, except those on a bridge."""
    if state.on_bridge[0] == 1.0:
        state.on_bridge[0] = 0.0
    else:
        state.pulls[arm] += window
        state.total[arm] += total


KERNELS = PolicyKernels(decide, absorb)


def find_targets(horizon: int, pulls: Callable[[int], int]) -> list[int]:
    """n_1, n_2, ... while T 4^-m is above e: later phases are about gaps that T slots cannot show.

    They never fall and never exceed MAX_SLOTS, the longest run: more would not fit into the
    integers of compiled code.
    """
    targets: list[int] = []
    while horizon / 4.0 ** (len(targets) + 1) > math.e:
        targets.append(min(max(pulls(len(targets) + 1), *targets[-1:], 1), MAX_SLOTS))
    return targets
