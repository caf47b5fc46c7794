"""What the states have in common of experiments whose policy looks at every slot."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from aftereffect._core import State
from aftereffect.live._rounds import Round, RoundPlan
from aftereffect.live._state import Choice, ExperimentState
from aftereffect.live._units import read_arms
from aftereffect.live.events import Event, Link
from aftereffect.live.settings import Settings
from aftereffect.policies import move_into

#: The totals for which a policy's state has room at first.
_ROOM = 4_096
#: The arm of a slot that was skipped.
NO_ARM = -1


class SlotwiseState(ExperimentState, ABC):
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
        #: What was played, and the total, by slot; NaN where it is not known.
        self.played: list[Any] = []
        self.totals: list[Any] = []
        #: The covariates of slots for which some are known.
        self.covariates: dict[int, Any] = {}
        #: Slots that were decided and lack a total, in order.
        self.unanswered: dict[int, Any] = {}
        #: The number of slots that the policy was shown, and those of them that have changed since.
        self.shown = 0
        self.changed: dict[int, Any] = {}
        #: The number of slots on the wall that the policy was shown.
        self.shown_on_wall = 0

    @property
    @abstractmethod
    def _nothing(self) -> tuple[Any, Any, Any]:
        """The first arm, no total and no covariates, as the policy is shown them."""

    @abstractmethod
    def _make_initial(self, slots: int) -> State:
        """A fresh state of the policy, with room for so many slots."""

    @abstractmethod
    def _draw_round(self, place: int) -> Round:
        """Ask the policy for the next round, which begins at a place on the wall."""

    @abstractmethod
    def _count_round(self, over: Round) -> None:
        """Count a round that is over for the arms that it played."""

    @abstractmethod
    def _find_played(self, slot: int) -> Any:
        """The arm that was played; of a skipped slot, the one before."""

    @abstractmethod
    def _add_gap(self) -> None:
        """Add the next slot, for which nothing was decided."""

    def _make_policy_state(self) -> State:
        settings, count = self.settings, len(self.settings.history)
        first, total, row = self._nothing
        state = self._make_room(count + max(_ROOM // np.size(total), 1))
        totals, rows = (np.full((count, *np.shape(each)), np.nan) for each in (total, row))
        if settings.history:
            totals[:] = np.array(settings.history, np.float64)  # which has NaN for None
        if settings.history_covariates:
            rows[:] = np.array(settings.history_covariates, np.float64)
        for place in range(-count, 0):
            seen = totals[place]
            total = float(seen) if np.ndim(seen) == 0 else seen
            self.kernels.observe(state, self.params, place, first, total, rows[place])
        return state

    def _make_room(self, slots: int) -> State:
        self._room = slots
        return self._make_initial(slots)

    def list_outstanding(self) -> Iterable[int]:
        return self.unanswered

    def list_awaited(self) -> Iterable[int]:
        return self.unanswered

    def _is_round_over(self) -> bool:
        return self.round is None or self.next_slot > self.round.until

    def _copy(self) -> "SlotwiseState":
        twin = cast(SlotwiseState, super()._copy())
        twin.changed = dict(self.changed)
        return twin

    def _close_round(self, *, at_once: bool = False) -> Round | None:
        over = self.round
        self._show_slots()
        if over is not None:
            self.round, self.rounds = None, self.rounds + 1
            self._count_round(over)
        return over

    def decide(self) -> Choice:
        if self._is_round_over():
            self._close_round()
            self.round = self._draw_round(self._place(self.next_slot))
        return self._choose(cast(Round, self.round))

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
        _, nothing, _ = self._nothing
        for slot in sorted(self.changed):
            self._show(slot, self._place(slot))
        for slot in range(self.shown, self.next_slot):
            place = self._place(slot)
            while self.shown_on_wall < place:  # an hour that clocks skip
                self._observe(self.shown_on_wall, self._find_played(slot - 1), nothing, None)
            self._show(slot, place)
        self.shown = self.next_slot
        self.changed.clear()
        self.learned = int(self.arm_totals.counts.sum())

    def _show(self, slot: int, place: int) -> None:
        self._observe(place, self._find_played(slot), self.totals[slot], self.covariates.get(slot))

    def _observe(self, place: int, played: Any, total: Any, covariates: Any) -> None:
        needed = len(self.settings.history) + place + 1
        if needed > self._room:
            self.policy_state = move_into(self._make_room(2 * needed), self.policy_state)
        if covariates is None:
            covariates = self._nothing[2]
        self.kernels.observe(self.policy_state, self.params, place, played, total, covariates)
        self.shown_on_wall = max(self.shown_on_wall, place + 1)

    def _follow_record(self, recorded: Choice, expected: Choice) -> None:
        slots = max(recorded.until - recorded.slot + 1, 1)
        arm = NO_ARM if recorded.arm is None else recorded.arm
        self.rounds = recorded.round
        self.round = Round(
            recorded.round,
            RoundPlan(arm, slots, recorded.window),
            recorded.until,
            probabilities=recorded.probabilities,
            arms=read_arms(recorded.units),
        )

    def _fold_skip(self, event: Event) -> None:
        last = cast(int, event.until)
        while self.next_slot <= last:
            self._add_gap()
            self.next_slot += 1
        self.skipped.append((event.slot, last))

    def write(self) -> dict[str, Any]:
        """What a snapshot holds of this state more than of others: numbers, and lists of them."""
        return {"room": self._room, "shown": self.shown, "shown_on_wall": self.shown_on_wall}

    def read(self, fields: dict[str, Any]) -> None:
        """Take over what `write` returned."""
        self.policy_state = self._make_room(fields["room"])
        self.shown, self.shown_on_wall = fields["shown"], fields["shown_on_wall"]
