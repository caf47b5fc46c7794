"""What bandits with a demand of their own share: arms, a delay, a calendar, and defects.

Regret is the lost share in percent: the difference between what the best arm would have brought by
the horizon and what the pulled arms brought, divided by the former.
"""

from abc import abstractmethod
from typing import Any

import numpy as np

from aftereffect._core import (
    Calendar,
    Engine,
    Matrix,
    Vector,
    as_spec,
    check_choice,
    check_flag,
    check_float,
    check_int,
    check_sequence,
    readable_bytes,
)
from aftereffect.bandits._defects import Defects
from aftereffect.bandits._demand_kernels import DemandWorld, FillBase, demand_kernels, memory_shape
from aftereffect.bandits.base import MAX_TABLE_BYTES, Bandit, EngineName, check_horizon
from aftereffect.delays import Delay, LagLaw
from aftereffect.errors import ParameterError
from aftereffect.rewards import SLOT_LENGTHS, SlotName

#: Of what arrives after the last lag that counts.
MAX_TAIL = 1e-6
#: The largest lag that counts; every slot adds up so many shares.
MAX_REACH = 2_000
MAX_WEEKS = 1_000
MAX_LIFT = 1_000.0


class DemandBandit(Bandit):
    """Arms that multiply a demand. Every pull's reward arrives in the expected shares of the delay.

    Both engines are the same: they play slot by slot.
    """

    lifts: tuple[float, ...]
    slot: SlotName
    weeks_before: int
    shuffle: bool
    feed: Defects

    def _check_shared(self) -> None:
        """Check and store the parameters that all of these bandits have."""
        given = check_sequence("lifts", self.lifts)
        if len(given) < 2:
            raise ParameterError(
                f"lifts must hold at least two arms, got {len(given)}: give 0 for the control"
            )
        lifts = tuple(
            check_float(
                f"the lift of arm {arm}", check_float("a lift", lift, above=-1), at_most=MAX_LIFT
            )
            for arm, lift in enumerate(given)
        )
        check_choice("slot", self.slot, SLOT_LENGTHS)
        self._set(
            lifts=lifts,
            delay=as_spec(self.delay, Delay),
            weeks_before=check_int("weeks_before", self.weeks_before, at_most=MAX_WEEKS),
            shuffle=check_flag("shuffle", self.shuffle),
            feed=as_spec(self.feed, Defects),
        )
        spread_shares(self.delay, len(lifts))

    @property
    def arms(self) -> int:
        return len(self.lifts)

    @property
    def calendar(self) -> Calendar:
        return Calendar(SLOT_LENGTHS[self.slot][1])

    @property
    def history_slots(self) -> int:
        return self.weeks_before * self.calendar.slots_per_week

    @property
    def has_delayed_history(self) -> bool:
        """Whether the totals of the history came with the same delay."""
        return True

    def check(self, engine: EngineName, horizon: int) -> None:
        check_horizon(self, horizon)
        rows, columns = memory_shape(self.arms, horizon, self._lead)
        needed = 8 * rows * columns
        if needed > MAX_TABLE_BYTES:
            raise ParameterError(
                f"{horizon:,} slots need {readable_bytes(needed)} of memory, but at most "
                f"{readable_bytes(MAX_TABLE_BYTES)} are allowed: choose a shorter horizon"
            )

    def engine(self, name: EngineName, horizon: int) -> Engine:
        self.check(name, horizon)
        fill_base, source = self._source(horizon)
        world = DemandWorld(
            source=source,
            multipliers=1.0 + np.array(self.lifts),
            shares=spread_shares(self.delay, self.arms),
            defects=self.feed.params,
            horizon=horizon,
            week=self.calendar.slots_per_week,
            history=self.history_slots,
            lead=self._lead,
            shuffle=self.shuffle,
            history_delayed=self.has_delayed_history,
        )
        shape = memory_shape(self.arms, horizon, self._lead)
        return Engine(demand_kernels(fill_base), world, shape, self._covariates(horizon))

    def tracer(self, horizon: int) -> Engine:
        return self.engine("slotwise", horizon)

    @property
    def _lead(self) -> int:
        """The number of slots before the first whose base is needed."""
        reach = len(spread_shares(self.delay, self.arms)) - 1
        if self.has_delayed_history:
            return self.history_slots + reach
        return max(self.history_slots, reach)

    def _covariates(self, horizon: int) -> Matrix:
        """The covariates of each slot, from that with which the base begins on."""
        return np.zeros((self._lead + horizon, 0))

    @abstractmethod
    def _source(self, horizon: int) -> tuple[FillBase, Any]:
        """How the base of a run is drawn, and from what."""


def spread_shares(delay: Delay, arms: int) -> Vector:
    """The expected shares by lag, up to where hardly anything is left; they sum to 1.

    >>> from aftereffect import Interval
    >>> spread_shares(Interval(1, 2), arms=2)
    array([0. , 0.5, 0.5])
    """
    if not isinstance(delay, LagLaw):
        raise ParameterError(
            f"delay must be one law of lags for all arms, got {delay}: use another, such as "
            "interval(0, 23)"
        )
    delay.check_arms(arms)
    lags = np.arange(min(delay.reach, MAX_REACH) + 1)
    ends = np.flatnonzero(delay.tail(lags) < MAX_TAIL)
    if len(ends) == 0:
        raise ParameterError(
            f"delay must reach over at most {MAX_REACH:,} slots, got {delay}: use shorter lags, "
            "or longer slots"
        )
    shares: Vector = delay.share(lags[: ends[0] + 1])
    shares /= shares.sum()
    return shares
