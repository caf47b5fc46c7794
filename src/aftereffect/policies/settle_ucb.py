"""SettleUcb: learn how long effects linger, then look at arms only when their totals have settled.

::

    hold the first arm until its totals have settled; estimate the mean lag L and the clumping        see `settling`
    visit every other arm in turn, then repeat:
        u_i = max { q : evidence(M_i / N_i against q) <= ln t }                                       see `kl_ucb`
        stay with the arm of the highest u_i for a fifth of N_i, or visit it if it is another one

    a visit:  burn-in       0.7 L (1 + ln(t / t_0) / 10) slots that are not looked at; t_0 is the end of the first hold
              two halves    of max(L, 20, N_i / 2) slots that are
              silent, or still rising and not lost yet?  forget the first half, hold on one and a half times as long
              N_i += slots that were not forgotten, M_i += their total, and 0.8 L times what is better than the arm before

After a switch from arm a to b the expected total at age x is s_b + tail(x) (s_a - s_b): what lingers pulls the newcomer
towards the arm before it, by a share of their difference. That share is below one half from the mean lag on, for any spread
that is symmetric or falls, so a short burn-in leaves the order of the two as it is. It can still hide the best arm behind a
bad one for some slots, and that is what would be costly: too little is seen, the arm is not tried again. But then totals
rise. So a visit goes on while they do, unless the arm is beaten even by its second half, and what an arm lacks because a
worse one was played before it is made up for. That totals fall does no harm, as an arm that looks too good will be looked at
again. The same rule checks the lag at every visit: it catches one that was underestimated, a second bump, and arms that
linger longer than the first.

Visits grow with what an arm was looked at before, so there are few, and the burn-in's growth covers every finite reach in the
end. `docs/settle.md` has the argument, the bound and where this fails.
"""

import math
from dataclasses import dataclass

import numpy as np

from aftereffect.checks import real, whole
from aftereffect.kernels import Matrix, PolicyKernels, Vector
from aftereffect.policies import settling
from aftereffect.policies.averages import AVERAGE, PLAYS, ROWS, credit, next_unplayed
from aftereffect.policies.base import Policy, State
from aftereffect.policies.kl_ucb import bernoulli, highest_average, most_promising, radii
from aftereffect.policies.settling import ARM, BROUGHT, CLUMPING, LAG, LATE, SETTLED, settle, step
from aftereffect.spec import register

#: One row more than averages have.
VISITS = len(ROWS)
#: What a visit still wants to play, 0 when none is under way; slots and total of its first half; the average of the arm before.
WANTED, HALF, SEEN, BEFORE = range(len(settling.CELLS), len(settling.CELLS) + 4)
CURVE = BEFORE + 1
BURN_IN, LOOK, HOLD = range(3)

#: The burn-in grows by this share with every factor of e in time.
GROWTH = 0.1
#: A visit looks at this many slots at least, however short the lag.
LEAST_LOOK = 20
#: A visit looks at this share of what was looked at before, at least.
SHARE = 0.5
#: An arm that is stayed with is played for this share of its plays.
STAY = 0.2
#: Standard errors by which the second half may be above the first, or below, without prolonging the visit; and by how much.
RISE, FALL, LONGER = 0.5, 2.0, 1.5
#: Mean lags by which a visit after a worse arm is short of its own reward, times the difference.
IN_FLIGHT = 0.8
#: What stands for the arm before once a visit was prolonged: better than any, so that nothing is made up for.
SETTLED_BY_NOW = 1e300
#: Nats of evidence in the second half alone, against the best average of the others, at which an arm that rises is lost.
LOST = 8.0
#: An arm of which nothing at all was seen yet is looked at for this many slots: it may linger longer than the others.
SILENT = 60
#: A visit's edges spoil this many mean lags, times clumping and odds; the odds of averages near 1 are not believed.
EDGES, HIGHEST = 0.35, 0.95


@register
@dataclass(frozen=True)
class SettleUcb(Policy):
    """Learns how long effects linger, lets totals settle before it looks, and plays the highest KL-UCB index.

    Needs to know nothing of the spread, its reach or the horizon, and its defaults need no touching.

    Parameters
    ----------
    burn_in
        How many mean lags at the beginning of a visit are not looked at, at first; from 0 on.
    look
        How many mean lags a visit looks at, at least; above 0.
    hold
        How many slots the first arm is held, at least; from 10 to 10,000.

    Examples
    --------
    >>> print(SettleUcb())
    settle-ucb(burn_in=0.7, look=1, hold=120)
    """

    burn_in: float = 0.7
    look: float = 1.0
    hold: int = 120

    def __post_init__(self) -> None:
        self._set(
            burn_in=real("burn_in", self.burn_in, at_least=0, at_most=100),
            look=real("look", self.look, above=0, at_most=100),
            hold=whole("hold", self.hold, at_least=10, at_most=settling.LONGEST),
        )

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> State:
        return State(np.zeros((VISITS + 1, arms)), np.zeros(CURVE + 2 * settling.room(self.hold)))

    def params(self, arms: int, horizon: int) -> Vector:
        return np.array([self.burn_in, self.look, self.hold])

    def radii(self, state: State, params: Vector, t: int) -> Vector:
        return radii(state.arms, state.own, t, spoilt)


