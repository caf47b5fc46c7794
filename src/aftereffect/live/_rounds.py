"""Rounds and their totals: on the way to the policy, and a journal of what it was shown.

On the way are the open round and the backlog, once a total was found to be likely. The total of a
slot may be replaced after the policy has learned from it. Then the decisions that were made stand,
and the policy is shown all rounds again, with the totals as they are known now. Most experiments
never need this. So the journal begins with the first total that is replaced late; until then it
costs nothing.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from aftereffect.errors import UnlikelyTotalError
from aftereffect.live.settings import Settings
from aftereffect.policies import State, map_arrays

#: Totals that are needed before their spread says what is likely. Until then, a total may be up to
#: `_FIRST_FACTOR` times the reward of one pull.
_MIN_COUNT, _FIRST_FACTOR = 20, 4.0
#: A total is likely up to so many standard deviations from the mean, and up to so many times the
#: largest total so far.
_DEVIATIONS, _LARGEST_FACTOR = 8.0, 2.0
#: The policy's state is kept at every so many steps. Of older states fewer and fewer are kept.
_STEPS = 64


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
    #: The arm of each unit, if there are several units.
    arms: tuple[int, ...] = ()

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

    def add_all(self, totals: Iterable[float | None]) -> "TotalStatistics":
        """Count several totals, of which some may be missing; return the statistics themselves."""
        for total in totals:
            if total is not None:
                self.add(total)
        return self

    def check_likely(self, settings: Settings, where: str, total: float) -> None:
        """Refuse a total that is far from all totals so far: it is probably a typing error."""
        least, most = self.likely_range(settings)
        if not least <= total <= most:
            known = (
                f"the {self.count:,} totals so far were {self.least:g} to {self.most:g}"
                if self.count
                else "it is the first"
            )
            raise UnlikelyTotalError(
                f"the total of {where} is unlikely: got {total:g}, and {known}; "
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


class Asked(NamedTuple):
    """A policy was asked for a round before `slot`, after so many random numbers were drawn."""

    slot: int
    drawn: int


@dataclass
class Shown:
    """A policy was shown a round: its totals by slot, and late ones of earlier slots, in order."""

    arm: int
    until: int
    window: int
    #: None where a total is missing, or another arm was played.
    totals: dict[int, float | None]
    late: dict[int, float]

    def list_totals(self) -> list[float]:
        """The totals that the policy looks at: late ones first, each part in the order of slots.

        Of the round, these are the last planned slots, as many as the window has, and all hold
        slots. Where some are missing, earlier slots take their place.
        """
        window = self.window
        if not window:
            return []
        known = [(slot, total) for slot, total in self.totals.items() if total is not None]
        planned = [slot for slot in self.totals if slot <= self.until]
        first = planned[-window] if window < len(planned) else 0
        count = max(sum(slot >= first for slot, _ in known), min(window, len(known)))
        return [*self.late.values(), *(total for _, total in known[len(known) - count :])]

    @property
    def has_totals(self) -> bool:
        """Whether any total of the round is known."""
        return bool(self.late) or any(total is not None for total in self.totals.values())


class Journal:
    """The steps of a policy in order, and its state before some of them.

    Going back to a step costs at most three times as many steps as have come since, and 64 more.
    """

    def __init__(self, steps: Iterable[Asked | Shown] = ()) -> None:
        self.steps: list[Asked | Shown] = list(steps)
        #: The step in which the total of a slot was shown.
        self.places = {
            slot: place
            for place, step in enumerate(self.steps)
            if isinstance(step, Shown)
            for slot in _list_known(step)
        }
        #: States by the number of the next step, in order.
        self.states: dict[int, State] = {}
        #: The first step whose totals have changed since; None if none has.
        self.changed: int | None = None

    def add(self, step: Asked | Shown) -> None:
        """Add the next step."""
        if isinstance(step, Shown):
            self.places.update(dict.fromkeys(_list_known(step), len(self.steps)))
        self.steps.append(step)

    def keep_state(self, state: State, step: int) -> None:
        """Keep the state before a step, if it is one of those whose state is kept."""
        if step % _STEPS or step == 0:
            return
        self.states[step] = map_arrays(np.copy, state)
        now = step // _STEPS
        # At twice the distance, half as many states are kept.
        for place in [each // _STEPS for each in self.states]:
            if now - place > 2 * (place & -place):
                del self.states[place * _STEPS]

    def find(self, slot: int) -> Shown:
        """The round in which the total of a slot was shown."""
        step = self.steps[self.places[slot]]
        if not isinstance(step, Shown):
            raise TypeError(f"slot {slot} was not shown in step {self.places[slot]}")
        return step

    def replace(self, slot: int, total: float | None) -> float:
        """Replace the total of a slot; None takes it away. Return the one before."""
        shown, place = self.find(slot), self.places[slot]
        if slot not in shown.late:
            before = shown.totals[slot] or 0.0
            shown.totals[slot] = total
        elif total is None:
            before = shown.late.pop(slot)
        else:
            before, shown.late[slot] = shown.late[slot], total
        if total is None:
            del self.places[slot]
        self.changed = place if self.changed is None else min(place, self.changed)
        return before

    def go_back(self) -> tuple[int, State | None]:
        """The last kept state before the first change, and the step that it is before.

        That is step 0, without a state, if there is none. Later states are forgotten.
        """
        changed = len(self.steps) if self.changed is None else self.changed
        self.states = {step: state for step, state in self.states.items() if step <= changed}
        self.changed = None
        begin = max(self.states, default=0)
        return begin, map_arrays(np.copy, self.states[begin]) if begin else None

    def copy(self) -> "Journal":
        """A copy to which steps can be added."""
        twin = Journal()
        twin.steps, twin.places = list(self.steps), dict(self.places)
        twin.states, twin.changed = dict(self.states), self.changed
        return twin


def _list_known(step: Shown) -> list[int]:
    return [slot for slot, total in step.totals.items() if total is not None] + list(step.late)
