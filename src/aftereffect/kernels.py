"""What policies and environments hand to a driver: plain functions over plain arrays. No compiler here.

A *kernel* is an ordinary typed Python function that uses only arithmetic, ``math``, loops and ``rng``. Live experiments
call it as it is; simulations compile it. To keep both equal to the last bit a kernel avoids ``np.exp``, ``np.sum`` and their
like, and a policy's kernel draws with ``rng.random()`` only. Compiled code does not check indices, so they stay within their
arrays, from 0 on; policies that are not of this package play a few rounds uncompiled first, where that is checked.

The loop that all of them serve (see `aftereffect.simulation.driver`)::

    arm, slots, window = decide(arms, own, params, t, rng)          play `arm` for `slots`, look at the last `window`
    total = collect(memory, world, t, arm, slots, window, rng)      what was seen in those
    absorb(arms, own, params, arm, window, total)                   learn from it
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Slots: TypeAlias = NDArray[np.int64]

#: The arrays that describe an environment, a named tuple of the environment's own making.
World: TypeAlias = Any

Decide: TypeAlias = Callable[[Matrix, Vector, Vector, int, np.random.Generator], tuple[int, int, int]]
Absorb: TypeAlias = Callable[[Matrix, Vector, Vector, int, int, float], None]
Collect: TypeAlias = Callable[[Matrix, World, int, int, int, int, np.random.Generator], float]
Lose: TypeAlias = Callable[[World, int, int, int], float]


class PolicyKernels(NamedTuple):
    """How a policy plays.

    ``arms`` is a matrix with one column per arm and named rows, ``own`` a vector of named scalars; together they are the
    whole state, so that it can be saved, compared and replayed as it is.
    """

    decide: Decide
    absorb: Absorb


class WorldKernels(NamedTuple):
    """How an environment answers: what a round shows, and the regret of playing an arm for some slots from t on."""

    collect: Collect
    lose: Lose


class Engine(NamedTuple):
    """An environment made ready for a horizon: kernels, the arrays they read, and the shape of their working memory.

    A driver gives `collect` a matrix of zeros of that shape at the start of every replication.
    """

    kernels: WorldKernels
    world: World
    memory: tuple[int, int]
