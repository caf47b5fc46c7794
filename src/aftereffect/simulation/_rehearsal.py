"""A first, short run of a policy as plain Python, with arrays that check indices.

Machine code does not check them: a kernel that writes beyond its arrays would change other memory
without an error. Totals are made up, so that a rehearsal takes a few milliseconds with any bandit.
"""

import inspect
import math
import time
import traceback
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Any, cast

import numpy as np

from aftereffect._core import (
    PACKAGE,
    AttributedKernels,
    Params,
    SlotKernels,
    State,
    Vector,
    short_repr,
)
from aftereffect.errors import ParameterError
from aftereffect.policies import (
    AttributedPolicy,
    Policy,
    has_probabilities,
    map_arrays,
    round_kernels,
)
from aftereffect.simulation._driver import bad_decision

_ROUNDS, _MIN_ROUNDS = 64, 8
#: The slots of the history that policies which look at every slot get in a rehearsal.
_HISTORY = 40
#: The most pulls of an oracle that are pending at a time in rehearsals and checks.
PENDING = 3
#: The number of covariates that they get in rehearsals and checks.
COVARIATES = 2
#: Rounds times arms of one rehearsal.
_MAX_WORK = 64_000
#: The seconds after which a rehearsal decides no more: one decision of a policy around one of this
#: package may take longer in plain Python, and that one was checked before.
_MAX_SECONDS = 2.0
#: Folders without kernels of users: an error there is reported at the line that called it.
_LIBRARIES = (PACKAGE, Path(np.__file__).parent)


