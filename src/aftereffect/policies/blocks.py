"""How long CLW stays with an arm: the random gaps between its updates, drawn when a block begins.

::

    colt    2d slots, and then until a coin of 1 / (2 (2d - 1)) shows 1
    jmlr    a coin of 1 / (2d + 1) must show 1 after showing 0 in the 2d slots before
    seed    a coin of 1 / (2d) must show 1, and 0 in the 2d - 1 slots after (the appendix of the paper)

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
    """The length of blocks, and in terms of d: the slots looked at, what their total is divided by, and the least d."""

    length: BlockLength
    window: Callable[[int], int]
    divisor: Callable[[int], int]
    least: int


def failures(chance: float, rng: np.random.Generator) -> int:
    """How often a coin fails before it first succeeds."""
    if chance >= 1.0:
        return 0
    return math.floor(math.log1p(-rng.random()) / math.log1p(-chance))


def first_long_gap(chance: float, longer_than: int, rng: np.random.Generator) -> int:
    """Add up the gaps between successes, up to and including the first that is longer than this."""
    slots = 0
    while True:
        gap = 1 + failures(chance, rng)
        slots += gap
        if gap > longer_than:
            return slots


def colt_length(d: int, rng: np.random.Generator) -> int:
    """As in the conference paper."""
    return 2 * d + failures(1.0 / (2.0 * (2.0 * d - 1.0)), rng)


def jmlr_length(d: int, rng: np.random.Generator) -> int:
    """As in the journal paper, which repairs it."""
    return first_long_gap(1.0 / (2.0 * d + 1.0), 2 * d, rng)


def seed_length(d: int, rng: np.random.Generator) -> int:
    """As in the appendix of the paper on ARS."""
    return first_long_gap(1.0 / (2.0 * d), 2 * d - 1, rng)


VARIANTS: Mapping[VariantName, Variant] = {
    "colt": Variant(colt_length, lambda d: d, lambda d: 2 * d, least=1),
    "jmlr": Variant(jmlr_length, lambda d: d + 1, lambda d: 2 * d + 1, least=0),
    "seed": Variant(seed_length, lambda d: d, lambda d: 2 * d, least=1),
}
