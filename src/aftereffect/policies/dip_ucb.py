"""DipUcb: pull an arm briefly, and wait for its rewards on the best arm.

A visit of `SettleUcb` waits on the arm itself, so arms that are much worse cost a burn-in each. A
*dip* is shorter than the lag. The policy then holds the leader, the arm that it takes for the best,
until the rewards of the dip have arrived. Over the dip and this *wait*, totals lack what the arm
brings less than the leader::

    reward of n pulls of arm i  =  total of the dip and the wait  -  m times the leader's average
                                                                     m: slots of the wait

What was on its way at the beginning came from the leader, and so did what is on its way at the end.
Waiting costs nothing if the leader is the best arm. All arms must have the same delay.

The difference has noise of its own, from m rewards of the leader, the leader's average (of N
pulls), and arrivals at both ends, where L is the mean lag and s the leader's average::

    noise = m v + e + (m / N)^2 (N v + e),    v = s (1 - s),    e = 0.35 clumping L s^2

The sum over dips is B. Evidence that n pulls with average p have a mean of q or more is then the
harmonic sum of that without this noise, n kl(p, q), and that without any other::

    1 / evidence = 1 / (n kl(p, q)) + 2 B / (n (q - p))^2
    index = max{q : evidence <= ln t}

First the lag is estimated as in `SettleUcb`, and every other arm has a dip. Its length is such that
an arm that pays nothing would be beaten by far, but it is little more than a wait. From then on an
arm that looks better than the leader, with a nat of evidence, becomes the leader: it is held until
totals have settled, and only what comes then counts. Otherwise the arm with the highest index has
the next dip, as long as it should take to beat it, or the leader stays.

The factor 0.35 is right for lags that are uniform on 10 to 30. Lags that are uniform from 0 on have
0.67, but with that dips were longer and regret was higher in simulations; so the index is not a
bound that holds with a known probability.
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
    kl_bernoulli,
    next_unplayed,
)
from aftereffect.policies.base import Policy
from aftereffect.policies.settle_ucb import (
    BURN_IN_GROWTH,
    MAX_HOLD,
    MIN_LOOK,
    STAY_SHARE,
    VISIT_SHARE,
    Settling,
    blank_settling,
    next_step,
    settle,
)

#: The leader must have been pulled this many times as often as a wait has slots.
LEADER_WAITS = 4.0
#: The noise of arrivals at both ends, in mean lags, times clumping and the square of the average.
EDGE_LAGS = 0.35
#: How much longer the first dip of an arm is than what beats one that pays nothing.
FIRST_FACTOR = 2.5
#: Dips are planned for so many nats of evidence more than they need now.
NATS_AHEAD = 3.0
#: Nats of evidence at which another arm becomes the leader.
NATS_TO_LEAD = 1.0
#: A dip after the first is this share of an arm's pulls at least, and so many times them at most.
MIN_DIP_SHARE, MAX_DIP_SHARE = 0.5, 2.0
#: Dips are planned as if the leader's average were this at least, and stays last so many slots.
MIN_AVERAGE, MIN_STAY = 0.02, 10
#: Halvings of [average, 1] for an index.
_HALVINGS = 30


class DipState(NamedTuple):
    """Averages and noise by arm, what is known about the lag, and the dip whose rewards are due.

    ``settling.arm`` is the leader. ``arm`` is that of the dip, or -1; ``slots`` and ``total`` are
    the dip's.
    """

    averages: Averages
    noise: Vector
    settling: Settling
    arm: Vector
    slots: Vector
    total: Vector


class DipParams(NamedTuple):
    """The parameters of the policy."""

    wait: float
    hold: int


def weigh(average: float, pulls: float, mean: float, noise: float) -> float:
    """Nats of evidence that the mean is not this one, whether it is higher or lower.

    >>> round(weigh(0.5, 20, 0.9, 0.0), 2), round(weigh(0.5, 20, 0.9, 4.0), 2)
    (10.22, 4.49)
    """
    inner = min(max(average, 0.0), 1.0)
    if mean >= 1.0 or mean <= 0.0:
        own = math.inf if inner != mean else 0.0
    else:
        own = pulls * kl_bernoulli(inner, mean)
    distance = pulls * (mean - average)
    if noise <= 0.0 or own <= 0.0:
        return own
    other = distance * distance / (2.0 * noise)
    if other <= 0.0 or own == math.inf:
        return other
    return own * other / (own + other)


def find_index(average: float, pulls: float, noise: float, log: float) -> float:
    """The highest mean in [0, 1] against which there is so much evidence at most."""
    low, high = min(max(average, 0.0), 1.0), 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if average < middle and weigh(average, pulls, middle, noise) > log:
            high = middle
        else:
            low = middle
    return low


def count_wait(state: DipState, params: DipParams, t: int) -> int:
    """The slots of a wait; they grow with time, so that they cover any reach in the end."""
    settling = state.settling
    growth = 1.0 + BURN_IN_GROWTH * math.log(max(t / settling.settled_at[0], 1.0))
    slots: int = math.ceil(params.wait * settling.lag[0] * growth) + 1
    return slots


def find_noise(state: DipState, wait: float) -> float:
    """The variance of what the leader brings in a wait, less what is expected."""
    settling, leader = state.settling, int(state.settling.arm[0])
    pulls = max(state.averages.pulls[leader], 1.0)
    mean = min(max(state.averages.average[leader], 0.0), 1.0)
    variance = mean * (1.0 - mean) + 1.0 / pulls
    edge = EDGE_LAGS * settling.clumping[0] * settling.lag[0] * mean * mean
    share = wait / pulls
    noise: float = wait * variance + edge + share * share * (pulls * variance + edge)
    return noise


def leads(state: DipState, arm: int) -> bool:
    """Whether an arm is to become the leader."""
    averages = state.averages
    best = averages.average[int(state.settling.arm[0])]
    average, pulls = averages.average[arm], averages.pulls[arm]
    if pulls == 0.0 or average <= best:
        return False
    nats: float = weigh(average, pulls, min(max(best, 0.001), 0.999), state.noise[arm])
    return nats > NATS_TO_LEAD


def find_leader(state: DipState) -> int:
    """The leader, or the best of the arms that are to become it."""
    leader = int(state.settling.arm[0])
    found = leader
    for arm in range(state.noise.shape[0]):
        if (
            arm != leader
            and leads(state, arm)
            and state.averages.average[arm] > state.averages.average[found]
        ):
            found = arm
    return found


def plan_dip(state: DipState, arm: int, wait: int, log: float) -> int:
    """How many slots a dip should have, to beat the arm if it goes on as before."""
    averages = state.averages
    best = max(averages.average[int(state.settling.arm[0])], MIN_AVERAGE)
    noise, pulls = find_noise(state, wait), averages.pulls[arm]
    enough = log + NATS_AHEAD
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


def decide(
    state: DipState, params: DipParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """Settle first, then wait for a dip, or choose what to do next."""
    settling, averages = state.settling, state.averages
    leader = int(settling.arm[0])
    if settling.settled_at[0] == 0.0:
        slots = next_step(settling.slots[0], params.hold)
        return leader, slots, slots
    wait = count_wait(state, params, t)
    if state.arm[0] >= 0.0:
        return leader, wait, wait
    lacking = LEADER_WAITS * wait - averages.pulls[leader]
    if lacking > 0.0:
        slots = max(math.ceil(lacking), MIN_STAY)
        return leader, slots, slots
    fresh = next_unplayed(averages, leader)
    chosen = find_leader(state)
    if chosen != leader and fresh < 0:
        look = max(settling.lag[0], MIN_LOOK, VISIT_SHARE * averages.pulls[chosen])
        return chosen, wait + math.ceil(look), math.ceil(look)
    log = math.log(max(t, 2))
    chosen = next_unplayed(averages, leader)
    if chosen < 0:
        chosen, highest = (
            leader,
            find_index(averages.average[leader], averages.pulls[leader], 0.0, log),
        )
        for arm in range(averages.pulls.shape[0]):
            index = find_index(averages.average[arm], averages.pulls[arm], state.noise[arm], log)
            if arm != leader and index > highest:
                chosen, highest = arm, index
    if chosen == leader:
        slots = math.ceil(max(STAY_SHARE * averages.pulls[leader], 0.5 * wait, MIN_STAY))
    else:
        slots = plan_dip(state, chosen, wait, log)
    return chosen, slots, slots


def absorb(state: DipState, params: DipParams, arm: int, window: int, total: float) -> None:
    """Learn by the purpose of the round: settle, end a dip, stay, change the leader, or dip."""
    settling, averages = state.settling, state.averages
    leader = int(settling.arm[0])
    if settling.settled_at[0] == 0.0 and arm != leader:
        credit(averages, arm, window, total)  # it was played instead
    elif settling.settled_at[0] == 0.0:
        settle(settling, params.hold, averages.pulls.shape[0], window, total)
        if settling.level_slots[0] > 0.0:
            credit(averages, arm, int(settling.level_slots[0]), settling.level_total[0])
    elif state.arm[0] >= 0.0:
        if arm == leader:  # otherwise the dip is lost
            missing = window * averages.average[leader] - total
            state.noise[int(state.arm[0])] += find_noise(state, window)
            credit(averages, int(state.arm[0]), int(state.slots[0]), state.total[0] - missing)
        state.arm[0] = -1.0
    elif arm == leader:
        credit(averages, arm, window, total)
    elif leads(state, arm):
        lead(state, arm, window, total)
    else:
        state.arm[0], state.slots[0], state.total[0] = arm, window, total


def lead(state: DipState, arm: int, window: int, total: float) -> None:
    """Make an arm the leader, of which only these slots count."""
    averages = state.averages
    state.settling.arm[0] = arm
    averages.pulls[arm] = averages.total[arm] = 0.0
    credit(averages, arm, window, total)
    mean = min(max(averages.average[arm], 0.0), 1.0)
    state.noise[arm] = EDGE_LAGS * state.settling.clumping[0] * state.settling.lag[0] * mean * mean


@register
@dataclass(frozen=True)
class DipUcb(Policy):
    """Pulls other arms briefly and waits for their rewards on the best one.

    Like `SettleUcb` it needs to know nothing, and it loses less; but all arms must have the same
    delay.

    Parameters
    ----------
    wait
        Mean lags of a wait, at first; above 0.
    hold
        Slots for which the first arm is held, at least; from 10 to 10,000.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5, 0.3], ae.UniformDelay(0, 60))
    >>> study = ae.simulate([DipUcb(), "settle-ucb"], bandit, horizon=10_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [69, 94]
    """

    wait: float = 1.5
    hold: int = 120
    #: It would take a floor round for a dip.
    learns_from_any_arm = False

    def __post_init__(self) -> None:
        self._set(
            wait=check_float("wait", self.wait, above=0, at_most=100),
            hold=check_int("hold", self.hold, at_least=10, at_most=MAX_HOLD),
        )

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> DipState:
        return DipState(
            blank_averages(arms),
            np.zeros(arms),
            blank_settling(self.hold),
            np.full(1, -1.0),
            np.zeros(1),
            np.zeros(1),
        )

    def params(self, arms: int, horizon: int) -> DipParams:
        return DipParams(self.wait, self.hold)
