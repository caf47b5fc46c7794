"""Floors: any policy, but every arm keeps its least share of the rounds, drawn at random.

::

    groups of G rounds, G >= 1 / the smallest share; arm a has c_a floor rounds in each group
    with r rounds left in the group, and l_a floor rounds of arm a left:
        the base policy decides arm b for some slots, with its own probabilities q
        the round is a floor round of arm a with probability l_a / r, and else plays b
        p(a) = l_a / r + (1 - sum(l) / r) q(a)                  what is recorded

So the floor rounds of a group lie in it in a random order, all orders being equally likely, and
no group lacks one. c_a / G is the share or at most a tenth more, and G the smallest number for
which that holds for every arm: 10 for shares of 0.1, 20 for 0.1 and 0.05, 26 for 0.07.

The base decides in every round, and so its plan goes on: a floor round lasts as long as the round
that the base wanted. A share of the rounds is thus the same share of the slots, on average.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aftereffect._core import (
    Calendar,
    Chance,
    Params,
    PolicyKernels,
    SlotKernels,
    State,
    Vector,
    as_spec,
    check_float,
    check_sequence,
    register,
)
from aftereffect.delays import DelayFacts
from aftereffect.errors import ParameterError
from aftereffect.policies.base import Policy, anonymous_kernels, check_anonymous

#: The smallest share: a group of rounds should end within an experiment.
MIN_FLOOR = 0.001
#: The largest sum of shares: what is left is the policy's own.
MAX_FLOORS = 0.9
#: How much more than its share an arm may get, because a group has whole rounds.
_EXCESS = 1.1
#: Shares such as 0.1 are not exact in binary.
_TINY = 1e-9

#: ``write_law(state, params, arm, probabilities)``: with which the base has just decided that arm.
WriteLaw: TypeAlias = Callable[[State, Params, int, Vector], None]


class FloorsState(NamedTuple):
    """The probabilities of the round, the rest of the group, and the state of the base.

    ``left`` are the floor rounds of each arm, and ``rounds`` all rounds, that are left in the
    group. ``is_floor`` says that this round is a floor round (1 or 0).
    """

    probabilities: Vector
    left: Vector
    rounds: Vector
    is_floor: Vector
    base: Any


class FloorsParams(NamedTuple):
    """The rounds of a group, the floor rounds of each arm in it, and what the base needs.

    ``teaches`` says whether the base learns from floor rounds.
    """

    rounds: int
    counts: Vector
    teaches: bool
    base: Any


@register
@dataclass(frozen=True)
class Floors(Policy):
    """Runs another policy, but every arm keeps at least its share of the rounds.

    Every group of rounds has its floor rounds. They are drawn at random, whatever the policy
    decides, and the state has the probability of each arm. A policy that draws its arms, and whose
    law is known (`Policy.chance`), has it in there. For others, these are the probabilities
    given the arm that the policy decided.

    The policy learns from floor rounds too, unless that would mislead it
    (`Policy.learns_from_any_arm`).

    Parameters
    ----------
    base
        The policy, or its spec string.
    shares
        The least share of rounds of each arm: 0 for none, else at least 0.001; at most 0.9 in all.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5], ae.Interval(10, 19))
    >>> study = ae.simulate(Floors("ars-ucb", [0, 0.1]), bandit, horizon=1_000, seed=1)
    >>> round(float(study[0].final.mean()), 1)
    112.0
    """

    base: Policy
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        base, shares = check_anonymous(as_spec(self.base, Policy)), check_floors(self.shares)
        if len(shares) < 2:
            raise ParameterError(f"shares must be at least two, one per arm, got {len(shares)}")
        if isinstance(base, Floors):
            raise ParameterError(f"the policy has floors already, {base}: give all shares there")
        self._set(base=base, shares=shares)

    @property
    def needs_horizon(self) -> bool:
        return self.base.needs_horizon

    @property
    def learns_from_any_arm(self) -> bool:
        return self.base.learns_from_any_arm

    def with_delay_facts(self, facts: DelayFacts) -> "Floors":
        return replace(self, base=self.base.with_delay_facts(facts))

    def with_calendar(self, calendar: Calendar) -> "Floors":
        return replace(self, base=self.base.with_calendar(calendar))

    @property
    def allows_new_arms(self) -> bool:
        return self.base.allows_new_arms

    def with_active(self, active: Sequence[bool]) -> "Floors":
        known = (*self.shares, *(0.0 for _ in range(len(active) - len(self.shares))))
        shares = tuple(share * is_active for share, is_active in zip(known, active, strict=True))
        return replace(self, base=self.base.with_active(active), shares=shares)

    def change_arms(self, state: FloorsState, active: Sequence[bool]) -> FloorsState:
        """As that of the base, and a new group begins: an arm that is not active has no floor."""
        arms, base = len(active), self.base.change_arms(state.base, active)
        return FloorsState(np.zeros(arms), np.zeros(arms), np.zeros(1), state.is_floor, base)

    def kernels(self) -> PolicyKernels | SlotKernels:
        base, chance = anonymous_kernels(self.base), self.base.chance()
        if isinstance(base, SlotKernels):
            return slot_floors(base)
        if has_probabilities(self.base.initial(len(self.shares))):
            return round_floors(base, copy_law)
        return round_floors(base, certain_law if chance is None else make_law(chance))

    def initial(self, arms: int) -> FloorsState:
        return self._surround(self.base.initial(self._check_arms(arms)))

    def initial_for(self, arms: int, slots: int, covariates: int = 0) -> FloorsState:
        return self._surround(self.base.initial_for(self._check_arms(arms), slots, covariates))

    def _surround(self, base: State) -> FloorsState:
        arms = len(self.shares)
        return FloorsState(np.zeros(arms), np.zeros(arms), np.zeros(1), np.zeros(1), base)

    def params(self, arms: int, horizon: int) -> FloorsParams:
        base = self.base.params(self._check_arms(arms), horizon)
        rounds, counts = plan_group(self.shares)
        return FloorsParams(rounds, np.array(counts), self.learns_from_any_arm, base)

    def _check_arms(self, arms: int) -> int:
        if len(self.shares) != arms:
            raise ParameterError(
                f"floors has the shares of {len(self.shares)} arms, but there are {arms:,}: "
                "give one for each, 0 for none"
            )
        return arms


def check_floors(shares: object) -> tuple[float, ...]:
    """Check the least share of each arm.

    >>> check_floors([0.1, 0])
    (0.1, 0.0)
    """
    given = check_sequence("shares", shares)
    checked = tuple(
        check_float(f"the share of arm {arm}", share, at_least=0, at_most=MAX_FLOORS)
        for arm, share in enumerate(given)
    )
    smallest = min((share for share in checked if share > 0), default=1.0)
    if smallest < MIN_FLOOR:
        raise ParameterError(
            f"a share must be 0, for none, or at least {MIN_FLOOR}, got {smallest:g}"
        )
    if math.fsum(checked) > MAX_FLOORS + _TINY:
        raise ParameterError(
            f"shares must sum to at most {MAX_FLOORS}, got {math.fsum(checked):g}: "
            "the policy decides the rest"
        )
    return checked


@lru_cache(maxsize=256)
def plan_group(shares: tuple[float, ...]) -> tuple[int, tuple[float, ...]]:
    """The rounds of a group, and the floor rounds of each arm in it.

    >>> plan_group((0.1, 0.0, 0.05))
    (20, (2.0, 0.0, 1.0))
    """
    wanted = np.array(shares)
    smallest = min((share for share in shares if share > 0), default=1.0)
    rounds = math.ceil(1 / smallest - _TINY)
    while True:  # at the latest, ten times as many rounds do
        counts = np.ceil(np.maximum(wanted * rounds - _TINY, 0.0))
        if (counts <= _EXCESS * wanted * rounds + _TINY).all():
            return rounds, tuple(counts.tolist())
        rounds += 1


def has_probabilities(state: State) -> bool:
    """Whether a policy with that state says the probabilities of its decisions.

    >>> from aftereffect import ArsUcb, FixedSwitchback
    >>> has_probabilities(ArsUcb().initial(2)), has_probabilities(FixedSwitchback().initial(2))
    (False, True)
    """
    return "probabilities" in getattr(state, "_fields", ())


def copy_law(state: State, params: Params, arm: int, probabilities: Vector) -> None:
    """What the base says."""
    for each in range(probabilities.shape[0]):
        probabilities[each] = state.probabilities[each]


def certain_law(state: State, params: Params, arm: int, probabilities: Vector) -> None:
    """The base could have decided nothing else."""
    for each in range(probabilities.shape[0]):
        probabilities[each] = 1.0 if each == arm else 0.0


@cache
def make_law(chance: Chance) -> WriteLaw:
    """What a kernel of the base says of each arm."""

    def write_law(state: State, params: Params, arm: int, probabilities: Vector) -> None:
        for each in range(probabilities.shape[0]):
            probabilities[each] = chance(state, params, each)

    return write_law


def draw_floor(state: FloorsState, params: FloorsParams, arm: int, rng: np.random.Generator) -> int:
    """Draw whether the round is a floor round; return its arm, or the one that the base decided.

    It finds the probabilities of the base in the state, and leaves there those of the round.
    """
    if state.rounds[0] == 0.0:
        state.rounds[0] = params.rounds
        for each in range(state.left.shape[0]):
            state.left[each] = params.counts[each]
    floors, rounds = 0.0, state.rounds[0]
    for each in range(state.left.shape[0]):
        floors += state.left[each]
    state.rounds[0] -= 1.0
    state.is_floor[0] = 0.0
    if floors == 0.0:
        return arm
    for each in range(state.left.shape[0]):
        own = (rounds - floors) * state.probabilities[each]
        state.probabilities[each] = (state.left[each] + own) / rounds
    # A whole number of rounds is left, so rounding cannot pass over the last floor round.
    mark = rng.random() * rounds
    for each in range(state.left.shape[0]):
        mark -= state.left[each]
        if mark < 0.0:
            state.left[each] -= 1.0
            state.is_floor[0] = 1.0
            return each
    return arm


@cache
def round_floors(base: PolicyKernels, write_law: WriteLaw) -> PolicyKernels:
    """The kernels of a base that learns from rounds."""
    base_decide, base_absorb = base

    def decide(
        state: FloorsState, params: FloorsParams, t: int, rng: np.random.Generator
    ) -> tuple[int, int, int]:
        arm, slots, window = base_decide(state.base, params.base, t, rng)
        write_law(state.base, params.base, arm, state.probabilities)
        return draw_floor(state, params, arm, rng), slots, window

    def absorb(
        state: FloorsState, params: FloorsParams, arm: int, window: int, total: float
    ) -> None:
        if params.teaches or state.is_floor[0] == 0.0:
            base_absorb(state.base, params.base, arm, window, total)

    return PolicyKernels(decide, absorb)


@cache
def slot_floors(base: SlotKernels) -> SlotKernels:
    """The kernels of a base that looks at every slot."""
    base_decide, base_observe = base

    def decide(
        state: FloorsState, params: FloorsParams, t: int, rng: np.random.Generator
    ) -> tuple[int, int]:
        arm, slots = base_decide(state.base, params.base, t, rng)
        copy_law(state.base, params.base, arm, state.probabilities)
        return draw_floor(state, params, arm, rng), slots

    def observe(
        state: FloorsState,
        params: FloorsParams,
        t: int,
        arm: int,
        total: float,
        covariates: Vector,
    ) -> None:
        base_observe(state.base, params.base, t, arm, total, covariates)

    return SlotKernels(decide, observe)
