"""The contracts of every policy and of every bandit."""

from typing import Any

import numpy as np

from aftereffect._core import Matrix, Params, State
from aftereffect.bandits import ENGINES, Bandit, EngineName, StochasticBandit
from aftereffect.delays import ArmwiseDelay, Interval
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy, map_arrays, named_arrays
from aftereffect.simulation import (
    Task,
    call_absorb,
    call_decide,
    check_indices,
    check_state,
    copy_checked,
    prepare,
    run_batch,
    trace_run,
)
from aftereffect.testing._common import (
    Script,
    check_compiled,
    check_spec,
    require,
    script_totals,
    window_moments,
)

#: By round: arm, slots, window and the total of the window.
Rounds = list[tuple[int, int, int, float]]

_BANDIT = StochasticBandit((0.8, 0.5, 0.2), Interval(2, 5))
_ARMS, _HORIZON = 3, 600
_RUNS = 512
#: A normal deviate exceeds this once in 15,000 times. As the seeds are fixed, a check that passes
#: once always passes.
_MAX_SIGMAS = 4.0


def check_policy(policy: Policy) -> None:
    """Check the contract of a policy.

    It is a value with a spec string. Its state is a fresh named tuple of float64 arrays, and all
    that it remembers: continued from a copy, it plays on as if it had not been stopped. The same
    seed gives the same decisions. Decisions stay within arms and slots, and parameters do not
    change. A policy whose parameters depend on the horizon says so. Kernels use indices from 0 on
    within their arrays and draw with ``rng.random()`` only. Compiled and plain runs are equal to
    the last bit.

    A policy that is not registered is checked as well; a printed line says why to register it.

    Raises
    ------
    AssertionError
        If it breaks the contract; the message says what to change.

    Examples
    --------
    >>> from aftereffect import Ucb1
    >>> check_policy(Ucb1())
    """
    require(
        isinstance(policy, Policy), f"check_policy needs a policy, such as Ucb1(), got {policy!r}"
    )
    check_spec(policy)
    policy = policy.with_delay_facts(_BANDIT.delay_facts)
    try:
        check_state(policy, policy.initial(_ARMS))
        _check_arrays(policy)
        _check_decisions(policy)
        _check_continues(policy)
        _check_horizon(policy)
        _check_need_of_horizon(policy)
    except ParameterError as error:
        raise AssertionError(str(error)) from error
    # Kernels are the same on the other engine.
    check_compiled(policy, _BANDIT, _HORIZON, engines=["roundwise"])


def _check_arrays(policy: Policy) -> None:
    require(
        policy.kernels() == policy.kernels(),
        "kernels() must return the same functions every time: cache the function that makes them",
    )
    first, second = ([*named_arrays(policy.initial(_ARMS))] for _ in range(2))
    for (name, array), (_, again) in zip(first, second, strict=True):
        require(array.size > 0, f"{name} in the state must not be empty")
        require(np.array_equal(array, again), f"initial must give the same {name} every time")
        require(not np.shares_memory(array, again), f"initial must make a new {name} every time")
    params, params_again = (policy.params(_ARMS, _HORIZON) for _ in range(2))
    require(_is_equal(params, params_again), "params must give the same values every time")


def _is_equal(first: Params, second: Params) -> bool:
    if isinstance(first, tuple):
        return all(_is_equal(one, other) for one, other in zip(first, second, strict=True))
    return bool(np.array_equal(first, second))


def _check_decisions(policy: Policy) -> None:
    rounds = _play(policy, _initial(policy), _params(policy), 0, _HORIZON, _OnlyRandom(5))
    again = _play(policy, _initial(policy), _params(policy), 0, _HORIZON, _OnlyRandom(5))
    require(rounds == again, "the same seed must give the same decisions")


