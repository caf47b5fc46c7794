"""The arrays of a stochastic world, and how several spreads live in it side by side.

Each distinct spread has a row in ``laws`` (the table that its kernel reads) and each arm the number of its row. Rows are as
wide as the widest; every kernel finds in its row how much of it counts.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from aftereffect.kernels import Matrix, Slots, Vector

K = TypeVar("K", bound=Callable[..., Any])


class StochasticWorld(NamedTuple):
    """What the kernels of a stochastic bandit read."""

    means: Vector
    gaps: Vector
    reward: Vector
    rows: Slots
    laws: Matrix


class Recipe(NamedTuple, Generic[K]):
    """How one spread is simulated: its kernel, the table that it reads, and how many numbers it remembers."""

    kernel: K
    law: Vector
    memory: int


class Group(NamedTuple, Generic[K]):
    """The rows, from `first` on and before `end`, that one kernel serves."""

    kernel: K
    first: int
    end: int


class Arrangement(NamedTuple, Generic[K]):
    """Recipes by arm, brought into rows: the row of each arm, the tables, the groups, and the numbers that a row remembers."""

    rows: Slots
    laws: Matrix
    groups: tuple[Group[K], ...]
    memory: int


def arranged(by_arm: Sequence[Recipe[K]]) -> Arrangement[K]:
    """Equal recipes share a row, and rows with the same kernel stand together."""
    keys = [(recipe.kernel, recipe.law.tobytes(), recipe.memory) for recipe in by_arm]
    kernels = list(dict.fromkeys(recipe.kernel for recipe in by_arm))
    distinct = sorted(dict.fromkeys(keys), key=lambda key: kernels.index(key[0]))
    laws = np.zeros((len(distinct), max(len(recipe.law) for recipe in by_arm)))
    for key, recipe in zip(keys, by_arm, strict=True):
        laws[distinct.index(key), : len(recipe.law)] = recipe.law
    groups, first = [], 0
    for kernel, rows in groupby(distinct, key=lambda key: key[0]):
        end = first + len(list(rows))
        groups.append(Group(kernel, first, end))
        first = end
    rows_of_arms = np.array([distinct.index(key) for key in keys], dtype=np.int64)
    return Arrangement(rows_of_arms, laws, tuple(groups), max(recipe.memory for recipe in by_arm))
