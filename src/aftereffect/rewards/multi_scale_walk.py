"""The losses of Dekel, Ding, Koren and Peres (2014), as a schedule: a walk of all scales."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from aftereffect._core import MAX_SEED, check_int, register
from aftereffect.rewards.schedules import MAX_DRAWN_BYTES, Rows, Schedule


@register
@dataclass(frozen=True)
class MultiScaleWalk(Schedule):
    """The losses of Dekel, Ding, Koren and Peres (2014): one arm is better by little, all drift.

    The loss of every arm in slot t is W_t + 1/2, cut off at 0 and 1, where t counts from 1 and W is
    a walk in steps of all scales: W_t is W_s plus a normal step, where s is t without the lowest 1
    among its binary digits. One arm loses less, by a gap of K^(1/3) T^(-1/3) / (9 log2 T); steps
    have a standard deviation of 1 / (9 log2 T). Rewards are 1 minus losses.

    The average drifts, so that an arm must be compared with another one soon after it. Where each
    such comparison costs something, no policy can keep its regret below the order of
    T^(2/3) / log T. The constants were noted from memory and not compared with the paper.

    Parameters
    ----------
    slots
        T, how many slots there are.
    arms
        K, the number of arms.
    best
        The arm that is better; drawn by the seed if not given.
    seed
        Which of all such schedules.

    Examples
    --------
    >>> MultiScaleWalk(1_000, best=1).rows(3).round(3).tolist()
    [[0.501, 0.503], [0.493, 0.494], [0.492, 0.493]]
    """

    slots: int
    arms: int = 2
    best: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        arms = check_int("arms", self.arms, at_least=2, at_most=np.iinfo(np.int16).max)
        self._set(
            slots=check_int("slots", self.slots, at_least=2, at_most=MAX_DRAWN_BYTES // (8 * arms)),
            arms=arms,
            seed=check_int("seed", self.seed, at_most=MAX_SEED),
        )
        if self.best is not None:
            self._set(best=check_int("best", self.best, at_most=arms - 1))

    @property
    def length(self) -> int:
        return self.slots

    @property
    def step(self) -> float:
        """The standard deviation of the steps."""
        return 1 / (9 * math.log2(self.slots))

    @property
    def gap(self) -> float:
        """How much less the best arm loses in each slot, unless that is cut off."""
        return math.cbrt(self.arms / self.slots) * self.step

    def rows(self, slots: int) -> Rows:
        return _draw_walk(self)[:slots]


@lru_cache(maxsize=2)
def _draw_walk(schedule: MultiScaleWalk) -> Rows:
    """The rewards of all slots."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(schedule.seed)))
    drawn = int(rng.integers(schedule.arms))
    walk = np.zeros(schedule.slots + 1)
    rng.standard_normal(out=walk[1:])
    walk *= schedule.step
    for digit in reversed(range(schedule.slots.bit_length())):
        lowest = 2**digit  # the lowest 1 of all these slots; they follow those where it is higher
        ends = walk[lowest :: 2 * lowest]
        ends += walk[: schedule.slots + 1 - lowest : 2 * lowest]
    walk += 0.5
    rows: Rows = np.empty((schedule.slots, schedule.arms))  # in place: new tables take longer
    rows[:] = walk[1:, None]
    rows[:, drawn if schedule.best is None else schedule.best] -= schedule.gap
    np.clip(rows, 0.0, 1.0, out=rows)
    np.subtract(1.0, rows, out=rows)
    rows.setflags(write=False)  # it is cached, and shared
    return rows
