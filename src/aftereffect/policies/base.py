"""What every policy offers to a driver: parameters, a state with named fields, and two kernels."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, cast, get_args

import numpy as np

from aftereffect._core import (
    AttributedKernels,
    Calendar,
    Chance,
    Params,
    PolicyKernels,
    SlotKernels,
    Spec,
    State,
    UnitKernels,
    Vector,
    check_choice,
)
from aftereffect.delays import Delay, DelayFacts
from aftereffect.errors import ParameterError

T = TypeVar("T")
#: The kernels of any policy.
Kernels: TypeAlias = PolicyKernels | SlotKernels | AttributedKernels | UnitKernels
#: ``take_state(states, r)``: state number r, as views of arrays that hold several.
TakeState: TypeAlias = Callable[[State, int], State]


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

    @property
    def allows_new_arms(self) -> bool:
        """Whether arms may be added, paused and retired while it plays, by `change_arms`."""
        return False

    def with_active(self, active: Sequence[bool]) -> "Policy":
        """The same policy for arms of which some are not active, and the last may be new."""
        return self

    def change_arms(self, state: State, active: Sequence[bool]) -> State:
        """A state for arms of which some are not active, and the last may be new.

        All that is known of the other arms is kept. From then on, `decide` gives an arm that is not
        active the probability 0, and never plays it. It may become active again.
        """
        raise ParameterError(
            f"{self} cannot go on with other arms: use adaptive-switchback, or a new experiment"
        )

    def chance(self) -> Chance | None:
        """The kernel that says with which probability `decide` has just drawn an arm.

        None if the policy does not draw, or if its state has ``probabilities``.
        """
        return None

    def with_delay_facts(self, facts: DelayFacts) -> "Policy":
        """The same policy with the facts about the delay that it needs and was not given."""
        return self

    @abstractmethod
    def kernels(self) -> Kernels:
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


class AttributedPolicy(Policy):
    """An oracle: a policy that is not anonymous, but learns from which pull each reward comes.

    It shows what knowing that would bring, in simulations. Nothing but a simulation can tell it, so
    live experiments refuse it. It chooses an arm in every slot.

    A pull is *pending* from its slot until its last part has arrived. Where rewards arrive without
    end, a pull counts as complete once at most a hundredth of its reward is still to come, and
    nothing is said of that rest.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(["delayed-ucb1", "ucb1"], bandit, horizon=1_000, seed=1)
    >>> [round(float(runs.final.mean())) for runs in study]
    [25, 96]
    """

    @abstractmethod
    def kernels(self) -> AttributedKernels:
        """The two plain functions; equal policies share them."""

    @abstractmethod
    def initial_within(self, arms: int, pending: int) -> State:
        """A fresh state for bandits in which at most so many pulls are pending at a time."""

    def initial(self, arms: int) -> State:
        return self.initial_within(arms, 1)

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> State:
        return self.initial_within(arms, slots)

    def with_delay(self, delay: Delay, arms: int) -> "AttributedPolicy":
        """The same policy with what it needs of the delay and was not given."""
        return self


def check_anonymous(policy: Policy) -> Policy:
    """Refuse a policy that must learn from which pull each reward comes.

    >>> from aftereffect import Ucb1
    >>> print(check_anonymous(Ucb1()))
    ucb1
    """
    anonymous_kernels(policy)
    return policy


def check_one_unit(policy: Policy) -> Policy:
    """Refuse a policy that plays several units at once.

    >>> from aftereffect import Ucb1
    >>> print(check_one_unit(Ucb1()))
    ucb1
    """
    if isinstance(policy.kernels(), UnitKernels):
        raise ParameterError(
            f"{policy} plays several units at once, but here is one: use another policy, such as "
            "adaptive-switchback"
        )
    return policy


def anonymous_kernels(policy: Policy) -> PolicyKernels | SlotKernels:
    """The kernels of a policy that learns from totals.

    >>> from aftereffect import Ucb1
    >>> anonymous_kernels(Ucb1()) == Ucb1().kernels()
    True
    """
    kernels = check_one_unit(policy).kernels()
    assert not isinstance(kernels, UnitKernels)
    if isinstance(kernels, AttributedKernels):
        raise ParameterError(
            f"{policy} is an oracle, which must learn from which pull each reward comes, but here "
            "it would see totals only: use another policy, such as settle-ucb"
        )
    return kernels


def round_kernels(policy: "Policy") -> PolicyKernels:
    """The kernels of a policy that learns from the totals of rounds.

    >>> from aftereffect import Ucb1
    >>> round_kernels(Ucb1()) == Ucb1().kernels()
    True
    """
    kernels = anonymous_kernels(policy)
    if not isinstance(kernels, PolicyKernels):
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


def stack_states(state: State, count: int) -> State:
    """Repeat each array of a state along a new first axis.

    >>> from aftereffect import ArsUcb
    >>> stack_states(ArsUcb().initial(arms=3), 5).pulls.shape
    (5, 3)
    """
    return map_arrays(lambda array: np.broadcast_to(array, (count, *array.shape)).copy(), state)


def make_take_state(state: State) -> TakeState:
    """Make the function that takes one state out of several that were stacked.

    Compiled code cannot loop over the fields of a named tuple. So this writes a function for the
    fields of this one: ``return Averages(states.pulls[r], states.total[r], ...)``.

    >>> from aftereffect import ArsUcb
    >>> states = stack_states(ArsUcb().initial(arms=3), 5)
    >>> make_take_state(states)(states, 4).pulls.shape
    (3,)
    """
    classes: dict[str, Any] = {}

    def write_view(part: Any, name: str) -> str:
        if isinstance(part, np.ndarray):
            return f"{name}[r]"
        cls = f"Tuple{len(classes)}"
        classes[cls] = type(part)
        fields = zip(type(part)._fields, part, strict=True)
        views = [write_view(inner, f"{name}.{field}") for field, inner in fields]
        return f"{cls}({', '.join(views)})"

    source = f"def take_state(states, r):\n    return {write_view(state, 'states')}\n"
    exec(compile(source, __file__, "exec"), classes)
    classes["take_state"].__module__ = __name__
    return cast(TakeState, classes["take_state"])


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
