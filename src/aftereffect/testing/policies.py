"""What every policy must hold to."""

from typing import Any

import numpy as np

from aftereffect.environments import StochasticBandit
from aftereffect.errors import ParameterError
from aftereffect.kernels import Vector
from aftereffect.policies import Policy, State
from aftereffect.simulation.rehearsal import call_absorb, call_decide, copy_checked
from aftereffect.simulation.replications import Task, machine_code, run
from aftereffect.spreads import Interval
from aftereffect.testing.common import check_compiled, check_spec, require

#: Arms, slots of each round, and the total seen in it.
Decisions = list[tuple[int, int, int, float]]

_ENVIRONMENT = StochasticBandit((0.8, 0.5, 0.2), Interval(2, 6))
_ARMS, _HORIZON = 3, 600


def check_policy(policy: Policy) -> None:
    """Check a policy's contract; raises AssertionError with what to mend.

    It is a value with a spec string. Its state is fresh, made of float64 arrays, and all there is: stopped and continued
    from a copy it plays on as if nothing had happened. The same seed gives the same decisions; they stay within arms and
    slots, parameters stay as they were, and one that depends on the horizon says so. Kernels use indices from 0 on within
    their arrays, draw with ``rng.random()`` only, and compiled and plain runs are equal to the last bit.

    A policy that is not registered is checked all the same; a line says what registering it is good for.
    """
    require(isinstance(policy, Policy), f"check_policy takes a policy, such as Ucb1(), got {policy!r}")
    check_spec(policy)
    policy = policy.told(_ENVIRONMENT.knowledge)
    _check_arrays(policy)
    try:
        _check_decisions(policy)
        _check_continues(policy)
        _check_horizon(policy)
        _check_need_of_horizon(policy)
    except ParameterError as error:
        raise AssertionError(str(error)) from error
    check_compiled(policy, _ENVIRONMENT, _HORIZON, engines=["roundwise"])  # kernels are the same on the other


def _check_arrays(policy: Policy) -> None:
    first, second = policy.initial(_ARMS), policy.initial(_ARMS)
    require(policy.kernels() == policy.kernels(), "kernels must give the same functions every time: cache what makes them")
    require(first.arms.shape[1] == _ARMS, "initial(arms).arms must have one column per arm")
    for array, again in zip((*first, policy.params(_ARMS, _HORIZON)), (*second, policy.params(_ARMS, _HORIZON)), strict=True):
        require(
            isinstance(array, np.ndarray) and array.dtype == np.float64 and array.flags.c_contiguous and array.size > 0,
            "initial and params must give float64 arrays that are C-contiguous and not empty",
        )
        require(np.array_equal(array, again), "initial and params must give the same values every time")
    require(
        not any(np.shares_memory(a, b) for a, b in zip(first, second, strict=True)), "initial must make new arrays every time"
    )


def _check_decisions(policy: Policy) -> None:
    decisions = _played(policy, _initial(policy), _params(policy), 0, _HORIZON, _OnlyRandom(5))
    again = _played(policy, _initial(policy), _params(policy), 0, _HORIZON, _OnlyRandom(5))
    require(decisions == again, "the same seed must give the same decisions")


def _check_continues(policy: Policy) -> None:
    params = _params(policy)
    uninterrupted, rng = _initial(policy), _OnlyRandom(6)
    first = _played(policy, uninterrupted, params, 0, _HORIZON // 3, rng)
    reached = sum(slots for _, slots, _, _ in first)
    copy, copied_rng = State(*(array.copy() for array in uninterrupted)), rng.copy()
    rest = _played(policy, uninterrupted, params, reached, _HORIZON, rng)
    continued = _played(policy, copy, params, reached, _HORIZON, copied_rng)
    require(rest == continued, "a copy of arms and own must be the whole state: nothing may be remembered elsewhere")


def _check_horizon(policy: Policy) -> None:
    for horizon in (_ARMS, 10, 57):
        outcome = run(Task(policy, _ENVIRONMENT, "roundwise", horizon, (horizon,), 3, range(2)), machine_code)
        require((outcome.plays.sum(axis=1) == horizon).all(), f"a run of {horizon} slots must play {horizon} slots")


def _check_need_of_horizon(policy: Policy) -> None:
    """Live, a policy that does not need the horizon is given parameters for one that is far away."""
    if not policy.needs_horizon:
        near, far = (
            _played(policy, _initial(policy), _params(policy, horizon), 0, _HORIZON, _OnlyRandom(7))
            for horizon in (_HORIZON, 50 * _HORIZON)
        )
        require(near == far, "decisions depend on the horizon in params: say so, needs_horizon = True")


def _initial(policy: Policy) -> State:
    """A fresh state whose arrays check indices."""
    return State(*(copy_checked(array) for array in policy.initial(_ARMS)))


def _params(policy: Policy, horizon: int = _HORIZON) -> Vector:
    """Parameters that check indices and cannot be written to."""
    return copy_checked(policy.params(_ARMS, horizon), writable=False)


def _played(policy: Policy, state: State, params: Vector, t: int, until: int, rng: Any) -> Decisions:
    """Play whole rounds from slot t until at least `until`, with made-up totals."""
    world = np.random.default_rng(t)
    decisions: Decisions = []
    while t < until:
        arm, slots, window = call_decide(policy, state, params, t, rng)
        total = float(world.binomial(window, 0.5)) if window else 0.0
        call_absorb(policy, state, params, arm, window, total)
        decisions.append((arm, slots, window, total))
        t += slots
    require(all(np.isfinite(array).all() for array in state), "the state must stay finite")
    return decisions


class _OnlyRandom:
    """A generator that has nothing but ``random()``: other methods may draw other numbers after a numpy upgrade."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def random(self) -> float:
        return self._rng.random()

    def __getattr__(self, name: str) -> object:
        raise AssertionError(
            f"kernels must draw with rng.random() only, not with rng.{name}: a replay must survive a numpy upgrade"
        )

    def copy(self) -> "_OnlyRandom":
        other = _OnlyRandom(0)
        other._rng.bit_generator.state = self._rng.bit_generator.state
        return other
