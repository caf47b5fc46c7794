"""The state of an experiment as the fold of its log: events go in one by one, and the next decision comes out."""

import copy
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from aftereffect.kernels import Vector
from aftereffect.live.events import Event, Link
from aftereffect.live.randomness import Draws
from aftereffect.live.rounds import Backlog, Plan, Round
from aftereffect.live.settings import Settings
from aftereffect.live.totals import Seen
from aftereffect.policies import State

#: Of so many of the latest totals it is kept how late they came.
_LATEST = 100


class Decision(NamedTuple):
    """What is recorded of a slot when it is decided."""

    slot: int
    round: int
    arm: int
    until: int
    window: int


class Difference(NamedTuple):
    """From where on today's code decides otherwise than the version that recorded it."""

    slot: int
    version: str


class Saved(NamedTuple):
    """Where the last snapshot was taken: the event, and how many rounds had closed."""

    seq: int
    rounds: int


@dataclass
class Tally:
    """By arm: slots for which it was advised, rounds that were learned, how many totals came with it, and their sum."""

    slots: Vector
    rounds: Vector
    told: Vector
    collected: Vector

    @classmethod
    def of(cls, arms: int) -> "Tally":
        return cls(*(np.zeros(arms) for _ in range(4)))


class Ledger:
    """An experiment up to a place in its log.

    A round closes when the next slot is decided, not when its last total comes. So everything that was told by then counts in
    it, in whatever order it came. What comes later waits in the backlog for the next round of its arm.
    """

    def __init__(self, settings: Settings, start: Link) -> None:
        self.settings = settings
        self.place = start
        self.kernels = settings.policy.kernels()
        self.params = settings.policy.params(len(settings.arms), settings.planned_slots)
        self.state: State = settings.policy.initial(len(settings.arms))
        self.draws = Draws(settings.seed)
        self.tally = Tally.of(len(settings.arms))
        self.seen = Seen()
        self.next_slot = self.rounds = self.told = self.missing = self.learned = 0
        #: How many slots policies planned in the rounds that are closed, and how many slots these lasted.
        self.planned = self.lasted = 0
        self.round: Round | None = None
        self.backlog = Backlog()
        #: Slots in which nothing was decided: the first and the last of each gap.
        self.skipped: list[tuple[int, int]] = []
        #: A round with nothing but missing slots is planned again.
        self.again: Plan | None = None
        self.lateness: deque[int] = deque(maxlen=_LATEST)
        self.last_told_at: str | None = None
        self.closed = False
        self.difference: Difference | None = None
        self.saved = Saved(0, 0)

    def ahead(self) -> "Ledger":
        """As it will be when the next slot is decided, as far as is known now; this one stays as it is."""
        if self.round is not None and not self.round.is_complete(self.next_slot):
            return self
        twin = copy.copy(self)
        twin.state = State(*(array.copy() for array in self.state))
        twin.draws = Draws(self.settings.seed, self.draws.drawn)
        twin.tally = copy.deepcopy(self.tally)
        twin.backlog = self.backlog.copy()
        if self.closed or self.ended:
            twin._close_round()
        else:
            twin.decide()
        return twin

    def decide(self) -> Decision:
        """Close the open round if it is complete, begin the next one if none is open: what the next slot is.

        Must be followed by folding that decision.
        """
        before = self._close_round()
        if self.round is None:
            plan = self.again or self._plan()
            self.again = None
            self.round = self._begin(plan, before if before and before.arm == plan.arm else None)
        return Decision(self.next_slot, self.round.number, self.round.arm, self.round.until, self.round.plan.window)

    def _plan(self) -> Plan:
        # A kernel asks its generator for nothing but random().
        rng = cast(np.random.Generator, self.draws)
        return Plan(*map(int, self.kernels.decide(*self.state, self.params, self.next_slot, rng)))

    def _begin(self, plan: Plan, before: Round | None) -> Round:
        """A round; where it goes on with the arm of the round before, slots of that one that wait for totals are its first."""
        carried = list(before.untold) if before else []
        for slot in carried:
            self.backlog.remove(slot)
        self.lasted -= len(carried)
        further = plan.slots - len(carried)
        until = carried[plan.slots - 1] if further <= 0 else min(self.next_slot + further, self.settings.planned_slots) - 1
        return Round(self.rounds, plan, until, untold=dict.fromkeys(carried))

    @property
    def ended(self) -> bool:
        """Whether all slots up to the horizon are decided."""
        return self.next_slot >= self.settings.planned_slots

    @property
    def untold(self) -> int:
        """How many slots were played and have no total yet."""
        return len(self.backlog.arms) - self.backlog.waiting + (len(self.round.untold) if self.round else 0)

    def is_skipped(self, slot: int) -> bool:
        """Whether nothing was decided for a slot that is past."""
        return any(first <= slot <= last for first, last in self.skipped)

    def is_waiting(self, slot: int) -> bool:
        """Whether the policy may still learn from what was told of a slot, so that it can be replaced."""
        return (self.round is not None and slot in self.round) or slot in self.backlog

    def fold(self, event: Event) -> None:
        """Take in the next event of the log, after making sure that it is the next."""
        self.place = self.place.follow(event)
        FOLDS[event.kind](self, event)

    def fold_all(self, events: Iterable[Event]) -> "Ledger":
        """Take in several."""
        for event in events:
            self.fold(event)
        return self

    def _decide(self, event: Event) -> None:
        expected = self.decide()
        recorded = Decision(*cast(Any, (event.slot, event.round, event.arm, event.until, event.window)))
        if recorded != expected:
            self._replan(recorded, expected, event.version)
        cast(Round, self.round).play(self.next_slot)
        self.next_slot += 1
        self.tally.slots[recorded.arm] += 1

    def _replan(self, recorded: Decision, expected: Decision, version: str) -> None:
        """The log is the truth: what was played is what is learned from, in the way that today's code looks at it."""
        self.difference = self.difference or Difference(recorded.slot, version)
        if recorded[:4] == expected[:4]:
            return
        slots = max(recorded.until - recorded.slot + 1, 1)
        whole = expected.window >= expected.until - expected.slot + 1
        plan = Plan(recorded.arm, slots, slots if whole else expected.window)
        expected_round = cast(Round, self.round)
        if expected_round.totals:
            self._close_round(at_once=True)
        else:
            for slot in expected_round.untold:
                self.backlog.add(slot, expected_round.arm)
        self.round = Round(recorded.round, plan, recorded.until)

    def _skip(self, event: Event) -> None:
        last = cast(int, event.until)
        if self.round is not None:
            self.round.suspend(event.slot, last)
            self.round.until = min(self.round.until, self.settings.planned_slots - 1)
        self.skipped.append((event.slot, last))
        self.next_slot = last + 1

    def _tell(self, event: Event) -> None:
        slot, total = event.slot, event.value
        current = self.round if self.round is not None and slot in self.round else None
        arm = event.arm
        if arm is None:  # as version 0.1.0 recorded it
            arm = current.arm if current else self.backlog.arms.get(slot)
        if event.revision > 0:
            self._withdraw(slot)
        else:
            self.told += 1
        if current is not None:  # what another arm brought is missing here
            current.tell(slot, total if arm == current.arm else None)
        else:
            self.backlog.remove(slot)
        if total is None or arm is None:
            self.missing += 1
            return
        if current is None or arm != current.arm:
            self.backlog.tell(slot, arm, total)
        self.tally.told[arm] += 1
        self.tally.collected[arm] += total
        self.seen.add(total)
        if event.revision == 0:
            self.lateness.append(self.next_slot - 1 - slot)
        self.last_told_at = event.at

    def _withdraw(self, slot: int) -> None:
        """Take back what was told of a slot, which waits or is missing."""
        arm, total = self.backlog.arms.get(slot), self.backlog.total(slot)
        self.backlog.remove(slot)
        if total is None and self.round is not None and slot in self.round:
            arm, total = self.round.arm, self.round.totals[slot]
        if total is None or arm is None:
            self.missing -= 1
            return
        self.tally.told[arm] -= 1
        self.tally.collected[arm] -= total

    def _close_round(self, *, at_once: bool = False) -> Round | None:
        """Close the open round, if it is complete: the policy learns from what was told of its arm by now."""
        ready = self.round
        if ready is None or not (at_once or ready.is_complete(self.next_slot)):
            return None
        self.round, self.rounds = None, self.rounds + 1
        self.planned += ready.plan.slots
        self.lasted += len(ready.totals) + len(ready.untold)
        for slot in ready.untold:
            self.backlog.add(slot, ready.arm)
        counted = sum(total is not None for total in ready.totals.values())
        if not counted:
            self.again = ready.plan
            return ready
        late = self.backlog.take(ready.arm)
        looked = late + ready.looked() if ready.plan.window else []
        scaled = 0.0
        for total in looked:
            scaled += self.settings.scaled(total)
        self.kernels.absorb(*self.state, self.params, ready.arm, len(looked), scaled)
        self.tally.rounds[ready.arm] += 1
        self.learned += counted + len(late)
        return ready

    def late(self) -> int | None:
        """How many slots late totals come: nine of ten of the latest came no later; None before there are any."""
        if not self.lateness:
            return None
        return sorted(self.lateness)[math.ceil(0.9 * len(self.lateness)) - 1]

    def _end(self, event: Event) -> None:
        self.closed = True


FOLDS = {"decision": Ledger._decide, "outcome": Ledger._tell, "skip": Ledger._skip, "close": Ledger._end}
