"""The contracts of every policy and of every bandit, which simulations check."""

import math
from typing import Any

import numpy as np

from aftereffect._core import Matrix, Params, SlotKernels, State, Vector
from aftereffect.bandits import (
    ENGINES,
    Bandit,
    Defects,
    DemandBandit,
    EngineName,
    SeasonalBandit,
    StochasticBandit,
)
from aftereffect.delays import ArmwiseDelay, Interval
from aftereffect.errors import ParameterError
from aftereffect.policies import (
    AttributedPolicy,
    Policy,
    check_one_unit,
    map_arrays,
    move_into,
    named_arrays,
)
from aftereffect.simulation import (
    BATCH,
    COVARIATES,
    PENDING,
    Task,
    call_absorb,
    call_decide,
    call_decide_slots,
    call_observe,
    check_indices,
    check_signatures,
    check_state,
    copy_checked,
    make_covariates,
    play_pulls,
    prepare,
    run_batch,
    trace_run,
)
from aftereffect.testing._common import Script, check_compiled, check_spec, require

_RUNS = 512
#: A normal deviate exceeds this once in 15,000 times. As the seeds are fixed, a check that passes
#: once always passes.
_MAX_SIGMAS = 4.0


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
    >>> bandit = StochasticBandit([0.9, 0.1])
    >>> check_bandit(bandit)  # all is well
    >>> check_bandit([0.9, 0.1])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    AssertionError: check_bandit needs a bandit, such as StochasticBandit([.9, .1]), got [0.9, 0.1]
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
    if isinstance(bandit, DemandBandit):  # pulls before slot 0 bring something, too
        return
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


def script_totals(
    script: Script, bandit: Bandit, engine: EngineName, runs: int, seed: int
) -> Matrix:
    """The total of each round of a script, by run and round.

    >>> from aftereffect import StochasticBandit
    >>> script_totals(Script(((0, 10, 10),)), StochasticBandit([1, 0]), "slotwise", 2, seed=1)
    array([[10.],
           [10.]])
    """
    batches = [range(first, min(first + BATCH, runs)) for first in range(0, runs, BATCH)]
    tasks = [
        Task(script, bandit, engine, script.slots, (script.slots,), seed, batch)
        for batch in batches
    ]
    prepared = prepare(tasks[0])
    return np.concatenate([run_batch(task, prepared).states.totals for task in tasks])


def window_moments(script: Script, bandit: StochasticBandit) -> tuple[Vector, Vector]:
    """Mean and variance of each round's total, from the tail of the delay alone.

    The pull in slot s delivers the expected share w = tail(start - 1 - s) - tail(end - s) of its
    reward X in a window start .. end. With fixed shares it contributes w X; with one random lag it
    contributes X with probability w, else 0.

    >>> from aftereffect import StochasticBandit
    >>> means, variances = window_moments(Script(((0, 10, 4),)), StochasticBandit([0.5, 0.1]))
    >>> float(means[0]), float(variances[0])
    (2.0, 1.0)
    """
    means = np.array(bandit.means)
    arms = np.repeat([arm for arm, _, _ in script.rounds], [slots for _, slots, _ in script.rounds])
    mean, variance = means[arms], bandit.reward_law.variance(means)[arms]
    ends = np.cumsum([slots for _, slots, _ in script.rounds]) - 1
    expected, variances = [], []
    for end, (_, _, window) in zip(ends, script.rounds, strict=True):
        age = end - np.arange(end + 1)
        mu, var = mean[: end + 1], variance[: end + 1]
        total_mean = total_variance = 0.0
        for delay in set(bandit.delays):
            of_delay = np.array([each == delay for each in bandit.delays])[arms[: end + 1]]
            share = np.where(of_delay, delay.tail(age - window) - delay.tail(age), 0.0)
            total_mean += (share * mu).sum()
            total_variance += delay.share_variance(share, mu, var).sum()
        expected.append(total_mean)
        variances.append(total_variance)
    return np.array(expected), np.array(variances)


#: By round: arm and slots; then window and its total, or the probability of each arm.
Rounds = list[tuple[float, ...]]

_BANDIT = StochasticBandit((0.8, 0.5, 0.2), Interval(2, 5))
#: What policies play that look at every slot: a history, missing totals, and late ones.
_SLOT_BANDIT = SeasonalBandit(
    (0, 0.1, 0.2), Interval(0, 3), "1d", weeks_before=4, feed=Defects(missing=0.05, late=3)
)
_ARMS = 3
_HISTORY = _SLOT_BANDIT.history_slots
#: The share of totals that are missing.
_MISSING = 0.05