class CheckedArray(np.ndarray[Any, Any]):
    """An array that accepts indices from 0 to its length only, and names an invalid one."""

    def __getitem__(self, index: Any) -> Any:
        self._check(index)
        return np.ndarray.__getitem__(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check(index)
        if not self.flags.writeable:
            raise IndexError(
                "a kernel must not change params or covariates: put what changes into the state"
            )
        np.ndarray.__setitem__(self, index, value)

    def _check(self, index: Any) -> None:
        # A check of a policy calls this millions of times: it does as little as possible.
        indices = index if type(index) is tuple else (index,)
        for each, length in zip(indices, self.shape, strict=False):
            if type(each) is int or isinstance(each, np.integer):
                if not 0 <= each < length:
                    raise IndexError(self._describe(indices))
            elif each is None or each is ...:  # only numpy knows the dimensions after it
                return

    def _describe(self, indices: tuple[Any, ...]) -> str:
        """Say which index is invalid: the first that is outside of its dimension."""
        pairs = list(zip(indices, self.shape, strict=False))
        outside = [isinstance(x, (int, np.integer)) and not 0 <= x < most for x, most in pairs]
        dimension = outside.index(True)
        index, length = pairs[dimension]
        ahead = "; write shape[0] - 1 for the last one" if index < 0 else ""
        which = f"index {index} of dimension {dimension}" if self.ndim > 1 else f"index {index}"
        return f"{which} is outside 0 to {length - 1}{ahead}"


def copy_checked(array: Any, *, writable: bool = True) -> CheckedArray:
    """Copy an array into one that checks indices.

    >>> copy_checked([1.0, 2.0])[2]
    Traceback (most recent call last):
    IndexError: index 2 is outside 0 to 1
    """
    copy = np.array(array).view(CheckedArray)
    copy.setflags(write=writable)
    return copy


def rehearse(policy: Policy, arms: int, horizon: int) -> None:
    """Play some rounds of a policy with made-up totals.

    Raises
    ------
    ParameterError
        If a kernel fails or uses an index outside of its arrays, with its function, file and line;
        or if a decision cannot be played.
    """
    check_signatures(policy)
    if isinstance(policy, AttributedPolicy):
        state = policy.initial_within(arms, PENDING)
    else:
        state = policy.initial_for(arms, horizon + _HISTORY, COVARIATES)
    params = policy.params(arms, horizon)
    check_state(policy, state)
    state, params = map_arrays(copy_checked, state), check_indices(params)
    policy_rng, world_rng = (np.random.Generator(np.random.PCG64(seed)) for seed in (1, 2))
    rounds = max(_MIN_ROUNDS, min(_ROUNDS, _MAX_WORK // arms))
    if isinstance(policy.kernels(), SlotKernels):
        _play_slots(policy, state, params, arms, min(rounds, horizon), policy_rng, world_rng)
        return
    if isinstance(policy.kernels(), AttributedKernels):
        play_pulls(policy, state, params, [], arms, min(rounds, horizon), policy_rng)
        return
    t = 0
    for _ in range(rounds):
        arm, slots, window = call_decide(policy, state, params, arms, t, policy_rng)
        t += slots
        if t > horizon:
            return
        call_absorb(policy, state, params, arm, window, window * world_rng.random())
        if t == horizon:
            return


def _play_slots(
    policy: Policy, state: State, params: Params, arms: int, slots: int, rng: Any, world_rng: Any
) -> None:
    """Play a policy that looks at every slot, after a short history, with made-up totals."""
    for t in range(-_HISTORY, 0):
        call_observe(policy, state, params, t, 0, world_rng.random(), make_covariates(t))
    t, end = 0, time.monotonic() + _MAX_SECONDS
    while t < slots and time.monotonic() < end:
        arm, wanted = call_decide_slots(policy, state, params, arms, t, rng)
        for _ in range(min(wanted, slots - t)):
            call_observe(policy, state, params, t, arm, world_rng.random(), make_covariates(t))
            t += 1


def play_pulls(
    policy: Policy, state: State, params: Params, arms: list[int], count: int, slots: int, rng: Any
) -> None:
    """Play an oracle on to slot `slots`; `arms` are those of the slots so far, of `count` arms.

    Rewards and lags are made up, and follow from the slot of a pull: a part arrives in that slot,
    and another up to two slots later.
    """
    for t in range(len(arms), slots):
        arms.append(call_decide_arm(policy, state, params, count, t, rng))
        for pulled in range(max(t - 2, 0), t + 1):
            reward, lag = 7 * pulled % 10 / 10, pulled % 3
            if t == pulled and lag > 0:
                call_arrive(policy, state, params, t, pulled, arms[pulled], reward / 2, math.nan)
            elif t == pulled + lag:
                amount = reward / 2 if lag > 0 else reward
                call_arrive(policy, state, params, t, pulled, arms[pulled], amount, reward)


def make_covariates(t: int) -> CheckedArray:
    """Make up the covariates of a slot, which kernels only read; some are not known.

    >>> make_covariates(3).tolist()
    [0.3, nan]
    """
    return copy_checked([t % 10 / 10, np.nan if t % 3 == 0 else -1.0], writable=False)


def check_signatures(policy: Policy) -> None:
    """Refuse a policy whose functions do not take covariates."""
    kernels = policy.kernels()
    if isinstance(kernels, AttributedKernels) and not isinstance(policy, AttributedPolicy):
        raise ParameterError(f"{policy} has AttributedKernels: derive it from AttributedPolicy")
    wanted = {"initial_for": "arms, slots, covariates=0"}
    if isinstance(kernels, AttributedKernels):
        wanted["arrive"] = "state, params, t, pulled, arm, amount, reward"
    if isinstance(kernels, SlotKernels):
        wanted["observe"] = "state, params, t, arm, total, covariates"
    for name, parameters in wanted.items():
        signature = inspect.signature(getattr(kernels, name, None) or getattr(policy, name))
        try:
            signature.bind(*parameters.split(", "))
        except TypeError:
            change = "" if name == "arrive" else ": add covariates"
            raise ParameterError(
                f"{name} of {policy} must take ({parameters}), got {signature}{change}"
            ) from None


def check_indices(params: Params) -> Params:
    """Copy parameters so that their arrays check indices and cannot be written to."""
    return map_arrays(lambda array: copy_checked(array, writable=False), params)


def check_state(policy: Policy, state: object) -> None:
    """Refuse a state that is not a named tuple of C-contiguous float64 arrays, or such tuples."""
    if not hasattr(state, "_fields"):
        raise ParameterError(
            f"initial(arms) of {policy} must be a named tuple of arrays, got {short_repr(state)}"
        )
    for name, part in zip(state._fields, cast(Any, state), strict=True):
        if isinstance(part, tuple):
            check_state(policy, part)
        elif not (
            isinstance(part, np.ndarray)
            and part.dtype == np.float64
            and part.ndim > 0
            and part.flags.c_contiguous
        ):
            came = f"{part.dtype} numbers" if isinstance(part, np.ndarray) else short_repr(part)
            wanted = "a C-contiguous float64 array of one dimension or more"
            raise ParameterError(f"{name} in the state of {policy} must be {wanted}, got {came}")


def call_decide(
    policy: Policy, state: State, params: Params, arms: int, t: int, rng: Any
) -> tuple[int, int, int]:
    """Call `decide` at slot t and return its arm, slots and window; refuse invalid ones.

    >>> from aftereffect.policies import RoundRobin
    >>> policy = RoundRobin()
    >>> call_decide(policy, policy.initial(2), policy.params(2, 10), 2, 0, None)
    (0, 1, 0)
    """
    decision = _call(policy, policy.kernels().decide, state, params, t, rng)
    if not (
        isinstance(decision, tuple)
        and len(decision) == 3
        and all(isinstance(each, Integral) for each in decision)
    ):
        raise bad_decision(str(policy), policy.kernels(), arms, t, decision)
    arm, slots, window = map(int, decision)
    if not (0 <= arm < arms and slots >= 1 and 0 <= window <= slots):
        raise bad_decision(str(policy), policy.kernels(), arms, t, decision)
    if has_probabilities(state):
        _check_probabilities(policy, state, arms, t)
    return arm, slots, window


def call_absorb(
    policy: Policy, state: State, params: Params, arm: int, window: int, total: float
) -> None:
    """Let a policy learn from a round."""
    _call(policy, round_kernels(policy).absorb, state, params, arm, window, total)


def call_decide_slots(
    policy: Policy, state: State, params: Params, arms: int, t: int, rng: Any
) -> tuple[int, int]:
    """Call `decide` of a policy that looks at every slot; refuse invalid decisions."""
    decision = _call(policy, policy.kernels().decide, state, params, t, rng)
    if not (
        isinstance(decision, tuple)
        and len(decision) == 2
        and all(isinstance(each, Integral) for each in decision)
        and 0 <= decision[0] < arms
        and decision[1] >= 1
    ):
        raise bad_decision(str(policy), policy.kernels(), arms, t, decision)
    _check_probabilities(policy, state, arms, t)
    return int(decision[0]), int(decision[1])


def call_decide_arm(
    policy: Policy, state: State, params: Params, arms: int, t: int, rng: Any
) -> int:
    """Call `decide` of an oracle; refuse invalid decisions."""
    decision = _call(policy, policy.kernels().decide, state, params, t, rng)
    if not (isinstance(decision, Integral) and 0 <= int(decision) < arms):
        raise bad_decision(str(policy), policy.kernels(), arms, t, decision)
    return int(decision)


def call_arrive(
    policy: Policy,
    state: State,
    params: Params,
    t: int,
    pulled: int,
    arm: int,
    amount: float,
    reward: float,
) -> None:
    """Let an oracle learn of a part of a pull's reward."""
    kernels = policy.kernels()
    if isinstance(kernels, AttributedKernels):
        _call(policy, kernels.arrive, state, params, t, pulled, arm, amount, reward)


def _check_probabilities(policy: Policy, state: State, arms: int, t: int) -> None:
    chances = np.asarray(state.probabilities)
    if not (chances.shape == (arms,) and (chances >= 0).all() and abs(chances.sum() - 1) < 1e-9):
        raise ParameterError(
            f"decide of {policy} must write the probability of each arm into state.probabilities; "
            f"they must sum to 1, got {short_repr(chances.tolist())} at slot {t}"
        )


def call_observe(
    policy: Policy,
    state: State,
    params: Params,
    t: int,
    arm: int,
    total: float,
    covariates: Vector,
) -> None:
    """Let a policy that looks at every slot learn from one."""
    kernels = policy.kernels()
    if isinstance(kernels, SlotKernels):
        _call(policy, kernels.observe, state, params, t, arm, total, covariates)


def _call(policy: Policy, kernel: Callable[..., Any], *arguments: Any) -> Any:
    try:
        with np.errstate(all="ignore"):  # as in machine code
            return kernel(*arguments)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [
            frame
            for frame in frames
            if not any(part in Path(frame.filename).parents for part in _LIBRARIES)
        ]
        last = (own or frames)[-1]
        where = f"{last.name} ({Path(last.filename).name}, line {last.lineno})"
        problem = (
            str(error)
            if isinstance(error, (IndexError, AssertionError))
            else f"{type(error).__name__}: {error}"
        )
        raise ParameterError(
            f"a kernel of {policy} fails in {where}: {' '.join(problem.split())}"
        ) from error
