"""Totals on their way to the policy: the open round, the backlog, and what totals are likely."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from aftereffect.errors import UnlikelyTotalError
from aftereffect.live.settings import Settings

#: Totals that are needed before their spread says what is likely. Until then, a total may be up to
#: `_FIRST_FACTOR` times the reward of one pull.
_MIN_COUNT, _FIRST_FACTOR = 20, 4.0
#: A total is likely up to so many standard deviations from the mean, and up to so many times the
#: largest total so far.
_DEVIATIONS, _LARGEST_FACTOR = 8.0, 2.0


class RoundPlan(NamedTuple):
    """What a policy wants: an arm, a number of slots, and the window that it looks at."""

    arm: int
    slots: int
    window: int


@dataclass
class Round:
    """One arm, held until the totals of its planned slots are known.

    The planned slots come first and end with `until`. Slots after it are hold slots.
    """

    number: int
    plan: RoundPlan
    until: int
    #: The slots without a total, in order.
    outstanding: dict[int, None] = field(default_factory=dict)
    #: The totals by slot; None where one is missing.
    totals: dict[int, float | None] = field(default_factory=dict)
    #: The probabilities with which the arm was drawn, as the log stores them.
    probabilities: str | None = None

    @property
    def arm(self) -> int:
        """The arm that is held."""
        return self.plan.arm

    def __contains__(self, slot: int) -> bool:
        return slot in self.outstanding or slot in self.totals

    def add_slot(self, slot: int) -> None:
        """Add the slot that was just decided."""
        self.outstanding[slot] = None

    def set_total(self, slot: int, total: float | None) -> None:
        """Set or replace the total of a slot; None marks it missing."""
        self.outstanding.pop(slot, None)
        self.totals[slot] = total

    def postpone(self, first: int, last: int) -> None:
        """Move the planned slots that are left behind a gap in which nothing was played."""
        if first <= self.until:
            self.until += last - first + 1

    def list_awaited(self) -> Iterator[int]:
        """The planned slots without a total, in order."""
        for slot in self.outstanding:
            if slot > self.until:
                return
            yield slot

    def is_complete(self, next_slot: int) -> bool:
        """Whether every planned slot was decided, and has a total or is missing."""
        return next_slot > self.until and next(self.list_awaited(), None) is None


class Backlog:
    """Slots of closed rounds that the policy has not learned from yet.

    They were hold slots, or another arm was played than decided. The policy learns a total that
    arrives here with the next round of its arm.
    """

    def __init__(self) -> None:
        #: The arm that was played, by slot.
        self.arms: dict[int, int] = {}
        #: The totals that wait, by arm and slot.
        self.totals: dict[int, dict[int, float]] = {}
        self.waiting = 0

    def __contains__(self, slot: int) -> bool:
        return slot in self.arms

    def add_slot(self, slot: int, arm: int) -> None:
        """Add a slot whose total is outstanding."""
        self.arms[slot] = arm

    def add_total(self, slot: int, arm: int, total: float) -> None:
        """Add the total of a slot in which `arm` was played."""
        self.arms[slot] = arm
        self.totals.setdefault(arm, {})[slot] = total
        self.waiting += 1

    def total(self, slot: int) -> float | None:
        """The total of a slot that waits; None if there is none."""
        return self.totals.get(self.arms.get(slot, -1), {}).get(slot)

    def remove(self, slot: int) -> None:
        """Remove a slot, if it is there."""
        arm = self.arms.pop(slot, None)
        if arm is not None and self.totals.get(arm, {}).pop(slot, None) is not None:
            self.waiting -= 1

    def pop_totals(self, arm: int) -> dict[int, float]:
        """Remove the totals of an arm that wait, and return them in the order of their slots."""
        popped = dict(sorted(self.totals.pop(arm, {}).items()))
        for slot in popped:
            del self.arms[slot]
        self.waiting -= len(popped)
        return popped

    def copy(self) -> "Backlog":
        """An independent copy."""
        twin = Backlog()
        twin.arms = dict(self.arms)
        twin.totals = {arm: dict(totals) for arm, totals in self.totals.items()}
        twin.waiting = self.waiting
        return twin


@dataclass
class TotalStatistics:
    """Statistics of the totals so far; `squares` is the sum of squares around the mean."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, total: float) -> None:
        """Count one more total."""
        self.least = min(self.least, total) if self.count else total
        self.most = max(self.most, total) if self.count else total
        self.count += 1
        off = total - self.mean
        self.mean += off / self.count
        self.squares += off * (total - self.mean)

    def check_likely(self, settings: Settings, slot: int, total: float) -> None:
        """Refuse a total that is far from all totals so far: it is probably a typing error."""
        least, most = self.likely_range(settings)
        if not least <= total <= most:
            known = (
                f"the {self.count:,} totals so far were {self.least:g} to {self.most:g}"
                if self.count
                else "it is the first"
            )
            raise UnlikelyTotalError(
                f"the total of slot {slot} is unlikely: got {total:g}, and {known}; "
                "confirm it if it is right"
            )

    def likely_range(self, settings: Settings) -> tuple[float, float]:
        """The least and the most that the next total is likely to be.

        No reward at all is always likely, and so is the reward of one pull. Totals are larger where
        rewards of several pulls arrive in one slot; the first totals show how much larger.
        """
        high = max(settings.reward_range[1], 0.0) if settings.reward_range else 0.0
        if self.count < _MIN_COUNT:
            if settings.reward_range is None:
                return -math.inf, math.inf
            return -math.inf, _FIRST_FACTOR * high + _LARGEST_FACTOR * max(self.most, 0.0)
        breadth = _DEVIATIONS * math.sqrt(self.squares / (self.count - 1))
        least = min(0.0, _LARGEST_FACTOR * self.least, self.mean - breadth)
        return least, max(high, _LARGEST_FACTOR * self.most, self.mean + breadth)
