"""Experiments with several units under a hypothesis state machine: whatever clients do, the promises hold.

What must come of it is kept by slot and unit, from the description alone. ``--machine-examples 20`` runs so many times as many examples."""

from itertools import count

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import aftereffect as ae
from aftereffect.live import _slotwise_state, chain_start, make_state, read_events
from fragile import CrashError, Fragile, as_one

UNITS = ("north", "south", "west")
ARMS = ("A", "B", "C")
POLICIES = ["fixed-unit-switchback(block=3)", "unit-switchback"]
EXAMPLES = {"memory": 40, "sqlite": 15, "postgresql": 8}
TOTALS = st.sampled_from([0.0, 1.0, 2.5, 7.0, None])
GIVEN = st.dictionaries(st.sampled_from(UNITS), TOTALS, min_size=1)
NAMES = count()


class UnitMachine(RuleBasedStateMachine):
    def __init__(self, connect):
        super().__init__()
        self.connect = connect

    @initialize(policy=st.sampled_from(POLICIES), seed=st.integers(0, 5))
    def create(self, policy, seed):
        self.settings = {
            "arms": list(ARMS),
            "units": UNITS,
            "policy": policy,
            "seed": seed,
            "horizon": 10_000,
            "max_total": 100,
            "slot": "1h",
            "start": "2026-03-28T22:00",
            "timezone": "Europe/Berlin",  # in the second night, clocks skip an hour
            "history": {"north": [3.0, 1.0] * 20, "west": [5.0, None, 7.0]},
        }
        self.name = f"units-{next(NAMES)}"
        self.clients = [
            ae.Experiment.create(self.name, **self.settings, storage=Fragile(self.connect()))
            for _ in range(2)
        ]
        self.fold = make_state(self.clients[0].settings, chain_start(self.clients[0].record))
        self.next, self.decided, self.skipped = 0, {}, set()
        self.totals = {}  # by slot and unit: the total, the arm that was played, and revisions
        self.states = dict.fromkeys(ARMS, "active")
        self.batches = set()

    who = st.integers(0, 1)

    @rule(who=who)
    def ask(self, who):
        decision = self.clients[who].ask(self.next)
        assert list(decision.arms) == list(UNITS)
        assert decision.arm is None
        begins = decision.round not in {known.round for known in self.decided.values()}
        for unit, arm in decision.arms.items():
            chances = decision.unit_probabilities[unit]
            assert sum(chances.values()) == pytest.approx(1)
            assert chances[arm] > 0
            assert self.states[arm] == "active"
            if begins:
                assert list(chances) == list(self.states)
                inactive = {arm for arm, state in self.states.items() if state != "active"}
                assert all(chances[each] == 0 for each in inactive)
        self.decided[self.next] = decision
        self.next += 1

    @rule(who=who, data=st.data())
    @precondition(lambda self: self.decided)
    def ask_again(self, who, data):
        slot = data.draw(st.sampled_from(sorted(self.decided)))
        assert self.clients[who].ask(slot) == self.decided[slot]

    @rule(who=who, given=GIVEN, revise=st.booleans(), data=st.data(), keyed=st.booleans())
    @precondition(lambda self: self.next)
    def tell(self, who, given, revise, data, keyed):
        slot = data.draw(st.integers(max(self.next - 5, 0), self.next - 1))
        rows = [(slot, total, None, None, None, unit) for unit, total in given.items()]
        changes = []
        for unit, total in given.items():
            known = self.totals.get((slot, unit))
            arm = None if slot in self.skipped else self.decided[slot].arms[unit]
            if known is None:
                changes.append("recorded")
            elif known[0] == total and (total is None or known[1] == arm or arm is None):
                changes.append("unchanged")
            else:
                changes.append("revised")
        is_refused = ("revised" in changes and not revise) or any(
            slot in self.skipped and total is not None and change != "unchanged"
            for total, change in zip(given.values(), changes, strict=True)
        )
        key = f"batch-{len(self.batches)}" if keyed else None
        if is_refused:
            with pytest.raises(ae.ConflictError):
                self.clients[who].tell_many(rows, revise=revise, confirm=True, key=key)
            return
        records = self.clients[who].tell_many(rows, revise=revise, confirm=True, key=key)
        assert [record.change for record in records] == changes
        if key is not None:
            self.batches.add(key)
            assert self.clients[1 - who].tell_many(rows, revise=True, key=key) == []
        for (unit, total), change in zip(given.items(), changes, strict=True):
            if change != "unchanged":
                arm = None if slot in self.skipped else self.decided[slot].arms[unit]
                self.note(slot, unit, total, arm)

    def note(self, slot, unit, total, arm):
        revisions = self.totals[slot, unit][2] + 1 if (slot, unit) in self.totals else 0
        self.totals[slot, unit] = (total, arm, revisions)

    @rule(who=who, unit=st.sampled_from(UNITS), total=st.sampled_from([1.0, 3.0]), data=st.data())
    @precondition(lambda self: self.next)
    def tell_with_another_arm(self, who, unit, total, data):
        """One unit played another arm than the decided one, or an arm in a skipped slot."""
        slot = data.draw(st.integers(0, self.next - 1))
        arm = data.draw(st.sampled_from(sorted(self.states)))
        known = self.totals.get((slot, unit))
        record = self.clients[who].tell(slot, total, unit=unit, arm=arm, revise=True, confirm=True)
        is_same = known is not None and known[:2] == (total, arm)
        assert record.change == (
            "unchanged" if is_same else "recorded" if known is None else "revised"
        )
        if not is_same:
            self.note(slot, unit, total, arm)

    @rule(who=who, gap=st.integers(1, 3))
    def skip(self, who, gap):
        self.clients[who].skip(self.next, self.next + gap - 1)
        self.skipped |= set(range(self.next, self.next + gap))
        self.next += gap

    @rule(who=who, change=st.sampled_from(["add", "pause", "resume", "retire"]), data=st.data())
    def change_arms(self, who, change, data):
        names = ["D", "E", "F"] if change == "add" else [*self.states]
        arm = data.draw(st.sampled_from(names))
        wanted = {"add": "active", "resume": "active", "pause": "paused", "retire": "retired"}
        known = self.states.get(arm)
        others = [each for each, state in self.states.items() if state == "active" and each != arm]
        is_same = known == wanted[change]
        is_refused = not is_same and (
            "fixed" in self.settings["policy"]
            or known == "retired"
            or (change == "add" and known is not None)
            or (wanted[change] != "active" and not others)
        )
        if is_refused:
            with pytest.raises(ae.ConflictError):
                self.clients[who].change_arms(**{change: arm})
            return
        self.clients[who].change_arms(**{change: arm})
        self.states[arm] = wanted[change]

    @rule(who=who, moment=st.sampled_from(["before", "after"]), given=GIVEN)
    def crash_while_asking(self, who, moment, given):
        """A client that crashes before the commit has decided nothing; after it, everything."""
        storage = self.clients[who].storage
        storage.crash = moment
        with pytest.raises(CrashError):
            self.clients[who].ask(self.next)
        storage.crash = None
        self.clients[who] = ae.Experiment.open(self.name, storage=storage)
        if moment == "after":
            self.decided[self.next] = self.clients[1 - who].ask(self.next)
            self.next += 1

    @rule(who=who)
    def open_again(self, who):
        self.clients[who] = ae.Experiment.open(self.name, storage=self.clients[who].storage)

    @invariant()
    def nothing_is_lost_or_changed(self):
        lines = self.clients[0].history()
        assert [(line.slot, line.unit) for line in lines] == [
            (slot, unit) for slot in range(self.next) for unit in UNITS
        ]
        for line in lines:
            slot, unit = line.slot, line.unit
            decided = None if slot in self.skipped else self.decided[slot].arms[unit]
            total, arm, revisions = self.totals.get((slot, unit), (None, decided, 0))
            assert (line.arm, line.total, line.revisions) == (decided, total, revisions)
            assert line.missing == ((slot, unit) in self.totals and total is None)
            if total is not None:
                assert line.played == arm

    @invariant()
    def counts_are_those_of_the_history(self):
        status = self.clients[1].status()
        missing = sum(total is None for total, _, _ in self.totals.values())
        assert (status.received, status.missing) == (len(self.totals), missing)
        played = {(slot, unit) for slot in self.decided for unit in UNITS}
        assert status.outstanding == len(played - set(self.totals))
        assert status.slots == self.next
        assert status.skipped == len(self.skipped)
        assert {arm.arm: arm.state for arm in status.arms} == self.states
        for arm in status.arms:
            brought = [
                total
                for total, each, _ in self.totals.values()
                if each == arm.arm and total is not None
            ]
            assert arm.mean == (pytest.approx(sum(brought) / len(brought)) if brought else None)
        for unit in status.units:
            own = [total for (_, name), (total, _, _) in self.totals.items() if name == unit.unit]
            known = [total for total in own if total is not None]
            assert (unit.received, unit.missing) == (len(own), len(own) - len(known))
            assert unit.mean == (pytest.approx(sum(known) / len(known)) if known else None)

    @invariant()
    def the_state_is_the_fold_of_the_log(self):
        client = self.clients[0]
        with client.read_log() as view:
            self.fold.fold_all(read_events(view, self.fold.head.seq))
        for each in self.clients:
            with each._log.reading() as (_, state):
                assert as_one(state) == as_one(self.fold)

    @invariant()
    def the_policy_knows_what_is_known_now(self):
        """Also in slots that it was shown before: as if it had known it from the start."""
        with self.clients[0]._log.reading() as (_, state):
            ahead = state.look_ahead()
        slots = ahead.policy_state.slots
        before = max(int(slots.before[0]), 0)
        for slot in range(ahead.shown):
            row = slots.totals[before + ahead.settings.place_on_wall(slot)]
            for number, unit in enumerate(UNITS):
                total = self.totals.get((slot, unit), (None,))[0]
                is_known = number not in ahead.changed.get(slot, ())
                if is_known:
                    np.testing.assert_equal(row[number], np.nan if total is None else total)

    def teardown(self):
        if not hasattr(self, "clients"):
            return
        checked = self.clients[0].verify()
        assert checked.whole
        assert checked.difference is None
        for client in self.clients:
            client.storage.close()


def test_whatever_clients_do_with_units_the_promises_hold(connect, request, monkeypatch):
    monkeypatch.setattr(_slotwise_state, "_ROOM", 24)  # so that the state of a policy grows
    kind = request.node.callspec.params["connect"]
    run_state_machine_as_test(
        lambda: UnitMachine(connect),
        settings=settings(
            max_examples=EXAMPLES[kind] * request.config.getoption("--machine-examples"),
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # to shrink an example takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
