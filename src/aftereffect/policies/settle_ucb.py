"""SettleUcb: learn the lag, look at settled totals only, and pull bad arms briefly.

::

    hold the first arm until its totals have settled; estimate the mean lag L         (`_settling`)
    repeat, while arm c is held:                                                      (`decide`)
        u_i = max { q : evidence(M_i / N_i, B_i against q) <= ln t }                  (`_averages`)
        if the average of c is below 0.7: *visit* an arm that was not played yet;
                                          later the arm of the highest u_i, if it is another one
        otherwise: visit the arm that looks better than c, with a nat of evidence, if there is one;
                   *dip* into an arm that was not played yet; later into that of the highest u_i
        if u_c is the highest: stay with c for a fifth of N_c

    a visit:  burn-in      0.85 L (1 + ln(t / t_0) / 10) slots that do not count for the arm;
                           t_0 is the end of the first hold
              two halves   of max(0.7 L, 20, N_i / 2) slots in all
              If they are silent, or still rising and the arm is not beaten yet: forget the first
              half, hold on one and a half times as long. From now on this arm is held.
    a dip:    a few slots of arm i, then a *wait* of 1.5 L (1 + ln(t / t_0) / 10) slots on c

After a switch from arm a to b the expected total at age x is s_b + tail(x) (s_a - s_b): rewards on
their way pull the new arm's totals towards those of the arm before, by a share of their difference.
From the mean lag on, that share is below one half for any delay that is symmetric or falls. So a
short burn-in leaves the order of the two arms as it is. It can still hide the best arm behind a bad
one for some slots. But then its totals rise. So a visit goes on while they do, unless the arm is
beaten even by its second half; and an arm is compensated for a worse arm that was held before it.
Totals that fall do no harm, as an arm that looks too good will be looked at again.

A visit costs a burn-in, whatever the arm. A dip is shorter than the lag. What was on its way at its
beginning came from c, and so did what is on its way at the end of the wait. So totals lack what the
arm brings less than c::

    reward of n pulls of arm i  =  total of the dip and the wait  -  m times the average of c
                                                                     m: slots of the wait

Waiting costs nothing if c is the best arm, and much if it is a bad one. So the policy visits arms
until it holds one that pays well, 0.7 of the range or more, and then dips. If the wait is shorter
than the reach, a part of the difference is lost: again the error is a share of the difference.

A dip has noise of its own, from m rewards of c, the average of c (of N_c pulls), and arrivals at
both ends, where s is the average of c::

    noise = m v + e + (m / N_c)^2 (N_c v + e),    v = s (1 - s),    e = 0.35 clumping L s^2

A visit has e for the arrivals at its ends. B_i is the sum over visits and dips of arm i. Evidence
that n pulls with average p have a mean of q is then the harmonic sum of that without this noise,
n kl(p, q), and that without any other::

    1 / evidence = 1 / (n kl(p, q)) + 2 B / (n (q - p))^2

The factor 0.35 is right for lags that are uniform on 10 to 30. Lags that are uniform from 0 on have
0.67, but with that regret was higher in simulations; so the index is not a bound that holds with a
known probability.

Visits and dips grow with the pulls of an arm, so there are few. Burn-ins and waits grow too, and
cover every finite reach in the end. `docs/settle.md` has the argument, the bound and the limits.
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
    weigh,
)
from aftereffect.policies._settling import (
    MAX_HOLD,
    Settling,
    begin_step,
    blank_settling,
    edge_noise,
    end_step,
    estimate_step,
    extend_step,
    next_step,
    settle,
)
from aftereffect.policies.base import Policy

#: Burn-ins and waits grow by this share with every factor of e in time.
GROWTH = 0.1
#: The policy waits for dips on an arm that pays this much at least.
GOOD = 0.7
#: A visit looks at this many slots at least, however short the lag.
MIN_LOOK = 20
#: A visit looks at this share of the arm's pulls at least.
VISIT_SHARE = 0.5
#: A stay lasts this share of the arm's pulls, and so many slots at least.
STAY_SHARE, MIN_STAY = 0.2, 10
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
#: Nats of evidence that an arm is better than the held one, at which it is visited.
NATS_TO_VISIT = 1.0
#: Before the first dip, the held arm was pulled this many times as often as a wait has slots.
HELD_WAITS = 3.0
#: How much longer the first dip of an arm is than what beats one that pays nothing.
FIRST_FACTOR = 2.5
#: Dips are planned for so many nats of evidence more than they need now.
NATS_AHEAD = 3.0
#: A dip after the first is this share of an arm's pulls at least, and so many times them at most.
MIN_DIP_SHARE, MAX_DIP_SHARE = 0.5, 2.0


class SettleUcbState(NamedTuple):
    """Averages and noise by arm, what is known of the lag, and the visit or dip that is under way.

    ``burning`` are the slots that the first half of a visit still needs, ``wanted`` those of its
    second half; both are 0 without a visit. ``half_slots`` and ``half_total`` are of its first
    half. ``before`` is the average of the arm before. ``dip`` is the arm whose rewards are waited
    for, or -1; ``dip_slots`` and ``dip_total`` are of its slots. The arm held is ``settling.arm``.
    """

    averages: Averages
    noise: Vector
    settling: Settling
    burning: Vector
    wanted: Vector
    half_slots: Vector
    half_total: Vector
    before: Vector
    dip: Vector
    dip_slots: Vector
    dip_total: Vector


class SettleUcbParams(NamedTuple):
    """The parameters of the policy."""

    burn_in: float
    look: float
    wait: float
    hold: int


@register
@dataclass(frozen=True)
class SettleUcb(Policy):
    """Estimates the lag, lets totals settle before it looks, plays the highest KL-UCB index.

    It needs to know nothing about the delay, its reach or the horizon. The defaults need no tuning.

    Parameters
    ----------
    burn_in
        Mean lags at the beginning of a visit that do not count for the arm, at first; from 0 on.
    look
        Mean lags that a visit looks at, at least; above 0.
    wait
        Mean lags for which the rewards of a few pulls are waited for, at first; above 0.
    hold
        Slots for which the first arm is held, at least; from 10 to 10,000.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(SettleUcb(), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    15.0
    """

    burn_in: float = 0.85
    look: float = 0.7
    wait: float = 1.5
    hold: int = 120
    #: It would take a floor round for the beginning of a visit, and play the arm as long again.
    learns_from_any_arm = False

    def __post_init__(self) -> None:
        self._set(
            burn_in=check_float("burn_in", self.burn_in, at_least=0, at_most=100),
            look=check_float("look", self.look, above=0, at_most=100),
            wait=check_float("wait", self.wait, above=0, at_most=100),
            hold=check_int("hold", self.hold, at_least=10, at_most=MAX_HOLD),
        )

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> SettleUcbState:
        visit_and_dip = [np.zeros(1) for _ in range(8)]
        visit_and_dip[5][0] = -1.0
        return SettleUcbState(
            blank_averages(arms), np.zeros(arms), blank_settling(self.hold), *visit_and_dip
        )

    def params(self, arms: int, horizon: int) -> SettleUcbParams:
        return SettleUcbParams(self.burn_in, self.look, self.wait, self.hold)


def noise_of(state: SettleUcbState, arm: int) -> float:
    """The variance that visits and dips added to the total of an arm; little for the one held."""
    if arm == int(state.settling.arm[0]):
        return 0.0
    noise: float = state.noise[arm]
    return noise


choose = kl_chooser(noise_of)


def count_slots(state: SettleUcbState, lags: float, t: int) -> int:
    """So many mean lags in slots; they grow with time, so that they cover any reach in the end."""
    settling = state.settling
    growth = 1.0 + GROWTH * math.log(max(t / settling.settled_at[0], 1.0))
    slots: int = math.ceil(lags * settling.lag[0] * growth) + 1
    return slots


def find_noise(state: SettleUcbState, wait: float) -> float:
    """The variance of what the held arm brings in a wait, less what is expected."""
    held = int(state.settling.arm[0])
    pulls = max(state.averages.pulls[held], 1.0)
    mean = min(max(state.averages.average[held], 0.0), 1.0)
    variance = mean * (1.0 - mean) + 1.0 / pulls
    edge = edge_noise(state.settling, mean)
    share = wait / pulls
    noise: float = wait * variance + edge + share * share * (pulls * variance + edge)
    return noise


def looks_better(state: SettleUcbState, arm: int) -> bool:
    """Whether an arm looks better than the held one, with enough evidence to visit it."""
    averages = state.averages
    best = averages.average[int(state.settling.arm[0])]
    average, pulls = averages.average[arm], averages.pulls[arm]
    if pulls == 0.0 or average <= best:
        return False
    nats: float = weigh(average, pulls, min(max(best, 0.001), 0.999), state.noise[arm])
    return nats > NATS_TO_VISIT


def is_visit(state: SettleUcbState, arm: int) -> bool:
    """Whether slots of another arm than the held one begin a visit, rather than a dip."""
    if state.burning[0] > 0.0 or state.wanted[0] > 0.0:
        return True  # a visit is under way, and cannot be waited on
    held = state.averages.average[int(state.settling.arm[0])]
    return held < GOOD or looks_better(state, arm)


def find_better(state: SettleUcbState) -> int:
    """The best of the arms that look better than the held one, or that one."""
    averages = state.averages
    found = int(state.settling.arm[0])
    for arm in range(averages.pulls.shape[0]):
        if looks_better(state, arm) and averages.average[arm] > averages.average[found]:
            found = arm
    return found


def plan_dip(state: SettleUcbState, arm: int, wait: int, t: int) -> int:
    """How many slots a dip should have, to beat the arm if it goes on as before."""
    averages = state.averages
    best = averages.average[int(state.settling.arm[0])]
    noise, pulls = find_noise(state, wait), averages.pulls[arm]
    enough = math.log(max(t, 2)) + NATS_AHEAD
    if pulls == 0.0:
        first: int = math.ceil(FIRST_FACTOR * math.sqrt(2.0 * noise * enough) / best)
        return min(first, wait + MIN_LOOK)
    slots: int = math.ceil(MIN_DIP_SHARE * pulls)
    most = math.ceil(MAX_DIP_SHARE * pulls)
    average, sure = averages.average[arm], min(best, 0.999)
    while slots < most and (
        average >= sure or weigh(average, pulls + slots, sure, state.noise[arm] + noise) < enough
    ):
        slots += max(1, slots // 8)
    return slots


def count_look(state: SettleUcbState, params: SettleUcbParams, arm: int) -> int:
    """The slots of each half of a visit."""
    look = max(params.look * state.settling.lag[0], MIN_LOOK)
    half: int = math.ceil(0.5 * max(look, VISIT_SHARE * state.averages.pulls[arm]))
    return half


def decide(
    state: SettleUcbState, params: SettleUcbParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """Settle first, then finish the visit or dip that is under way, then stay, visit or dip."""
    settling, averages = state.settling, state.averages
    held = int(settling.arm[0])
    if settling.settled_at[0] == 0.0:
        slots = next_step(settling.slots[0], params.hold)
        return held, slots, slots
    if state.burning[0] > 0.0 or state.wanted[0] > 0.0:
        slots = int(max(state.burning[0], state.wanted[0]))
        return held, slots, slots
    wait = count_slots(state, params.wait, t)
    if state.dip[0] >= 0.0:
        return held, wait, wait
    is_good = averages.average[held] >= GOOD
    fresh = next_unplayed(averages, held)
    chosen = find_better(state) if is_good or fresh < 0 else fresh
    lacking = HELD_WAITS * wait - averages.pulls[held]
    if chosen == held and is_good and lacking > 0.0:
        slots = max(math.ceil(lacking), MIN_STAY)
        return held, slots, slots
    if chosen == held:
        chosen = fresh if fresh >= 0 else choose(averages, state, t)
    if chosen == held:
        slots = math.ceil(max(STAY_SHARE * averages.pulls[held], 0.5 * wait, MIN_STAY))
    elif is_visit(state, chosen):
        slots = count_slots(state, params.burn_in, t)
    else:
        slots = plan_dip(state, chosen, wait, t)
    return chosen, slots, slots


def absorb(
    state: SettleUcbState, params: SettleUcbParams, arm: int, window: int, total: float
) -> None:
    """Learn by the purpose of the round: settle, go on with a visit, wait, stay, visit or dip."""
    settling, averages = state.settling, state.averages
    held = int(settling.arm[0])
    if settling.settled_at[0] == 0.0 and arm != held:
        # Another arm was played instead. The totals of the held arm go on rising afterwards.
        credit(averages, arm, window, total)
    elif settling.settled_at[0] == 0.0:
        settle(settling, params.hold, averages.pulls.shape[0], window, total)
        if settling.level_slots[0] > 0.0:
            credit(averages, arm, int(settling.level_slots[0]), settling.level_total[0])
    elif state.burning[0] > 0.0 and arm == held:
        state.wanted[0], state.burning[0] = max(state.burning[0], window), 0.0
        state.half_slots[0], state.half_total[0] = window, total
    elif state.wanted[0] > 0.0 and arm == held:
        end_visit(state, arm, window, total)
    elif state.dip[0] >= 0.0:
        if arm == held:  # otherwise the dip is lost
            end_dip(state, window, total)
        state.dip[0] = -1.0
    elif arm == held:
        credit(averages, arm, window, total)
        if 0.0 < settling.step_slots[0] <= window:
            estimate_step(settling, window, total)
            settling.step_slots[0] = 0.0
    elif is_visit(state, arm):
        state.before[0] = averages.average[held]
        begin_step(settling, arm, state.before[0], averages.pulls[held], window, total)
        state.burning[0], state.wanted[0] = count_look(state, params, arm), 0.0
    else:
        end_step(settling)
        state.dip[0], state.dip_slots[0], state.dip_total[0] = arm, window, total


def end_dip(state: SettleUcbState, window: int, total: float) -> None:
    """End a wait: credit the arm of the dip with what it brought."""
    averages, arm = state.averages, int(state.dip[0])
    missing = window * averages.average[int(state.settling.arm[0])] - total
    state.noise[arm] += find_noise(state, window)
    credit(averages, arm, int(state.dip_slots[0]), state.dip_total[0] - missing)


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
    extend_step(settling, half_slots, half_total)
    if silent or rise < -MAX_FALL or rises:
        # Longer than planned, even if some of the totals are missing.
        state.wanted[0] = int(PROLONGING * max(window, state.wanted[0]))
        state.half_slots[0], state.half_total[0] = window, total
        state.before[0] = NO_WORSE_ARM
        return
    state.wanted[0] = 0.0
    extend_step(settling, window, total)
    on_the_way = LAGS_ON_THE_WAY * settling.lag[0] * max(both / slots - state.before[0], 0.0)
    credit(averages, arm, int(slots), both + on_the_way)
    state.noise[arm] += edge_noise(settling, min(max(averages.average[arm], 0.0), 1.0))


def is_beaten(averages: Averages, arm: int, slots: int, average: float) -> bool:
    """Whether the best of the other arms beats an arm, judged by so many slots alone."""
    best = min(max(highest_average(averages, arm), 0.01), 0.99)
    return average < best and slots * kl_bernoulli(max(average, 0.0), best) >= BEATEN_NATS
