"""Bandits as Gymnasium environments, for anything that learns there. Needs the extra ``gym``.

>>> import gymnasium
>>> import aftereffect.gym
>>> env = gymnasium.make("aftereffect/Bandit-v0", bandit="stochastic-bandit([0.9, 0.5])", horizon=3)
>>> observation, info = env.reset(seed=1)
>>> [env.step(0)[1] for _ in range(3)]
[1.0, 0.0, 1.0]

A step is a slot: the action is the arm to pull, the reward is the total of the slot. What the pull
itself will bring, and how much is on its way, is in ``info``: an algorithm must not look at it.
The slotwise engine plays, uncompiled: some 100,000 steps per second. `aftereffect.simulate` is much
faster, for policies of this package.
"""

from typing import Any, SupportsInt

import numpy as np

from aftereffect._core import Matrix, Vector, as_spec, check_int, name_extra
from aftereffect.bandits import AdversarialBandit, Bandit, StochasticBandit
from aftereffect.delays import REWARD
from aftereffect.errors import ParameterError

with name_extra("gym"):
    import gymnasium
    from gymnasium.spaces import Box, Discrete

__all__ = ["AftereffectEnv", "AftereffectVectorEnv"]

_ID = "aftereffect/Bandit-v0"
_DEFAULT = "stochastic-bandit([0.9, 0.8, 0.5], delay=interval(30, 39))"


class AftereffectEnv(gymnasium.Env[Vector, np.int64]):
    """A bandit whose rewards arrive late, spread over time, and anonymously.

    The observation is the total of the last slot; before the first it is 0. Episodes are truncated
    at the horizon, and never terminate before. ``info`` has the number of the next ``slot``, the
    ``generated`` reward of the pull, whenever it arrives; ``in_flight``, which is the reward that
    has been generated and has not arrived; and the ``regret`` so far.

    Parameters
    ----------
    bandit
        A stochastic or an adversarial bandit, or its spec string.
    horizon
        The slots of an episode.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([1.0, 0.0], ae.Interval(1, 2))
    >>> env = AftereffectEnv(bandit, horizon=10)
    >>> observation, info = env.reset(seed=1)
    >>> observation, total, terminated, truncated, info = env.step(0)
    >>> total, info["generated"], info["in_flight"]
    (0.0, 1.0, 1.0)
    >>> env.step(1)[1]
    0.5
    """

    def __init__(
        self, bandit: Bandit | str = _DEFAULT, horizon: int = 1_000, render_mode: None = None
    ) -> None:
        given = as_spec(bandit, Bandit)
        if not isinstance(given, (StochasticBandit, AdversarialBandit)):
            raise ParameterError(
                f"an environment needs a stochastic or an adversarial bandit, got {given}: "
                "of others it cannot say which rewards are in flight"
            )
        self.bandit: StochasticBandit | AdversarialBandit = given
        self.horizon = check_int("horizon", horizon, at_least=1)
        given.check("slotwise", self.horizon)
        self.render_mode = render_mode
        self.action_space = Discrete(given.arms)
        self.observation_space = Box(0.0, np.inf, shape=(1,), dtype=np.float64)
        self._engine = given.tracer(self.horizon)
        self._memory: Matrix | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin an episode; with a seed, always the same."""
        super().reset(seed=seed)
        self._memory = np.zeros(self._engine.memory)
        self._slot, self._in_flight, self._regret = 0, 0.0, 0.0
        return np.zeros(1), self._describe(0.0)

    def step(self, action: SupportsInt) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Pull an arm in the next slot: observation, total, two flags of the end, and info."""
        arm = int(action)
        if self._memory is None or self._slot >= self.horizon:
            raise ParameterError("the episode is over, or has not begun: call reset")
        if not 0 <= arm < self.bandit.arms:
            raise ParameterError(
                f"an action must be an arm, 0 to {self.bandit.arms - 1}, got {arm}"
            )
        kernels, world, memory, slot = (
            self._engine.kernels,
            self._engine.world,
            self._memory,
            self._slot,
        )
        total = float(kernels.collect(memory, world, slot, arm, 1, 1, self.np_random))
        generated = float(memory[REWARD, slot])
        self._regret += float(kernels.count_regret(memory, world, slot, arm, 1))
        # Sums of shares are rounded, so nothing in flight may be a little less than 0.
        self._in_flight = max(self._in_flight + generated - total, 0.0)
        self._slot += 1
        is_over = self._slot >= self.horizon
        return np.array([total]), total, False, is_over, self._describe(generated)

    def _describe(self, generated: float) -> dict[str, Any]:
        return {
            "slot": self._slot,
            "generated": generated,
            "in_flight": self._in_flight,
            "regret": self._regret,
        }


class AftereffectVectorEnv(gymnasium.vector.SyncVectorEnv):
    """Several independent episodes of one bandit, side by side.

    Examples
    --------
    >>> import numpy as np
    >>> envs = AftereffectVectorEnv(3, "stochastic-bandit([1, 0], delay=interval(0, 1))", 10)
    >>> observations, infos = envs.reset(seed=1)
    >>> envs.step(np.array([0, 1, 0]))[1].tolist()
    [0.5, 0.0, 0.5]
    """

    def __init__(
        self,
        num_envs: int = 1,
        bandit: Bandit | str = _DEFAULT,
        horizon: int = 1_000,
        render_mode: None = None,
    ) -> None:
        given = as_spec(bandit, Bandit)
        super().__init__([lambda: AftereffectEnv(given, horizon)] * num_envs)


gymnasium.register(
    _ID,
    entry_point=f"{__name__}:{AftereffectEnv.__name__}",
    vector_entry_point=f"{__name__}:{AftereffectVectorEnv.__name__}",
)
