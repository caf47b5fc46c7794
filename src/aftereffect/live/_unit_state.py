"""The state of an experiment with several units, which share the policy and what it learns."""

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any, NamedTuple, cast

import numpy as np

from aftereffect._core import Matrix, Slots, State, Vector
from aftereffect.live._rounds import Round, RoundPlan, TotalStatistics
from aftereffect.live._slot_state import SlotState
from aftereffect.live._slotwise_state import NO_ARM, SlotwiseState
from aftereffect.live._state import Choice, ExperimentState
from aftereffect.live._units import (
    Covariates,
    UnitTotal,
    read_arms,
    read_unit_totals,
    write_chances,
)
from aftereffect.live.events import Event, Link
from aftereffect.live.settings import Settings
from aftereffect.policies import UnitPolicy


class KnownTotal(NamedTuple):
    """What is recorded of one unit in a slot; the arm is None if nothing was played."""

    total: float | None
    arm: int | None
    covariates: Covariates | None


class UnitCounts(NamedTuple):
    """The totals of one unit: how many came, are missing and outstanding, and their mean."""

    received: int
    missing: int
    outstanding: int
    mean: float | None


class UnitState(SlotwiseState):
    """The state of an experiment with several units.

    A round is a block of slots for all units, in which each of them plays an arm. Totals of units
    come apart: a slot is shown to the policy again when the total of any unit has come or changed.
    """

    played: list[Slots]
    totals: list[Vector]
    covariates: dict[int, Matrix]
    #: How many units have no total, by slot.
    unanswered: dict[int, int]
    #: The units whose total has come or changed since the policy was shown a slot.
    changed: dict[int, frozenset[int]]

    def __init__(self, settings: Settings, start: Link) -> None:
        super().__init__(settings, start)
        #: Which units have a total or are missing, by slot.
        self.answered: list[Any] = []
        #: How often totals of a slot were recorded.
        self.recordings: list[int] = []
        #: The arm that was decided, where a unit played another one, by slot and unit.
        self.replaced: dict[tuple[int, int], int] = {}
        #: Statistics of the totals of each unit.
        self.unit_statistics = [
            TotalStatistics().add_all(row[unit] for row in settings.history)
            for unit in range(len(settings.units))
        ]

    def _count_history(self) -> TotalStatistics:
        return TotalStatistics()  # those of units are apart

    @property
    def _nothing(self) -> tuple[Slots, Vector, Matrix]:
        units = len(self.settings.units)
        rows = np.full((units, len(self.settings.covariates)), np.nan)
        return np.zeros(units, np.int64), np.full(units, np.nan), rows

    def _make_initial(self, slots: int) -> State:
        settings = self.settings
        policy = cast(UnitPolicy, self.policy)
        sizes = (len(self.arms), len(settings.units), slots, len(settings.covariates))
        return policy.initial_for_units(*sizes)

    @property
    def decided(self) -> int:
        return int(self.arm_totals.pulls.sum()) // len(self.settings.units)

    @property
    def outstanding(self) -> int:
        return sum(self.unanswered.values())

    def count_answered(self, first: int) -> int:
        slots = range(max(first, 0), self.next_slot)
        skipped = sum(max(last - max(begin, first) + 1, 0) for begin, last in self.skipped)
        waiting = sum(count for slot, count in self.unanswered.items() if slot >= first)
        return (len(slots) - skipped) * len(self.settings.units) - waiting

    def is_unit_learned(self, slot: int, unit: int) -> bool:
        """Whether the policy has learned from a unit's slot that has a total."""
        return slot < self.shown and unit not in self.changed.get(slot, ())

    def find_known(self, slot: int, unit: int) -> KnownTotal | None:
        """What is recorded of a unit in a slot; None if nothing is."""
        if not self.answered[slot][unit]:
            return None
        total, arm = float(self.totals[slot][unit]), int(self.played[slot][unit])
        row = self.covariates.get(slot)
        known = None if row is None else tuple(None if x != x else x for x in row[unit].tolist())
        return KnownTotal(None if total != total else total, None if arm == NO_ARM else arm, known)

    def find_decided(self, slot: int, unit: int) -> int | None:
        """The arm that was decided for a unit; None if the slot was skipped."""
        if self.is_skipped(slot):
            return None
        return self.replaced.get((slot, unit), int(self.played[slot][unit]))

    def count_units(self) -> Iterator[UnitCounts]:
        """What came of each unit."""
        totals = np.array(self.totals).reshape(-1, len(self.settings.units))
        answered = np.array(self.answered, bool).reshape(totals.shape)
        waiting = ~answered[list(self.unanswered)]
        known = ~np.isnan(totals)
        sums = np.where(known, totals, 0.0).sum(axis=0).tolist()
        rows = (each.sum(axis=0).tolist() for each in (answered, known, waiting))
        for total, received, count, outstanding in zip(sums, *rows, strict=True):
            mean = total / count if count else None
            yield UnitCounts(received, received - count, outstanding, mean)

    def _count_round(self, over: Round) -> None:
        for arm in set(over.arms):
            self.arm_totals.rounds[arm] += 1

    def _draw_round(self, place: int) -> Round:
        rng = self.draws.generator
        slots = self.kernels.decide(self.policy_state, self.params, place, rng)
        until = self._find_end(place, int(slots))
        plan = RoundPlan(NO_ARM, until - self.next_slot + 1, until - self.next_slot + 1)
        arms = tuple(int(arm) for arm in self.policy_state.choices)
        text = write_chances(self.policy_state.probabilities)
        return Round(self.rounds, plan, until, probabilities=text, arms=arms)

    def _find_played(self, slot: int) -> Slots:
        arms = self.played[slot].copy() if slot >= 0 else self._nothing[0]
        while (arms == NO_ARM).any():
            slot -= 1
            before = self.played[slot] if slot >= 0 else self._nothing[0]
            arms = np.where(arms == NO_ARM, before, arms)
        return arms

    def _add_slot(self, recorded: Choice) -> None:
        arms = np.array(read_arms(recorded.units), np.int64)
        self._add_arms(arms)
        self.unanswered[self.next_slot] = len(arms)
        np.add.at(self.arm_totals.pulls, arms, 1)

    def _add_gap(self) -> None:
        self._add_arms(np.full(len(self.settings.units), NO_ARM))

    def _add_arms(self, arms: Slots) -> None:
        self.played.append(arms)
        self.totals.append(np.full(len(arms), np.nan))
        self.answered.append(np.zeros(len(arms), bool))
        self.recordings.append(0)

    def _fold_total(self, event: Event) -> None:
        self.recordings[event.slot] += 1
        for given in read_unit_totals(event.units):
            self._fold_unit(event, given)

    def _fold_unit(self, event: Event, given: UnitTotal) -> None:
        """Record what one unit observed, in the place of what was known."""
        slot, (unit, arm, total, covariates) = event.slot, given
        counts, known = self.arm_totals, self.find_known(slot, unit)
        if known is None:
            self.received += 1
            self.answered[slot][unit] = True
            self._answer(slot)
        elif known.total is None:
            self.missing -= 1
        else:
            counts.counts[known.arm] -= 1
            counts.sums[known.arm] -= known.total
            if self.is_unit_learned(slot, unit):
                self.learned -= 1
        if arm is not None:
            self._set_played(slot, unit, arm)
        self.totals[slot][unit] = np.nan if total is None else total
        if covariates is not None:
            row = self.covariates.setdefault(slot, self._nothing[2])
            row[unit] = np.array(covariates, np.float64)
        if slot < self.shown:
            self.changed[slot] = self.changed.get(slot, frozenset()) | {unit}
        if total is None or arm is None:
            self.missing += 1
            return
        counts.counts[arm] += 1
        counts.sums[arm] += total
        if known is None or known.total != total:  # covariates may have been revised alone
            self.unit_statistics[unit].add(total)
        if known is None:
            self.recent_lateness.append(self.next_slot - 1 - slot)
        self.last_total_at, self.slots_at_last_total = event.at, self.next_slot

    def _answer(self, slot: int) -> None:
        """Count a unit that has its first answer, if the slot was decided."""
        if slot in self.unanswered:
            self.unanswered[slot] -= 1
            if not self.unanswered[slot]:
                del self.unanswered[slot]

    def _set_played(self, slot: int, unit: int, arm: int) -> None:
        decided = self.find_decided(slot, unit)
        if decided is not None and decided != arm:
            self.replaced[slot, unit] = decided
        else:
            self.replaced.pop((slot, unit), None)
        self.played[slot][unit] = arm

    def write(self) -> dict[str, Any]:
        changed = [(slot, unit) for slot, units in self.changed.items() for unit in sorted(units)]
        replaced = [(*where, arm) for where, arm in self.replaced.items()]
        return super().write() | {
            "played": _flatten(self.played),
            "totals": _flatten(self.totals),
            "answered": _flatten(self.answered),
            "recordings": self.recordings,
            "unanswered": _flatten(self.unanswered.items()),
            "changed": _flatten(changed),
            "replaced": _flatten(replaced),
            "covariate_slots": list(self.covariates),
            "covariates": _flatten(self.covariates.values()),
            "statistics": _flatten(astuple(each) for each in self.unit_statistics),
        }

    def read(self, fields: dict[str, Any]) -> None:
        super().read(fields)
        units = len(self.settings.units)

        def shape(name: str, *sizes: int) -> Any:
            return np.array(fields[name], np.float64).reshape(-1, *sizes)

        self.played = list(shape("played", units).astype(np.int64))
        self.totals = list(shape("totals", units))
        self.answered = list(shape("answered", units).astype(bool))
        self.recordings = [int(count) for count in fields["recordings"]]
        self.changed = {}
        for slot, unit in shape("changed", 2).astype(int).tolist():
            self.changed[slot] = self.changed.get(slot, frozenset()) | {unit}
        self.replaced = {
            (slot, unit): arm for slot, unit, arm in shape("replaced", 3).astype(int).tolist()
        }
        self.unanswered = dict(shape("unanswered", 2).astype(int).tolist())
        slots = [int(slot) for slot in fields["covariate_slots"]]
        rows = np.reshape(fields["covariates"], (len(slots), *self._nothing[2].shape))
        self.covariates = dict(zip(slots, rows, strict=True))
        self.unit_statistics = [
            TotalStatistics(int(count), *rest) for count, *rest in shape("statistics", 5).tolist()
        ]


def _flatten(rows: Any) -> Vector:
    """All numbers of some rows, one after another."""
    return np.array(list(rows), np.float64).ravel()


def make_state(settings: Settings, start: Link) -> ExperimentState:
    """The state of an experiment before its first event.

    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> type(make_state(exp.settings, Link(0, exp.record.digest))).__name__
    'ExperimentState'
    """
    if settings.units:
        return UnitState(settings, start)
    return (SlotState if settings.looks_at_slots else ExperimentState)(settings, start)
