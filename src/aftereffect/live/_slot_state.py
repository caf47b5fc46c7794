"""The state of an experiment whose policy looks at every slot."""

import json
import math
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from aftereffect._core import DecideSlots, SlotKernels, State, Vector, require_extra
from aftereffect.live._rounds import Round, RoundPlan
from aftereffect.live._state import Choice, ExperimentState
from aftereffect.live.events import Event, Link
from aftereffect.live.settings import Settings
from aftereffect.policies import Floors, Policy, move_into, slot_floors

#: The slots for which a policy's state has room at first, and by which it grows.
_ROOM = 4_096
#: The arm of a slot that was skipped.
_NONE = -1

_decides: dict[SlotKernels, DecideSlots] = {}


def prepare_decide(policy: Policy) -> DecideSlots:
    """The kernel of a policy that looks at every slot, in machine code.

    In Python it would take seconds. It is compiled once on a machine, and loaded once in a process.
    """
    kernels = cast(SlotKernels, policy.kernels())
    if isinstance(policy, Floors):  # their own part is quick: there is nothing more to compile
        base = cast(SlotKernels, policy.base.kernels())
        return slot_floors(SlotKernels(prepare_decide(policy.base), base.observe)).decide
    if kernels not in _decides:
        require_extra("live", "numba")
        from aftereffect.simulation import load_decide  # which takes a second to import

        _decides[kernels] = load_decide(policy)
    return _decides[kernels]


