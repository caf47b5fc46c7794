"""What a policy that learns from rounds was shown, so that its state can be derived again.

The total of a slot may be replaced after the policy has learned from it. Then the decisions that
were made stand, and the policy is shown all rounds again, with the totals as they are known now.
Most experiments never need this. So the journal begins with the first total that is replaced late;
until then it costs nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect.policies import State, map_arrays

#: The policy's state is kept at every so many steps. Of older states fewer and fewer are kept.
_STEPS = 64


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
