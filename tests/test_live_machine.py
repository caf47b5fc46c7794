"""Live experiments under a hypothesis state machine: whatever clients do, in whatever order, the promises hold.

The model here knows the rules from their description alone: which slots a round has, when it closes, what counts in it.
"""

import threading
from contextlib import contextmanager
from itertools import count

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

import aftereffect as ae
from aftereffect.live.ledger import Ledger
from aftereffect.live.reading import start_of

ARMS = ("A", "B", "C")
POLICIES = ["ars-ucb(growth=power(1))", "ucb1", "clw(d=1)", "exp3", "round-robin", "ars-exp3(beta=0.3)", "mini-batch(size=3)"]
EXAMPLES = {"memory": 200, "sqlite": 60, "postgresql": 25}
VALUES = st.sampled_from([0.0, 1.0, 2.5, 7.0, None])
NAMES = count()


class CrashError(Exception):
    """The process ends here."""


class Fragile:
    """A storage whose client may crash at the end of a transaction: before it is kept, or after."""

    def __init__(self, storage):
        self.storage = storage
        self.crash = None

    def __getattr__(self, name):
        return getattr(self.storage, name)

    @contextmanager
    def writing(self, experiment):
        with self.storage.writing(experiment) as log:
            yield log
            if self.crash == "before":
                raise CrashError
        if self.crash == "after":
            raise CrashError


ae.live.Storage.register(Fragile)


