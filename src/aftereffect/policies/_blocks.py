"""How long CLW stays with an arm: the random gaps between its updates, drawn when a block begins.

::

    colt    2d slots, and then until a coin of 1 / (2 (2d - 1)) shows 1
    jmlr    until a coin of 1 / (2d + 1) shows 1 after 2d slots in which it showed 0
    seed    until a coin of 1 / (2d) shows 1 and then 0 in 2d - 1 slots (the appendix of the paper)

For the last two, gaps between ones are added up to and including the first that is long enough.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

VariantName = Literal["colt", "jmlr", "seed"]
#: ``length(d, rng)``: the slots of a block.
BlockLength: TypeAlias = Callable[[int, np.random.Generator], int]


class Variant(NamedTuple):
    """The length of blocks; by d the window and what its total is divided by; the smallest d."""

    length: BlockLength
    window: Callable[[int], int]
    divisor: Callable[[int], int]
    min_d: int


def draw_failures(chance: float, rng: np.random.Generator) -> int:
    """How often a coin fails before it first succeeds."""
    if chance >= 1.0:
        return 0
    return math.floor(math.log1p(-rng.random()) / math.log1p(-chance))


def draw_until_long_gap(chance: float, longer_than: int, rng: np.random.Generator) -> int:
    """Add up the gaps between successes, up to and including the first that is longer than this."""
    slots = 0
    while True:
        gap = 1 + draw_failures(chance, rng)
        slots += gap
        if gap > longer_than:
            return slots


def draw_colt_length(d: int, rng: np.random.Generator) -> int:
    """As in the conference paper."""
    return 2 * d + draw_failures(1.0 / (2.0 * (2.0 * d - 1.0)), rng)


def draw_jmlr_length(d: int, rng: np.random.Generator) -> int:
    """As in the journal paper, which repairs it."""
    return draw_until_long_gap(1.0 / (2.0 * d + 1.0), 2 * d, rng)


def draw_seed_length(d: int, rng: np.random.Generator) -> int:
    """As in the appendix of the paper on ARS."""
    return draw_until_long_gap(1.0 / (2.0 * d), 2 * d - 1, rng)


VARIANTS: Mapping[VariantName, Variant] = {
    "colt": Variant(draw_colt_length, lambda d: d, lambda d: 2 * d, min_d=1),
    "jmlr": Variant(draw_jmlr_length, lambda d: d + 1, lambda d: 2 * d + 1, min_d=0),
    "seed": Variant(draw_seed_length, lambda d: d, lambda d: 2 * d, min_d=1),
}
