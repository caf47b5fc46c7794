"""The open round, and the backlog of slots that outlived their rounds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Plan(NamedTuple):
    """What a policy wants: an arm, for how many slots, and at how many of the last of them it looks."""

    arm: int
    slots: int
    window: int


@dataclass
class Round:
    """An arm that is held until the totals of its planned slots are known.

    The planned slots are the first ones; `until` is the last of them. The slots after it are held while the round waits.
    """

    number: int
    plan: Plan
    until: int
    #: Of the slots that were played, in their order: those without a total yet.
    untold: dict[int, None] = field(default_factory=dict)
    #: Those with one; None where it is missing.
    totals: dict[int, float | None] = field(default_factory=dict)

    @property
    def arm(self) -> int:
        """The arm that is held."""
        return self.plan.arm

    def __contains__(self, slot: int) -> bool:
        return slot in self.untold or slot in self.totals

    def play(self, slot: int) -> None:
        """The next slot was decided."""
        self.untold[slot] = None

    def tell(self, slot: int, total: float | None) -> None:
        """Note a total, or that it is missing, perhaps in place of what was told before."""
        self.untold.pop(slot, None)
        self.totals[slot] = total

    def suspend(self, first: int, last: int) -> None:
        """Nothing was played in some slots: what is still planned comes after them."""
        if first <= self.until:
            self.until += last - first + 1

    def awaited(self) -> Iterator[int]:
        """The planned slots that were played and not told, in their order."""
        for slot in self.untold:
            if slot > self.until:
                return
            yield slot

    def is_complete(self, next_slot: int) -> bool:
        """Whether every planned slot was played, and told or marked missing."""
        return next_slot > self.until and next(self.awaited(), None) is None

    def looked(self) -> list[float]:
        """The totals that the policy looks at, in the order of their slots.

        These are the last slots of the plan, as many as its window, and all that were held after them. Where some are missing
        it looks further back.
        """
        window = self.plan.window
        known = [(slot, total) for slot, total in sorted(self.totals.items()) if total is not None]
        planned = sorted(slot for slot in self.totals if slot <= self.until)
        first = planned[-window] if 0 < window < len(planned) else 0
        count = max(sum(slot >= first for slot, _ in known), min(window, len(known))) if window else 0
        return [total for _, total in known[len(known) - count :]]


class Backlog:
    """Slots whose rounds have closed and that the policy has not learned from yet.

    They were held while a round waited, or their arm was another than advised. Their totals may still come; what has come waits
    for the next round of its arm and is learned with it.
    """

    def __init__(self) -> None:
        #: By slot: the arm that was played.
        self.arms: dict[int, int] = {}
        #: By arm and slot: the totals that wait.
        self.totals: dict[int, dict[int, float]] = {}
        self.waiting = 0

    def __contains__(self, slot: int) -> bool:
        return slot in self.arms

    def add(self, slot: int, arm: int) -> None:
        """A slot whose total has not come."""
        self.arms[slot] = arm

    def tell(self, slot: int, arm: int, total: float) -> None:
        """The total of a slot in which that arm was played."""
        self.arms[slot] = arm
        self.totals.setdefault(arm, {})[slot] = total
        self.waiting += 1

    def total(self, slot: int) -> float | None:
        """The total of a slot that waits; None if there is none."""
        return self.totals.get(self.arms.get(slot, -1), {}).get(slot)

    def remove(self, slot: int) -> None:
        """Forget a slot, if it is there."""
        arm = self.arms.pop(slot, None)
        if arm is not None and self.totals.get(arm, {}).pop(slot, None) is not None:
            self.waiting -= 1

    def take(self, arm: int) -> list[float]:
        """The totals of an arm that wait, in the order of their slots; they wait no longer."""
        taken = sorted(self.totals.pop(arm, {}).items())
        for slot, _ in taken:
            del self.arms[slot]
        self.waiting -= len(taken)
        return [total for _, total in taken]

    def copy(self) -> "Backlog":
        """Another one with the same slots."""
        twin = Backlog()
        twin.arms = dict(self.arms)
        twin.totals = {arm: dict(totals) for arm, totals in self.totals.items()}
        twin.waiting = self.waiting
        return twin
