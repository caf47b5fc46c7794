"""The state of an experiment: it folds the events of the log, and derives the next decision."""

import copy
import json
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, cast

import numpy as np

from aftereffect._core import POLICY, Vector, seed_sequence
from aftereffect.live._arms import Arm, follow_change, list_arms
from aftereffect.live._rounds import (
    Asked,
    Backlog,
    Journal,
    Round,
    RoundPlan,
    Shown,
    TotalStatistics,
)
from aftereffect.live._units import write_arms
from aftereffect.live.events import Event, Link
from aftereffect.live.settings import Settings
from aftereffect.policies import State, has_probabilities, map_arrays

#: The number of latest totals whose lateness is remembered.
_RECENT = 100
#: Guardrails are judged again when so many more numbers have come, as a share of those before.
_JUDGED_AGAIN = 0.02


class Draws:
    """The random numbers of a policy: those of replication 0 of a simulation with the same seed.

    A kernel calls only ``random()``. Each number takes its 53 bits from the raw bit generator.
    NumPy guarantees that stream for ever, but not the methods that are built on it. Machine code
    draws from `generator`, and takes the same bits.
    """

    def __init__(self, seed: int, position: int | None = None) -> None:
        self._bits = np.random.PCG64(seed_sequence(seed, 0, POLICY))
        #: For kernels in machine code.
        self.generator = np.random.Generator(self._bits)
        #: How many numbers kernels have drawn by `random`.
        self.drawn = 0
        if position is not None:
            state: Any = self._bits.state
            state["state"]["state"] = position
            self._bits.state = state

    @property
    def position(self) -> int:
        """The place in the stream of numbers: all that changes."""
        state: Any = self._bits.state
        return int(state["state"]["state"])

    def random(self) -> float:
        """Draw a number from [0, 1)."""
        self.drawn += 1
        return (int(self._bits.random_raw()) >> 11) * 2.0**-53

    def move_to(self, drawn: int) -> None:
        """Go to where so many numbers have been drawn."""
        if drawn != self.drawn:
            self._bits.advance(drawn - self.drawn)
            self.drawn = drawn


class Choice(NamedTuple):
    """The fields of a decision as the log stores them: the arm as a number, and the window.

    With several units, `units` are their arms, and there is no other arm.
    """

    slot: int
    round: int
    arm: int | None
    until: int
    window: int
    probabilities: str | None = None
    units: str | None = None


_read_choice = attrgetter(*Choice._fields)


class Difference(NamedTuple):
    """The first slot that the current code decides differently from the `version` that recorded it.

    Examples
    --------
    >>> Difference(slot=17, version="0.1.0").slot
    17
    """

    slot: int
    version: str


class Stop(NamedTuple):
    """Why an arm was stopped: the guardrail that showed harm, and what it showed."""

    guardrail: str
    reason: str


class SnapshotMark(NamedTuple):
    """When the last snapshot was taken: the event number, and the number of closed rounds."""

    seq: int
    rounds: int


@dataclass
class ArmTotals:
    """By arm: decided pulls, rounds that were learned, and number and sum of its totals."""

    pulls: Vector
    rounds: Vector
    counts: Vector
    sums: Vector

    @classmethod
    def zeros(cls, arms: int) -> "ArmTotals":
        """The totals before the first slot."""
        return cls(*(np.zeros(arms) for _ in range(4)))

    def make_room(self, arms: int) -> "ArmTotals":
        """The same with zeros for arms that are new."""
        new = arms - len(self.pulls)
        return ArmTotals(*(np.append(each, np.zeros(new)) for each in vars(self).values()))


