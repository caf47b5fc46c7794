"""A first, short run of a policy as plain Python, with arrays that check indices.

Machine code does not: a kernel that writes beyond its arrays would change other memory, and nobody would know. Totals are made
up, so that a rehearsal costs a few milliseconds whatever the environment.
"""

import traceback
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from aftereffect.checks import shown
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy, State
from aftereffect.provenance import PACKAGE
from aftereffect.simulation.driver import bad_decision

_ROUNDS, _MIN_ROUNDS = 64, 8
#: About as many arms as are looked at in one rehearsal.
_MOST_LOOKS = 64_000
#: Where no kernel of one's own is: what went wrong there, did so because of the line that called it.
_LIBRARIES = (PACKAGE, Path(np.__file__).parent)


class CheckedArray(np.ndarray[Any, Any]):
    """An array that takes whole numbers from 0 on as indices, as far as it reaches, and says which one was wrong."""

    def __getitem__(self, index: Any) -> Any:
        self._check(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check(index)
        if not self.flags.writeable:
            raise IndexError("params are written to; keep what changes in arms or own")
        super().__setitem__(index, value)

    def _check(self, index: Any) -> None:
        indices = index if isinstance(index, tuple) else (index,)
        if any(each is None or each is ... for each in indices):  # which dimension is meant is for numpy to say
            return
        for place, (each, length) in enumerate(zip(indices, self.shape, strict=False)):
            if isinstance(each, (int, np.integer)) and not 0 <= each < length:
                ahead = "; write shape[0] - 1 for the last one" if each < 0 else ""
                which = f"index {each} of dimension {place}" if self.ndim > 1 else f"index {each}"
                raise IndexError(f"{which} is outside of 0 to {length - 1}{ahead}")


def copy_checked(array: Any, *, writable: bool = True) -> CheckedArray:
    """A copy that checks indices."""
    copy = np.array(array).view(CheckedArray)
    copy.setflags(write=writable)
    return copy


def rehearse(policy: Policy, arms: int, horizon: int) -> None:
    """Play some rounds of a policy with made-up totals.

    Raises
    ------
    ParameterError
        If a kernel fails or uses an index outside of its arrays, with its function, file and line; or if a decision cannot be
        played.
    """
    state, params = policy.initial(arms), policy.params(arms, horizon)
    _check_array(policy, "initial(arms).arms", state.arms, 2)
    _check_array(policy, "initial(arms).own", state.own, 1)
    _check_array(policy, "params(arms, horizon)", params, 1)
    if state.arms.shape[1] != arms:
        came = f"{state.arms.shape[1]} for {arms} arms"
        raise ParameterError(f"initial(arms).arms of {policy} must have a column for each arm, got {came}")
    state, params = State(*map(copy_checked, state)), copy_checked(params, writable=False)
    policy_rng, world_rng = (np.random.Generator(np.random.PCG64(seed)) for seed in (1, 2))
    t = 0
    for _ in range(max(_MIN_ROUNDS, min(_ROUNDS, _MOST_LOOKS // arms))):
        arm, slots, window = call_decide(policy, state, params, t, policy_rng)
        t += slots
        if t > horizon:
            return
        call_absorb(policy, state, params, arm, window, window * world_rng.random())


def _check_array(policy: Policy, name: str, array: object, dimensions: int) -> None:
    """Refuse what machine code is not made for."""
    if not (
        isinstance(array, np.ndarray) and array.dtype == np.float64 and array.ndim == dimensions and array.flags.c_contiguous
    ):
        kind = f"{array.dtype} of {array.ndim} dimensions" if isinstance(array, np.ndarray) else shown(array)
        wanted = f"a float64 array of {dimensions} dimension{'s' * (dimensions > 1)}, C-contiguous"
        raise ParameterError(f"{name} of {policy} must be {wanted}, got {kind}")


def call_decide(policy: Policy, state: State, params: Any, t: int, rng: Any) -> tuple[int, int, int]:
    """The arm, slots and window that a policy decides on at slot t, if they can be played."""
    decision = _call(policy, policy.kernels().decide, *state, params, t, rng)
    arms = state.arms.shape[1]
    if not (isinstance(decision, tuple) and len(decision) == 3 and all(isinstance(each, Integral) for each in decision)):
        raise bad_decision(str(policy), arms, t, decision)
    arm, slots, window = map(int, decision)
    if not (0 <= arm < arms and slots >= 1 and 0 <= window <= slots):
        raise bad_decision(str(policy), arms, t, decision)
    return arm, slots, window


def call_absorb(policy: Policy, state: State, params: Any, arm: int, window: int, total: float) -> None:
    """Let a policy learn from a round."""
    _call(policy, policy.kernels().absorb, *state, params, arm, window, total)


def _call(policy: Policy, kernel: Callable[..., Any], *arguments: Any) -> Any:
    try:
        with np.errstate(all="ignore"):  # as in machine code
            return kernel(*arguments)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not any(part in Path(frame.filename).parents for part in _LIBRARIES)]
        last = (own or frames)[-1]
        where = f"{last.name} ({Path(last.filename).name}, line {last.lineno})"
        problem = str(error) if isinstance(error, (IndexError, AssertionError)) else f"{type(error).__name__}: {error}"
        raise ParameterError(f"a kernel of {policy} fails in {where}: {' '.join(problem.split())}") from error
