"""The two engines: how delayed rewards become totals, slot by slot and round by round.

The *slotwise* engine is literal: it plays every slot, draws every reward and adds it to the slots
where it arrives. It is slow and obvious, and the roundwise engine is tested against it.

The *roundwise* engine has the same law and draws only what a round's total needs. A round plays one
arm in the slots t .. end and observes the window start .. end. For every delay and reward law ::

    total(window) = generated(window) + pending(start - 1) - pending(end)

where pending(x) is what the pulls up to slot x bring after it. Only pulls within one reach of the
window's two edges can be pending at either, so only those are drawn one by one:

- A, the pulls of this round in [start - reach, start - 1];
- B, the pulls of the window in [end - reach + 1, end].

The pulls between bring all their reward within the window, whatever the delay: one draw of a sum.
Pulls before A are never drawn. Rounds that are long against the reach thus cost O(reach), not
O(slots). All recipes but the power law's add positive terms only, so that nothing cancels and a
window in which nothing arrives is exactly 0, as in the slotwise engine.

Arms may have different delays. Each distinct one has a row in ``tables`` (what its kernel reads),
and ``rows`` holds the row of each arm. Rows are as wide as the widest; every kernel finds in its
row how much of it counts.

Many delays cut every reward into the same shares by lag: their tables and kernels are here too.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import groupby
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import (
    ArmKey,
    Collect,
    Matrix,
    Memory,
    RewardSource,
    Slots,
    Source,
    Vector,
    World,
    short_repr,
)
from aftereffect.errors import ParameterError

K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Hashable)

#: ``kernel(memory, tables, row, source, key, t, slots, window, rng)``: what one delay contributes
#: to a window's total; its pulls are those of an arm, or of none. It takes whole matrices and its
#: row in them, as making views costs more than a round.
CollectRow: TypeAlias = Callable[
    [Memory, Matrix, int, Source, ArmKey, int, int, int, np.random.Generator], float
]
#: ``deposit(memory, tables, row, slot, reward, rng)``: add one reward to the slots where it
#: arrives.
Deposit: TypeAlias = Callable[[Memory, Matrix, int, int, float, np.random.Generator], None]
#: ``note(memory, tables, row, slot, rng)``: draw when the parts of a pull arrive, and remember it.
NotePull: TypeAlias = Callable[[Memory, Matrix, int, int, np.random.Generator], None]
#: ``find_next(memory, tables, rows, first, end, here, before)``: the largest lag below `before` of
#: a part that arrives now, in column `here`, from a pull of an arm with a row from `first` on and
#: before `end`; -1 if there is none.
FindNextPart: TypeAlias = Callable[[Memory, Matrix, Slots, int, int, int, int], int]
#: ``take(memory, tables, row, pull, lag)``: the share of the pull in that column which arrives at
#: the lag, and whether it is the last.
TakePart: TypeAlias = Callable[[Memory, Matrix, int, int, int], tuple[float, bool]]
#: ``step(memory, world, slot, arm, begins, rng)``: pull once and return the slot's total; `begins`
#: says whether a round does.
Step: TypeAlias = Callable[[Memory, World, int, int, bool, np.random.Generator], float]

#: The memory of the slotwise engine: what is still to arrive, a ring over future slots; and in the
#: first cell of the next row the reward of the last pull.
SLOTWISE_ROWS = ARRIVALS, LAST = range(2)
#: The last rows of a tracer's memory, with one column per slot.
TRACE_ROWS = ARM, TOTAL, REWARD = range(-3, 0)
#: Where the tails begin in a table of the roundwise kernel. As many shares as the reach and one
#: more follow.
TAILS = 2
#: Where the shares begin in a table of `deposit_shares`.
SHARES = 2


class PartKernels(NamedTuple):
    """How an oracle learns which parts of which pulls arrive; `rows` of the memory serve that."""

    note: NotePull
    find_next: FindNextPart
    take: TakePart
    rows: int


class Recipe(NamedTuple, Generic[K]):
    """How an engine simulates one delay: a kernel, its table, how many numbers it remembers.

    Nothing arrives before the first lag. Oracles learn of parts by the kernels `parts`, which read
    the same table; without any, of what a `Deposit` leaves.
    """

    kernel: K
    table: Vector
    memory: int
    first: int = 0
    parts: PartKernels | None = None


class Size(NamedTuple):
    """How many numbers a recipe takes, known before any table is made."""

    table: int
    memory: int


class RoundwiseEngine(NamedTuple):
    """A round in one call; the world holds `rows` and `tables`."""

    collect: Collect
    rows: Slots
    tables: Matrix
    memory: tuple[int, int]


class SlotwiseEngine(NamedTuple):
    """A slot in one call; the world holds `rows` and `tables`."""

    step: Step
    rows: Slots
    tables: Matrix
    memory: tuple[int, int]


class Group(NamedTuple, Generic[K]):
    """The rows, from `first` on and before `end`, that one kernel serves."""

    kernel: K
    first: int
    end: int


class Layout(NamedTuple, Generic[K]):
    rows: Slots
    tables: Matrix
    groups: tuple[Group[K], ...]
    memory: int


def build_roundwise(
    laws: Sequence[L], recipe_of: Callable[[L], Recipe[CollectRow]], rewards: RewardSource
) -> RoundwiseEngine:
    """The engine for arms with these laws of lags."""
    rows, tables, groups, memory = lay_out(laws, recipe_of)
    return RoundwiseEngine(_collect_groups(groups, rewards), rows, tables, (len(tables), memory))


def build_slotwise(
    laws: Sequence[L], recipe_of: Callable[[L], Recipe[Deposit]], rewards: RewardSource
) -> SlotwiseEngine:
    """The engine for arms with these laws of lags."""
    rows, tables, groups, memory = lay_out(laws, recipe_of)
    step = _pull_and_deposit(rewards, _deposit_by_row(groups))
    return SlotwiseEngine(step, rows, tables, (len(SLOTWISE_ROWS), memory))


def count_bytes(sizes: Sequence[Size], engine: str) -> int:
    """How much memory recipes of these sizes take, one for each row."""
    rows = len(SLOTWISE_ROWS) if engine == "slotwise" else len(sizes)
    tables = len(sizes) * max(size.table for size in sizes)
    return 8 * (tables + rows * max(size.memory for size in sizes))


def lay_out(laws: Sequence[L], recipe_of: Callable[[L], Recipe[K]]) -> Layout[K]:
    """Equal laws share a row, and rows with the same kernel stand together."""
    recipes = {law: recipe_of(law) for law in dict.fromkeys(laws)}
    kernels = list(dict.fromkeys(recipe.kernel for recipe in recipes.values()))
    ordered = sorted(recipes, key=lambda law: kernels.index(recipes[law].kernel))
    row_of = {law: row for row, law in enumerate(ordered)}
    tables = np.zeros((len(ordered), max(len(recipe.table) for recipe in recipes.values())))
    for law, row in row_of.items():
        tables[row, : len(recipes[law].table)] = recipes[law].table
    groups = []
    for kernel, same in groupby(ordered, key=lambda law: recipes[law].kernel):
        rows = [row_of[law] for law in same]
        groups.append(Group(kernel, rows[0], rows[-1] + 1))
    rows_of_arms = np.array([row_of[law] for law in laws], dtype=np.int64)
    memory = max(recipe.memory for recipe in recipes.values())
    return Layout(rows_of_arms, tables, tuple(groups), memory)


@cache
def _collect_groups(groups: tuple[Group[CollectRow], ...], rewards: RewardSource) -> Collect:
    """The total over all rows: one is pulled, the others bring what is pending."""
    (kernel, first, end), *rest = groups
    key_of, no_arm = rewards.key_of, rewards.no_arm

    def collect(
        memory: Memory,
        world: World,
        t: int,
        arm: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        total = 0.0
        for row in range(first, end):
            key = key_of(world, arm) if world.rows[arm] == row else no_arm
            total += kernel(memory, world.tables, row, world.source, key, t, slots, window, rng)
        return total

    if not rest:
        return collect
    others = _collect_groups(tuple(rest), rewards)

    def collect_all(
        memory: Memory,
        world: World,
        t: int,
        arm: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        total = collect(memory, world, t, arm, slots, window, rng)
        return total + others(memory, world, t, arm, slots, window, rng)

    return collect_all


@cache
def _deposit_by_row(groups: tuple[Group[Deposit], ...]) -> Deposit:
    """Deposit by the kernel that a row belongs to."""
    (kernel, _, end), *rest = groups
    if not rest:
        return kernel
    others = _deposit_by_row(tuple(rest))

    def deposit(
        memory: Memory,
        tables: Matrix,
        row: int,
        slot: int,
        reward: float,
        rng: np.random.Generator,
    ) -> None:
        if row < end:
            kernel(memory, tables, row, slot, reward, rng)
        else:
            others(memory, tables, row, slot, reward, rng)

    return deposit


@cache
def _pull_and_deposit(rewards: RewardSource, deposit: Deposit) -> Step:
    """One slot, where delays do not depend on the play."""
    one, key_of = rewards.one, rewards.key_of

    def step(
        memory: Memory,
        world: World,
        slot: int,
        arm: int,
        begins: bool,
        rng: np.random.Generator,
    ) -> float:
        reward = one(world.source, key_of(world, arm), slot, rng)
        deposit(memory, world.tables, world.rows[arm], slot, reward, rng)
        memory[LAST, 0] = reward
        return take_arrivals(memory, slot)

    return step


def take_arrivals(memory: Memory, slot: int) -> float:
    """Take what arrives in a slot out of the ring."""
    here = slot % memory.shape[1]
    total: float = memory[ARRIVALS, here]
    memory[ARRIVALS, here] = 0.0
    return total


@cache
def play_slots(step: Step) -> Collect:
    """Play a round slot by slot."""

    def collect(
        memory: Memory,
        world: World,
        t: int,
        arm: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        total = 0.0
        for slot in range(t, t + slots):
            arrived = step(memory, world, slot, arm, slot == t, rng)
            if slot >= t + slots - window:
                total += arrived
        return total

    return collect


@cache
def record_slots(step: Step) -> Step:
    """The same step, with a record of each slot in the last rows of the memory."""

    def recorded(
        memory: Memory,
        world: World,
        slot: int,
        arm: int,
        begins: bool,
        rng: np.random.Generator,
    ) -> float:
        total = step(memory, world, slot, arm, begins, rng)
        memory[ARM, slot] = arm
        memory[TOTAL, slot] = total
        memory[REWARD, slot] = memory[LAST, 0]
        return total

    return recorded


def normalise(weights: ArrayLike) -> Vector:
    """Divide weights by their sum, and leave out the zeros at the end."""
    given = np.asarray(weights, dtype=float)
    given = given[: np.flatnonzero(given)[-1] + 1]
    return given / math.fsum(given)


def as_lags(lags: ArrayLike) -> Slots:
    """Lags as an array of whole numbers."""
    given = np.asarray(lags)
    whole = given.astype(np.int64)
    if not np.array_equal(given, whole):
        raise ParameterError(f"lags must be whole numbers, got {short_repr(lags)}")
    return whole


def look_up(table: Vector, lags: ArrayLike, before: float) -> Vector:
    """The entries of a table at these lags: `before` below 0, and 0 beyond its end."""
    at = as_lags(lags)
    inside = table[np.clip(at, 0, len(table) - 1)]
    found: Vector = np.where(at < 0, before, np.where(at < len(table), inside, 0.0))
    return found


def share_table(shares: Vector, tails: Vector) -> Vector:
    """The table of the roundwise kernel, from the shares and tails at the lags 0 .. reach.

    It holds the reach, the first lag with a share, the tails at the lags reach - 1 .. 0 and the
    shares at the lags reach .. 0, in the order in which the kernel's ring has the pulls.
    """
    first = np.flatnonzero(shares)[0]
    return np.concatenate([[len(shares) - 1, first], tails[:-1][::-1], shares[::-1]])


def deposit_table(shares: Vector) -> Vector:
    """The table of `deposit_shares`: the last lag with a share, the first, all shares by lag."""
    lags = np.flatnonzero(shares)
    ends = [lags[-1], lags[0]] if len(lags) > 0 else [0, 0]  # none arrives within the horizon
    return np.concatenate([ends, shares])


def deposit_shares(
    memory: Memory, tables: Matrix, row: int, slot: int, reward: float, rng: np.random.Generator
) -> None:
    """Add a fixed share of the reward at each lag from the first to the last."""
    if reward > 0.0:
        first = int(tables[row, 1])
        cell, lags = (slot + first) % memory.shape[1], int(tables[row, 0]) + 1 - first
        share, straight = SHARES + first, min(lags, memory.shape[1] - cell)
        _add_shares(memory, tables, row, cell, share, straight, reward)  # until the ring's end
        _add_shares(memory, tables, row, 0, share + straight, lags - straight, reward)


def _add_shares(
    memory: Memory, tables: Matrix, row: int, cell: int, share: int, count: int, reward: float
) -> None:
    """Add so many shares, from this one on, to as many cells."""
    # Views: indices that plainly count from 0 are added several at a time.
    arrivals, shares = memory[ARRIVALS, cell : cell + count], tables[row, share : share + count]
    for at in range(count):
        arrivals[at] += reward * shares[at]


def _sum_products(
    memory: Memory, tables: Matrix, row: int, pull: int, share: int, count: int
) -> float:
    """The sum of so many pulls times shares, from these columns on."""
    if count <= 0:
        return 0.0
    # Views: indices that plainly count from 0 need no checks. Four sums: an addition waits for the
    # one before it.
    pulls, shares = memory[row, pull : pull + count], tables[row, share : share + count]
    a = b = c = d = 0.0
    for four in range(count // 4):
        at = 4 * four
        a += pulls[at] * shares[at]
        b += pulls[at + 1] * shares[at + 1]
        c += pulls[at + 2] * shares[at + 2]
        d += pulls[at + 3] * shares[at + 3]
    for at in range(count // 4 * 4, count):
        a += pulls[at] * shares[at]
    return (a + b) + (c + d)


@cache
def collect_shares(rewards: RewardSource) -> CollectRow:
    """The roundwise kernel.

    It remembers the reward of each of the last `reach` pulls in a ring, twice in a row, so that
    they are always side by side.
    """
    one, many = rewards.one, rewards.many

    def collect(
        memory: Memory,
        tables: Matrix,
        row: int,
        source: Source,
        key: ArmKey,
        t: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        reach, first = int(tables[row, 0]), int(tables[row, 1])
        size = max(reach, 1)
        end = t + slots - 1
        start = end - window + 1
        if window < slots:  # pulls before the window that may arrive in it
            for slot in range(max(t, start - reach), start):
                pulled = one(source, key, slot, rng)
                memory[row, slot % size] = memory[row, slot % size + size] = pulled

        here = start % size  # dividing takes as long as all else in a round of one slot
        before = min(start, reach)
        oldest = here if before == reach else 0
        if window == 1:
            shares = TAILS + 2 * reach - before
            total = _sum_products(memory, tables, row, oldest, shares, before - max(first, 1) + 1)
        else:
            tails, done = TAILS + reach - before, min(before, max(0, before + window - reach))
            # The pulls that have arrived wholly by the end, then the others.
            total = _sum_products(memory, tables, row, oldest, tails, done)
            for pull in range(done, before):
                arrives = tables[row, tails + pull] - tables[row, tails + pull - window]
                total += memory[row, oldest + pull] * arrives

        edge = max(start, end - reach + 1)
        cell = here if edge == start else edge % size
        for slot in range(edge, end + 1):
            pulled = one(source, key, slot, rng)
            memory[row, cell] = memory[row, cell + size] = pulled
            total += pulled * (1.0 - tables[row, TAILS + reach - (end - slot + 1)])
            cell = cell + 1 if cell + 1 < size else 0
        return total + many(source, key, start, edge - start, rng)

    return collect