class ExperimentState:
    """The state of an experiment at one position of its log.

    A round closes when the next slot is decided, not when its last total arrives. So every total
    that was recorded by then counts in the round, in whatever order they came. Later totals wait in
    the backlog for the next round of their arm.

    A total may be replaced after the policy has learned from it. Then the policy is shown all
    rounds again when the next round closes or begins (see `Journal`). What was played stays.

    Examples
    --------
    >>> from aftereffect import Experiment
    >>> exp = Experiment.create(
    ...     "banner", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 9), storage="memory://"
    ... )
    >>> state = ExperimentState(exp.settings, Link(0, exp.record.digest))
    >>> state.decide()
    Choice(slot=0, round=0, arm=0, until=0, window=1, probabilities=None, units=None)
    """

    def __init__(self, settings: Settings, start: Link) -> None:
        self.settings = settings
        #: The arms, in the order in which they came, and the policy that plays them.
        self.arms = list_arms(settings)
        self.arm_changes = 0
        self.policy = policy = settings.policy
        #: The position in the log.
        self.head = start
        self.kernels: Any = policy.kernels()
        self.params = policy.params(len(self.arms), settings.planned_slots)
        self.policy_state: State = self._make_policy_state()
        self.draws = Draws(settings.seed)
        self.arm_totals = ArmTotals.zeros(len(self.arms))
        self.statistics = self._count_history()
        self.next_slot = self.rounds = self.received = self.missing = self.learned = 0
        #: The number of slots that were planned in closed rounds, and that these rounds lasted.
        self.planned = self.lasted = 0
        self.round: Round | None = None
        self.backlog = Backlog()
        #: The first and the last slot of each gap in which nothing was decided.
        self.skipped: list[tuple[int, int]] = []
        #: The plan to repeat, after a round in which every total was missing.
        self.retry_plan: RoundPlan | None = None
        self.recent_lateness: deque[int] = deque(maxlen=_RECENT)
        self.last_total_at: str | None = None
        #: The number of slots when the last total came.
        self.slots_at_last_total = 0
        self.ended = False
        #: The arms that were stopped.
        self.stopped: dict[int, Stop] = {}
        #: Why guardrails could not be judged when that was last tried; None if they could.
        self.guardrail_problem: str | None = None
        #: How often numbers of guardrails came, in all and until guardrails were last judged.
        self.guardrails_received = self.guardrails_judged = 0
        #: What the policy was shown, from the first total on that was replaced after that.
        self.journal: Journal | None = None
        #: The number of batches that were recorded.
        self.batches = 0
        #: The number of notices, and the slot of the last one by hook and kind.
        self.notices = 0
        self.notified: dict[str, int] = {}
        self.difference: Difference | None = None
        self.last_snapshot = SnapshotMark(0, 0)

    def _make_policy_state(self) -> State:
        return self.settings.policy.initial(len(self.settings.arms))

    def _count_history(self) -> TotalStatistics:
        """Statistics of the totals before the first slot."""
        return TotalStatistics().add_all(self.settings.history)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arms, by number."""
        return tuple(arm.name for arm in self.arms)

    @property
    def decided(self) -> int:
        """The number of slots that were decided."""
        return int(self.arm_totals.pulls.sum())

    @property
    def has_reached_horizon(self) -> bool:
        """Whether all slots up to the horizon are decided."""
        return self.next_slot >= self.settings.planned_slots

    @property
    def outstanding(self) -> int:
        """The number of slots that were played and have no total yet."""
        in_round = len(self.round.outstanding) if self.round else 0
        return in_round + len(self.backlog.arms) - self.backlog.waiting

    def list_outstanding(self) -> Iterable[int]:
        """The slots that were played and have no total yet."""
        in_round = list(self.round.outstanding) if self.round else []
        return in_round + [slot for slot in self.backlog.arms if self.backlog.total(slot) is None]

    def count_answered(self, first: int) -> int:
        """How many decided slots from one on have a total, or are missing."""
        skipped = sum(max(last - max(begin, first) + 1, 0) for begin, last in self.skipped)
        outstanding = sum(slot >= first for slot in self.list_outstanding())
        return max(self.next_slot - first, 0) - skipped - outstanding

    @property
    def lateness(self) -> int | None:
        """How many slots late totals are: 90 % of the latest ones were not later."""
        if not self.recent_lateness:
            return None
        return sorted(self.recent_lateness)[math.ceil(0.9 * len(self.recent_lateness)) - 1]

    def is_skipped(self, slot: int) -> bool:
        """Whether a past slot was skipped."""
        return any(first <= slot <= last for first, last in self.skipped)

    def is_learned(self, slot: int) -> bool:
        """Whether the policy has learned from a slot that has a total."""
        return not ((self.round is not None and slot in self.round) or slot in self.backlog)

    def lacks_journal(self, event: Event) -> bool:
        """Whether an event needs a journal that this state has not kept."""
        return self.journal is None and event.kind == "total" and event.until is not None

    def find_outstanding(self, slot: int) -> int | None:
        """The arm of a slot that was decided and has no total; None for other slots."""
        if self.round is not None and slot in self.round.outstanding:
            return self.round.arm
        if slot in self.backlog and self.backlog.total(slot) is None:
            return self.backlog.arms[slot]
        return None

    def list_awaited(self) -> Iterable[int]:
        """The slots whose totals are awaited, in order."""
        return self.round.list_awaited() if self.round else ()

    def look_ahead(self) -> "ExperimentState":
        """A copy as it will be when the next slot is decided; itself if nothing will change."""
        if not self._is_round_over():
            return self
        twin = self._copy()
        if self.ended or self.has_reached_horizon:
            twin._close_round()
        else:
            twin.decide()
        return twin

    def _is_round_over(self) -> bool:
        return self.round is None or self.round.is_complete(self.next_slot)

    def _copy(self) -> "ExperimentState":
        """A copy with which a decision can be tried."""
        twin = copy.copy(self)
        twin.policy_state = map_arrays(np.copy, self.policy_state)
        twin.draws = Draws(self.settings.seed, self.draws.position)
        twin.draws.drawn = self.draws.drawn
        twin.arm_totals = copy.deepcopy(self.arm_totals)
        twin.backlog = self.backlog.copy()
        twin.journal = self.journal and self.journal.copy()
        return twin

    def decide(self) -> Choice:
        """Derive the next decision: close the round if it is complete, begin one if none is open.

        The caller must then fold the event of this decision.
        """
        before = self._close_round()
        if self.round is None:
            plan = self.retry_plan
            is_new = plan is None
            if plan is None:
                plan = RoundPlan(*self._play(Asked(self.next_slot, self.draws.drawn)))
            self.retry_plan = None
            arm, chances = self._pass_over_stopped(plan.arm, is_certain=not is_new)
            plan = plan._replace(arm=arm)
            self.round = self._begin(plan, before if before and before.arm == arm else None)
            self.round.probabilities = chances
        return self._choose(self.round)

    def _choose(self, current: Round) -> Choice:
        """The decision for the next slot, in a round."""
        arm = None if current.arms else current.arm
        units = write_arms(current.arms) if current.arms else None
        plan = (current.until, current.plan.window, current.probabilities)
        return Choice(self.next_slot, current.number, arm, *plan, units)

    def _pass_over_stopped(self, arm: int, *, is_certain: bool = False) -> tuple[int, str | None]:
        """The arm of a new round, and the probabilities of all arms as the log stores them.

        The other arms share the probability of stopped arms in proportion to their own; the
        control gets it if theirs are 0. The arm of a repeated round is certain. If the policy does
        not record its probabilities, no arm can be stopped. Guardrails were judged before this.
        """
        if self._has_news():
            self.guardrails_judged = self.guardrails_received
        if not has_probabilities(self.policy_state):
            return arm, None
        chances = [float(chance) for chance in self.policy_state.probabilities]
        if is_certain:
            chances = [float(each == arm) for each in range(len(chances))]
        if self.stopped:
            others = [0.0 if each in self.stopped else p for each, p in enumerate(chances)]
            if not any(others):
                others[0] = 1.0
            chances = [chance / math.fsum(others) for chance in others]
        if arm in self.stopped:
            mark = self.draws.random()
            for arm in (each for each, chance in enumerate(chances) if chance > 0):
                mark -= chances[arm]
                if mark < 0:
                    break
        return arm, json.dumps(chances)

    @property
    def is_judgement_due(self) -> bool:
        """Whether to judge the guardrails before the next decision.

        That is when a round is to begin, and enough numbers have come since the last time.
        """
        return self._is_round_over() and self._has_news()

    def _has_news(self) -> bool:
        """Whether enough numbers of guardrails have come that may stop an arm."""
        if not self.settings.has_stops or len(self.stopped) == len(self.arms) - 1:
            return False
        came = self.guardrails_received - self.guardrails_judged
        return came > 0 and came >= _JUDGED_AGAIN * self.guardrails_judged

    def _begin(self, plan: RoundPlan, before: Round | None) -> Round:
        """Begin a round. If the arm stays, it takes over the outstanding slots of the last one."""
        carried = list(before.outstanding) if before else []
        for slot in carried:
            self.backlog.remove(slot)
        self.lasted -= len(carried)
        further = plan.slots - len(carried)
        until = (
            carried[plan.slots - 1]
            if further <= 0
            else min(self.next_slot + further, self.settings.planned_slots) - 1
        )
        return Round(self.rounds, plan, until, outstanding=dict.fromkeys(carried))

    def _close_round(self, *, at_once: bool = False) -> Round | None:
        """Close the round if it is complete: the policy learns the totals of its arm so far."""
        ready = self.round
        if ready is None or not (at_once or ready.is_complete(self.next_slot)):
            return None
        self.round, self.rounds = None, self.rounds + 1
        self.planned += ready.plan.slots
        self.lasted += len(ready.totals) + len(ready.outstanding)
        for slot in ready.outstanding:
            self.backlog.add_slot(slot, ready.arm)
        counted = sum(total is not None for total in ready.totals.values())
        if not counted:
            self.retry_plan = ready.plan
            return ready
        late = self.backlog.pop_totals(ready.arm)
        window, totals = ready.plan.window, dict(sorted(ready.totals.items()))
        self._play(Shown(ready.arm, ready.until, window, totals, late))
        self.arm_totals.rounds[ready.arm] += 1
        self.learned += counted + len(late)
        return ready

    def _play(self, step: Asked | Shown) -> tuple[int, ...]:
        """Let the policy take its next step, and note that in the journal."""
        if self.journal is not None:
            self._play_again(self.journal)
            self.journal.keep_state(self.policy_state, len(self.journal.steps))
            self.journal.add(step)
        return self._take(step, self.draws)

    def _play_again(self, journal: Journal) -> None:
        """If totals have changed that the policy was shown, let it take its steps again."""
        if journal.changed is None:
            return
        begin, known = journal.go_back()
        self.policy_state = self._make_policy_state() if known is None else known
        draws = Draws(self.settings.seed)
        for number, step in enumerate(journal.steps[begin:], begin):
            journal.keep_state(self.policy_state, number)
            self._take(step, draws)

    def _take(self, step: Asked | Shown, draws: Draws) -> tuple[int, ...]:
        """Ask the policy for a round, or show it one; where it is asked, what it wants."""
        if isinstance(step, Asked):
            draws.move_to(step.drawn)
            # A kernel calls only random(), so Draws can stand in for a generator.
            rng = cast(np.random.Generator, draws)
            wanted = self.kernels.decide(self.policy_state, self.params, step.slot, rng)
            return tuple(map(int, wanted))
        totals = step.list_totals()
        scaled = 0.0
        for total in totals:
            scaled += self.settings.scale(total)
        if step.has_totals:  # otherwise they were taken away later
            self.kernels.absorb(self.policy_state, self.params, step.arm, len(totals), scaled)
        return ()

    def fold(self, event: Event) -> None:
        """Check that an event comes next in the log, and apply it."""
        self.head = self.head.follow(event)
        getattr(self, _FOLDS[event.kind])(event)

    def fold_all(self, events: Iterable[Event]) -> "ExperimentState":
        """Fold several events; return the state itself."""
        for event in events:
            self.fold(event)
        return self

    def _fold_decision(self, event: Event) -> None:
        expected = self.decide()
        recorded = Choice(*_read_choice(event))
        if recorded != expected:
            self.difference = self.difference or Difference(recorded.slot, event.version)
            self._follow_record(recorded, expected)
        self._add_slot(recorded)
        self.next_slot += 1

    def _add_slot(self, recorded: Choice) -> None:
        """Add the next slot to the round that was just decided or goes on."""
        cast(Round, self.round).add_slot(self.next_slot)
        self.arm_totals.pulls[cast(int, recorded.arm)] += 1

    def _follow_record(self, recorded: Choice, expected: Choice) -> None:
        """Follow the log where the current code would decide otherwise: what was played counts."""
        cast(Round, self.round).probabilities = recorded.probabilities
        if recorded[:4] == expected[:4]:
            return
        slots = max(recorded.until - recorded.slot + 1, 1)
        whole = expected.window >= expected.until - expected.slot + 1
        plan = RoundPlan(cast(int, recorded.arm), slots, slots if whole else expected.window)
        expected_round = cast(Round, self.round)
        if expected_round.totals:
            self._close_round(at_once=True)
        else:
            for slot in expected_round.outstanding:
                self.backlog.add_slot(slot, expected_round.arm)
        chances = recorded.probabilities
        self.round = Round(recorded.round, plan, recorded.until, probabilities=chances)

    def _fold_skip(self, event: Event) -> None:
        last = cast(int, event.until)
        if self.round is not None:
            self.round.postpone(event.slot, last)
            self.round.until = min(self.round.until, self.settings.planned_slots - 1)
        self.skipped.append((event.slot, last))
        self.next_slot = last + 1

    def _fold_total(self, event: Event) -> None:
        if event.until is not None:
            self._fold_replaced(event, cast(Journal, self.journal))
            return
        slot, total = event.slot, event.total
        current = self.round if self.round is not None and slot in self.round else None
        arm = event.arm
        if arm is None:  # the first logs did not record it
            arm = current.arm if current else self.backlog.arms.get(slot)
        if event.revision > 0:
            self._withdraw(slot)
        else:
            self.received += 1
        if current is not None:  # the total of another arm counts as missing in this round
            current.set_total(slot, total if arm == current.arm else None)
        else:
            self.backlog.remove(slot)
        if total is None or arm is None:
            self.missing += 1
            return
        if current is None or arm != current.arm:
            self.backlog.add_total(slot, arm, total)
        self.arm_totals.counts[arm] += 1
        self.arm_totals.sums[arm] += total
        self.statistics.add(total)
        self._note_total(event)

    def _fold_replaced(self, event: Event, journal: Journal) -> None:
        """Replace a total from which the policy has learned."""
        slot, total, arm, counts = event.slot, event.total, event.arm, self.arm_totals
        before = journal.find(slot).arm
        is_shown = total is not None and arm == before
        counts.counts[before] -= 1
        counts.sums[before] -= journal.replace(slot, total if is_shown else None)
        if not is_shown:
            self.learned -= 1
        if total is None or arm is None:
            self.missing += 1
            return
        if not is_shown:
            self.backlog.add_total(slot, arm, total)
        counts.counts[arm] += 1
        counts.sums[arm] += total
        self.statistics.add(total)
        self._note_total(event)

    def _note_total(self, event: Event) -> None:
        """Note when a total came."""
        if event.revision == 0:
            self.recent_lateness.append(self.next_slot - 1 - event.slot)
        self.last_total_at, self.slots_at_last_total = event.at, self.next_slot

    def _withdraw(self, slot: int) -> None:
        """Take back the total of a slot, which waits or is missing."""
        arm, total = self.backlog.arms.get(slot), self.backlog.total(slot)
        self.backlog.remove(slot)
        if total is None and self.round is not None and slot in self.round:
            arm, total = self.round.arm, self.round.totals[slot]
        if total is None or arm is None:
            self.missing -= 1
            return
        self.arm_totals.counts[arm] -= 1
        self.arm_totals.sums[arm] -= total

    def _fold_guardrails(self, _: Event) -> None:
        self.guardrails_received += 1

    def _fold_stop(self, event: Event) -> None:
        self.stopped = {**self.stopped, cast(int, event.arm): Stop(**_read_text(event))}

    def _fold_judgement(self, event: Event) -> None:
        self.guardrail_problem = _read_text(event)["problem"]

    def _fold_arm(self, event: Event) -> None:
        self.set_arms(follow_change(self.arms, event))
        self.arm_changes += 1
        active = [arm.is_active for arm in self.arms]
        self.policy_state = self.policy.change_arms(self.policy_state, active)
        self.arm_totals = self.arm_totals.make_room(len(self.arms))
        current = self.round
        if current is not None and not all(active[arm] for arm in current.arms or (current.arm,)):
            current.until = min(current.until, self.next_slot - 1)

    def set_arms(self, arms: tuple[Arm, ...]) -> None:
        """Go on with these arms; the state of the policy is changed apart."""
        self.arms = arms
        self.policy = self.settings.policy.with_active([arm.is_active for arm in arms])
        self.params = self.policy.params(len(arms), self.settings.planned_slots)

    def _fold_batch(self, _: Event) -> None:
        self.batches += 1

    def _fold_notice(self, event: Event) -> None:
        of = _read_text(event)
        self.notices += 1
        self.notified = {**self.notified, f"{of['hook']} {of['kind']}": event.slot}

    def _fold_end(self, _: Event) -> None:
        self.ended = True


def _read_text(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(event.guardrails or "")
    return fields


_FOLDS = {
    "decision": "_fold_decision",
    "total": "_fold_total",
    "guardrails": "_fold_guardrails",
    "stop": "_fold_stop",
    "judgement": "_fold_judgement",
    "skip": "_fold_skip",
    "arm": "_fold_arm",
    "batch": "_fold_batch",
    "notice": "_fold_notice",
    "end": "_fold_end",
}
