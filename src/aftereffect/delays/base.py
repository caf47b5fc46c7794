"""What a delay is: when the rewards of pulls arrive, and how both engines simulate it.

To add a delay, derive a frozen dataclass from the class that fits, and register it:

- `FiniteLagLaw`, if every reward is cut into the same finitely many shares: give `shares`.
- `RandomLag`, if a reward arrives whole at a random lag: give `shares`, `lag_kernel`, `lag_table`.
- `LagLaw`, for any other law of lags: give its numbers. Both engines cut every reward into the
  expected shares; override the two recipes where that is wrong or slow. Oracles go by the slotwise
  one.
- `Delay`, if lags depend on the play.

`PerArm` gives each arm a delay of its own.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from functools import cached_property
from typing import ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from aftereffect._core import MAX_LAG, RewardSource, Spec, Vector
from aftereffect.delays._attributed import AttributedEngine, build_attributed
from aftereffect.delays._engines import (
    SHARES,
    CollectRow,
    Deposit,
    Recipe,
    RoundwiseEngine,
    Size,
    SlotwiseEngine,
    build_roundwise,
    build_slotwise,
    collect_shares,
    count_bytes,
    deposit_shares,
    deposit_table,
    look_up,
    share_table,
)
from aftereffect.delays._parts import SHARE_PARTS
from aftereffect.errors import ParameterError

#: Oracles are not told of parts that arrive after the lag at which the tail has fallen to this,
#: where rewards arrive without end: they may take a pull for complete then.
NEGLIGIBLE_TAIL = 1e-2


class LinearFacts(NamedTuple):
    """The truth about a linear system, for policies that must know it, to six digits.

    plans         the action of each arm, a vector
    radius        the spectral radius
    size          a bound on the norm of what an action brings in all, by its entries
    leak          a bound on what earlier actions still bring, in all, when they are forgotten
    noise         the standard deviation of a slot's total in the long run, at most
    reward_range  what policies see as totals of 0 and of 1
    """

    plans: tuple[tuple[float, ...], ...]
    radius: float
    size: float
    leak: float
    noise: float
    reward_range: tuple[float, float]


class DelayFacts(NamedTuple):
    """The truth about a delay, for policies that must know it; infinite where it has no end.

    Where totals come from a linear system, its parts may be negative. Then lags have no mean, which
    counts as infinite too.
    """

    mean_lag: float
    lag_variance: float
    reach: float
    system: LinearFacts | None = None


class Delay(Spec, ABC):
    """When the rewards of a bandit's arms arrive.

    Examples
    --------
    Every delay is one:

    >>> import aftereffect as ae
    >>> ae.parse("interval(30, 39)", ae.Delay).facts(arms=2).mean_lag
    34.5
    """

    kind = "delay"
    #: Whether lags depend on the arms played before, as those of an adversary may.
    depends_on_play: ClassVar[bool] = False

    @abstractmethod
    def check_arms(self, arms: int) -> None:
        """Raise a `ParameterError` if the delay cannot be that of so many arms."""

    @abstractmethod
    def facts(self, arms: int) -> DelayFacts:
        """The largest mean lag, lag variance and reach of all arms."""

    @abstractmethod
    def roundwise(self, arms: int, rewards: RewardSource, horizon: int) -> RoundwiseEngine:
        """How to simulate a round at once."""

    @abstractmethod
    def slotwise(self, arms: int, rewards: RewardSource, horizon: int) -> SlotwiseEngine:
        """How to simulate a round slot by slot."""

    @abstractmethod
    def count_bytes(self, engine: str, arms: int, horizon: int) -> int:
        """How much memory the tables and one replication take: as much, or a little more."""

    def count_pending(self, arms: int) -> int:
        """The most pulls whose rewards an oracle waits for at a time, the latest among them."""
        self._refuse_oracles()

    def attributed(self, arms: int, rewards: RewardSource) -> AttributedEngine:
        """How to simulate a slot for an oracle: which parts of which pulls arrive in it."""
        self._refuse_oracles()

    def _refuse_oracles(self) -> NoReturn:
        raise ParameterError(
            f"{self} depends on the play and does not say from which pull a reward comes: "
            "use another delay, or a policy that learns from totals"
        )


class ArmwiseDelay(Delay):
    """A delay that is a law of lags for each arm.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> [law.mean_lag for law in Interval(3, 4).by_arm(2)]
    [3.5, 3.5]
    """

    @abstractmethod
    def by_arm(self, arms: int) -> tuple["LagLaw", ...]:
        """The law of each arm; raises a `ParameterError` if there cannot be so many."""

    def check_arms(self, arms: int) -> None:
        self.by_arm(arms)

    def facts(self, arms: int) -> DelayFacts:
        laws = {id(law): law for law in self.by_arm(arms)}.values()  # thousands may share one
        return DelayFacts(
            max(law.mean_lag for law in laws),
            max(law.lag_variance for law in laws),
            max(law.stated_reach for law in laws),
        )

    def roundwise(self, arms: int, rewards: RewardSource, horizon: int) -> RoundwiseEngine:
        laws = self.by_arm(arms)
        return build_roundwise(laws, lambda law: law.roundwise_recipe(rewards, horizon), rewards)

    def slotwise(self, arms: int, rewards: RewardSource, horizon: int) -> SlotwiseEngine:
        return build_slotwise(self.by_arm(arms), lambda law: law.slotwise_recipe(horizon), rewards)

    def count_pending(self, arms: int) -> int:
        return max(law.known_reach for law in self.by_arm(arms)) + 1

    def attributed(self, arms: int, rewards: RewardSource) -> AttributedEngine:
        laws = self.by_arm(arms)
        return build_attributed(laws, lambda law: law.slotwise_recipe(law.known_reach), rewards)

    def count_bytes(self, engine: str, arms: int, horizon: int) -> int:
        laws = dict.fromkeys(self.by_arm(arms))
        if engine == "slotwise":
            return count_bytes([law.slotwise_size(horizon) for law in laws], engine)
        return count_bytes([law.roundwise_size(horizon) for law in laws], engine)


class LagLaw(ArmwiseDelay):
    """How the reward of one pull arrives: which share of it, in expectation, at which lag.

    Lag 0 is the slot of the pull itself; the lags of the paper start at 1. Shares sum to one.

    Examples
    --------
    >>> from aftereffect import Geometric
    >>> law = Geometric(0.5)
    >>> law.mean_lag, law.reach, law.share([1, 2, 3]).tolist(), law.tail([1, 2, 3]).tolist()
    (2.0, inf, [0.5, 0.25, 0.125], [0.5, 0.25, 0.125])
    """

    def by_arm(self, arms: int) -> tuple["LagLaw", ...]:
        return (self,) * arms

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest lag with a positive share; infinite if there is none."""

    @property
    @abstractmethod
    def mean_lag(self) -> float:
        """The lag at which a unit of reward arrives, on average."""

    @property
    @abstractmethod
    def lag_variance(self) -> float:
        """The variance of that lag."""

    @abstractmethod
    def share(self, lags: ArrayLike) -> Vector:
        """The expected share of a reward that arrives at each lag."""

    @abstractmethod
    def tail(self, lags: ArrayLike) -> Vector:
        """The expected share that arrives later than each lag; ``tail(-1)`` is 1."""

    @property
    def stated_reach(self) -> float:
        """The number that the paper gives to policies that must know the largest lag."""
        return self.reach

    @property
    def effective_reach(self) -> float:
        """The lag after which float64 cannot tell the tail from 0."""
        return self.reach

    @property
    def cuts_all_alike(self) -> bool:
        """Whether each part of a reward says what the whole is: all are cut into these shares."""
        return type(self).slotwise_recipe is LagLaw.slotwise_recipe

    @property
    def known_reach(self) -> int:
        """The lag at which an oracle takes a pull for complete: the reach, if there is one."""
        if math.isfinite(self.reach):
            return int(self.reach)
        lags = range(MAX_LAG)
        return bisect_left(lags, True, key=lambda lag: bool(self.tail(lag) <= NEGLIGIBLE_TAIL))

    def reach_within(self, horizon: int) -> int:
        """The largest lag that an engine keeps in a run of so many slots, one by one."""
        last = horizon if math.isinf(self.reach) else self.reach
        reach = int(min(last, self.effective_reach))
        if reach > MAX_LAG:
            raise ParameterError(
                f"{self} has a reach of {reach:,} slots, too many for the slotwise engine: "
                "use the roundwise engine"
            )
        return reach

    def share_variance(
        self, share: Vector, mean: float | Vector, variance: float | Vector
    ) -> Vector:
        """The variance of what arrives where so large a share is expected.

        `mean` and `variance` are those of the whole reward.
        """
        return share**2 * variance

    def roundwise_recipe(self, rewards: RewardSource, horizon: int) -> Recipe[CollectRow]:
        """How the roundwise engine simulates this law."""
        reach = self.reach_within(horizon)
        lags = np.arange(reach + 1)
        table = share_table(self.share(lags), self.tail(lags))
        return Recipe(collect_shares(rewards), table, self.roundwise_size(horizon).memory)

    def roundwise_size(self, horizon: int) -> Size:
        """How many numbers that takes."""
        reach = self.reach_within(horizon)
        return Size(2 * reach + 3, 2 * max(reach, 1))

    def slotwise_recipe(self, horizon: int) -> Recipe[Deposit]:
        """How the slotwise engine simulates this law."""
        reach = self.reach_within(horizon)
        table = deposit_table(self.share(np.arange(reach + 1)))
        return Recipe(deposit_shares, table, reach + 1, int(table[1]), SHARE_PARTS)

    def slotwise_size(self, horizon: int) -> Size:
        """How many numbers that takes."""
        reach = self.reach_within(horizon)
        return Size(SHARES + reach + 1, reach + 1)