class Machine(RuleBasedStateMachine):
    def __init__(self, connect):
        super().__init__()
        self.connect = connect

    @initialize(policy=st.sampled_from(POLICIES), seed=st.integers(0, 5))
    def create(self, policy, seed):
        self.name = f"machine-{next(NAMES)}"
        self.settings = {"arms": ARMS, "policy": policy, "reward_range": (0, 10), "horizon": 10_000, "seed": seed}
        self.clients = [ae.Experiment.create(self.name, **self.settings, storage=Fragile(self.connect())) for _ in range(2)]
        self.decided = []
        self.outcomes = {}
        self.closed = False
        self.learned = 0  # rounds that were closed
        self.sums = {arm: [0, 0, 0.0] for arm in ARMS}  # rounds, slots that counted, their totals

    # The model

    def slots_of(self, number):
        return [slot for slot in self.decided if slot.round == number]

    def planned(self, number):
        """The planned slots of a round; None if some are not decided yet."""
        slots = self.slots_of(number)
        first, until = slots[0].number, slots[0].until
        return range(first, until + 1) if slots[-1].number >= until else None

    def is_open(self, number):
        return number >= self.learned

    def take(self, slot):
        """A decision was answered: it must be what the rules allow."""
        assert slot.number == len(self.decided)
        if self.decided and self.is_open(self.decided[-1].round):
            before = self.decided[-1]
            assert (slot.round, slot.arm) == (before.round, before.arm)
            until = self.slots_of(slot.round)[0].until
            assert slot.hold == (slot.number > until)
            assert slot.until == max(until, slot.number)
        else:
            assert slot.round == self.learned
            assert not slot.hold
            assert slot.until >= slot.number
        self.decided.append(slot)

    def note(self, number, value):
        """An outcome was recorded; close the round if that was the last it waited for."""
        self.outcomes[number] = value
        current = self.decided[-1].round
        if not self.is_open(current) or self.decided[number].round != current:
            return
        planned = self.planned(current)
        if planned is not None and all(slot in self.outcomes for slot in planned):
            known = [self.outcomes[s.number] for s in self.slots_of(current) if self.outcomes.get(s.number) is not None]
            if known:
                sums = self.sums[self.decided[-1].arm]
                sums[0] += 1
                sums[1] += len(known)
                sums[2] += sum(known)
            self.learned = current + 1

    # What clients do

    who = st.integers(0, 1)

    @rule(who=who)
    def ask(self, who):
        if self.closed:
            with pytest.raises(ae.ConflictError, match="is closed"):
                self.clients[who].ask()
        else:
            self.take(self.clients[who].ask())

    @rule(who=who, times=st.integers(1, 8))
    def ask_and_tell(self, who, times):
        """A well-behaved client."""
        for _ in range(0 if self.closed else times):
            slot = self.clients[who].ask(len(self.decided))
            self.take(slot)
            self.clients[1 - who].tell(slot.number, 1)
            self.note(slot.number, 1.0)

    @precondition(lambda self: self.decided)
    @rule(who=who, data=st.data())
    def ask_again(self, who, data):
        slot = data.draw(st.sampled_from(self.decided))
        assert self.clients[who].ask(slot.number) == slot

    @rule(who=who, beyond=st.integers(1, 3))
    def ask_too_far(self, who, beyond):
        with pytest.raises(ae.ConflictError, match=f"the next one is {len(self.decided)}"):
            self.clients[who].ask(len(self.decided) + beyond)

    @precondition(lambda self: not self.closed)
    @rule()
    def ask_both_at_once(self):
        answers = []
        threads = [threading.Thread(target=lambda c=client: answers.append(c.ask())) for client in self.clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for slot in sorted(answers):
            self.take(slot)
        assert len(answers) == 2

    @precondition(lambda self: self.decided)
    @rule(who=who, value=VALUES, revise=st.booleans(), data=st.data())
    def tell_any(self, who, value, revise, data):
        """Late, unordered, the same again, another value, a revision: whatever comes of it."""
        slot = data.draw(st.sampled_from(self.decided))
        self.tell(who, slot, value, revise)

    @precondition(lambda self: self.decided)
    @rule(who=who, value=VALUES, late=st.sampled_from([1, 7, 50]))
    def tell_late(self, who, value, late):
        if len(self.decided) >= late:
            self.tell(who, self.decided[-late], value, False)

    @precondition(lambda self: self.decided)
    @rule(who=who, value=VALUES)
    def tell_the_awaited(self, who, value):
        for number in self.clients[who].status().awaited:
            self.tell(1 - who, self.decided[number], value, False)

    def tell(self, who, slot, value, revise):
        client, number = self.clients[who], slot.number
        known = number in self.outcomes
        same = known and self.outcomes[number] == value
        refused = not same and (self.closed or (known and not (revise and self.is_open(slot.round))))

        def told():
            return client.missing(number, revise=revise) if value is None else client.tell(number, value, revise=revise)

        if refused:
            with pytest.raises(ae.ConflictError):
                told()
            return
        outcome = told()
        counts = value is not None and (outcome.counts if same else self.is_open(slot.round))
        change = "unchanged" if same else "revised" if known else "recorded"
        assert outcome == (number, value, change, counts)
        if not same:
            self.note(number, value)

    @rule(who=who)
    def tell_nobody_asked(self, who):
        with pytest.raises(ae.ConflictError, match="was never asked for"):
            self.clients[who].tell(len(self.decided), 1)

    @precondition(lambda self: self.decided and not self.closed)
    @rule(who=who, data=st.data())
    def tell_many_or_none(self, who, data):
        numbers = [slot.number for slot in self.decided if slot.number not in self.outcomes][:5]
        numbers = data.draw(st.permutations(numbers))
        with pytest.raises(ae.ParameterError):
            self.clients[who].tell_many([*((number, 1) for number in numbers), (numbers[0] if numbers else 0, float("nan"))])
        self.clients[who].tell_many((number, 2) for number in numbers)
        for number in numbers:
            self.note(number, 2.0)

    @precondition(lambda self: not self.closed)
    @rule(who=who, moment=st.sampled_from(["before", "after"]), data=st.data())
    def crash(self, who, moment, data):
        """A client dies within ask or tell, before or after its transaction was kept, and comes back."""
        untold = [slot.number for slot in self.decided if slot.number not in self.outcomes]
        telling = data.draw(st.booleans()) if untold else False
        client = self.clients[who]
        client.storage.crash = moment
        with pytest.raises(CrashError):
            client.tell(untold[0], 2.5) if telling else client.ask()
        self.reopen(who)
        if moment == "after" and telling:
            assert self.clients[who].tell(untold[0], 2.5).change == "unchanged"
            self.note(untold[0], 2.5)
        elif moment == "after":
            self.take(self.clients[who].ask(len(self.decided)))
        with self.clients[who]._reading() as (_, ledger):
            assert ledger.next_slot == len(self.decided)

    @rule(who=who)
    def reopen(self, who):
        self.clients[who].storage.close()
        self.clients[who] = ae.Experiment.open(self.name, storage=Fragile(self.connect()))

    @rule(who=who)
    def create_again(self, who):
        again = ae.Experiment.create(self.name, **self.settings, storage=self.clients[who].storage)
        assert again.settings == self.clients[who].settings
        with pytest.raises(ae.ConflictError):
            ae.Experiment.create(self.name, **(self.settings | {"seed": 99}), storage=self.clients[who].storage)

    @precondition(lambda self: len(self.decided) > 20)
    @rule(who=who)
    def close(self, who):
        assert self.clients[who].close().closed
        self.closed = True

    # What must hold after every step

    @invariant()
    def the_log_is_what_was_answered_and_told(self):
        with self.clients[0].storage.reading(self.clients[0]._record.id) as view:
            events = view.events(0, 10**6)
        decisions = [(e.slot, ARMS[e.arm], e.round) for e in events if e.kind == "decision"]
        assert decisions == [(slot.number, slot.arm, slot.round) for slot in self.decided]
        told = {}
        for event in events:
            if event.kind == "outcome":
                assert event.revision == (told[event.slot][0] + 1 if event.slot in told else 0)
                told[event.slot] = (event.revision, event.value)
        assert {slot: value for slot, (_, value) in told.items()} == self.outcomes
        fold = Ledger(self.clients[0].settings, start_of(self.clients[0]._record)).fold_all(events)
        for client in self.clients:
            with client._reading() as (_, ledger):
                assert as_one(ledger) == as_one(fold)

    @invariant()
    def the_table_is_what_the_rules_say(self):
        status = self.clients[1].status()
        assert status.rounds == self.learned
        for arm in status.arms:
            rounds, counted, total = self.sums[arm.arm]
            assert arm.rounds == rounds
            assert arm.mean == (None if counted == 0 else pytest.approx(total / counted))
            assert arm.slots == sum(slot.arm == arm.arm for slot in self.decided)

    def teardown(self):
        checked = self.clients[0].verify()
        assert checked.whole
        assert checked.difference is None
        for client in self.clients:
            client.storage.close()


def as_one(ledger):
    """All that a ledger is, and what it would decide next."""
    following = ledger.decision()
    return (
        following,
        ledger.place,
        ledger.rounds,
        ledger.told,
        ledger.missing,
        ledger.closed,
        ledger.again,
        ledger.round,
        ledger.draws.drawn,
        [array.tolist() for array in ledger.state],
        {name: array.tolist() for name, array in vars(ledger.tally).items()},
    )


def test_whatever_clients_do_the_promises_hold(connect, request):
    kind = request.node.callspec.params["connect"]
    run_state_machine_as_test(
        lambda: Machine(connect),
        settings=settings(
            max_examples=EXAMPLES[kind],
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
