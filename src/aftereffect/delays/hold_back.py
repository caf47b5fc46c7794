"""The paper's non-oblivious adversary: it makes the best arm look bad once a policy stays with it.

Its roundwise kernel costs O(1) a round and gives the same numbers as the slotwise one, as far as
sums of rewards are exact. What is pending after slot s is the reward of the pull in s, unless it is
held back, and the rewards of the held pulls in the last d slots. Held pulls come in ranges. Between
two ranges lie at least 3d - 1 pulls of the same arm that are not held. So besides the range of the
round being played, only the last range before it can still be pending.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from aftereffect._core import (
    ArmKey,
    Collect,
    Matrix,
    Memory,
    RewardSource,
    Slots,
    Source,
    World,
    check_flag,
    check_lag,
    register,
)
from aftereffect.delays._engines import (
    ARRIVALS,
    LAST,
    SLOTWISE_ROWS,
    RoundwiseEngine,
    SlotwiseEngine,
    Step,
    take_arrivals,
)
from aftereffect.delays.base import Delay, DelayFacts

#: The table: how long a reward is held back, how many pulls in a row come before, and whether a
#: round begins the row anew.
WAIT, BEFORE, RESET = range(3)
#: The memory by rounds: the arm played in a row, since when, the last range of held pulls, and what
#: is pending.
NOTES = RUN_ARM, RUN_START, HELD_FIRST, HELD_END, PENDING = range(5)
#: The memory by slots, in the row of the last pull after its reward: the arm, and how often in a
#: row.
LAST_ARM, LAST_RUN = 1, 2


@register
@dataclass(frozen=True)
class HoldBack(Delay):
    """An adversary: rewards of the best arm wait d slots once it was played 3d times in a row.

    For adversarial bandits only. The best arm is the one that brings most over the whole horizon.
    The reward of a pull waits d slots if the arm is the best one and this pull is at least the
    3d-th of it in a row, else one slot.

    Parameters
    ----------
    d
        How many slots a reward is held back; at least 1.
    reset_on_round
        Whether to count pulls in a row anew in every round, even if the arm stays.

    Examples
    --------
    >>> from aftereffect import AdversarialBandit, simulate
    >>> bandit = AdversarialBandit("drawn-arm([.6, .4])", HoldBack(5))
    >>> study = simulate("ucb1", bandit, horizon=2_000, replications=2, seed=1)
    >>> study["ucb1"].pulls.sum(axis=1).tolist()
    [2000.0, 2000.0]
    """

    depends_on_play: ClassVar[bool] = True

    d: int
    reset_on_round: bool = False

    def __post_init__(self) -> None:
        self._set(
            d=check_lag("d", self.d, at_least=1),
            reset_on_round=check_flag("reset_on_round", self.reset_on_round),
        )

    def check_arms(self, arms: int) -> None:
        """Any number of arms will do."""

    def facts(self, arms: int) -> DelayFacts:
        """Upper bounds: which rewards are held back depends on the play."""
        return DelayFacts(self.d, ((self.d - 1) / 2) ** 2, self.d)

    def roundwise(self, arms: int, rewards: RewardSource, horizon: int) -> RoundwiseEngine:
        return RoundwiseEngine(_collect_held(rewards), *self._table(arms), (1, len(NOTES)))

    def slotwise(self, arms: int, rewards: RewardSource, horizon: int) -> SlotwiseEngine:
        memory = len(SLOTWISE_ROWS), max(self.d + 1, LAST_RUN + 1)
        return SlotwiseEngine(_step_holding_back(rewards), *self._table(arms), memory)

    def count_bytes(self, engine: str, arms: int, horizon: int) -> int:
        memory = len(NOTES)
        if engine == "slotwise":
            memory = len(SLOTWISE_ROWS) * max(self.d + 1, LAST_RUN + 1)
        return 8 * (memory + len((WAIT, BEFORE, RESET)))

    def _table(self, arms: int) -> tuple[Slots, Matrix]:
        table = np.array([[self.d, 3 * self.d - 1, self.reset_on_round]], dtype=float)
        return np.zeros(arms, dtype=np.int64), table


@cache
def _step_holding_back(rewards: RewardSource) -> Step:
    one, key_of = rewards.one, rewards.key_of

    def step(
        memory: Memory,
        world: World,
        slot: int,
        arm: int,
        begins: bool,
        rng: np.random.Generator,
    ) -> float:
        if memory[LAST, LAST_ARM] != arm + 1 or (begins and world.tables[0, RESET] == 1.0):
            memory[LAST, LAST_ARM] = arm + 1  # 0: no arm yet
            memory[LAST, LAST_RUN] = 0.0
        held = arm == world.best and memory[LAST, LAST_RUN] >= world.tables[0, BEFORE]
        memory[LAST, LAST_RUN] += 1.0
        reward = one(world.source, key_of(world, arm), slot, rng)
        lag = int(world.tables[0, WAIT]) if held else 1
        memory[ARRIVALS, (slot + lag) % memory.shape[1]] += reward
        memory[LAST, 0] = reward
        return take_arrivals(memory, slot)

    return step


@cache
def _collect_held(rewards: RewardSource) -> Collect:
    one, many, key_of = rewards.one, rewards.many, rewards.key_of

    def sum_range(
        source: Source,
        best: ArmKey,
        first: int,
        end: int,
        now: int,
        wait: int,
        rng: np.random.Generator,
    ) -> float:
        """What the held pulls from `first` on and before `end` bring from slot `now` on."""
        earliest = max(first, now - wait)
        return many(source, best, earliest, max(min(end, now) - earliest, 0), rng)

    def sum_pending(
        memory: Memory,
        world: World,
        arm: int,
        held: int,
        end: int,
        now: int,
        rng: np.random.Generator,
    ) -> float:
        """What arrives from slot `now` on, if the pulls in held .. end - 1 are held back."""
        source, best, wait = world.source, key_of(world, world.best), int(world.tables[0, WAIT])
        first, last = int(memory[0, HELD_FIRST]), int(memory[0, HELD_END])
        total = one(source, key_of(world, arm), now - 1, rng) if now <= held else 0.0
        total += sum_range(source, best, first, last, now, wait, rng)
        return total + sum_range(source, best, held, end, now, wait, rng)

    def collect(
        memory: Memory,
        world: World,
        t: int,
        arm: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        if memory[0, RUN_ARM] != arm + 1 or world.tables[0, RESET] == 1.0:
            memory[0, RUN_ARM] = arm + 1  # 0: no arm yet
            memory[0, RUN_START] = t
        end = t + slots
        start = end - window
        held = end
        if arm == world.best:
            held = min(max(t, int(memory[0, RUN_START] + world.tables[0, BEFORE])), end)
        before: float = memory[0, PENDING]
        if start > t:
            before = sum_pending(memory, world, arm, held, end, start, rng)
        after = sum_pending(memory, world, arm, held, end, end, rng)
        if held < end:
            if memory[0, HELD_END] != held:
                memory[0, HELD_FIRST] = held
            memory[0, HELD_END] = end
        memory[0, PENDING] = after
        generated = many(world.source, key_of(world, arm), start, window, rng)
        return max(generated + before - after, 0.0)

    return collect