class FiniteLagLaw(LagLaw):
    """A law with finitely many lags; all its numbers follow from its shares.

    Examples
    --------
    >>> import numpy as np
    >>> class Twice(FiniteLagLaw):
    ...     shares = np.array([0.0, 0.5, 0.0, 0.5])
    >>> law = Twice()
    >>> law.reach, law.mean_lag, law.lag_variance, law.tail([0, 1, 2, 3]).tolist()
    (3, 2.0, 1.0, [1.0, 0.5, 0.5, 0.0])
    """

    @property
    @abstractmethod
    def shares(self) -> Vector:
        """The shares at the lags 0, 1, ..., reach."""

    def by_arm(self, arms: int) -> tuple[LagLaw, ...]:
        self._check_shares()
        return super().by_arm(arms)

    def _check_shares(self) -> None:
        """Raise an error if the shares of someone's own delay are impossible."""
        shares = np.asarray(self.shares, dtype=float)
        if (
            shares.ndim != 1
            or not (shares >= 0).all()
            or abs(math.fsum(shares) - 1) > 1e-9
            or shares[-1] == 0
        ):
            raise ParameterError(
                f"the shares of {self} must be numbers of at least 0 that sum to 1, "
                "and the last must be above 0"
            )

    @cached_property
    def tails(self) -> Vector:
        """The tail at the lags 0, 1, ..., reach: 1 before the first share, 0 at the reach."""
        sums = np.cumsum(self.shares[::-1])[::-1]
        nothing_yet = np.cumsum(self.shares) - self.shares == 0
        return np.append(np.where(nothing_yet, 1.0, sums)[1:], 0.0)

    @cached_property
    def reach(self) -> int:
        return len(self.shares) - 1

    @cached_property
    def mean_lag(self) -> float:
        return math.fsum(lag * share for lag, share in enumerate(self.shares))

    @cached_property
    def lag_variance(self) -> float:
        return math.fsum(
            (lag - self.mean_lag) ** 2 * share for lag, share in enumerate(self.shares)
        )

    def share(self, lags: ArrayLike) -> Vector:
        return look_up(self.shares, lags, before=0.0)

    def tail(self, lags: ArrayLike) -> Vector:
        return look_up(self.tails, lags, before=1.0)


class ClosedForm(FiniteLagLaw):
    """A law whose numbers are formulas; its table of shares is made when an engine needs it.

    Examples
    --------
    >>> from aftereffect import Interval
    >>> law = Interval(1, 10**7)
    >>> isinstance(law, ClosedForm), law.reach, law.mean_lag
    (True, 10000000, 5000000.5)
    """

    @property
    @abstractmethod
    def reach(self) -> int:
        """The largest lag with a positive share."""

    @property
    @abstractmethod
    def mean_lag(self) -> float:
        """The lag at which a unit of reward arrives, on average."""

    @property
    @abstractmethod
    def lag_variance(self) -> float:
        """The variance of that lag."""

    def _check_shares(self) -> None:
        """Nothing to check: its parameters were."""
