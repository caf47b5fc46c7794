"""Live experiments under a hypothesis state machine: whatever clients do, in whatever order, the promises hold.

The model here knows the rules from their description alone: which slots a round has, when it closes, what is learned.
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
from aftereffect.live.snapshot import taken

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
        self.decided = {}
        self.next = 0
        self.skipped = set()
        self.outcomes = {}  # by slot: the total, None if missing, and the arm that was played
        self.closed = False
        self.round = None  # the arm, the slots and the last planned slot of the open round
        self.rounds = 0  # that were closed
        self.learned = set()

    # The model

    def is_complete(self):
        """Whether the open round has all that it was planned for."""
        if self.round is None:
            return False
        _, slots, until = self.round
        return self.next > until and all(slot in self.outcomes for slot in slots if slot <= until)

    def learnable(self):
        """What the policy learns when the open round closes now: all that was told of its arm, if anything was in the round."""
        arm, slots, _ = self.round
        ours = {slot for slot, (total, played) in self.outcomes.items() if total is not None and played == arm}
        return ours - self.learned if ours & set(slots) else set()

    def take(self, slot):
        """A decision was answered: it must be what the rules allow."""
        assert slot.number == self.next
        with self.clients[0].storage.reading(self.clients[0]._record.id) as view:
            (until,) = [event.until for event, _ in view.about(slot.number, slot.number + 1) if event.kind == "decision"]
        carried = []
        if self.is_complete():
            arm, slots, _ = self.round
            learned = self.learnable()
            assert learned or slot.arm == arm  # where nothing was learned the same is planned again
            self.learned |= learned
            self.rounds += 1
            self.round = None
            carried = [past for past in slots if past not in self.outcomes] if slot.arm == arm else []
        if self.round is None:
            self.round = [slot.arm, carried, until]
            assert until >= (carried[0] if carried else slot.number)
        arm, slots, last = self.round
        assert (slot.round, slot.arm, until) == (self.rounds, arm, last)
        assert slot.hold == (slot.number > until)
        assert slot.until == max(until, slot.number)
        slots.append(slot.number)
        self.decided[slot.number] = slot
        self.next += 1

    def note(self, number, value):
        """An outcome was recorded, of the arm that was advised."""
        self.outcomes[number] = value, self.decided[number].arm

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
            slot = self.clients[who].ask(self.next)
            self.take(slot)
            self.clients[1 - who].tell(slot.number, 1)
            self.note(slot.number, 1.0)

    @precondition(lambda self: self.decided)
    @rule(who=who, data=st.data())
    def ask_again(self, who, data):
        slot = data.draw(st.sampled_from(list(self.decided.values())))
        assert self.clients[who].ask(slot.number) == slot

    @rule(who=who, beyond=st.integers(1, 3))
    def ask_too_far(self, who, beyond):
        with pytest.raises(ae.ConflictError, match=f"the next one is {self.next}"):
            self.clients[who].ask(self.next + beyond)

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
    @rule(who=who, value=VALUES, revise=st.booleans(), arm=st.sampled_from([None, None, *ARMS]), data=st.data())
    def tell_any(self, who, value, revise, arm, data):
        """Late, unordered, the same again, another value, another arm, a revision: whatever comes of it."""
        self.tell(who, data.draw(st.integers(0, self.next - 1)), value, revise, arm)

    @precondition(lambda self: self.decided)
    @rule(who=who, value=VALUES, late=st.sampled_from([1, 7, 50]))
    def tell_late(self, who, value, late):
        if self.next >= late:
            self.tell(who, self.next - late, value, False)

    @precondition(lambda self: self.decided)
    @rule(who=who, value=VALUES)
    def tell_the_awaited(self, who, value):
        for number in self.clients[who].status().awaited:
            self.tell(1 - who, number, value, False)

    def tell(self, who, number, value, revise, arm=None):
        client = self.clients[who]
        advised = self.decided[number].arm if number in self.decided else None
        played = advised if arm is None or value is None else arm
        before = self.outcomes.get(number)
        same = before is not None and before[0] == value and (value is None or played in (None, before[1]))
        unnamed = value is not None and played is None
        fixed = before is not None and not (revise and (before[0] is None or number not in self.learned))
        refused = not same and (self.closed or unnamed or fixed)

        def told():
            if value is None:
                return client.missing(number, revise=revise)
            return client.tell(number, value, arm=arm, revise=revise)

        if refused:
            with pytest.raises(ae.ConflictError):
                told()
            return
        change = "unchanged" if same else "revised" if before is not None else "recorded"
        assert told() == (number, value, change, played)
        if not same:
            self.outcomes[number] = value, played

    @rule(who=who)
    def tell_nobody_asked(self, who):
        with pytest.raises(ae.ConflictError, match="was never asked for"):
            self.clients[who].tell(self.next, 1)

    @precondition(lambda self: not self.closed)
    @rule(who=who, gap=st.integers(1, 9))
    def skip(self, who, gap):
        """An outage."""
        first, last = self.next, self.next + gap - 1
        with pytest.raises(ae.ConflictError, match="are skipped from the next one on"):
            self.clients[who].skip(first + 1, last + 1)
        assert self.clients[who].skip(first, last).slots == last + 1
        assert self.clients[1 - who].skip(first, last).slots == last + 1  # again: nothing changes
        if self.round is not None and self.round[2] >= first:
            self.round[2] += gap
        self.skipped |= set(range(first, last + 1))
        self.next = last + 1

    @precondition(lambda self: self.decided and not self.closed)
    @rule(who=who, data=st.data())
    def tell_many_or_none(self, who, data):
        numbers = [number for number in self.decided if number not in self.outcomes][:5]
        numbers = data.draw(st.permutations(numbers))
        bad = (numbers[0] if numbers else next(iter(self.decided)), float("nan"))
        with pytest.raises(ae.ParameterError):
            self.clients[who].tell_many([*((number, 1) for number in numbers), bad])
        self.clients[who].tell_many((number, 2) for number in numbers)
        for number in numbers:
            self.note(number, 2.0)

    @precondition(lambda self: not self.closed)
    @rule(who=who, moment=st.sampled_from(["before", "after"]), data=st.data())
    def crash(self, who, moment, data):
        """A client dies within ask or tell, before or after its transaction was kept, and comes back."""
        untold = [number for number in self.decided if number not in self.outcomes]
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
            self.take(self.clients[who].ask(self.next))
        with self.clients[who]._reading() as (_, ledger):
            assert ledger.next_slot == self.next

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
        assert decisions == [(slot.number, slot.arm, slot.round) for slot in self.decided.values()]
        told = {}
        for event in events:
            if event.kind == "outcome":
                assert event.revision == (told[event.slot][0] + 1 if event.slot in told else 0)
                told[event.slot] = (event.revision, event.value)
        assert {slot: value for slot, (_, value) in told.items()} == {slot: value for slot, (value, _) in self.outcomes.items()}
        fold = Ledger(self.clients[0].settings, start_of(self.clients[0]._record)).fold_all(events)
        for client in self.clients:
            with client._reading() as (_, ledger):
                assert as_one(ledger) == as_one(fold)

    @invariant()
    def every_total_is_learned_or_waits(self):
        status = self.clients[1].status()
        complete = self.is_complete()
        learned = self.learned | (self.learnable() if complete else set())
        totals = {slot: told for slot, told in self.outcomes.items() if told[0] is not None}
        assert (status.learned, status.waiting) == (len(learned), len(totals) - len(learned))
        assert status.untold == len(set(self.decided) - set(self.outcomes))
        assert status.missing == len(self.outcomes) - len(totals)
        assert status.rounds == self.rounds + complete
        lines = self.clients[0].history()
        assert [line.slot for line in lines] == list(range(self.next))
        assert {line.slot for line in lines if line.learned} == learned
        assert {line.slot for line in lines if line.arm is None} == self.skipped
        for arm in status.arms:
            brought = [total for total, played in totals.values() if played == arm.arm]
            assert arm.mean == (pytest.approx(sum(brought) / len(brought)) if brought else None)
            assert arm.slots == sum(slot.arm == arm.arm for slot in self.decided.values())

    def teardown(self):
        checked = self.clients[0].verify()
        assert checked.whole
        assert checked.difference is None
        for client in self.clients:
            client.storage.close()


def as_one(ledger):
    """All that a ledger is, and what it would decide next."""
    return taken(ledger), taken(ledger.ahead()), ledger.difference


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
