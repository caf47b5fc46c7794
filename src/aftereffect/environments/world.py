"""The arrays of a stochastic world, and how several spreads live in it side by side.

Each distinct spread has a row in ``laws`` (the table that its kernel reads) and each arm the number of its row. Rows are as
wide as the widest; every kernel finds in its row how much of it counts.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from aftereffect.kernels import Matrix, Slots, Vector
from aftereffect.spreads import Spread

K = TypeVar("K", bound=Callable[..., Any])


class StochasticWorld(NamedTuple):
    """What the kernels of a stochastic bandit read."""

    means: Vector
    gaps: Vector
    source: Vector
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


def arranged(by_arm: Sequence[Spread], recipe_of: Callable[[Spread], Recipe[K]]) -> Arrangement[K]:
    """Equal spreads share a row, and rows with the same kernel stand together."""
    recipes = {spread: recipe_of(spread) for spread in dict.fromkeys(by_arm)}
    kernels = list(dict.fromkeys(recipe.kernel for recipe in recipes.values()))
    ordered = sorted(recipes, key=lambda spread: kernels.index(recipes[spread].kernel))
    row_of = {spread: row for row, spread in enumerate(ordered)}
    laws = np.zeros((len(ordered), max(len(recipe.law) for recipe in recipes.values())))
    for spread, row in row_of.items():
        laws[row, : len(recipes[spread].law)] = recipes[spread].law
    groups = []
    for kernel, spreads in groupby(ordered, key=lambda spread: recipes[spread].kernel):
        rows = [row_of[spread] for spread in spreads]
        groups.append(Group(kernel, rows[0], rows[-1] + 1))
    rows_of_arms = np.array([row_of[spread] for spread in by_arm], dtype=np.int64)
    return Arrangement(rows_of_arms, laws, tuple(groups), max(recipe.memory for recipe in recipes.values()))
