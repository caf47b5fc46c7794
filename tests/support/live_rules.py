"""The rules of live experiments, by their description alone: which slots a round has, when it closes, what is learned."""

import pytest

ARMS = ("A", "B", "C")
#: The numbers of a guardrail with which an arm shows harm, and with which an analysis fails.
HARM, FAILURE = 8.0, 9.0
GUARDED = ("complaints", "refunds")


class Rules:
    """What must come of what `clients` do, where policies learn from rounds."""

    def begin_rules(self):
        self.decided = {}
        self.next = 0
        self.skipped = set()
        self.totals_by_slot = {}  # by slot: the total, None if missing, and the arm that was played
        self.ended = False
        self.round = None  # the arm, the slots and the last planned slot of the open round
        self.rounds = 0  # that were closed
        self.learned = set()
        self.guarded = {}  # by slot: the numbers of the guardrails
        self.told = False  # whether some came since guardrails were judged
        self.stopped = set()
        self.problem = None
        self.batches = {}  # by key: the slot
        self.states = dict.fromkeys(ARMS, "active")  # of arms, in the order in which they came

    def judge(self):
        """What guardrails say before a round begins, by their description alone."""
        if not (self.may_stop and self.told) or self.stopped == {*self.states} - {"A"}:
            return
        self.told = False
        numbers = {slot: row["complaints"] for slot, row in self.guarded.items()}
        self.problem = "complaints: nine" if FAILURE in numbers.values() else None
        if self.problem is None and self.decided:
            first = min(self.decided)
            self.stopped |= {
                self.find_played(slot)
                for slot, number in numbers.items()
                if number == HARM and slot >= first
            } - {"A"}

    def find_played(self, slot):
        """The arm that was played: of a skipped slot without a total, the one before."""
        for before in range(slot, -1, -1):
            total, arm = self.totals_by_slot.get(before, (None, None))
            if arm is not None and (total is not None or before in self.decided):
                return arm
            if before in self.decided:
                return self.decided[before].arm
        return "A"

    def check_stops(self, slot):
        """No arm is played that is stopped or not active, and the recorded probabilities say so."""
        assert self.states[slot.arm] == "active"
        if slot.probabilities is not None and slot.slot == self.begun:
            assert sum(slot.probabilities.values()) == pytest.approx(1)
            assert slot.probabilities[slot.arm] > 0
            assert all(slot.probabilities[arm] == 0 for arm in self.stopped)
            assert slot.arm not in self.stopped
            assert all(slot.probabilities[arm] == 0 for arm in self.list_inactive())
            assert list(slot.probabilities) == list(self.states)

    def list_inactive(self):
        """The arms that are paused or retired."""
        return [arm for arm, state in self.states.items() if state != "active"]

    def is_complete(self):
        """Whether the open round has all that it was planned for."""
        if self.round is None:
            return False
        _, slots, until = self.round
        return self.next > until and all(
            slot in self.totals_by_slot for slot in slots if slot <= until
        )

    def learnable(self):
        """What the policy learns when the open round closes now: all that was told of its arm, if anything was in the round."""
        arm, slots, _ = self.round
        ours = {
            slot
            for slot, (total, played) in self.totals_by_slot.items()
            if total is not None and played == arm
        }
        return ours - self.learned if ours & set(slots) else set()

    def take(self, slot):
        """A decision was answered: it must be what the rules allow."""
        assert slot.slot == self.next
        with self.clients[0].storage.reading(self.clients[0].record.id) as view:
            (until,) = [
                event.until
                for event, _ in view.slot_events(slot.slot, slot.slot + 1)
                if event.kind == "decision"
            ]
        carried = []
        if self.round is None or self.is_complete():
            self.judge()
            self.begun = slot.slot
        if self.is_complete():
            arm, slots, _ = self.round
            learned = self.learnable()
            # Where nothing was learned the same is planned again.
            assert learned or slot.arm == arm or arm in self.stopped
            self.learned |= learned
            self.rounds += 1
            self.round = None
            carried = (
                [past for past in slots if past not in self.totals_by_slot]
                if slot.arm == arm
                else []
            )
        if self.round is None:
            self.round = [slot.arm, carried, until]
            assert until >= (carried[0] if carried else slot.slot)
        arm, slots, last = self.round
        assert (slot.round, slot.arm, until) == (self.rounds, arm, last)
        assert slot.hold == (slot.slot > until)
        assert slot.until == max(until, slot.slot)
        self.check_stops(slot)
        slots.append(slot.slot)
        self.decided[slot.slot] = slot
        self.next += 1

    def postpone(self, first, gap):
        """An open round goes on after a gap."""
        if self.round is not None and self.round[2] >= first:
            self.round[2] += gap

    def is_fixed(self, number, revise):
        """Whether a total that was recorded for a slot cannot be replaced."""
        return number in self.totals_by_slot and not revise

    def forget(self, number, total, played):
        """A total is replaced: what was learned stays learned, unless it is taken away from its arm."""
        if total is None or played != self.totals_by_slot.get(number, (None, None))[1]:
            self.learned.discard(number)

    def note(self, number, total):
        """A total was recorded, of the arm that was advised."""
        self.totals_by_slot[number] = total, self.decided[number].arm


class SlotRules(Rules):
    """The same where policies look at every slot: no block waits for totals, and every total can be replaced."""

    def is_complete(self):
        return self.round is not None and self.next > self.round[2]

    def learnable(self):
        told = {slot for slot, (total, _) in self.totals_by_slot.items() if total is not None}
        return told - self.learned

    def take(self, slot):
        assert slot.slot == self.next
        assert slot.time == self.clients[0].settings.find_time(slot.slot)
        if self.round is None or self.is_complete():
            self.judge()
            self.begun = slot.slot
            self.rounds += self.round is not None
            self.learned |= self.learnable()
            self.round = [slot.arm, None, slot.until]
        assert (slot.round, slot.arm, slot.until) == (self.rounds, self.round[0], self.round[2])
        assert not slot.hold
        self.check_stops(slot)
        self.decided[slot.slot] = slot
        self.next += 1

    def postpone(self, first, gap):
        """Blocks end when they were planned to."""

    def forget(self, number, total, played):
        """A total was replaced: the policy learns it with the next block."""
        self.learned.discard(number)
