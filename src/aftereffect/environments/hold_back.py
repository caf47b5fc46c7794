"""The adversary that holds back the best arm's rewards, by rounds and by slots.

By rounds it costs O(1), and gives the very numbers of the literal way, so far as sums of rewards are exact. What is pending
after slot s is the reward of the pull in s, unless held, and those of the held pulls in the last d slots. Held pulls come
in ranges, and between two of them lie at least 3d - 1 pulls of the same arm that are not held: besides the range of the round
being played only the last one before can still be pending.
"""

from functools import cache

import numpy as np

from aftereffect.environments.mechanics import ByRounds, BySlots, by_rounds, by_slots
from aftereffect.environments.pulls import Pulls, Source, Whose
from aftereffect.environments.slotwise import ARRIVALS, LAST, ROWS, Step, arrived
from aftereffect.kernels import Collect, Matrix, Slots, World
from aftereffect.kernels import Matrix as Memory
from aftereffect.spreads import HoldBack

#: The table: how long a reward is held back, how many pulls in a row come before, and whether a round begins a row anew.
LAW = WAIT, BEFORE, RESET = range(3)
#: What is remembered by rounds: the arm being played in a row, since when, the last range that was held, and what is pending.
NOTES = RUN_ARM, RUN_START, HELD_FIRST, HELD_END, PENDING = range(5)
#: What is remembered by slots in the row of the last pull, after its reward: the arm, and how often in a row.
LAST_ARM, LAST_RUN = 1, 2


@by_rounds.register
def _(delays: HoldBack, arms: int, pulls: Pulls, horizon: int) -> ByRounds:
    return ByRounds(held_back(pulls), *_law(delays, arms), (1, len(NOTES)))


@by_slots.register
def _(delays: HoldBack, arms: int, pulls: Pulls, horizon: int) -> BySlots:
    return BySlots(holding_back(pulls), *_law(delays, arms), (len(ROWS), max(delays.d + 1, LAST_RUN + 1)))


def _law(delays: HoldBack, arms: int) -> tuple[Slots, Matrix]:
    return np.zeros(arms, dtype=np.int64), np.array([[delays.d, delays.first_held, delays.reset_on_round]], dtype=float)


@cache
def holding_back(pulls: Pulls) -> Step:
    """The literal way."""
    one, whose = pulls.one, pulls.whose

    def step(memory: Memory, world: World, slot: int, arm: int, begins: bool, rng: np.random.Generator) -> float:
        if memory[LAST, LAST_ARM] != arm + 1 or (begins and world.laws[0, RESET] == 1.0):
            memory[LAST, LAST_ARM] = arm + 1  # 0 is nobody
            memory[LAST, LAST_RUN] = 0.0
        held = arm == world.best and memory[LAST, LAST_RUN] >= world.laws[0, BEFORE]
        memory[LAST, LAST_RUN] += 1.0
        reward = one(world.source, whose(world, arm), slot, rng)
        waits = int(world.laws[0, WAIT]) if held else 1
        memory[ARRIVALS, (slot + waits) % memory.shape[1]] += reward
        memory[LAST, 0] = reward
        return arrived(memory, slot)

    return step


@cache
def held_back(pulls: Pulls) -> Collect:
    """The fast way."""
    one, many, whose_of = pulls.one, pulls.many, pulls.whose

    def still_held(source: Source, best: Whose, first: int, end: int, now: int, waits: int, rng: np.random.Generator) -> float:
        """What the held pulls from `first` on and before `end` bring from slot `now` on."""
        earliest = max(first, now - waits)
        return many(source, best, earliest, max(min(end, now) - earliest, 0), rng)

    def pending(memory: Memory, world: World, arm: int, held: int, end: int, now: int, rng: np.random.Generator) -> float:
        """What comes from slot `now` on, if the round's pulls from `held` on and before `end` are held back."""
        source, best, waits = world.source, whose_of(world, world.best), int(world.laws[0, WAIT])
        total = one(source, whose_of(world, arm), now - 1, rng) if now <= held else 0.0
        total += still_held(source, best, int(memory[0, HELD_FIRST]), int(memory[0, HELD_END]), now, waits, rng)
        return total + still_held(source, best, held, end, now, waits, rng)

    def collect(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        if memory[0, RUN_ARM] != arm + 1 or world.laws[0, RESET] == 1.0:
            memory[0, RUN_ARM] = arm + 1  # 0 is nobody
            memory[0, RUN_START] = t
        end = t + slots
        start = end - window
        held = end
        if arm == world.best:
            held = min(max(t, int(memory[0, RUN_START] + world.laws[0, BEFORE])), end)
        before: float = memory[0, PENDING] if start == t else pending(memory, world, arm, held, end, start, rng)
        after = pending(memory, world, arm, held, end, end, rng)
        if held < end:
            if memory[0, HELD_END] != held:
                memory[0, HELD_FIRST] = held
            memory[0, HELD_END] = end
        memory[0, PENDING] = after
        return max(many(world.source, whose_of(world, arm), start, window, rng) + before - after, 0.0)

    return collect
