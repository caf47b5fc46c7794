"""Live experiments under a hypothesis state machine: whatever clients do, in whatever order, the promises hold.

What must come of it says `live_rules`, from the description alone."""

import json
import threading
from itertools import count
from types import SimpleNamespace
from typing import ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import aftereffect as ae
from aftereffect.inference import Effect
from aftereffect.live import _results, _rounds, _slotwise_state, _state, chain_start, make_state
from aftereffect.live._reading import fold_events
from fragile import CrashError, Fragile, as_one
from live_rules import ARMS, FAILURE, GUARDED, HARM, Rules, SlotRules

POLICIES = [
    "ars-ucb(growth=power(1))",
    "ucb1",
    "clw(d=1)",
    "exp3",
    "round-robin",
    "ars-exp3(beta=0.3)",
    "mini-batch(size=3)",
    # The control and C keep a share of the rounds.
    "floors(ucb1, [0.3, 0, 0.2])",
    "floors(ars-ucb(growth=power(1)), [0.25, 0, 0.25])",
    "floors(exp3, [0.5, 0, 0])",
]
#: Of these, arms may be stopped: policies that draw their arms, and learn from any arm.
STOPPABLE = ("floors(ucb1", "floors(ars-ucb")
#: These look at every slot.
SLOT_POLICIES = [
    "fixed-switchback(block=3)",
    "optimal-switchback(carryover=2, blocks=9)",
    "adaptive-switchback(slots_per_day=2, delay=interval(0, 2))",  # small: it is folded at every step
    "floors(fixed-switchback(block=2), [0.3, 0.2, 0])",
    "floors(adaptive-switchback(slots_per_day=2, delay=interval(0, 2)), [0.2, 0, 0.2])",
]
EXAMPLES = {"memory": 200, "sqlite": 60, "postgresql": 25}
TOTALS = st.sampled_from([0.0, 1.0, 2.5, 7.0, None])
#: Numbers of guardrails: with the last but one an arm shows harm, and with the last an analysis fails.
NUMBERS = st.sampled_from([*[0.0, 1.0, 2.0, None] * 4, HARM, FAILURE])
NAMES = count()


def analyse(trial, names, level):
    """In place of an analysis, which would take long: an arm with the number 8 shows harm."""
    if FAILURE in trial.totals:
        raise ZeroDivisionError("nine")
    harmful = {int(arm) for arm in trial.played[trial.totals == HARM]}
    effects = tuple(
        Effect(names[arm], names[0], 30.0, 10.0 if arm in harmful else -10.0, None, 3.0, None, None)
        for arm in range(1, len(names))
    )
    return SimpleNamespace(effects=effects, blocks=len(trial.starts), mean=1.0)


