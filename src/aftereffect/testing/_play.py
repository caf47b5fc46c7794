"""Plays rounds of a policy for its contract: from any state, with totals drawn at random."""

import math
from typing import Any

import numpy as np

from aftereffect._core import Params, SlotKernels, State
from aftereffect.bandits import Defects, SeasonalBandit
from aftereffect.delays import Interval
from aftereffect.policies import AttributedPolicy, Policy, map_arrays, named_arrays
from aftereffect.simulation import (
    COVARIATES,
    PENDING,
    call_absorb,
    call_decide,
    call_decide_slots,
    call_observe,
    check_indices,
    copy_checked,
    make_covariates,
    play_pulls,
)
from aftereffect.testing._common import require

#: By round: arm and slots; then window and its total, or the probability of each arm.
Rounds = list[tuple[float, ...]]
#: What policies play that look at every slot: a history, missing totals, and late ones.
SLOT_BANDIT = SeasonalBandit(
    (0, 0.1, 0.2), Interval(0, 3), "1d", weeks_before=4, feed=Defects(missing=0.05, late=3)
)
ARMS = 3
HISTORY = SLOT_BANDIT.history_slots
#: The share of totals that are missing.
_MISSING = 0.05


def looks_at_slots(policy: Policy) -> bool:
    """Whether a policy looks at every slot."""
    return isinstance(policy.kernels(), SlotKernels)


def make_initial(policy: Policy, slots: int) -> State:
    """A fresh state whose arrays check indices."""
    if looks_at_slots(policy):
        state = policy.initial_for(ARMS, HISTORY + slots, COVARIATES)
        return map_arrays(copy_checked, state)
    if isinstance(policy, AttributedPolicy):
        return map_arrays(copy_checked, policy.initial_within(ARMS, PENDING))
    return map_arrays(copy_checked, policy.initial(ARMS))


def make_params(policy: Policy, horizon: int) -> Params:
    """Parameters whose arrays check indices and cannot be written to."""
    return check_indices(policy.params(ARMS, horizon))


def play_rounds(
    policy: Policy,
    state: State,
    params: Params,
    t: int,
    until: int,
    rng: Any,
    twice: bool = False,
) -> Rounds:
    """Play whole rounds from slot t until at least `until`, with totals drawn at random.

    With `twice`, the totals of a policy that looks at every slot come late.
    """
    if looks_at_slots(policy):
        return _play_slots(policy, state, params, t, until, rng, twice)
    if isinstance(policy, AttributedPolicy):
        arms: list[int] = []
        play_pulls(policy, state, params, arms, ARMS, until, rng)
        return [(arm,) for arm in arms]
    world = np.random.default_rng(t)
    rounds: Rounds = []
    while t < until:
        arm, slots, window = call_decide(policy, state, params, ARMS, t, rng)
        total = float(world.binomial(window, 0.5)) if window else 0.0
        call_absorb(policy, state, params, arm, window, total)
        rounds.append((arm, slots, window, total))
        t += slots
    for name, array in named_arrays(state):
        require(np.isfinite(array).all(), f"{name} in the state must stay finite")
    return rounds


def _play_slots(
    policy: Policy,
    state: State,
    params: Params,
    t: int,
    until: int,
    rng: Any,
    twice: bool,
) -> Rounds:
    """Play rounds slot by slot, from slot 0 on after a history."""
    world, unknown = np.random.default_rng(t), np.full(COVARIATES, np.nan)
    for slot in range(-HISTORY if t == 0 else 0, 0):
        call_observe(policy, state, params, slot, 0, world.random(), make_covariates(slot))
    rounds: Rounds = []
    while t < until:
        arms = state.probabilities.shape[0]
        arm, wanted = call_decide_slots(policy, state, params, arms, t, rng)
        played = min(wanted, until - t)
        rounds.append((arm, played, *state.probabilities.tolist()))
        for slot in range(t, t + played):
            total = math.nan if world.random() < _MISSING else world.random()
            if twice:
                call_observe(policy, state, params, slot, arm, math.nan, unknown)
            call_observe(policy, state, params, slot, arm, total, make_covariates(slot))
        t += played
    return rounds


class OnlyRandom:
    """A generator with ``random()`` only: other methods may change with a new version of numpy."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def random(self) -> float:
        return self._rng.random()

    def __getattr__(self, name: str) -> object:
        raise AssertionError(
            f"kernels must draw with rng.random() only, not with rng.{name}: "
            "its numbers must stay the same with every version of numpy"
        )

    def copy(self) -> "OnlyRandom":
        other = OnlyRandom(0)
        other._rng.bit_generator.state = self._rng.bit_generator.state
        return other