def spoilt(arms: Matrix, own: Vector, arm: int, best: float) -> float:
    """How many slots the chance in when rewards land at the edges of visits is worth, against the noise of rewards.

    It matters the more the higher the mean, which lies between the arm's average and the best.
    """
    high = min(best, HIGHEST)
    mean = 0.5 * (min(max(arms[AVERAGE, arm], 0.0), high) + high)
    slots: float = EDGES * own[CLUMPING] * own[LAG] * arms[VISITS, arm] * mean / (1.0 - mean)
    return slots


choose = most_promising(spoilt)


def decide(arms: Matrix, own: Vector, params: Vector, t: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Settle first, then finish the visit under way, then stay or visit."""
    arm = int(own[ARM])
    if own[SETTLED] == 0.0:
        slots = step(own, int(params[HOLD]))
        return arm, slots, slots
    if own[WANTED] > 0.0:
        slots = int(own[WANTED])
        return arm, slots, slots
    look = max(params[LOOK] * own[LAG], LEAST_LOOK)
    chosen = next_unplayed(arms, arm)
    if chosen < 0:
        chosen = choose(arms, own, t)
        if chosen == arm:
            slots = math.ceil(max(0.5 * look, STAY * arms[PLAYS, arm]))
            return arm, slots, slots
    half = math.ceil(0.5 * max(look, SHARE * arms[PLAYS, chosen]))
    burn_in = math.ceil(params[BURN_IN] * own[LAG] * (1.0 + GROWTH * math.log(max(t / own[SETTLED], 1.0))))
    return chosen, burn_in + half, half


def absorb(arms: Matrix, own: Vector, params: Vector, arm: int, slots: int, total: float) -> None:
    """By what the round was for: settling, the second half of a visit, staying, or the first half of a visit."""
    if own[SETTLED] == 0.0 and arm != int(own[ARM]):
        credit(arms, arm, slots, total)  # played for other reasons: the arm that is held goes on climbing afterwards
    elif own[SETTLED] == 0.0:
        settle(own, CURVE, int(params[HOLD]), arms.shape[1], slots, total)
        if own[LATE] > 0.0:
            arms[VISITS, arm] = 1.0
            credit(arms, arm, int(own[LATE]), own[BROUGHT])
    elif own[WANTED] > 0.0 and arm == int(own[ARM]):
        finish(arms, own, arm, slots, total)
    elif arm == int(own[ARM]) and arms[PLAYS, arm] > 0.0:
        credit(arms, arm, slots, total)
    else:
        own[BEFORE] = arms[AVERAGE, int(own[ARM])]
        own[ARM], own[WANTED], own[HALF], own[SEEN] = arm, max(slots, LEAST_LOOK // 2), slots, total


def finish(arms: Matrix, own: Vector, arm: int, slots: int, total: float) -> None:
    """End a visit, unless its second half says that totals have not settled."""
    half, seen = own[HALF], own[SEEN]
    counted = half + slots
    mean = (min(max(seen + total, 0.0), counted) + 1.0) / (counted + 2.0)
    variance = (mean * (1.0 - mean) + own[CLUMPING] * mean * mean) * (1.0 / half + 1.0 / slots)
    rise = (total / slots - seen / half) / math.sqrt(variance)
    silent = seen + total <= 0.0 and arms[PLAYS, arm] == 0.0 and counted < SILENT
    if silent or rise < -FALL or (rise > RISE and not lost(arms, arm, slots, total / slots)):
        longer = int(LONGER * max(slots, own[WANTED]))  # than was planned, though some of it be missing
        own[HALF], own[SEEN], own[WANTED], own[BEFORE] = slots, total, longer, SETTLED_BY_NOW
        return
    own[WANTED] = 0.0
    arms[VISITS, arm] += 1.0
    missed = IN_FLIGHT * own[LAG] * max((seen + total) / counted - own[BEFORE], 0.0)
    credit(arms, arm, int(counted), seen + total + missed)


def lost(arms: Matrix, arm: int, slots: int, average: float) -> bool:
    """Whether an arm is beaten by the best of the others, judged by so many slots alone."""
    best = min(max(highest_average(arms, arm), 0.01), 0.99)
    return average < best and slots * bernoulli(max(average, 0.0), best) >= LOST
