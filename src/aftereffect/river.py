"""Policies of this package as bandit policies of river. Needs the extra ``river``.

>>> from river import bandit
>>> import aftereffect.gym
>>> env = aftereffect.gym.AftereffectEnv(horizon=1_000)
>>> policies = [RiverPolicy("settle-ucb", horizon=1_000, seed=1), bandit.UCB(delta=1, seed=1)]
>>> steps = list(bandit.evaluate(policies, env, n_episodes=1, seed=1))
>>> len(steps), [round(step["reward_stat"], 1) for step in steps[-2:]]
(2000, [804.5, 746.6])
"""

from typing import Any

import numpy as np

from aftereffect._core import SlotKernels, as_spec, check_int, name_extra
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy, anonymous_kernels

with name_extra("river"):
    import river.bandit.base

__all__ = ["RiverPolicy"]

_NO_COVARIATES = np.zeros(0)


class RiverPolicy(river.bandit.base.Policy):
    """A policy of this package, as river calls it: `pull` an arm, `update` it with a reward.

    The reward is the total of the slot. A policy that plays rounds learns from the window of a
    round, once the round is over; until then `pull` returns the same arm. Pulled twice without an
    update in between, it is the same slot.

    Parameters
    ----------
    policy
        A policy, or its spec string. What it must know about the delay has to be given.
    horizon
        The most slots that it will play.
    seed
        The seed of a randomised policy; drawn if not given.

    Examples
    --------
    >>> policy = RiverPolicy("round-robin", horizon=100, seed=1)
    >>> for reward in (1, 2, 3):
    ...     arm = policy.pull(["A", "B"])
    ...     policy.update(arm, reward)
    >>> policy.pull(["A", "B"]), policy.horizon
    ('B', 100)
    """

    def __init__(self, policy: Policy | str, horizon: int, seed: int | None = None) -> None:
        super().__init__()
        self.policy = as_spec(policy, Policy)
        self.horizon = check_int("horizon", horizon, at_least=1)
        self.seed = seed
        self._kernels = anonymous_kernels(self.policy)
        self._rng = np.random.default_rng(seed)
        self._arms: list[Any] = []
        self._slot = 0
        #: The arm of the current round, its slots that are left, and its window; and what of the
        #: window has been seen.
        self._arm, self._left, self._window, self._total = 0, 0, 0, 0.0

    def _pull(self, arm_ids: list[Any]) -> Any:
        arms = list(arm_ids)
        if not self._arms:
            self._arms = arms
            slots = self.horizon
            self._params = self.policy.params(len(arms), slots)
            self._state = self.policy.initial_for(len(arms), slots)
        if arms != self._arms:
            raise ParameterError(f"the arms must stay the same, {self._arms}, got {arms}")
        if self._slot >= self.horizon:
            raise ParameterError(
                f"the horizon of {self.horizon:,} slots is over: give a longer one"
            )
        if self._left == 0:
            self._begin_round()
        return self._arms[self._arm]

    def update(self, arm_id: Any, *reward_args: Any, **reward_kwargs: Any) -> None:
        """Learn the total of the slot, in which the arm of `pull` was pulled."""
        if self._left == 0 or arm_id != self._arms[self._arm]:
            raise ParameterError(f"update must follow pull, with its arm, got {arm_id!r}")
        super().update(arm_id, *reward_args, **reward_kwargs)  # type: ignore[no-untyped-call]  # river's
        total = float(reward_args[0])
        if isinstance(self._kernels, SlotKernels):
            observe = self._kernels.observe
            observe(self._state, self._params, self._slot, self._arm, total, _NO_COVARIATES)
        elif self._left <= self._window:
            self._total += total
        self._left -= 1
        self._slot += 1
        if self._left == 0 and not isinstance(self._kernels, SlotKernels):
            self._kernels.absorb(self._state, self._params, self._arm, self._window, self._total)

    def _begin_round(self) -> None:
        state, params, rng = self._state, self._params, self._rng
        if isinstance(self._kernels, SlotKernels):
            self._arm, self._left = self._kernels.decide(state, params, self._slot, rng)
        else:
            decision = self._kernels.decide(state, params, self._slot, rng)
            self._arm, self._left, self._window = decision
        self._total = 0.0
