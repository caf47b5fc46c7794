"""The engine for oracles, which learn from which pull each part of a total comes.

In every slot, the driver asks of which pulls a part arrives now. It asks by lag, from the largest
down, so that older pulls come first. Each delay has kernels that answer.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np

from aftereffect._core import Collect, Matrix, Memory, Parts, RewardSource, Slots, World
from aftereffect.delays._engines import (
    Deposit,
    Group,
    NotePull,
    PartKernels,
    Recipe,
    TakePart,
    lay_out,
)
from aftereffect.delays._parts import deposited_parts

L = TypeVar("L", bound=Hashable)


class AttributedEngine(NamedTuple):
    """A slot of an oracle: `collect` pulls, and returns the whole reward; `parts` arrive.

    The world holds `rows` and `tables`. A further row of the tables holds the first lag of all.
    """

    collect: Collect
    parts: Parts
    rows: Slots
    tables: Matrix
    memory: tuple[int, int]


def build_attributed(
    laws: Sequence[L], recipe_of: Callable[[L], Recipe[Deposit]], rewards: RewardSource
) -> AttributedEngine:
    """The engine for oracles, for arms with these laws of lags, from their slotwise recipes.

    It draws what the slotwise engine draws.
    """
    recipes = {law: recipe_of(law) for law in dict.fromkeys(laws)}
    rows, tables, groups, columns = lay_out(laws, lambda law: _use_parts(recipes[law]))
    first = np.zeros((1, tables.shape[1]))
    first[0, 0] = min(recipe.first for recipe in recipes.values())
    tables = np.concatenate([tables, first])
    parts = Parts(_find_by_group(groups), _take_by_row(groups))
    memory = max(group.kernel.rows for group in groups)
    if any(recipe.parts is None for recipe in recipes.values()):
        memory += columns
    collect = _pull_and_note(rewards, groups)
    return AttributedEngine(collect, parts, rows, tables, (memory, columns))


def _use_parts(recipe: Recipe[Deposit]) -> Recipe[PartKernels]:
    """The same recipe for an oracle."""
    parts = recipe.parts or deposited_parts(recipe.kernel)
    return Recipe(parts, recipe.table, recipe.memory)


@cache
def _pull_and_note(rewards: RewardSource, groups: tuple[Group[PartKernels], ...]) -> Collect:
    one, key_of, note = rewards.one, rewards.key_of, _note_by_row(groups)

    def collect(
        memory: Memory,
        world: World,
        t: int,
        arm: int,
        slots: int,
        window: int,
        rng: np.random.Generator,
    ) -> float:
        reward = one(world.source, key_of(world, arm), t, rng)
        note(memory, world.tables, world.rows[arm], t, rng)
        return reward

    return collect


@cache
def _note_by_row(groups: tuple[Group[PartKernels], ...]) -> NotePull:
    """Note a pull by the kernels that a row belongs to."""
    (kernels, _, end), *rest = groups
    note_here = kernels.note
    if not rest:
        return note_here
    note_others = _note_by_row(tuple(rest))

    def note(memory: Memory, tables: Matrix, row: int, slot: int, rng: np.random.Generator) -> None:
        if row < end:
            note_here(memory, tables, row, slot, rng)
        else:
            note_others(memory, tables, row, slot, rng)

    return note


@cache
def _find_by_group(
    groups: tuple[Group[PartKernels], ...],
) -> Callable[[Memory, World, int, int], int]:
    """The largest lag over all rows."""
    (kernels, first, end), *rest = groups
    find_here = kernels.find_next

    def find_next(memory: Memory, world: World, here: int, before: int) -> int:
        return find_here(memory, world.tables, world.rows, first, end, here, before)

    if not rest:
        return find_next
    find_others = _find_by_group(tuple(rest))

    def find_next_of_all(memory: Memory, world: World, here: int, before: int) -> int:
        others = find_others(memory, world, here, before)
        return max(find_next(memory, world, here, before), others)

    return find_next_of_all


@cache
def _take_by_row(
    groups: tuple[Group[PartKernels], ...],
) -> Callable[[Memory, World, int, int, int], tuple[float, bool]]:
    """Take a part by the kernels that the row of its arm belongs to."""
    take_here = _take_in_row(groups)

    def take(memory: Memory, world: World, arm: int, pull: int, lag: int) -> tuple[float, bool]:
        return take_here(memory, world.tables, world.rows[arm], pull, lag)

    return take


@cache
def _take_in_row(groups: tuple[Group[PartKernels], ...]) -> TakePart:
    (kernels, _, end), *rest = groups
    take_here = kernels.take
    if not rest:
        return take_here
    take_others = _take_in_row(tuple(rest))

    def take(memory: Memory, tables: Matrix, row: int, pull: int, lag: int) -> tuple[float, bool]:
        if row < end:
            return take_here(memory, tables, row, pull, lag)
        return take_others(memory, tables, row, pull, lag)

    return take
