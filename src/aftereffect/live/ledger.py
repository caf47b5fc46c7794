"""The state of an experiment as the fold of its log: events go in one by one, and the next decision comes out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from aftereffect.kernels import Vector
from aftereffect.live.events import Event, Link
from aftereffect.live.randomness import Draws
from aftereffect.live.settings import Settings
from aftereffect.policies import State


class Plan(NamedTuple):
    """What a policy wants of a round."""

    arm: int
    slots: int
    window: int


@dataclass
class Round:
    """A round that is not closed yet: planned from slot `first` up to `until`, and what was told of it so far."""

    number: int
    arm: int
    first: int
    until: int
    window: int
    #: None for a slot that is missing.
    told: dict[int, float | None] = field(default_factory=dict)
    #: How many planned slots have neither a total nor are missing.
    waiting: int = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = self.slots

    @property
    def slots(self) -> int:
        """How many are planned."""
        return self.until - self.first + 1

    def tell(self, slot: int, value: float | None) -> None:
        """Note a total, or that it is missing, perhaps in place of what was told before."""
        if slot not in self.told and slot <= self.until:
            self.waiting -= 1
        self.told[slot] = value

    def awaited(self, next_slot: int) -> list[int]:
        """The planned slots that were played and not told."""
        return [slot for slot in range(self.first, min(self.until + 1, next_slot)) if slot not in self.told]


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


@dataclass
class Tally:
    """By arm: slots decided, rounds that were absorbed, slots that counted in them and what these brought in all."""

    slots: Vector
    rounds: Vector
    counted: Vector
    collected: Vector

    @classmethod
    def of(cls, arms: int) -> "Tally":
        return cls(*(np.zeros(arms) for _ in range(4)))


class Ledger:
    """An experiment up to a place in its log.

    Only the open round is kept slot by slot: what is older has shaped the policy's state and cannot change any more.
    """

    def __init__(self, settings: Settings, start: Link) -> None:
        self.settings = settings
        self.place = start
        self.kernels = settings.policy.kernels()
        self.params = settings.policy.params(len(settings.arms), settings.planned_slots)
        self.state: State = settings.policy.initial(len(settings.arms))
        self.draws = Draws(settings.seed)
        self.tally = Tally.of(len(settings.arms))
        self.next_slot = self.rounds = self.told = self.missing = 0
        self.round: Round | None = None
        #: A round with nothing but missing slots is planned again.
        self.again: Plan | None = None
        self.closed = False
        self.difference: Difference | None = None

    def decision(self) -> Decision:
        """What the next slot will be. Where a round begins the policy decides; asked again, the answer is the same."""
        if self.round is None:
            arm, slots, window = self.again or self._decided()
            first = self.next_slot
            until = min(first + slots, self.settings.planned_slots) - 1
            self.round = Round(self.rounds, arm, first, until, min(window, until - first + 1))
        return Decision(self.next_slot, self.round.number, self.round.arm, self.round.until, self.round.window)

    def _decided(self) -> Plan:
        decide = self.kernels.decide
        # A kernel asks its generator for nothing but random().
        rng = cast(np.random.Generator, self.draws)
        return Plan(*map(int, decide(*self.state, self.params, self.next_slot, rng)))

    @property
    def ended(self) -> bool:
        """Whether all slots up to the horizon are decided."""
        return self.next_slot >= self.settings.planned_slots

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
        expected = self.decision()
        recorded = Decision(*cast(Any, (event.slot, event.round, event.arm, event.until, event.window)))
        if recorded != expected:
            self._replan(recorded, expected, event.version)
        self.next_slot += 1
        self.tally.slots[recorded.arm] += 1

    def _replan(self, recorded: Decision, expected: Decision, version: str) -> None:
        """The log is the truth: what was played is what is learned from, in the way that today's code looks at it."""
        self.difference = self.difference or Difference(recorded.slot, version)
        if recorded[:4] != expected[:4]:
            whole = expected.window >= expected.until - expected.slot + 1
            slots = recorded.until - recorded.slot + 1
            self.round = Round(recorded.round, recorded.arm, recorded.slot, recorded.until, slots if whole else expected.window)

    def _tell(self, event: Event) -> None:
        if event.revision == 0:
            self.told += 1
        self.missing += event.value is None
        if event.round is None or self.round is None:
            return
        if event.revision > 0:
            self.missing -= self.round.told[event.slot] is None
        self.round.tell(event.slot, event.value)
        if self.round.waiting == 0:
            self._absorb(self.round)

    def _absorb(self, ready: Round) -> None:
        """Close a round: the policy learns from what was told of it by now."""
        values = [value for _, value in sorted(ready.told.items()) if value is not None]
        self.round, self.rounds = None, self.rounds + 1
        if not values:
            self.again = Plan(ready.arm, ready.slots, ready.window)
            return
        self.again = None
        looked = values if ready.window >= ready.slots else values[len(values) - min(ready.window, len(values)) :]
        total = 0.0
        for value in looked:
            total += self.settings.scaled(value)
        self.kernels.absorb(*self.state, self.params, ready.arm, len(looked), total)
        self.tally.rounds[ready.arm] += 1
        self.tally.counted[ready.arm] += len(values)
        self.tally.collected[ready.arm] += sum(values)

    def _close(self, event: Event) -> None:
        self.closed = True


FOLDS = {"decision": Ledger._decide, "outcome": Ledger._tell, "close": Ledger._close}
