"""The mean lag, from steps: how long totals take to rise or fall when another arm is held.

After a step from an arm with mean b to one with mean s, rewards on their way pull the totals
towards b. Over the first m slots, totals lack in expectation ::

    m s - total(m) = L (s - b)                                        L: the mean lag, if m is long

The slots after them show s. The first step is from nothing: no reward is on its way before the
first slot, and b is 0. Each step gives an estimate with a known error, and they are combined by
their precision ::

    L = sum (s - b) (m s - total(m)) / v  /  sum (s - b)^2 / v
    v = m s (1 - s) (1 + m / slots after them) + arrivals at the ends + (L / 2)^2 / pulls behind b

So a step between arms that pay alike says little, and one to a much better arm says as much as the
first hold of that arm would have said.

The first arm is *held* until m, half of the slots, is twice the estimated lag plus two standard
errors (`settle`). So totals that rise at a constant rate never look settled. An arm that pays
rarely would take very long. There the estimate is accepted as it is, if it is noise and not the lag
that keeps it from being settled.

While no reward at all has arrived, the next arm is tried now and then, as the first may pay
nothing. Later rewards may be from any of these arms, so the lag is taken to be at least that
silence.

The lag in use is the estimate plus a part of its standard error, which is larger the less the held
arm pays. If the lag is too short, other arms look like the held one. That does no harm if it is the
best; if it pays rarely, most others are better.

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
RARE_FACTOR = 1.7
#: The longest time in slots that an arm is held: its totals may drift for ever.
MAX_HOLD = 10_000
#: The first half must last at least this many mean lags; the lag in use of an arm that pays rarely
#: is at most the first half by the second number.
_MIN_LAGS, _MIN_RARE_LAGS = 2.0, 3.0
#: Standard errors added to the lag before it counts as settled.
_DOUBT = 2.0
#: Standard errors in the lag in use: always, and for an arm that pays nothing.
CAUTION, MORE_CAUTION = 0.2, 1.5
#: The least standard error of a lag, as totals come by whole slots.
_MIN_ERROR = 0.3
#: The noise of arrivals at an end of some slots is this, times clumping, lag and squared average.
EDGE_LAGS = 0.35


class Settling(NamedTuple):
    """What is known about the lag: single numbers, and the curve of totals by slot.

    arm                        the arm that is held
    slots, total               of the first hold: played so far, and their total
    points                     points of the curve so far
    tried                      slots since this arm was taken
    silence                    slots before the first reward arrived
    lag, clumping              the estimates; the lag is the one in use
    level_slots, level_total   the last slots, which show the arm's level, and their total
    settled_at                 the slots after which the totals had settled; 0 before that
    weighted_lag, weight       the sums over all steps but the last, of lags by their precision
    last_lag, last_weight      the same of the last step
    step_slots, step_total     the slots after the last step in which totals rose or fell; 0: known
    base, base_pulls           the average of the arm before that step, and the pulls behind it
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
    weighted_lag: Vector
    weight: Vector
    last_lag: Vector
    last_weight: Vector
    step_slots: Vector
    step_total: Vector
    base: Vector
    base_pulls: Vector
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
            weigh_lag(state, slots, slots)
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
    most = first_slots / (_MIN_LAGS if settled else _MIN_RARE_LAGS)
    state.lag[0] = min(add_caution(lag, error, level), most)
    weigh_lag(state, lag, error)
    state.clumping[0] = estimate_clumping(state, hold)
    state.level_slots[0], state.level_total[0] = level_slots, level_total
    state.settled_at[0] = slots


def add_caution(lag: float, error: float, level: float) -> float:
    """The lag in use: its estimate and a part of its error, while an arm of that mean is held."""
    return lag + (CAUTION + MORE_CAUTION * (1.0 - level)) * error + 0.5


def weigh_lag(state: Settling, lag: float, error: float) -> None:
    """Note the estimate of the first step."""
    state.weight[0] = 1.0 / max(error, _MIN_ERROR) ** 2
    state.weighted_lag[0] = lag * state.weight[0]


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


def edge_noise(state: Settling, mean: float) -> float:
    """The variance that arrivals at an end of some slots add to their total."""
    noise: float = EDGE_LAGS * state.clumping[0] * state.lag[0] * mean * mean
    return noise


def begin_step(
    state: Settling, arm: int, base: float, base_pulls: float, window: int, total: float
) -> None:
    """Hold another arm from now on, after one with this average; these are its first slots."""
    end_step(state)
    state.arm[0] = arm
    state.base[0], state.base_pulls[0] = base, base_pulls
    state.step_slots[0], state.step_total[0] = window, total


def end_step(state: Settling) -> None:
    """Add the estimate of the last step to the others; its totals will not be looked at again."""
    state.weighted_lag[0] += state.last_lag[0]
    state.weight[0] += state.last_weight[0]
    state.last_lag[0] = state.last_weight[0] = state.step_slots[0] = 0.0


def extend_step(state: Settling, window: int, total: float) -> None:
    """Add slots to those in which totals rose or fell."""
    state.step_slots[0] += window
    state.step_total[0] += total


def estimate_step(state: Settling, window: int, total: float) -> None:
    """Estimate the lag again from the last step; the level is that of these slots."""
    slots = state.step_slots[0]
    level = min(max(total / window, 0.0), 1.0)
    difference = level - state.base[0]
    error_of_base = 0.25 * state.lag[0] ** 2 / max(state.base_pulls[0], 1.0)
    per_slot = level * (1.0 - level) + 1.0 / window
    variance = slots * per_slot * (1.0 + slots / window) + error_of_base
    variance += 2.0 * edge_noise(state, level)
    state.last_lag[0] = difference * (slots * level - state.step_total[0]) / variance
    state.last_weight[0] = difference * difference / variance
    weight = state.weight[0] + state.last_weight[0]
    lag = max((state.weighted_lag[0] + state.last_lag[0]) / weight, 0.0)
    state.lag[0] = add_caution(lag, 1.0 / math.sqrt(weight), level)
