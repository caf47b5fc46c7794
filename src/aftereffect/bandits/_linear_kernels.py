"""How both engines play a linear bandit: slot by slot, and rounds of any length at once.

The slotwise engine is the recursion of `linear_bandit`. The roundwise engine plays n slots of one
plan at once, with the same law. It adds up the deviation of the totals from the plan's level in one
more state S, and z is the state that stays as it is under the plan::

    (x - z, S) becomes  F (x - z, S) + noise with covariance N        F = [A 0; omega 1]

so 2^i slots multiply by F^(2^i) and add noise with covariance N_i, where ::

    N_(i+1) = N_i + F^(2^i) N_i F^(2^i)'

and n slots are as many such steps as n has ones in binary: no more than 53, exact for any n.
"""

from typing import NamedTuple

import numpy as np

from aftereffect._core import Matrix, Memory, Vector
from aftereffect.delays import LAST

#: The memory of both engines: the state, and in the roundwise one the sum S; what the last pull
#: brings in all; the next state; and the draws of a step. `LAST` is the row of the second.
STATE, NEXT, DRAWN = 0, 2, 3
ROWS = 4


class SlotWorld(NamedTuple):
    """What the slotwise kernel reads; by arm its scaled reward, its gap, <theta, u> and B u."""

    rewards: Vector
    gaps: Vector
    direct: Vector
    pushes: Matrix
    a: Matrix
    omega: Vector
    sigma: float
    output_sigma: float
    low: float
    width: float


class RoundWorld(NamedTuple):
    """What the roundwise kernel reads; by arm its scaled reward, its gap, and its state z.

    ``moves`` has the powers of F one below the other, and ``spreads`` roots of the N_i.
    """

    rewards: Vector
    gaps: Vector
    points: Matrix
    moves: Matrix
    spreads: Matrix
    is_noisy: bool
    width: float


def play_slot(
    memory: Memory, world: SlotWorld, slot: int, arm: int, begins: bool, rng: np.random.Generator
) -> float:
    """One slot of the recursion; its scaled total."""
    states = world.omega.shape[0]
    total = world.direct[arm] + world.output_sigma * rng.standard_normal()
    for row in range(states):
        total += world.omega[row] * memory[STATE, row]
        pushed = world.pushes[arm, row] + world.sigma * rng.standard_normal()
        for column in range(states):
            pushed += world.a[row, column] * memory[STATE, column]
        memory[NEXT, row] = pushed
    for row in range(states):
        memory[STATE, row] = memory[NEXT, row]
    memory[LAST, 0] = world.rewards[arm]
    scaled: float = (total - world.low) / world.width
    return scaled


def play_round(
    memory: Memory,
    world: RoundWorld,
    t: int,
    arm: int,
    slots: int,
    window: int,
    rng: np.random.Generator,
) -> float:
    """A round at once; the scaled total of its window."""
    states = world.points.shape[1]
    for row in range(states):
        memory[STATE, row] -= world.points[arm, row]
    move_on(memory, world, slots - window, rng)
    memory[STATE, states] = 0.0
    move_on(memory, world, window, rng)
    for row in range(states):
        memory[STATE, row] += world.points[arm, row]
    total: float = window * world.rewards[arm] + memory[STATE, states] / world.width
    return total


def move_on(memory: Memory, world: RoundWorld, slots: int, rng: np.random.Generator) -> None:
    """Move the deviation of the state, and the sum, by so many slots."""
    size, first = world.moves.shape[1], 0
    while slots > 0:
        if slots % 2 == 1:
            for row in range(size):
                moved = 0.0
                for column in range(size):
                    moved += world.moves[first + row, column] * memory[STATE, column]
                if world.is_noisy:
                    memory[DRAWN, row] = rng.standard_normal()
                    for column in range(row + 1):
                        moved += world.spreads[first + row, column] * memory[DRAWN, column]
                memory[NEXT, row] = moved
            for row in range(size):
                memory[STATE, row] = memory[NEXT, row]
        slots //= 2
        first += size
