"""Estimate the mean lag while one arm is held from the very first slot on.

At the start no reward is on its way. So the totals of an arm that is held rise to its mean s as the
distribution function of the lag does. Once they have settled, the first m slots have brought
s (m - mean lag) in expectation. With the level from the slots m .. n ::

    mean lag = m - total(m) / level
    standard error = sqrt( m (1 - level) / level * (1 + m / (n - m)) )

The arm is held until m, half of n, is twice the mean lag plus two standard errors. So totals that
rise at a constant rate never look settled. An arm that pays rarely would take very long. There the
estimate is accepted as it is, if it is noise and not the lag that keeps it from being settled.

While no reward at all has arrived, the next arm is tried now and then, as the first may pay
nothing. Later rewards may be from any of these arms, so the lag is taken to be at least that
silence.

Totals of single slots also show how much chance there is in *when* a reward arrives. If whole
rewards arrive at random lags, the total of a slot has a variance of s (1 - s) + clumping s^2, where
the clumping is 1 minus the sum of the squared shares. If rewards are cut into shares, the variance
is less than s (1 - s), and there is no clumping.
"""

import math
from typing import NamedTuple

import numpy as np

from aftereffect._core import Vector

#: Silent slots after which another arm is tried, and rounds of that through all arms after which no
#: reward is expected.
MAX_SILENT_SLOTS, MAX_SILENT_ROUNDS = 32, 4
#: An arm that pays rarely is held this many times as long as the others.
RARE_FACTOR = 2.0
#: The longest time in slots that an arm is held: its totals may drift for ever.
MAX_HOLD = 10_000
#: The first half must last at least this many mean lags.
_MIN_LAGS = 2.0
#: Standard errors added to the estimated lag: before it counts as settled, and in the result.
_DOUBT, _CAUTION = 2.0, 0.3


class Settling(NamedTuple):
    """What is known about the lag: single numbers, and the curve of totals by slot.

    arm                        the arm that is held
    slots, total               played so far, and their total
    points                     points of the curve so far
    tried                      slots since this arm was taken
    silence                    slots before the first reward arrived
    lag, clumping              the estimates
    level_slots, level_total   the last slots, which show the arm's level, and their total
    settled_at                 the slots after which the totals had settled; 0 before that
    curve_slots, curve_totals  the points of the curve: slots, and the total by then
    """

    arm: Vector
    slots: Vector
    total: Vector
    points: Vector
    tried: Vector
    silence: Vector
    lag: Vector
    clumping: Vector
    level_slots: Vector
    level_total: Vector
    settled_at: Vector
    curve_slots: Vector
    curve_totals: Vector


def blank_settling(hold: int) -> Settling:
    """The state before the first slot; the curve has single slots up to `hold`, then quarters."""
    points = hold + math.ceil(math.log(2 * MAX_HOLD, 1.25))
    numbers = [np.zeros(1) for _ in Settling._fields[:-2]]
    return Settling._make([*numbers, np.zeros(points), np.zeros(points)])


def next_step(slots: float, hold: int) -> int:
    """Slots to play after so many: single ones first, for the clumping, then a quarter of them.

    It is also the distance between points of the curve.
    """
    return 1 if slots < hold else max(1, int(slots) // 4)


def settle(state: Settling, hold: int, arms: int, window: int, total: float) -> None:
    """Learn a round's total; if totals have settled, after at least `hold` slots, note the lag."""
    state.slots[0] += window
    state.total[0] += total
    state.tried[0] += window
    slots = state.slots[0]
    points = int(state.points[0])
    last = state.curve_slots[points - 1] if points > 0 else 0.0
    # In a live experiment slots may be missing: points are no closer than planned.
    if slots - last >= next_step(last, hold):
        state.curve_slots[points], state.curve_totals[points] = slots, state.total[0]
        state.points[0] += 1
    if state.total[0] <= 0.0:
        state.silence[0] = slots
        if slots >= min(MAX_SILENT_SLOTS * arms * MAX_SILENT_ROUNDS, MAX_HOLD):
            state.lag[0] = state.settled_at[0] = slots
        elif state.tried[0] >= MAX_SILENT_SLOTS:
            state.arm[0], state.tried[0] = (state.arm[0] + 1) % arms, 0.0
        return
    if slots < hold:
        return

    middle = 0
    while state.curve_slots[middle] < 0.5 * slots:
        middle += 1
    first_slots, first_total = state.curve_slots[middle], state.curve_totals[middle]
    level_slots, level_total = slots - first_slots, state.total[0] - first_total
    # In a live experiment one round may be so long that it is the whole curve.
    if level_slots == 0.0:
        return
    if level_total < 1.0 and slots < MAX_HOLD:
        return
    lag = first_slots
    if level_total > 0.0:
        lag = max(first_slots - first_total / (level_total / level_slots), 0.0)
    if state.silence[0] >= MAX_SILENT_SLOTS:
        lag = max(lag, state.silence[0])
    level = min((max(level_total, 0.0) + 1.0) / (level_slots + 2.0), 1.0)
    error = math.sqrt(first_slots * (1.0 - level) / level * (1.0 + first_slots / level_slots))
    rare = slots >= RARE_FACTOR * hold and first_slots >= _MIN_LAGS * lag and error >= lag
    settled = first_slots >= _MIN_LAGS * (lag + _DOUBT * error + 0.5)
    if not settled and not rare and slots < MAX_HOLD:
        return
    state.lag[0] = min(lag + _CAUTION * error + 0.5, first_slots / _MIN_LAGS)
    state.clumping[0] = estimate_clumping(state, hold)
    state.level_slots[0], state.level_total[0] = level_slots, level_total
    state.settled_at[0] = slots


def estimate_clumping(state: Settling, hold: int) -> float:
    """The clumping from single slots in the second half of the hold, plus a standard error."""
    count = total = squares = 0.0
    for point in range(1, int(state.points[0])):
        slots = state.curve_slots[point]
        if slots - state.curve_slots[point - 1] == 1.0 and slots > 0.5 * hold:
            slot_total = state.curve_totals[point] - state.curve_totals[point - 1]
            count += 1.0
            total += slot_total
            squares += slot_total * slot_total
    if count < 2.0 or total <= 0.0:
        return 1.0
    mean = total / count
    variance = (squares / count - mean * mean) * (1.0 + math.sqrt(2.0 / count))
    return min(max((variance - mean * (1.0 - mean)) / (mean * mean), 0.0), 1.0)
