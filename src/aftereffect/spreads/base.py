"""What every spread knows about itself."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aftereffect.checks import shown
from aftereffect.errors import ParameterError
from aftereffect.kernels import Matrix, Vector
from aftereffect.spec import Spec

Lags: TypeAlias = NDArray[np.int64]
#: ``draw(tables, row, rng)``: one random lag, by the table in that row.
DrawLag: TypeAlias = Callable[[Matrix, int, np.random.Generator], int]


class Delaying(Spec, ABC):
    """When the rewards of an environment's arms land."""

    kind = "spread"


class Spreading(Delaying):
    """When and how rewards land whoever plays what: one spread for all arms, or one for each."""

    @abstractmethod
    def by_arm(self, arms: int) -> tuple["Spread", ...]:
        """The spread of each arm; refuses what cannot be."""


class Spread(Spreading):
    """How one pull's reward lands: which share of it, expected, at which lag.

    Lag 0 is the slot of the pull itself; the lags of the paper start at 1. Shares sum to one.
    """

    def by_arm(self, arms: int) -> tuple["Spread", ...]:
        return (self,) * arms

    @property
    @abstractmethod
    def reach(self) -> float:
        """The largest lag with a positive share; infinite if there is none."""

    @property
    @abstractmethod
    def mean_lag(self) -> float:
        """The lag at which a unit of reward lands, on average."""

    @property
    @abstractmethod
    def lag_variance(self) -> float:
        """The variance of that lag."""

    @property
    def bound(self) -> float:
        """What a policy that must know the largest lag is told: the paper's own number."""
        return self.reach

    @abstractmethod
    def share(self, lags: ArrayLike) -> Vector:
        """The lag law: the expected share of a reward that lands at each lag."""

    @abstractmethod
    def tail(self, lags: ArrayLike) -> Vector:
        """The expected share that lands later than each lag; ``tail(-1)`` is 1."""

    @abstractmethod
    def landing(self, rng: np.random.Generator, slots: int) -> tuple[Lags, Vector]:
        """Draw how one pull's reward lands: some lags and the share at each, at least all lags up to `slots`."""


class FiniteSpread(Spread):
    """A spread that is over after finitely many slots; everything follows from its shares."""

    @property
    @abstractmethod
    def shares(self) -> Vector:
        """The shares at lags 0, 1, ..., reach."""

    def by_arm(self, arms: int) -> tuple["Spread", ...]:
        self._check_shares()
        return super().by_arm(arms)

    def _check_shares(self) -> None:
        """Refuse shares that cannot be; spreads whose parameters are checked need no table for that."""
        shares = np.asarray(self.shares, dtype=float)
        if shares.ndim != 1 or not (shares >= 0).all() or abs(math.fsum(shares) - 1) > 1e-9 or shares[-1] == 0:
            raise ParameterError(f"the shares of {self} must be an array of numbers from 0 on that sum to 1 and end above 0")

    @cached_property
    def tails(self) -> Vector:
        """The tail at lags 0, 1, ..., reach: exactly 1 before the first share and exactly 0 at the reach."""
        return np.append(_falling(self.shares)[1:], 0.0)

    @cached_property
    def reach(self) -> int:
        return len(self.shares) - 1

    @cached_property
    def mean_lag(self) -> float:
        return math.fsum(lag * share for lag, share in enumerate(self.shares))

    @cached_property
    def lag_variance(self) -> float:
        return math.fsum((lag - self.mean_lag) ** 2 * share for lag, share in enumerate(self.shares))

    def share(self, lags: ArrayLike) -> Vector:
        return _looked_up(self.shares, lags, before=0.0)

    def tail(self, lags: ArrayLike) -> Vector:
        return _looked_up(self.tails, lags, before=1.0)


class Formula(FiniteSpread):
    """A spread whose numbers are known without its shares: no table is made before a simulation needs it."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """The largest lag with a positive share."""

    @property
    @abstractmethod
    def mean_lag(self) -> float:
        """The lag at which a unit of reward lands, on average."""

    @property
    @abstractmethod
    def lag_variance(self) -> float:
        """The variance of that lag."""

    def _check_shares(self) -> None:
        """Its parameters were checked."""


class RandomLag(FiniteSpread):
    """The whole reward lands at one lag, drawn anew for every pull; the shares are its probabilities."""

    @abstractmethod
    def lag_kernel(self) -> DrawLag:
        """The plain function that draws a lag."""

    @abstractmethod
    def lag_table(self) -> Vector:
        """What that function reads: the reach, then whatever it needs."""

    def landing(self, rng: np.random.Generator, slots: int) -> tuple[Lags, Vector]:
        return np.array([self.lag_kernel()(self.lag_table()[None, :], 0, rng)]), np.ones(1)


class FixedShares(FiniteSpread):
    """Every reward is cut into the same shares."""

    def landing(self, rng: np.random.Generator, slots: int) -> tuple[Lags, Vector]:
        lags = np.flatnonzero(self.shares)
        return lags, self.shares[lags]


def normalised(weights: ArrayLike) -> Vector:
    """Weights that sum to one up to rounding, divided by their sum, without the zeros at the end."""
    given = np.asarray(weights, dtype=float)
    given = given[: np.flatnonzero(given)[-1] + 1]
    return given / math.fsum(given)


def _falling(shares: Vector) -> Vector:
    """``falling[x]``: the sum of the shares from lag x on, exactly 1 while nothing has landed."""
    sums = np.cumsum(shares[::-1])[::-1]
    return np.where(np.cumsum(shares) - shares == 0, 1.0, sums)


def whole_lags(lags: ArrayLike) -> Lags:
    """Lags as an array of whole numbers."""
    given = np.asarray(lags)
    whole = given.astype(np.int64)
    if not np.array_equal(given, whole):
        raise ParameterError(f"lags must be whole numbers, got {shown(lags)}")
    return whole


def _looked_up(table: Vector, lags: ArrayLike, before: float) -> Vector:
    at = whole_lags(lags)
    inside = table[np.clip(at, 0, len(table) - 1)]
    found: Vector = np.where(at < 0, before, np.where(at < len(table), inside, 0.0))
    return found