class SlotState(ExperimentState):
    """The state of an experiment whose policy looks at every slot.

    A round is a block of slots, and ends whether or not its totals are known. Before the next one
    is decided, the policy is shown all slots that are new, or whose total or covariates have come
    or changed since, in their order. So these may come at any time, in any order, and can always be
    revised: only later decisions change.

    A policy counts slots by the clock on the wall (see `SlotClock`). It is shown a slot without a
    decision as if the arm before it had gone on, unless a total says which arm was played.
    """

    def __init__(self, settings: Settings, start: Link) -> None:
        super().__init__(settings, start)
        #: The arm that was played, and the total, by slot; NaN where it is not known.
        self.played: list[int] = []
        self.totals: list[float] = []
        #: The covariates of slots for which some are known.
        self.covariates: dict[int, Vector] = {}
        #: Slots that were decided and have no total, in order.
        self.unanswered: dict[int, None] = {}
        #: The number of slots that the policy was shown, and those of them that have changed since.
        self.shown = 0
        self.changed: dict[int, None] = {}
        #: The number of slots on the wall that the policy was shown.
        self.shown_on_wall = 0

    def _make_policy_state(self) -> State:
        settings, count = self.settings, len(self.settings.history)
        state = self._make_room(count + _ROOM)
        totals = np.array(settings.history, np.float64)  # which has NaN for None
        covariates = np.full((count, len(settings.covariates)), np.nan)
        if settings.history_covariates:
            covariates[:] = np.array(settings.history_covariates, np.float64)
        for slot, (total, row) in enumerate(zip(totals.tolist(), covariates, strict=True), -count):
            self.kernels.observe(state, self.params, slot, 0, total, row)
        return state

    def _make_room(self, slots: int) -> State:
        self._room = slots
        return self.policy.initial_for(len(self.arms), slots, len(self.settings.covariates))

    @property
    def outstanding(self) -> int:
        return len(self.unanswered)

    def list_outstanding(self) -> Iterable[int]:
        return self.unanswered

    def is_learned(self, slot: int) -> bool:
        return slot < self.shown and slot not in self.changed

    def find_outstanding(self, slot: int) -> int | None:
        return self.played[slot] if slot in self.unanswered else None

    def list_awaited(self) -> Iterable[int]:
        return self.unanswered

    def _is_round_over(self) -> bool:
        return self.round is None or self.next_slot > self.round.until

    def _copy(self) -> "SlotState":
        twin = cast(SlotState, super()._copy())
        twin.changed = dict(self.changed)
        return twin

    def _close_round(self, *, at_once: bool = False) -> Round | None:
        over = self.round
        self._show_slots()
        if over is not None:
            self.round, self.rounds = None, self.rounds + 1
            self.arm_totals.rounds[over.arm] += 1
        return over

    def decide(self) -> Choice:
        if self._is_round_over():
            self._close_round()
            place = self._place(self.next_slot)
            decide = prepare_decide(self.settings.policy)
            arm, slots = decide(self.policy_state, self.params, place, self.draws.generator)
            until = self._find_end(place, int(slots))
            arm, chances = self._pass_over_stopped(int(arm))
            plan = RoundPlan(arm, until - self.next_slot + 1, until - self.next_slot + 1)
            self.round = Round(self.rounds, plan, until, probabilities=chances)
        current = cast(Round, self.round)
        plan, until = current.plan, current.until
        chances_text = current.probabilities
        return Choice(self.next_slot, current.number, plan.arm, until, plan.window, chances_text)

    def _place(self, slot: int) -> int:
        return self.settings.place_on_wall(slot)

    def _find_end(self, place: int, slots: int) -> int:
        """The last slot of a block of so many slots on the wall."""
        last = self.settings.planned_slots - 1
        until = min(self.next_slot + slots - 1, last)
        while until > self.next_slot and self._place(until) > place + slots - 1:
            until -= 1
        while until < last and self._place(until + 1) <= place + slots - 1:
            until += 1
        return until

    def _show_slots(self) -> None:
        """Show the policy what is new, in the order of the slots."""
        for slot in sorted(self.changed):
            self._show(slot, self._place(slot))
        for slot in range(self.shown, self.next_slot):
            place = self._place(slot)
            while self.shown_on_wall < place:  # an hour that clocks skip
                self._observe(self.shown_on_wall, self._find_arm(slot - 1), math.nan, None)
            self._show(slot, place)
        self.shown = self.next_slot
        self.changed.clear()
        self.learned = int(self.arm_totals.counts.sum())

    def _show(self, slot: int, place: int) -> None:
        self._observe(place, self._find_arm(slot), self.totals[slot], self.covariates.get(slot))

    def _observe(self, place: int, arm: int, total: float, covariates: Vector | None) -> None:
        needed = len(self.settings.history) + place + 1
        if needed > self._room:
            self.policy_state = move_into(self._make_room(2 * needed), self.policy_state)
        if covariates is None:
            covariates = np.full(len(self.settings.covariates), np.nan)
        self.kernels.observe(self.policy_state, self.params, place, arm, total, covariates)
        self.shown_on_wall = max(self.shown_on_wall, place + 1)

    def _find_arm(self, slot: int) -> int:
        """The arm that was played; of a skipped slot, the one before."""
        while slot >= 0 and self.played[slot] == _NONE:
            slot -= 1
        return self.played[slot] if slot >= 0 else 0

    def _add_slot(self, arm: int) -> None:
        self.played.append(arm)
        self.totals.append(math.nan)
        self.unanswered[self.next_slot] = None

    def _follow_record(self, recorded: Choice, expected: Choice) -> None:
        slots = max(recorded.until - recorded.slot + 1, 1)
        self.rounds = recorded.round
        self.round = Round(
            recorded.round,
            RoundPlan(recorded.arm, slots, recorded.window),
            recorded.until,
            probabilities=recorded.probabilities,
        )

    def _fold_skip(self, event: Event) -> None:
        count = cast(int, event.until) - event.slot + 1
        self.played += [_NONE] * count
        self.totals += [math.nan] * count
        self.skipped.append((event.slot, event.slot + count - 1))
        self.next_slot += count

    def _fold_total(self, event: Event) -> None:
        slot, total, counts = event.slot, event.total, self.arm_totals
        before = self.totals[slot]
        if event.revision == 0:
            self.received += 1
            self.unanswered.pop(slot, None)
        elif math.isnan(before):
            self.missing -= 1
        else:
            counts.counts[self.played[slot]] -= 1
            counts.sums[self.played[slot]] -= before
            if self.is_learned(slot):
                self.learned -= 1
        if event.arm is not None:
            self.played[slot] = event.arm
        self.totals[slot] = math.nan if total is None else total
        if event.covariates is not None:
            self.covariates[slot] = np.array(json.loads(event.covariates), np.float64)
        if slot < self.shown:
            self.changed[slot] = None
        if total is None:
            self.missing += 1
            return
        counts.counts[self.played[slot]] += 1
        counts.sums[self.played[slot]] += total
        if total != before:  # covariates may have been revised alone
            self.statistics.add(total)
        self._note_total(event)

    def write(self) -> dict[str, Any]:
        """What a snapshot holds of this state more than of others: numbers, and lists of them."""
        return {
            "room": self._room,
            "shown": self.shown,
            "shown_on_wall": self.shown_on_wall,
            "played": self.played,
            "totals": self.totals,
            "unanswered": list(self.unanswered),
            "changed": list(self.changed),
            "covariate_slots": list(self.covariates),
            "covariates": [number for row in self.covariates.values() for number in row.tolist()],
        }

    def read(self, fields: dict[str, Any]) -> None:
        """Take over what `write` returned."""
        self.policy_state = self._make_room(fields["room"])
        self.shown, self.shown_on_wall = fields["shown"], fields["shown_on_wall"]
        self.played = [int(arm) for arm in fields["played"]]
        self.totals = list(fields["totals"])
        self.unanswered = dict.fromkeys(int(slot) for slot in fields["unanswered"])
        self.changed = dict.fromkeys(int(slot) for slot in fields["changed"])
        slots = [int(slot) for slot in fields["covariate_slots"]]
        rows = np.reshape(fields["covariates"], (len(slots), len(self.settings.covariates)))
        self.covariates = dict(zip(slots, rows, strict=True))


def make_state(settings: Settings, start: Link) -> ExperimentState:
    """The state of an experiment before its first event.

    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> type(make_state(exp.settings, Link(0, exp.record.digest))).__name__
    'ExperimentState'
    """
    return (SlotState if settings.looks_at_slots else ExperimentState)(settings, start)