def check_policy(policy: Policy, slots: int = 600) -> None:
    """Check the contract of a policy, in runs of so many slots.

    It is a value with a spec string. Its state is a fresh named tuple of float64 arrays, and all
    that it remembers: continued from a copy, it plays on as if it had not been stopped. The same
    seed gives the same decisions. Decisions stay within arms and slots, and parameters do not
    change. A policy whose parameters depend on the horizon says so. Kernels use indices from 0 on
    within their arrays and draw with ``rng.random()`` only. Compiled and plain runs are equal to
    the last bit.

    A policy that looks at every slot also writes the probability of each arm. It takes totals and
    covariates that are missing or come late, and what comes late counts like what came at once. If
    it allows new arms, it goes on after one was added, and plays none that is not active.

    An oracle is checked with pulls whose rewards arrive in one part or in two.

    A policy that is not registered is checked as well; a printed line says why to register it.

    Raises
    ------
    AssertionError
        If it breaks the contract; the message says what to change.

    Examples
    --------
    >>> from aftereffect import Ucb1
    >>> check_policy(Ucb1())  # all is well
    >>> check_policy(1)
    Traceback (most recent call last):
        ...
    AssertionError: check_policy needs a policy, such as Ucb1(), got 1
    """
    require(
        isinstance(policy, Policy), f"check_policy needs a policy, such as Ucb1(), got {policy!r}"
    )
    check_spec(policy)
    try:
        check_one_unit(policy)
    except ParameterError as error:
        raise AssertionError(str(error)) from error
    bandit = _bandit_for(policy)
    policy = policy.with_delay_facts(bandit.delay_facts).with_calendar(bandit.calendar)
    if isinstance(policy, AttributedPolicy):
        policy = policy.with_delay(bandit.delay, bandit.arms)
    try:
        check_state(policy, policy.initial(_ARMS))
        check_signatures(policy)
        check_state(policy, policy.initial_for(_ARMS, slots, COVARIATES))
        _check_arrays(policy, slots)
        rounds = _check_decisions(policy, slots)
        _check_continues(policy, slots)
        _check_horizon(policy, slots)
        _check_late(policy, slots, rounds)
        _check_arm_changes(policy, slots)
    except ParameterError as error:
        raise AssertionError(str(error)) from error
    # Kernels are the same on the other engine.
    check_compiled(policy, bandit, slots, engines=["roundwise"])


def _looks_at_slots(policy: Policy) -> bool:
    return isinstance(policy.kernels(), SlotKernels)


def _bandit_for(policy: Policy) -> Bandit:
    return _SLOT_BANDIT if _looks_at_slots(policy) else _BANDIT


def _check_arrays(policy: Policy, slots: int) -> None:
    require(
        policy.kernels() == policy.kernels(),
        "kernels() must return the same functions every time: cache the function that makes them",
    )
    first, second = (
        [*named_arrays(policy.initial_for(_ARMS, slots, COVARIATES))] for _ in range(2)
    )
    for (name, array), (_, again) in zip(first, second, strict=True):
        require(array.size > 0, f"{name} in the state must not be empty")
        is_equal = np.array_equal(array, again, equal_nan=True)
        require(is_equal, f"initial must give the same {name} every time")
        require(not np.shares_memory(array, again), f"initial must make a new {name} every time")
    params, params_again = (policy.params(_ARMS, slots) for _ in range(2))
    require(_is_equal(params, params_again), "params must give the same values every time")


def _is_equal(first: Params, second: Params) -> bool:
    if isinstance(first, tuple):
        return all(_is_equal(one, other) for one, other in zip(first, second, strict=True))
    return bool(np.array_equal(first, second))


def _check_decisions(policy: Policy, slots: int) -> Rounds:
    """Check that decisions follow from the seed, and from the horizon only if it is needed.

    Returns them. A live experiment gives a policy that does not need the horizon parameters for a
    far one; the same decisions with these show both.
    """
    rounds = _play_from_start(policy, slots, slots)
    if not policy.needs_horizon and _play_from_start(policy, slots, 50 * slots) == rounds:
        return rounds
    again = _play_from_start(policy, slots, slots)
    require(rounds == again, "the same seed must give the same decisions")
    require(
        policy.needs_horizon,
        "decisions depend on the horizon in params: set needs_horizon = True",
    )
    return rounds


def _play_from_start(policy: Policy, slots: int, horizon: int, *, twice: bool = False) -> Rounds:
    """Play so many slots, with the parameters for a horizon; with `twice`, totals come late."""
    state, params = _initial(policy, slots), _params(policy, horizon)
    return _play(policy, state, params, 0, slots, _OnlyRandom(8), twice)


