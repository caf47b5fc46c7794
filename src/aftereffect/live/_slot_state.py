"""The state of an experiment whose policy looks at every slot."""

import json
import math
from typing import Any, cast

import numpy as np

from aftereffect._core import DecideSlots, SlotKernels, State, Vector, require_extra
from aftereffect.live._rounds import Round, RoundPlan
from aftereffect.live._slotwise_state import NO_ARM, SlotwiseState
from aftereffect.live._state import Choice
from aftereffect.live.events import Event
from aftereffect.policies import Floors, Policy, slot_floors

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


class SlotState(SlotwiseState):
    """The state of an experiment whose policy looks at every slot, and which has one unit."""

    played: list[int]
    totals: list[float]
    covariates: dict[int, Vector]
    unanswered: dict[int, None]
    changed: dict[int, None]

    @property
    def _nothing(self) -> tuple[int, float, Vector]:
        return 0, math.nan, np.full(len(self.settings.covariates), np.nan)

    def _make_initial(self, slots: int) -> State:
        return self.policy.initial_for(len(self.arms), slots, len(self.settings.covariates))

    @property
    def outstanding(self) -> int:
        return len(self.unanswered)

    def is_learned(self, slot: int) -> bool:
        return slot < self.shown and slot not in self.changed

    def find_outstanding(self, slot: int) -> int | None:
        return self.played[slot] if slot in self.unanswered else None

    def _count_round(self, over: Round) -> None:
        self.arm_totals.rounds[over.arm] += 1

    def _draw_round(self, place: int) -> Round:
        decide = prepare_decide(self.settings.policy)
        arm, slots = decide(self.policy_state, self.params, place, self.draws.generator)
        until = self._find_end(place, int(slots))
        arm, chances = self._pass_over_stopped(int(arm))
        plan = RoundPlan(arm, until - self.next_slot + 1, until - self.next_slot + 1)
        return Round(self.rounds, plan, until, probabilities=chances)

    def _find_played(self, slot: int) -> int:
        while slot >= 0 and self.played[slot] == NO_ARM:
            slot -= 1
        return self.played[slot] if slot >= 0 else 0

    def _add_slot(self, recorded: Choice) -> None:
        arm = cast(int, recorded.arm)
        self.played.append(arm)
        self.totals.append(math.nan)
        self.unanswered[self.next_slot] = None
        self.arm_totals.pulls[arm] += 1

    def _add_gap(self) -> None:
        self.played.append(NO_ARM)
        self.totals.append(math.nan)

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
        return super().write() | {
            "played": self.played,
            "totals": self.totals,
            "unanswered": list(self.unanswered),
            "changed": list(self.changed),
            "covariate_slots": list(self.covariates),
            "covariates": [number for row in self.covariates.values() for number in row.tolist()],
        }

    def read(self, fields: dict[str, Any]) -> None:
        super().read(fields)
        self.played = [int(arm) for arm in fields["played"]]
        self.totals = list(fields["totals"])
        self.unanswered = dict.fromkeys(int(slot) for slot in fields["unanswered"])
        self.changed = dict.fromkeys(int(slot) for slot in fields["changed"])
        slots = [int(slot) for slot in fields["covariate_slots"]]
        rows = np.reshape(fields["covariates"], (len(slots), len(self.settings.covariates)))
        self.covariates = dict(zip(slots, rows, strict=True))
