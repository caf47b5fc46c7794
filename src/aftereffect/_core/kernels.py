"""What policies and bandits hand to a driver: plain functions over plain arrays. No compiler here.

A *kernel* is an ordinary typed Python function that uses only arithmetic, ``math``, loops and
``rng``. Live experiments call it as it is; simulations compile it. To keep both equal to the last
bit, a kernel avoids ``np.exp``, ``np.sum`` and the like, and a policy's kernel draws with
``rng.random()`` only. Compiled code does not check indices, so every index must lie within its
array, from 0 on. Policies from outside this package first play a few rounds uncompiled, where
indices are checked.

The loop that all kernels serve (see `aftereffect.simulation`)::

    arm, slots, window = decide(state, params, t, rng)           play `arm` for `slots`
    total = collect(memory, world, t, arm, slots, window, rng)   observe the last `window` of them
    absorb(state, params, arm, window, total)                    learn from their total

A policy that looks at every slot has `SlotKernels` instead. It plays this loop::

    observe(state, params, t, 0, total, covariates)     for the slots of a history, t = -n .. -1
    arm, slots = decide(state, params, t, rng)          play `arm` for `slots`
    observe(state, params, t, arm, total, covariates)   for each of them, when its total is known

Such a policy may also learn from the bandit how its slots lie in days and weeks: a `Calendar`.

An oracle, which learns from which pull each part of a total comes, has `AttributedKernels`::

    arm = decide(state, params, t, rng)                       play `arm` for one slot
    arrive(state, params, t, pulled, arm, amount, reward)     for each part that arrives in it

A policy that plays several units at once, such as stores, has `UnitKernels`. It plays this loop::

    observe(state, params, t, zeros, totals, covariates)   for the slots of a history
    slots = decide(state, params, t, rng)                  play ``state.choices``, one arm per unit
    observe(state, params, t, arms, totals, covariates)    for each slot, when totals are known
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
#: What an engine remembers between rounds.
Memory: TypeAlias = Matrix
Slots: TypeAlias = NDArray[np.int64]

#: The arrays that describe a bandit: a named tuple of the bandit's own.
World: TypeAlias = Any
#: The part of a world that rewards come from.
Source: TypeAlias = Any
#: What a source knows an arm by: its mean where rewards are drawn, its number where they are read.
ArmKey: TypeAlias = Any

#: All that a policy remembers: a named tuple of its own, of float64 arrays or further such tuples.
State: TypeAlias = Any
#: What a policy's kernels read and do not change: a named tuple of its own, of numbers and arrays.
Params: TypeAlias = Any

Decide: TypeAlias = Callable[[State, Params, int, np.random.Generator], tuple[int, int, int]]
Absorb: TypeAlias = Callable[[State, Params, int, int, float], None]
DecideSlots: TypeAlias = Callable[[State, Params, int, np.random.Generator], tuple[int, int]]
#: ``chance(state, params, arm)``: with which probability `decide` has just drawn an arm.
Chance: TypeAlias = Callable[[State, Params, int], float]
Observe: TypeAlias = Callable[[State, Params, int, int, float, Vector], None]
DecideUnits: TypeAlias = Callable[[State, Params, int, np.random.Generator], int]
ObserveUnits: TypeAlias = Callable[[State, Params, int, Slots, Vector, Matrix], None]
DecideArm: TypeAlias = Callable[[State, Params, int, np.random.Generator], int]
Arrive: TypeAlias = Callable[[State, Params, int, int, int, float, float], None]
Collect: TypeAlias = Callable[[Memory, World, int, int, int, int, np.random.Generator], float]
CountRegret: TypeAlias = Callable[[Memory, World, int, int, int], float]
OnePull: TypeAlias = Callable[[Source, ArmKey, int, np.random.Generator], float]
ManyPulls: TypeAlias = Callable[[Source, ArmKey, int, int, np.random.Generator], float]
BytePulls: TypeAlias = Callable[[Source, ArmKey, np.random.Generator], int]


class PolicyKernels(NamedTuple):
    """How a policy plays.

    The state holds all that changes, so that it can be saved, compared and replayed.

    Examples
    --------
    >>> import numpy as np
    >>> import aftereffect as ae
    >>> policy, rng = ae.RoundRobin(), np.random.default_rng(1)
    >>> policy.kernels().decide(policy.initial(arms=3), policy.params(3, 100), 4, rng)
    (0, 1, 0)
    """

    decide: Decide
    absorb: Absorb


class SlotKernels(NamedTuple):
    """How a policy plays that looks at every slot, and at a history before the first one.

    ``decide(state, params, t, rng)`` returns the arm to play from slot t on, and for how many
    slots. It writes the probability with which it chose each arm into ``state.probabilities``.

    ``observe(state, params, t, arm, total, covariates)`` says which arm was played in slot t, its
    total, and its covariates: a vector that kernels only read. The total is NaN where it is missing
    or not yet known, and so is a covariate; `observe` may come again with other ones. Slots of a
    history have numbers below 0, and the first arm.

    Examples
    --------
    >>> import numpy as np
    >>> import aftereffect as ae
    >>> policy = ae.FixedSwitchback(block=12, slots_per_day=24)
    >>> state, rng = policy.initial_for(arms=2, slots=100), np.random.default_rng(1)
    >>> arm, slots = policy.kernels().decide(state, policy.params(2, 100), 0, rng)
    >>> slots, state.probabilities.tolist()
    (12, [0.5, 0.5])
    """

    decide: DecideSlots
    observe: Observe


class UnitKernels(NamedTuple):
    """How a policy plays several units at once, which share the arms and what is learned of them.

    ``decide(state, params, t, rng)`` returns for how many slots to play from slot t on. It writes
    the arm of each unit into ``state.choices``, and the probability with which each unit got each
    arm into ``state.probabilities``, by unit and arm.

    ``observe(state, params, t, arms, totals, covariates)`` says which arm each unit played in slot
    t, and the total of each. A total is NaN where it is missing or not yet known; `observe` may
    come again with other ones. Covariates are by unit and number. Slots of a history have numbers
    below 0, and the first arm. These functions are not compiled: they work on whole arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import aftereffect as ae
    >>> policy, rng = ae.FixedUnitSwitchback(block=12), np.random.default_rng(1)
    >>> state = policy.initial_for_units(arms=2, units=4, slots=100)
    >>> policy.kernels().decide(state, policy.params(2, 100), 0, rng), int(state.choices.sum())
    (12, 2)
    """

    decide: DecideUnits
    observe: ObserveUnits


class AttributedKernels(NamedTuple):
    """How a policy plays that is not anonymous: it learns from which pull each reward comes.

    ``decide(state, params, t, rng)`` returns the arm to play in slot t.

    ``arrive(state, params, t, pulled, arm, amount, reward)`` says that in slot t an amount arrived
    from the pull of slot `pulled`, which was one of `arm`. Amounts of 0 arrive too. ``reward`` is
    the whole reward of the pull if this was its last part, else NaN. Parts that arrive in one slot
    come in the order of their pulls.

    Examples
    --------
    >>> import numpy as np
    >>> import aftereffect as ae
    >>> policy, rng = ae.DelayedUcb1(), np.random.default_rng(1)
    >>> state, params = policy.initial_within(arms=2, pending=5), policy.params(2, 100)
    >>> policy.kernels().arrive(state, params, 3, 0, 1, 0.5, 0.5)
    >>> state.averages.pulls.tolist()
    [0.0, 1.0]
    """

    decide: DecideArm
    arrive: Arrive


class RewardSource(NamedTuple):
    """How kernels get the rewards of pulls.

    ``one(source, key, slot, rng)`` is the reward of one pull and ``many(source, key, first, n,
    rng)`` the sum of n pulls from slot `first` on. ``world.source`` is the source, and
    ``key_of(world, arm)`` the key of an arm; with the key `no_arm`, both return 0. If rewards are 0
    or 1 and are drawn, ``byte(source, key, rng)`` draws eight of them as the bits of a number.
    """

    one: OnePull
    many: ManyPulls
    key_of: Callable[[World, int], ArmKey]
    no_arm: ArmKey
    byte: BytePulls | None = None


class Feed(NamedTuple):
    """How totals reach a policy that looks at every slot.

    ``count_history(world)`` is the number of slots before the first, ``count_late(world)`` the
    number of slots that totals come late. ``look_up(memory, world, t, rng)`` is the total of a slot
    of the history, or of one that was played; after that, ``find_row(memory, world, t)`` is the row
    of the engine's covariates that belongs to the slot.
    """

    count_history: Callable[[World], int]
    count_late: Callable[[World], int]
    look_up: Callable[[Memory, World, int, np.random.Generator], float]
    find_row: Callable[[Memory, World, int], int]


class Parts(NamedTuple):
    """How an oracle learns which parts of which pulls arrive in a slot.

    The last pulls and slots are columns of the memory. ``find_next(memory, world, here, before)``
    is the largest lag below `before` of which a part arrives in the slot of column `here`; -1 if
    there is none. ``take(memory, world, arm, pull, lag)`` is the share of the pull in column `pull`
    that arrives at that lag, and whether it is the last.
    """

    find_next: Callable[[Memory, World, int, int], int]
    take: Callable[[Memory, World, int, int, int], tuple[float, bool]]


class WorldKernels(NamedTuple):
    """How a bandit answers: the total of a round's window, and the regret of the round.

    Totals come at once, and there is no history, unless it has a feed. For oracles it has parts,
    and `collect` returns the whole reward of a pull.
    """

    collect: Collect
    count_regret: CountRegret
    feed: Feed | None = None
    parts: Parts | None = None


class Engine(NamedTuple):
    """A bandit prepared for a horizon: kernels, the arrays they read, the shape of their memory.

    A driver gives `collect` a matrix of zeros of that shape at the start of every replication. It
    gives policies that look at every slot a row of the covariates; a bandit may have none.
    """

    kernels: WorldKernels
    world: World
    memory: tuple[int, int]
    covariates: Matrix = np.zeros((1, 0))


POLICY, WORLD = range(2)


def seed_sequence(seed: int, replication: int, part: int) -> np.random.SeedSequence:
    """The seeds of the stream of the policy or of the world in one replication."""
    return np.random.SeedSequence(seed, spawn_key=(replication, part))


#: The most windows of a day: totals of windows are less noisy than those of slots, and fewer.
_MAX_WINDOWS_PER_DAY = 6


class Calendar(NamedTuple):
    """How slots lie in days and weeks: slots per day, and the place of slot 0 in its week.

    Slots of a week or more have 0 slots per day. A week begins on Monday.

    Examples
    --------
    >>> calendar = Calendar(slots_per_day=24, first=0)
    >>> calendar.slots_per_week, calendar.window
    (168, 4)
    """

    slots_per_day: int = 0
    first: int = 0

    @property
    def slots_per_week(self) -> int:
        """The number of slots in a week; 1 where slots are longer than days."""
        return max(7 * self.slots_per_day, 1)

    @property
    def windows_per_day(self) -> int:
        """The parts of a day for which totals are added up: as many as divide it, at most six."""
        parts = range(_MAX_WINDOWS_PER_DAY, 0, -1)
        return next(count for count in parts if max(self.slots_per_day, 1) % count == 0)

    @property
    def window(self) -> int:
        """The number of slots whose totals are added up."""
        return max(self.slots_per_day, 1) // self.windows_per_day
