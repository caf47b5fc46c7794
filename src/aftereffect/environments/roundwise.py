"""The fast engine: the same law as the literal one, drawing only what a round's total needs.

A round plays one arm in the slots t .. end and looks at the window start .. end. For every spread and reward law ::

    total(window) = generated(window) + pending(start - 1) - pending(end)

where pending(x) is what pulls up to slot x deliver after it. Only pulls within one reach of the window's two edges can be
pending at either, so only those are drawn one by one:

- A, the pulls of this round in [start - reach, start - 1];
- B, the pulls of the window in [end - reach + 1, end].

The interior of the window delivers all it generates within it, whatever the spread: one draw of a sum. What lies before A
is never drawn. Rounds that are long against the reach thus cost O(reach), not O(slots).

Each family of spreads has a recipe: a kernel, the table it reads, and the shape of its memory. All sums below are of
positive terms, pending before and after taken together pull by pull, so that nothing cancels and a window in which nothing
lands is exactly 0, as in the literal engine.
"""

import math
from functools import cache, singledispatch

import numpy as np

from aftereffect.environments.base import Recipe
from aftereffect.kernels import Collect, Vector, World
from aftereffect.kernels import Matrix as Memory
from aftereffect.rewards import RewardKernels
from aftereffect.spreads import FixedShares, Geometric, Immediate, RandomLag, Spread
from aftereffect.spreads.base import DrawLag


@singledispatch
def recipe(spread: Spread, reward: RewardKernels, horizon: int) -> Recipe:
    """The recipe of a spread; every family registers its own."""
    raise TypeError(f"no roundwise recipe is registered for {type(spread).__name__}")


@recipe.register
def _(spread: Immediate, reward: RewardKernels, horizon: int) -> Recipe:
    return Recipe(at_once(reward), np.zeros(1), (1, 1))


@recipe.register
def _(spread: RandomLag, reward: RewardKernels, horizon: int) -> Recipe:
    return Recipe(at_random_lags(reward, spread.lag_kernel()), spread.lag_table(), (1, spread.reach + 1))


@recipe.register
def _(spread: FixedShares, reward: RewardKernels, horizon: int) -> Recipe:
    return Recipe(in_shares(reward), spread.tails, (1, max(spread.reach, 1)))


@recipe.register
def _(spread: Geometric, reward: RewardKernels, horizon: int) -> Recipe:
    return Recipe(fading(reward), np.array([spread.gamma, float(spread.resolution)]), (1, 1))


@cache
def at_once(reward: RewardKernels) -> Collect:
    """Nothing is ever pending."""
    _, many = reward

    def collect(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        return many(window, world.means[arm], rng)

    return collect


@cache
def at_random_lags(reward: RewardKernels, draw_lag: DrawLag) -> Collect:
    """Memory: one ring over future slots, what earlier pulls deliver in each; reach + 1 long."""
    one, many = reward

    def deliver(
        arrivals: Vector, law: Vector, mean: float, pulls: range, start: int, end: int, rng: np.random.Generator
    ) -> float:
        """Draw some pulls: count what lands in the window, note what lands after it, drop what lands before."""
        counted = 0.0
        for slot in pulls:
            pulled = one(mean, rng)
            if pulled > 0.0:
                lands = slot + draw_lag(law, rng)
                if lands > end:
                    arrivals[lands % arrivals.shape[0]] += pulled
                elif lands >= start:
                    counted += pulled
        return counted

    def collect(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        arrivals, law, mean = memory[0], world.law, world.means[arm]
        reach = arrivals.shape[0] - 1
        end = t + slots - 1
        start = end - window + 1
        total = 0.0
        for slot in range(t, min(end, t + reach) + 1):
            here = slot % arrivals.shape[0]
            if slot >= start:
                total += arrivals[here]
            arrivals[here] = 0.0
        edge = max(start, end - reach + 1)
        total += deliver(arrivals, law, mean, range(max(t, start - reach), start), start, end, rng)
        total += deliver(arrivals, law, mean, range(edge, end + 1), start, end, rng)
        return total + many(edge - start, mean, rng)

    return collect


@cache
def in_shares(reward: RewardKernels) -> Collect:
    """Memory: one ring over past slots, what each of the last `reach` pulls generated."""
    one, many = reward

    def collect(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        generated, tail, mean = memory[0], world.law, world.means[arm]
        reach, size = tail.shape[0] - 1, generated.shape[0]
        end = t + slots - 1
        start = end - window + 1
        for slot in range(max(t, start - reach), start):
            generated[slot % size] = one(mean, rng)
        total = 0.0
        for slot in range(max(0, start - reach), start):
            lands = tail[start - 1 - slot] - tail[min(end - slot, reach)]
            total += generated[slot % size] * lands
        edge = max(start, end - reach + 1)
        for slot in range(edge, end + 1):
            pulled = one(mean, rng)
            generated[slot % size] = pulled
            total += pulled * (1.0 - tail[end - slot])
        return total + many(edge - start, mean, rng)

    return collect


@cache
def fading(reward: RewardKernels) -> Collect:
    """Memory: one number, what all pulls so far have still to deliver. A pull's tail after x slots is gamma^x.

    Pulls older than `resolution` slots have less than 2^-53 of their reward left and are taken as delivered.
    """
    one, many = reward

    def collect(memory: Memory, world: World, t: int, arm: int, slots: int, window: int, rng: np.random.Generator) -> float:
        gamma, resolution, mean = world.law[0], int(world.law[1]), world.means[arm]
        end = t + slots - 1
        start = end - window + 1
        pending: float = memory[0, 0]
        if start > t:
            pending *= math.pow(gamma, float(max(t, start - resolution) - t))
            for _ in range(max(t, start - resolution), start):
                pending = gamma * pending + one(mean, rng)
        edge = max(start, end - resolution + 1)
        drawn = later = 0.0
        for _ in range(edge, end + 1):
            pulled = one(mean, rng)
            drawn += pulled
            later = gamma * later + pulled
        kept = math.pow(gamma, float(window))  # float: an integer power is computed otherwise when compiled
        memory[0, 0] = pending * kept + later
        return pending * (1.0 - kept) + (drawn - later) + many(edge - start, mean, rng)

    return collect
