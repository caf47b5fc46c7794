"""The contract of every policy, which simulations check."""

import numpy as np

from aftereffect._core import Params
from aftereffect.bandits import Bandit, StochasticBandit
from aftereffect.delays import Interval
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
    COVARIATES,
    Task,
    check_indices,
    check_signatures,
    check_state,
    copy_checked,
    play_pulls,
    prepare,
    run_batch,
)
from aftereffect.testing._common import check_compiled, check_spec, require
from aftereffect.testing._play import (
    ARMS,
    HISTORY,
    SLOT_BANDIT,
    OnlyRandom,
    Rounds,
    looks_at_slots,
    make_initial,
    make_params,
    play_rounds,
)

_BANDIT = StochasticBandit((0.8, 0.5, 0.2), Interval(2, 5))


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
        check_state(policy, policy.initial(ARMS))
        check_signatures(policy)
        check_state(policy, policy.initial_for(ARMS, slots, COVARIATES))
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


def _bandit_for(policy: Policy) -> Bandit:
    return SLOT_BANDIT if looks_at_slots(policy) else _BANDIT


def _check_arrays(policy: Policy, slots: int) -> None:
    require(
        policy.kernels() == policy.kernels(),
        "kernels() must return the same functions every time: cache the function that makes them",
    )
    first, second = ([*named_arrays(policy.initial_for(ARMS, slots, COVARIATES))] for _ in range(2))
    for (name, array), (_, again) in zip(first, second, strict=True):
        require(array.size > 0, f"{name} in the state must not be empty")
        is_equal = np.array_equal(array, again, equal_nan=True)
        require(is_equal, f"initial must give the same {name} every time")
        require(not np.shares_memory(array, again), f"initial must make a new {name} every time")
    params, params_again = (policy.params(ARMS, slots) for _ in range(2))
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
    state, params = make_initial(policy, slots), make_params(policy, horizon)
    return play_rounds(policy, state, params, 0, slots, OnlyRandom(8), twice)


def _check_continues(policy: Policy, slots: int) -> None:
    if isinstance(policy, AttributedPolicy):
        _check_oracle_continues(policy, slots)
        return
    params = make_params(policy, slots)
    state, rng = make_initial(policy, slots), OnlyRandom(6)
    first = play_rounds(policy, state, params, 0, slots // 3, rng)
    reached = sum(int(slots) for _, slots, *_ in first)
    # A live experiment gives a policy that looks at every slot more room when it needs it.
    copy, copied_rng = move_into(make_initial(policy, 2 * slots), state), rng.copy()
    rest = play_rounds(policy, state, params, reached, slots, rng)
    continued = play_rounds(policy, copy, params, reached, slots, copied_rng)
    require(
        rest == continued,
        "a policy must play on from a copy of its state, also in larger arrays: "
        "remember nothing outside of the state",
    )


def _check_oracle_continues(policy: AttributedPolicy, slots: int) -> None:
    """Some pulls are pending when it stops."""
    params, state, rng = make_params(policy, slots), make_initial(policy, slots), OnlyRandom(6)
    arms: list[int] = []
    play_pulls(policy, state, params, arms, ARMS, slots // 3, rng)
    copy, copied_arms, copied_rng = map_arrays(copy_checked, state), arms.copy(), rng.copy()
    play_pulls(policy, state, params, arms, ARMS, slots, rng)
    play_pulls(policy, copy, params, copied_arms, ARMS, slots, copied_rng)
    require(
        arms == copied_arms,
        "a policy must play on from a copy of its state: remember nothing outside of the state",
    )


def _check_horizon(policy: Policy, slots: int) -> None:
    for horizon in (ARMS, 10, min(57, slots)):
        task = Task(policy, _bandit_for(policy), "roundwise", horizon, (horizon,), 3, range(2))
        pulls = run_batch(task, prepare(task)).runs.pulls.sum(axis=1)
        require(
            (pulls == horizon).all(),
            f"a run of {horizon} slots must have {horizon} pulls, got {pulls[0]:.0f}",
        )


def _check_late(policy: Policy, slots: int, at_once: Rounds) -> None:
    """A total may be missing at first."""
    if looks_at_slots(policy):
        require(
            at_once == _play_from_start(policy, slots, slots, twice=True),
            "a total or a covariate that comes after NaN must count as if it had come at once: "
            "observe may be called again for the same slot",
        )


def _check_arm_changes(policy: Policy, slots: int) -> None:
    """An arm is added, and another one is not active any more."""
    if not (looks_at_slots(policy) and policy.allows_new_arms):
        return
    state, rng, active = make_initial(policy, slots), OnlyRandom(9), [True, False, True, True]
    play_rounds(policy, state, make_params(policy, slots), 0, 1, rng)
    later = policy.with_active(active)
    state = map_arrays(copy_checked, policy.change_arms(state, active))
    fresh = later.initial_for(len(active), HISTORY + slots, COVARIATES)
    found, wanted = (
        [(name, array.shape) for name, array in named_arrays(each)] for each in (state, fresh)
    )
    require(
        found == wanted,
        "change_arms must return a state with the arrays that initial_for makes for as many arms",
    )
    params = check_indices(later.params(len(active), slots))
    rounds = play_rounds(later, state, params, 1, slots // 3, rng)
    require(
        all(arm != 1 and chances[1] == 0 for arm, _, *chances in rounds),
        "an arm that is not active must have the probability 0, and never be played",
    )
