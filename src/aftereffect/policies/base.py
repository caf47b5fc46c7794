"""What every policy offers to a driver: parameters, a state with named fields, and two kernels."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args

import numpy as np

from aftereffect._core import (
    Calendar,
    Chance,
    Params,
    PolicyKernels,
    SlotKernels,
    Spec,
    State,
    Vector,
    check_choice,
)
from aftereffect.delays import DelayFacts
from aftereffect.errors import ParameterError

T = TypeVar("T")


class Policy(Spec, ABC):
    """A rule for playing rounds: parameters here, behaviour in two kernels.

    ``decide(state, params, t, rng)`` returns the arm to play, for how many slots, and the window:
    how many of the last of these slots to look at. t is the number of slots played so far.
    ``absorb(state, params, arm, window, total)`` learns that the window showed that total.

    In a simulation, arm and window are the ones that the policy asked for, unless `Floors` played
    another arm. In a live experiment the window may be smaller, where totals are missing, or
    larger, where a round waited for its totals. The arm may be another one that was played instead,
    and a total may be below 0. So a policy learns from the average over the window that it is
    given, and plans by the window that it asked for. A round that the horizon cuts short is not
    absorbed.

    The state is a named tuple of float64 arrays, which may hold further named tuples: an array with
    one number per arm, or with a single number, is read as ``state.pulls[arm]`` or
    ``state.epoch[0]``. It is all that a policy remembers. Parameters are a named tuple of numbers
    and arrays, which kernels only read.

    The constructor checks its arguments. Whatever it accepts must work for any number of arms and
    slots.

    Examples
    --------
    Every policy is one, and is a value: equal parameters make equal policies.

    >>> import aftereffect as ae
    >>> ae.parse("ars-ucb(alpha=2)", ae.Policy) == ae.ArsUcb(alpha=2)
    True
    >>> ae.ArsUcb(alpha=2).initial(arms=3).pulls
    array([0., 0., 0.])
    """

    kind = "policy"

    @property
    def needs_horizon(self) -> bool:
        """Whether `params` depends on the horizon; if not, those of a longer run must also do."""
        return False

    @property
    def learns_from_any_arm(self) -> bool:
        """Whether `absorb` learns what is right from a round whose arm `Floors` drew instead.

        If not, such rounds are not absorbed. This is so for policies that divide by the probability
        with which they draw an arm, and for those that plan a round by the arm of the last one.
        """
        return True

    def chance(self) -> Chance | None:
        """The kernel that says with which probability `decide` has just drawn an arm.

        None if the policy does not draw, or if its state has ``probabilities``.
        """
        return None

    def with_delay_facts(self, facts: DelayFacts) -> "Policy":
        """The same policy with the facts about the delay that it needs and was not given."""
        return self

    @abstractmethod
    def kernels(self) -> PolicyKernels | SlotKernels:
        """The two plain functions; equal policies share them, so that they are compiled once."""

    @abstractmethod
    def initial(self, arms: int) -> State:
        """A fresh state before the first slot."""

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> State:
        """A fresh state for at most so many slots, those of a history among them, with covariates.

        If there come more slots, the arrays of a larger state take over what these hold, each from
        its beginning on.
        """
        return self.initial(arms)

    def with_calendar(self, calendar: Calendar) -> "Policy":
        """The same policy with the calendar of its slots, if it looks at one and was given none."""
        return self

    def params(self, arms: int, horizon: int) -> Params:
        """What the kernels read, enough for a run of that many slots; nothing by default."""
        return ()

    def _check_choices(self, **choices: object) -> None:
        """Check parameters that are one of some words, each against its ``Literal`` type."""
        for name, literal in choices.items():
            check_choice(name, getattr(self, name), get_args(literal))


def round_kernels(policy: "Policy") -> PolicyKernels:
    """The kernels of a policy that learns from the totals of rounds.

    >>> from aftereffect import Ucb1
    >>> round_kernels(Ucb1()) == Ucb1().kernels()
    True
    """
    kernels = policy.kernels()
    if isinstance(kernels, SlotKernels):
        raise ParameterError(
            f"{policy} looks at every slot, but here a policy must learn from rounds: "
            "use another one, such as ars-ucb"
        )
    return kernels


def map_arrays(function: Callable[[Vector], Any], value: T) -> T:
    """The same named tuple, with a function applied to each of its arrays.

    >>> from aftereffect import ArsUcb
    >>> copy = map_arrays(np.copy, ArsUcb().initial(arms=3))
    >>> copy.pulls.shape
    (3,)
    """
    if isinstance(value, np.ndarray):
        changed: T = function(value)
        return changed
    if isinstance(value, tuple):
        parts = [map_arrays(function, part) for part in value]
        # A named tuple takes its fields one by one, a plain tuple all at once.
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def move_into(larger: State, state: State) -> State:
    """Copy each array of a state to the beginning of that of a larger state, and return that.

    >>> from aftereffect import FixedSwitchback
    >>> small, large = (FixedSwitchback().initial_for(2, slots) for slots in (10, 20))
    >>> move_into(large, small).totals.shape
    (20,)
    """
    arrays = dict(named_arrays(larger))
    for name, array in named_arrays(state):
        arrays[name][tuple(slice(length) for length in array.shape)] = array
    return larger


def named_arrays(value: Any, prefix: str = "") -> Iterator[tuple[str, Vector]]:
    """The arrays of a named tuple with their names; those of inner tuples as ``outer.inner``.

    >>> from aftereffect import ArsUcb
    >>> [name for name, _ in named_arrays(ArsUcb().initial(arms=3))]
    ['pulls', 'total', 'rounds', 'average', 'breadth']
    """
    for name, part in zip(getattr(value, "_fields", ()), value, strict=False):
        if isinstance(part, np.ndarray):
            yield prefix + name, part
        elif isinstance(part, tuple):
            yield from named_arrays(part, f"{prefix}{name}.")