def _check_continues(policy: Policy) -> None:
    params = _params(policy)
    state, rng = _initial(policy), _OnlyRandom(6)
    first = _play(policy, state, params, 0, _HORIZON // 3, rng)
    reached = sum(slots for _, slots, _, _ in first)
    copy, copied_rng = map_arrays(np.copy, state), rng.copy()
    rest = _play(policy, state, params, reached, _HORIZON, rng)
    continued = _play(policy, copy, params, reached, _HORIZON, copied_rng)
    require(
        rest == continued,
        "a policy must play on from a copy of its state: remember nothing outside of the state",
    )


def _check_horizon(policy: Policy) -> None:
    for horizon in (_ARMS, 10, 57):
        task = Task(policy, _BANDIT, "roundwise", horizon, (horizon,), 3, range(2))
        pulls = run_batch(task, prepare(task)).runs.pulls.sum(axis=1)
        require(
            (pulls == horizon).all(),
            f"a run of {horizon} slots must have {horizon} pulls, got {pulls[0]:.0f}",
        )


def _check_need_of_horizon(policy: Policy) -> None:
    """A live experiment gives a policy that does not need the horizon parameters for a far one."""
    if not policy.needs_horizon:
        near, far = (
            _play(policy, _initial(policy), _params(policy, horizon), 0, _HORIZON, _OnlyRandom(7))
            for horizon in (_HORIZON, 50 * _HORIZON)
        )
        require(near == far, "decisions depend on the horizon in params: set needs_horizon = True")


def _initial(policy: Policy) -> State:
    """A fresh state whose arrays check indices."""
    return map_arrays(copy_checked, policy.initial(_ARMS))


def _params(policy: Policy, horizon: int = _HORIZON) -> Params:
    """Parameters whose arrays check indices and cannot be written to."""
    return check_indices(policy.params(_ARMS, horizon))


def _play(policy: Policy, state: State, params: Params, t: int, until: int, rng: Any) -> Rounds:
    """Play whole rounds from slot t until at least `until`, with totals drawn at random."""
    world = np.random.default_rng(t)
    rounds: Rounds = []
    while t < until:
        arm, slots, window = call_decide(policy, state, params, _ARMS, t, rng)
        total = float(world.binomial(window, 0.5)) if window else 0.0
        call_absorb(policy, state, params, arm, window, total)
        rounds.append((arm, slots, window, total))
        t += slots
    for name, array in named_arrays(state):
        require(np.isfinite(array).all(), f"{name} in the state must stay finite")
    return rounds


class _OnlyRandom:
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

    def copy(self) -> "_OnlyRandom":
        other = _OnlyRandom(0)
        other._rng.bit_generator.state = self._rng.bit_generator.state
        return other


def check_bandit(bandit: Bandit) -> None:
    """Check the contract of a bandit.

    It is a value with a spec string. The same seed gives the same run on each engine; compiled and
    plain runs are equal to the last bit. A trace is the slotwise run of the same seed and never
    shows more than the rewards of its pulls. The total of an empty window is 0. For stochastic
    bandits the mean totals of several windows agree with the tails of the delays on both engines.

    Raises
    ------
    AssertionError
        If it breaks the contract; the message says what to change.

    Examples
    --------
    >>> from aftereffect import StochasticBandit
    >>> check_bandit(StochasticBandit([0.9, 0.1]))
    """
    require(
        isinstance(bandit, Bandit),
        f"check_bandit needs a bandit, such as StochasticBandit([.9, .1]), got {bandit!r}",
    )
    check_spec(bandit)
    require(bandit.arms >= 2, f"a bandit must have at least two arms, got {bandit.arms}")
    last = bandit.arms - 1
    script = Script(
        ((0, 30, 30), (last, 7, 7), (0, 1, 1), (last, 40, 5), (0, 3, 0), (last, 60, 25), (0, 5, 2))
    )
    check_compiled(script, bandit, script.slots)
    _check_trace(script, bandit)
    for engine in ENGINES:
        found = script_totals(script, bandit, engine, _RUNS, seed=13)
        again = script_totals(script, bandit, engine, 3, seed=13)
        require(
            np.array_equal(found[:3], again),
            f"the same seed must give the same totals on the {engine} engine",
        )
        require(
            (found[:, 4] == 0).all(),
            f"the total of an empty window must be 0 on the {engine} engine",
        )
        if isinstance(bandit, StochasticBandit) and isinstance(bandit.delay, ArmwiseDelay):
            _check_means(script, bandit, engine, found)


def _check_trace(script: Script, bandit: Bandit) -> None:
    trace = trace_run(script, bandit, script.slots, 7, 0)
    ends = np.cumsum([slots for _, slots, _ in script.rounds])
    windows = [
        trace.totals[end - window : end].sum()
        for end, (_, _, window) in zip(ends, script.rounds, strict=True)
    ]
    slotwise = script_totals(script, bandit, "slotwise", 1, seed=7)[0]
    require(
        np.allclose(windows, slotwise, rtol=0, atol=1e-9),
        "a trace must be the slotwise run of the same seed",
    )
    require(
        (trace.rewards >= 0).all() and (trace.rewards <= 1).all(),
        "the reward of a pull must be from 0 to 1",
    )
    delivered = np.cumsum(trace.totals) - np.cumsum(trace.rewards)
    require(delivered.max() <= 1e-9, "totals must not add up to more than the rewards of the pulls")


def _check_means(
    script: Script, bandit: StochasticBandit, engine: EngineName, found: Matrix
) -> None:
    expected, variances = window_moments(script, bandit)
    error = np.abs(found.mean(axis=0) - expected)
    allowed = _MAX_SIGMAS * np.sqrt(variances / len(found)) + 1e-9
    require(
        (error <= allowed).all(),
        f"the mean totals on the {engine} engine must be {expected.round(4)}, "
        f"got {found.mean(axis=0).round(4)}",
    )