class Machine(Rules, RuleBasedStateMachine):
    #: What the settings of experiments have in common.
    common: ClassVar = {"arms": ARMS, "horizon": 10_000, "reward_range": (0, 10)}

    def __init__(self, connect):
        super().__init__()
        self.connect = connect

    @initialize(policy=st.sampled_from(POLICIES), seed=st.integers(0, 5))
    def create(self, policy, seed):
        self.begin(policy, seed)

    def begin(self, policy, seed):
        self.name = f"machine-{next(NAMES)}"
        self.may_stop = policy.startswith(STOPPABLE) or self.common["arms"] is not ARMS
        self.may_change = "adaptive-switchback" in policy
        self.settings = {
            **self.common,
            "policy": policy,
            "seed": seed,
            "guardrails": [
                ae.Guardrail("complaints", stops=self.may_stop),
                ae.Guardrail("refunds", harm="less"),
            ],
        }
        self.clients = [
            ae.Experiment.create(self.name, **self.settings, storage=Fragile(self.connect()))
            for _ in range(2)
        ]
        self.events = []  # of the log
        self.fold = make_state(self.clients[0].settings, chain_start(self.clients[0].record))
        self.begin_rules()

    # What clients do

    who = st.integers(0, 1)

    @rule(who=who)
    def ask(self, who):
        if self.ended:
            with pytest.raises(ae.ConflictError, match="has ended"):
                self.clients[who].ask()
        else:
            self.take(self.clients[who].ask())

    @rule(who=who, times=st.integers(1, 8), harmful=st.sampled_from([None, *ARMS]))
    def ask_and_tell(self, who, times, harmful):
        """A well-behaved client; an arm may do harm."""
        for _ in range(0 if self.ended else times):
            slot = self.clients[who].ask(self.next)
            self.take(slot)
            counted = None
            if harmful is not None:
                counted = {"complaints": HARM if slot.arm == harmful else 0.0}
                self.guarded[slot.slot] = dict.fromkeys(GUARDED) | counted
                self.told = True
            self.clients[1 - who].tell(slot.slot, 1, guardrails=counted)
            self.note(slot.slot, 1.0)

    @precondition(lambda self: self.decided)
    @rule(who=who, data=st.data())
    def ask_again(self, who, data):
        slot = data.draw(st.sampled_from(list(self.decided.values())))
        assert self.clients[who].ask(slot.slot) == slot

    @rule(who=who, beyond=st.integers(1, 3))
    def ask_too_far(self, who, beyond):
        with pytest.raises(ae.ConflictError, match=f"the next slot is {self.next}"):
            self.clients[who].ask(self.next + beyond)

    @precondition(lambda self: not self.ended)
    @rule()
    def ask_both_at_once(self):
        answers = []
        threads = [
            threading.Thread(target=lambda c=client: answers.append(c.ask()))
            for client in self.clients
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for slot in sorted(answers):
            self.take(slot)
        assert len(answers) == 2

    @precondition(lambda self: self.decided)
    @rule(
        who=who,
        total=TOTALS,
        revise=st.booleans(),
        arm=st.sampled_from([None, None, *ARMS]),
        data=st.data(),
    )
    def tell_any(self, who, total, revise, arm, data):
        """Late, unordered, the same again, another total, another arm, a revision: whatever comes of it."""
        self.tell(who, data.draw(st.integers(0, self.next - 1)), total, revise, arm)

    @precondition(lambda self: self.decided)
    @rule(who=who, total=TOTALS, late=st.sampled_from([1, 7, 50]))
    def tell_late(self, who, total, late):
        if self.next >= late:
            self.tell(who, self.next - late, total, False)

    @precondition(lambda self: self.decided)
    @rule(who=who, total=TOTALS)
    def tell_the_awaited(self, who, total):
        for number in self.clients[who].status().awaited:
            self.tell(1 - who, number, total, False)

    def tell(self, who, number, total, revise, arm=None):
        client = self.clients[who]
        advised = self.decided[number].arm if number in self.decided else None
        played = advised if arm is None or total is None else arm
        before = self.totals_by_slot.get(number)
        same = (
            before is not None
            and before[0] == total
            and (total is None or played in (None, before[1]))
        )
        unnamed = total is not None and played is None
        refused = not same and (self.ended or unnamed or self.is_fixed(number, revise))

        def call_tell():
            if total is None:
                return client.mark_missing(number, revise=revise)
            return client.tell(number, total, arm=arm, revise=revise)

        if refused:
            with pytest.raises(ae.ConflictError):
                call_tell()
            return
        change = "unchanged" if same else "revised" if before is not None else "recorded"
        assert call_tell() == (number, total, change, played, None)
        if not same:
            self.forget(number, total, played)
            self.totals_by_slot[number] = total, played

    @precondition(lambda self: self.totals_by_slot)
    @rule(
        who=who,
        numbers=st.dictionaries(st.sampled_from(GUARDED), NUMBERS),
        revise=st.booleans(),
        data=st.data(),
    )
    def tell_guardrails(self, who, numbers, revise, data):
        """Later than the total, the same again, others, a revision: whatever comes of it."""
        slot = data.draw(st.sampled_from(sorted(self.totals_by_slot)))
        total, played = self.totals_by_slot[slot]
        before = self.guarded.get(slot, dict.fromkeys(GUARDED))
        changes = {name: number for name, number in numbers.items() if before[name] != number}
        replaces = any(before[name] is not None for name in changes)
        refused = changes and (self.ended or (replaces and not revise))

        def call_tell():
            if total is None:
                return self.clients[who].mark_missing(slot, guardrails=numbers, revise=revise)
            return self.clients[who].tell(
                slot, total, arm=played, guardrails=numbers, revise=revise
            )

        if refused:
            with pytest.raises(ae.ConflictError):
                call_tell()
            return
        assert call_tell().change == ("revised" if changes else "unchanged")
        if changes:
            self.guarded[slot] = before | numbers
            self.told = True

    @rule(who=who)
    def tell_nobody_asked(self, who):
        with pytest.raises(ae.ConflictError, match="is not decided yet"):
            self.clients[who].tell(self.next, 1)

    @precondition(lambda self: not self.ended)
    @rule(who=who, gap=st.integers(1, 9))
    def skip(self, who, gap):
        """An outage."""
        first, last = self.next, self.next + gap - 1
        with pytest.raises(ae.ConflictError, match="the first slot to skip must be the next slot"):
            self.clients[who].skip(first + 1, last + 1)
        assert self.clients[who].skip(first, last).slots == last + 1
        assert self.clients[1 - who].skip(first, last).slots == last + 1  # again: nothing changes
        self.postpone(first, gap)
        self.skipped |= set(range(first, last + 1))
        self.next = last + 1

    @precondition(lambda self: self.decided and not self.ended)
    @rule(who=who, data=st.data())
    def tell_many_or_none(self, who, data):
        numbers = [number for number in self.decided if number not in self.totals_by_slot][:5]
        numbers = data.draw(st.permutations(numbers))
        bad = (numbers[0] if numbers else next(iter(self.decided)), float("nan"))
        with pytest.raises(ae.ParameterError):
            self.clients[who].tell_many([*((number, 1) for number in numbers), bad])
        self.clients[who].tell_many((number, 2) for number in numbers)
        for number in numbers:
            self.note(number, 2.0)

    @precondition(lambda self: self.decided and not self.ended)
    @rule(who=who, total=TOTALS, crash=st.sampled_from([None, "before", "after"]), data=st.data())
    def tell_a_batch_once(self, who, total, crash, data):
        """A batch with a key, from a client that may crash: it counts once, whatever is told in between."""
        number = data.draw(st.sampled_from(sorted(self.decided)))
        key = f"batch {len(self.batches)}"
        self.clients[who].storage.crash = crash
        if crash is not None:
            with pytest.raises(CrashError):
                self.clients[who].tell_many([(number, total)], revise=True, key=key)
            self.reopen(who)
        if crash != "after":
            (record,) = self.clients[who].tell_many([(number, total)], revise=True, key=key)
            assert record[:2] == (number, total)
        known = total, self.decided[number].arm
        before = self.totals_by_slot.get(number)
        if before is None or before[0] != total or (total is not None and before != known):
            self.forget(number, *known)
            self.totals_by_slot[number] = known
        self.batches[key] = number
        for key, number in self.batches.items():
            assert self.clients[1 - who].tell_many([(number, 9)], revise=True, key=key) == []

    @precondition(lambda self: not self.ended)
    @rule(who=who, moment=st.sampled_from(["before", "after"]), data=st.data())
    def crash(self, who, moment, data):
        """A client dies within ask or tell, before or after its transaction was committed, and comes back."""
        outstanding = [number for number in self.decided if number not in self.totals_by_slot]
        telling = data.draw(st.booleans()) if outstanding else False
        client = self.clients[who]
        client.storage.crash = moment
        with pytest.raises(CrashError):
            client.tell(outstanding[0], 2.5) if telling else client.ask()
        self.reopen(who)
        if moment == "after" and telling:
            assert self.clients[who].tell(outstanding[0], 2.5).change == "unchanged"
            self.note(outstanding[0], 2.5)
        elif moment == "after":
            self.take(self.clients[who].ask(self.next))
        with self.clients[who]._log.reading() as (_, state):
            assert state.next_slot == self.next

    @rule(who=who)
    def reopen(self, who):
        self.clients[who].storage.close()
        self.clients[who] = ae.Experiment.open(self.name, storage=Fragile(self.connect()))

    @precondition(lambda self: self.may_change and not self.ended and len(self.states) < 6)
    @rule(who=who, crash=st.sampled_from([None, None, "before", "after"]))
    def add_arm(self, who, crash):
        self.change_arm(who, "add", f"arm {len(self.states)}", crash)
        self.ask_some(1 - who)

    @precondition(lambda self: self.may_change and not self.ended)
    @rule(who=who, number=st.integers(0, 9), crash=st.sampled_from([None, None, "before", "after"]))
    def pause_or_resume(self, who, number, crash):
        """The arm that is played now, or another one."""
        others = [arm for arm, state in self.states.items() if state != "retired" and arm != "A"]
        if self.round is not None and self.round[0] in others:
            others.insert(0, self.round[0])
        if others:
            name = others[number % len(others)]
            change = "pause" if self.states[name] == "active" else "resume"
            self.change_arm(who, change, name, crash)
            self.ask_some(1 - who)

    def ask_some(self, who):
        """Enough for a round or two with the arms of now."""
        for _ in range(4):
            self.take(self.clients[who].ask())

    @rule(
        who=who,
        change=st.sampled_from(["add", "pause", "resume", "retire"]),
        number=st.integers(0, 6),
    )
    def change_any_arm(self, who, change, number):
        """An arm goes for good, what was done is done again, or something that is not possible."""
        self.change_arm(who, change, [*self.states, "no arm"][number % (len(self.states) + 1)])

    def change_arm(self, who, change, name, crash=None):
        """An arm comes, goes, or comes back; a client may crash."""
        before = self.states.get(name)
        after = {"pause": "paused", "retire": "retired"}.get(change, "active")

        def call():
            return self.clients[who].change_arms(**{change: name})

        if name == "no arm":
            if change != "add":
                with pytest.raises(ae.ParameterError, match="there is no arm"):
                    call()
            return
        is_wrong = before == "retired" or (before == "paused" and change == "add")
        is_control = name == "A" and after != "active"
        refused = self.ended or not self.may_change or is_wrong or is_control
        if refused and before != after:
            with pytest.raises(ae.ConflictError):
                call()
            return
        if before != after:
            self.clients[who].storage.crash = crash
            if crash is not None:
                with pytest.raises(CrashError):
                    call()
                self.reopen(who)
            self.states[name] = after
        call()
        shown = self.clients[1 - who].change_arms(**{change: name})  # again: nothing changes
        assert [(arm.arm, arm.state) for arm in shown.arms] == list(self.states.items())
        if self.round is not None and self.states[self.round[0]] != "active":
            self.round[2] = min(self.round[2], self.next - 1)

    @rule(who=who)
    def create_again(self, who):
        again = ae.Experiment.create(self.name, **self.settings, storage=self.clients[who].storage)
        assert again.settings == self.clients[who].settings
        with pytest.raises(ae.ConflictError):
            ae.Experiment.create(
                self.name, **(self.settings | {"seed": 99}), storage=self.clients[who].storage
            )

    @precondition(lambda self: len(self.decided) > 20)
    @rule(who=who)
    def close(self, who):
        assert self.clients[who].end().ended
        self.ended = True

    # What must hold after every step

    @invariant()
    def the_log_is_what_was_answered_and_recorded(self):
        with self.clients[0].storage.reading(self.clients[0].record.id) as view:
            new = view.events(len(self.events), 10**6)
            fold_events(self.fold, self.clients[0].record, view, new)
        folded = as_one(self.fold)  # `verify` folds all again, at the end
        self.events += new
        events = self.events
        arms = list(self.states)
        decisions = [(e.slot, arms[e.arm], e.round) for e in events if e.kind == "decision"]
        assert decisions == [(slot.slot, slot.arm, slot.round) for slot in self.decided.values()]
        recorded = {}
        for event in events:
            if event.kind == "total":
                assert event.revision == (
                    recorded[event.slot][0] + 1 if event.slot in recorded else 0
                )
                recorded[event.slot] = (event.revision, event.total)
        assert {slot: total for slot, (_, total) in recorded.items()} == {
            slot: total for slot, (total, _) in self.totals_by_slot.items()
        }
        told = {
            event.slot: (event.revision, json.loads(event.guardrails))
            for event in events
            if event.kind == "guardrails"
        }
        assert {slot: row for slot, (_, row) in told.items()} == {
            slot: [row[name] for name in GUARDED] for slot, row in self.guarded.items()
        }
        stops = [event for event in events if event.kind == "stop"]
        assert sorted(arms[event.arm] for event in stops) == sorted(self.stopped)
        assert {event.slot for event in stops} <= set(self.decided)
        for client in self.clients:
            with client._log.reading() as (_, state):
                assert as_one(state) == folded

    @invariant()
    def every_total_is_learned_or_waits(self):
        status = self.clients[1].status()
        complete = self.is_complete()
        learned = self.learned | (self.learnable() if complete else set())
        totals = {
            slot: recorded
            for slot, recorded in self.totals_by_slot.items()
            if recorded[0] is not None
        }
        assert (status.learned, status.waiting) == (len(learned), len(totals) - len(learned))
        assert status.outstanding == len(set(self.decided) - set(self.totals_by_slot))
        assert status.missing == len(self.totals_by_slot) - len(totals)
        assert status.rounds == self.rounds + complete
        lines = self.clients[0].history()
        assert [line.slot for line in lines] == list(range(self.next))
        assert {line.slot for line in lines if line.learned} == learned
        assert {line.slot for line in lines if line.arm is None} == self.skipped
        assert [line.guardrails for line in lines] == [
            self.guarded.get(slot) for slot in range(self.next)
        ]
        assert {arm.arm for arm in status.arms if arm.stopped} == self.stopped
        if self.may_stop:
            assert status.guardrail_problem == self.problem
        for arm in status.arms:
            brought = [total for total, played in totals.values() if played == arm.arm]
            assert arm.mean == (pytest.approx(sum(brought) / len(brought)) if brought else None)
            assert arm.pulls == sum(slot.arm == arm.arm for slot in self.decided.values())

    @invariant()
    def the_policy_knows_what_is_known_now(self):
        """UCB1 adds up the totals that it has learned: each counts as it was told last, whatever it was before."""
        if not self.settings["policy"].startswith(("ucb1", "floors(ucb1")):
            return
        with self.clients[0]._log.reading() as (_, state):
            ahead = state.look_ahead()._copy()
            if ahead.journal is not None:  # the next round to close or begin would do so
                ahead._play_again(ahead.journal)
            known = ahead.policy_state
        known = getattr(known, "base", known)
        learned = self.learned | (self.learnable() if self.is_complete() else set())
        for number, arm in enumerate(ARMS):
            of_arm = [self.totals_by_slot[slot] for slot in learned]
            of_arm = [total for total, played in of_arm if played == arm]
            assert known.pulls[number] == len(of_arm)
            assert known.total[number] == pytest.approx(sum(of_arm) / 10)

    def teardown(self):
        checked = self.clients[0].verify()
        assert checked.whole
        assert checked.difference is None
        for client in self.clients:
            client.storage.close()


class SlotMachine(SlotRules, Machine):
    """The same with policies that look at every slot: no block waits for totals, and every total can be replaced."""

    common: ClassVar = {
        "arms": list(ARMS),
        "horizon": 10_000,
        "slot": "1h",
        "start": "2026-03-28T22:00",
        "timezone": "Europe/Berlin",  # in the second night, clocks skip an hour
        "history": [0.0, None, 7.0, 2.0] * 30,
        "max_total": 100,
    }

    @initialize(policy=st.sampled_from(SLOT_POLICIES), seed=st.integers(0, 5))
    def create(self, policy, seed):
        self.begin(policy, seed)


@pytest.mark.parametrize("machine", [Machine, SlotMachine])
def test_whatever_clients_do_the_promises_hold(machine, connect, request, monkeypatch):
    monkeypatch.setattr(_rounds, "_STEPS", 2)  # so that many states are kept, and many left out
    monkeypatch.setattr(_slotwise_state, "_ROOM", 8)  # so that the state of a policy grows
    monkeypatch.setattr(_results, "analyse", analyse)
    monkeypatch.setattr(_state, "_JUDGED_AGAIN", 0)
    kind = request.node.callspec.params["connect"]
    run_state_machine_as_test(
        lambda: machine(connect),
        settings=settings(
            max_examples=EXAMPLES[kind] // (1 if machine is Machine else 3),
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
