"""SettleUcb: estimate the lag, then look at an arm only when its totals have settled.

::

    hold the first arm until its totals have settled; estimate the mean lag L and the clumping
    visit every other arm in turn, then repeat:                                  (`settle`)
        u_i = max { q : evidence(M_i / N_i against q) <= ln t }                        (`_averages`)
        stay with the arm of the highest u_i for a fifth of N_i, or visit it if it is another one

    a visit:  burn-in      0.7 L (1 + ln(t / t_0) / 10) slots that are not looked at;
                           t_0 is the end of the first hold
              two halves   of max(L, 20, N_i / 2) slots in all
              If they are silent, or still rising and the arm is not beaten yet: forget the first
              half, hold on one and a half times as long.
              N_i += the slots that were not forgotten
              M_i += their total, and 0.8 L times how much better the arm is than the one before

After a switch from arm a to b the expected total at age x is s_b + tail(x) (s_a - s_b): rewards on
their way pull the new arm's totals towards those of the arm before, by a share of their difference.
From the mean lag on, that share is below one half for any delay that is symmetric or falls. So a
short burn-in leaves the order of the two arms as it is.

It can still hide the best arm behind a bad one for some slots, which would be costly: the arm looks
bad and is not tried again. But then its totals rise. So a visit goes on while they do, unless the
arm is beaten even by its second half; and an arm is compensated for a worse arm that was played
before it. Totals that fall do no harm, as an arm that looks too good will be looked at again. The
same rule checks the lag at every visit: it notices a lag that was underestimated, a second bump,
and arms with a longer lag than the first.

Visits grow with the pulls of an arm, so there are few. The burn-in grows too, and covers every
finite reach in the end. `docs/settle.md` has the argument, the bound and the limits.

The mean lag is estimated while an arm is held from the very first slot on (`Settling`). At the
start no reward is on its way. So the totals of the arm rise to its mean s as the distribution
function of the lag does. Once they have settled, the first m slots have brought s (m - mean lag) in
expectation. With the level from the slots m .. n ::

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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect._core import PolicyKernels, Vector, check_float, check_int, register
from aftereffect.policies._averages import (
    Averages,
    blank_averages,
    credit,
    highest_average,
    kl_bernoulli,
    kl_chooser,
    next_unplayed,
)
from aftereffect.policies.base import Policy

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


#: The burn-in grows by this share with every factor of e in time.
BURN_IN_GROWTH = 0.1
#: A visit looks at this many slots at least, however short the lag.
MIN_LOOK = 20
#: A visit looks at this share of the arm's pulls at least.
VISIT_SHARE = 0.5
#: A stay lasts this share of the arm's pulls.
STAY_SHARE = 0.2
#: A visit is prolonged if its second half is more than so many standard errors above the first, or
#: below it.
MAX_RISE, MAX_FALL = 0.5, 2.0
#: How many times as long as its second half a prolonged visit goes on.
PROLONGING = 1.5
#: A visit after a worse arm lacks so many mean lags of the difference between the two.
LAGS_ON_THE_WAY = 0.8
#: Stands for the average of the arm before once a visit was prolonged: it is better than any arm,
#: so that there is nothing to compensate for.
NO_WORSE_ARM = 1e300
#: Nats of evidence in the second half alone, against the best average of the other arms, at which
#: an arm that rises is beaten.
BEATEN_NATS = 8.0
#: An arm that has shown no reward yet is looked at for this many slots: its lag may be longer than
#: that of the others.
MIN_SILENT_SLOTS = 60
#: The noise at the edges of a visit is worth this many mean lags, times clumping and odds; averages
#: count at most as the second number in the odds, as those near 1 are unreliable.
EDGE_LAGS, MAX_EDGE_AVERAGE = 0.35, 0.95


class SettleUcbState(NamedTuple):
    """Averages and visits by arm, the estimate of the lag, and the visit that is under way.

    ``wanted`` are the slots that the visit still needs, 0 without a visit. ``half_slots`` and
    ``half_total`` are of its first half. ``before`` is the average of the arm before.
    """

    averages: Averages
    visits: Vector
    settling: Settling
    wanted: Vector
    half_slots: Vector
    half_total: Vector
    before: Vector


class SettleUcbParams(NamedTuple):
    """The parameters of the policy."""

    burn_in: float
    look: float
    hold: int


@register
@dataclass(frozen=True)
class SettleUcb(Policy):
    """Estimates the lag, lets totals settle before it looks, plays the highest KL-UCB index.

    It needs to know nothing about the delay, its reach or the horizon. The defaults need no tuning.

    Parameters
    ----------
    burn_in
        Mean lags at the beginning of a visit that are not looked at, at first; from 0 on.
    look
        Mean lags that a visit looks at, at least; above 0.
    hold
        Slots for which the first arm is held, at least; from 10 to 10,000.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(SettleUcb(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    15.7
    """

    burn_in: float = 0.7
    look: float = 1.0
    hold: int = 120
    #: It would take a floor round for the beginning of a visit, and play the arm as long again.
    learns_from_any_arm = False

    def __post_init__(self) -> None:
        self._set(
            burn_in=check_float("burn_in", self.burn_in, at_least=0, at_most=100),
            look=check_float("look", self.look, above=0, at_most=100),
            hold=check_int("hold", self.hold, at_least=10, at_most=MAX_HOLD),
        )

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> SettleUcbState:
        visit = (np.zeros(1) for _ in range(4))
        return SettleUcbState(
            blank_averages(arms), np.zeros(arms), blank_settling(self.hold), *visit
        )

    def params(self, arms: int, horizon: int) -> SettleUcbParams:
        return SettleUcbParams(self.burn_in, self.look, self.hold)


def edge_noise_slots(state: SettleUcbState, arm: int, best: float) -> float:
    """How many slots of reward noise equal the noise of arrivals at the edges of an arm's visits.

    This noise matters more the higher the mean, which is between the arm's average and the best.
    """
    high = min(best, MAX_EDGE_AVERAGE)
    mean = 0.5 * (min(max(state.averages.average[arm], 0.0), high) + high)
    lags = EDGE_LAGS * state.settling.clumping[0] * state.settling.lag[0]
    slots: float = lags * state.visits[arm] * mean / (1.0 - mean)
    return slots


choose = kl_chooser(edge_noise_slots)


def decide(
    state: SettleUcbState, params: SettleUcbParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """Settle first, then finish the visit that is under way, then stay or visit."""
    settling, pulls = state.settling, state.averages.pulls
    arm, lag, settled_at = int(settling.arm[0]), settling.lag[0], settling.settled_at[0]
    if settled_at == 0.0:
        slots = next_step(settling.slots[0], params.hold)
        return arm, slots, slots
    if state.wanted[0] > 0.0:
        slots = int(state.wanted[0])
        return arm, slots, slots
    look = max(params.look * lag, MIN_LOOK)
    chosen = next_unplayed(state.averages, arm)
    if chosen < 0:
        chosen = choose(state.averages, state, t)
        if chosen == arm:
            slots = math.ceil(max(0.5 * look, STAY_SHARE * pulls[arm]))
            return arm, slots, slots
    half = math.ceil(0.5 * max(look, VISIT_SHARE * pulls[chosen]))
    growth = 1.0 + BURN_IN_GROWTH * math.log(max(t / settled_at, 1.0))
    burn_in = math.ceil(params.burn_in * lag * growth)
    return chosen, burn_in + half, half


def absorb(
    state: SettleUcbState, params: SettleUcbParams, arm: int, window: int, total: float
) -> None:
    """Learn by the purpose of the round: settle, end a visit, stay, or begin a visit."""
    settling, averages = state.settling, state.averages
    held = arm == int(settling.arm[0])
    if settling.settled_at[0] == 0.0 and not held:
        # Another arm was played instead. The totals of the held arm go on rising afterwards.
        credit(averages, arm, window, total)
    elif settling.settled_at[0] == 0.0:
        settle(settling, params.hold, averages.pulls.shape[0], window, total)
        if settling.level_slots[0] > 0.0:
            state.visits[arm] = 1.0
            credit(averages, arm, int(settling.level_slots[0]), settling.level_total[0])
    elif state.wanted[0] > 0.0 and held:
        end_visit(state, arm, window, total)
    elif held and averages.pulls[arm] > 0.0:
        credit(averages, arm, window, total)
    else:
        state.before[0] = averages.average[int(settling.arm[0])]
        settling.arm[0], state.wanted[0] = arm, max(window, MIN_LOOK // 2)
        state.half_slots[0], state.half_total[0] = window, total


def end_visit(state: SettleUcbState, arm: int, window: int, total: float) -> None:
    """End a visit, unless its second half shows that totals have not settled."""
    averages, settling = state.averages, state.settling
    half_slots, half_total = state.half_slots[0], state.half_total[0]
    slots, both = half_slots + window, half_total + total
    mean = (min(max(both, 0.0), slots) + 1.0) / (slots + 2.0)
    per_slot = mean * (1.0 - mean) + settling.clumping[0] * mean * mean
    variance = per_slot * (1.0 / half_slots + 1.0 / window)
    rise = (total / window - half_total / half_slots) / math.sqrt(variance)
    silent = both <= 0.0 and averages.pulls[arm] == 0.0 and slots < MIN_SILENT_SLOTS
    rises = rise > MAX_RISE and not is_beaten(averages, arm, window, total / window)
    if silent or rise < -MAX_FALL or rises:
        # Longer than planned, even if some of the totals are missing.
        state.wanted[0] = int(PROLONGING * max(window, state.wanted[0]))
        state.half_slots[0], state.half_total[0] = window, total
        state.before[0] = NO_WORSE_ARM
        return
    state.wanted[0] = 0.0
    state.visits[arm] += 1.0
    on_the_way = LAGS_ON_THE_WAY * settling.lag[0] * max(both / slots - state.before[0], 0.0)
    credit(averages, arm, int(slots), both + on_the_way)


def is_beaten(averages: Averages, arm: int, slots: int, average: float) -> bool:
    """Whether the best of the other arms beats an arm, judged by so many slots alone."""
    best = min(max(highest_average(averages, arm), 0.01), 0.99)
    return average < best and slots * kl_bernoulli(max(average, 0.0), best) >= BEATEN_NATS