def _check_continues(policy: Policy, slots: int) -> None:
    if isinstance(policy, AttributedPolicy):
        _check_oracle_continues(policy, slots)
        return
    params = _params(policy, slots)
    state, rng = _initial(policy, slots), _OnlyRandom(6)
    first = _play(policy, state, params, 0, slots // 3, rng)
    reached = sum(int(slots) for _, slots, *_ in first)
    # A live experiment gives a policy that looks at every slot more room when it needs it.
    copy, copied_rng = move_into(_initial(policy, 2 * slots), state), rng.copy()
    rest = _play(policy, state, params, reached, slots, rng)
    continued = _play(policy, copy, params, reached, slots, copied_rng)
    require(
        rest == continued,
        "a policy must play on from a copy of its state, also in larger arrays: "
        "remember nothing outside of the state",
    )


def _check_oracle_continues(policy: AttributedPolicy, slots: int) -> None:
    """Some pulls are pending when it stops."""
    params, state, rng = _params(policy, slots), _initial(policy, slots), _OnlyRandom(6)
    arms: list[int] = []
    play_pulls(policy, state, params, arms, _ARMS, slots // 3, rng)
    copy, copied_arms, copied_rng = map_arrays(copy_checked, state), arms.copy(), rng.copy()
    play_pulls(policy, state, params, arms, _ARMS, slots, rng)
    play_pulls(policy, copy, params, copied_arms, _ARMS, slots, copied_rng)
    require(
        arms == copied_arms,
        "a policy must play on from a copy of its state: remember nothing outside of the state",
    )


def _check_horizon(policy: Policy, slots: int) -> None:
    for horizon in (_ARMS, 10, min(57, slots)):
        task = Task(policy, _bandit_for(policy), "roundwise", horizon, (horizon,), 3, range(2))
        pulls = run_batch(task, prepare(task)).runs.pulls.sum(axis=1)
        require(
            (pulls == horizon).all(),
            f"a run of {horizon} slots must have {horizon} pulls, got {pulls[0]:.0f}",
        )


def _check_late(policy: Policy, slots: int, at_once: Rounds) -> None:
    """A total may be missing at first."""
    if _looks_at_slots(policy):
        require(
            at_once == _play_from_start(policy, slots, slots, twice=True),
            "a total or a covariate that comes after NaN must count as if it had come at once: "
            "observe may be called again for the same slot",
        )


def _check_arm_changes(policy: Policy, slots: int) -> None:
    """An arm is added, and another one is not active any more."""
    if not (_looks_at_slots(policy) and policy.allows_new_arms):
        return
    state, rng, active = _initial(policy, slots), _OnlyRandom(9), [True, False, True, True]
    _play(policy, state, _params(policy, slots), 0, 1, rng)
    later = policy.with_active(active)
    state = map_arrays(copy_checked, policy.change_arms(state, active))
    fresh = later.initial_for(len(active), _HISTORY + slots, COVARIATES)
    found, wanted = (
        [(name, array.shape) for name, array in named_arrays(each)] for each in (state, fresh)
    )
    require(
        found == wanted,
        "change_arms must return a state with the arrays that initial_for makes for as many arms",
    )
    params = check_indices(later.params(len(active), slots))
    rounds = _play(later, state, params, 1, slots // 3, rng)
    require(
        all(arm != 1 and chances[1] == 0 for arm, _, *chances in rounds),
        "an arm that is not active must have the probability 0, and never be played",
    )


def _initial(policy: Policy, slots: int) -> State:
    """A fresh state whose arrays check indices."""
    if _looks_at_slots(policy):
        state = policy.initial_for(_ARMS, _HISTORY + slots, COVARIATES)
        return map_arrays(copy_checked, state)
    if isinstance(policy, AttributedPolicy):
        return map_arrays(copy_checked, policy.initial_within(_ARMS, PENDING))
    return map_arrays(copy_checked, policy.initial(_ARMS))


def _params(policy: Policy, horizon: int) -> Params:
    """Parameters whose arrays check indices and cannot be written to."""
    return check_indices(policy.params(_ARMS, horizon))


def _play(
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
    if _looks_at_slots(policy):
        return _play_slots(policy, state, params, t, until, rng, twice)
    if isinstance(policy, AttributedPolicy):
        arms: list[int] = []
        play_pulls(policy, state, params, arms, _ARMS, until, rng)
        return [(arm,) for arm in arms]
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
    for slot in range(-_HISTORY if t == 0 else 0, 0):
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
