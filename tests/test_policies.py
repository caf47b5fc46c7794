"""Policies: the battery, and Algorithm 1 line by line."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import pytest
import samples

import aftereffect as ae
from aftereffect.policies import State
from aftereffect.policies.averages import blank, credit
from aftereffect.testing import check_policy


@pytest.mark.parametrize("policy", samples.POLICIES, ids=str)
def test_battery(policy):
    check_policy(policy)


class Recorder:
    """Plays a policy live, through its plain kernels."""

    def __init__(self, policy, arms):
        self.decide, self.absorb = policy.kernels()
        self.state = policy.initial(arms)
        self.params = policy.params(arms, 10**6)
        self.rng = np.random.default_rng(0)
        self.t = 0

    def step(self, total_of):
        arm, slots, window = self.decide(*self.state, self.params, self.t, self.rng)
        self.absorb(*self.state, self.params, arm, slots, total_of(arm, slots))
        self.t += slots
        return arm, slots, window


def algorithm_1(alpha, f, arms, total_of, rounds):
    """The paper's pseudo-code with lists: a second writing, to compare decisions with."""
    n, m, k, t = [0] * arms, [0.0] * arms, [1] * arms, 0
    for played in range(rounds):
        if played < arms:
            arm = played
        else:
            u = [min(m[i] / n[i] + math.sqrt(alpha * math.log(t) / n[i]), 1) for i in range(arms)]
            arm = min(range(arms), key=lambda i: (-u[i], n[i], i))
        slots = f(k[arm])
        yield arm, slots, slots
        m[arm] += total_of(arm, slots)
        n[arm] += slots
        t += slots
        k[arm] += 1


@pytest.mark.parametrize(
    ("policy", "f"),
    [
        (ae.ArsUcb(4, ae.Power(2)), lambda k: k**2),
        (ae.ArsUcb(0.7, ae.Power(1)), lambda k: k),
        (ae.ArsUcb(1, ae.Exponential()), lambda k: 4 if k == 1 else 2**k),
        (ae.ArsUcb(2, lambda k: 3 * k), lambda k: 3 * k),
    ],
    ids=["power(2)", "power(1)", "exponential", "callable"],
)
def test_ars_ucb_decides_as_algorithm_1(policy, f):
    def total_of(arm, slots):
        return slots * (0.8 - 0.15 * arm) * (1 + 0.3 * math.sin(slots + arm))

    player = Recorder(policy, 4)
    expected = list(algorithm_1(policy.alpha, f, 4, total_of, 60))
    assert [player.step(total_of) for _ in range(60)] == expected


def after_a_round(plays, collected):
    """The state when each arm has had one round, but those that were never played."""
    arms = blank(len(plays))
    for arm, slots in enumerate(plays):
        if slots:
            credit(arms, arm, slots, collected[arm])
    return State(arms, np.zeros(1))


@pytest.mark.parametrize(
    ("plays", "collected", "chosen"),
    [
        ([9, 5, 5], [9, 5, 5], 1),  # all capped at 1: fewest plays, then smallest index
        ([5, 9, 5], [5, 9, 5], 0),
        ([5, 5, 4], [40, 5, 4], 2),  # a total beyond the number of plays is capped like the rest
        ([500, 500, 500], [100, 100, 99], 0),  # below the cap: the highest, then smallest index
        ([500, 500, 500], [99, 100, 100], 1),
        ([0, 5, 0], [0, 5, 0], 0),  # arms never played come first, in order
        ([5, 0, 0], [0, 0, 0], 1),
    ],
)
def test_the_cap_and_the_tie_rule(plays, collected, chosen):
    policy = ae.ArsUcb(alpha=1)
    decide, _ = policy.kernels()
    arm, _, _ = decide(*after_a_round(plays, collected), policy.params(3, 1000), sum(plays), None)
    assert arm == chosen


def test_t_is_the_number_of_slots_played_so_far():
    """Arm 0 leads by its average, arm 1 by its radius: they change places between ln 29 and ln 30."""
    policy = ae.ArsUcb(alpha=1)
    decide, _ = policy.kernels()
    plays = [200, 100]
    gap = math.sqrt(math.log(29.5) / 100) - math.sqrt(math.log(29.5) / 200)
    state = after_a_round(plays, [200 * (0.1 + gap), 10])
    assert [decide(*state, policy.params(2, 1000), t, None)[0] for t in (28, 29, 30, 31)] == [0, 0, 1, 1]
    ucb1 = ae.Ucb1()
    state = after_a_round(plays, [200 * (0.1 + gap * math.sqrt(2)), 10])
    assert [ucb1.kernels().decide(*state, ucb1.params(2, 1000), t, None)[0] for t in (28, 29, 30, 31)] == [0, 0, 1, 1]


def test_ucb1_is_not_capped_and_ties_go_to_the_smallest_index():
    policy = ae.Ucb1()
    decide, _ = policy.kernels()
    params = policy.params(3, 1000)
    assert decide(*after_a_round([5, 5, 5], [40, 45, 45]), params, 15, None) == (1, 1, 1)
    assert decide(*after_a_round([5, 5, 0], [40, 45, 0]), params, 10, None) == (2, 1, 1)


def test_ucb1_index_by_hand():
    policy = ae.Ucb1()
    decide, _ = policy.kernels()
    # 3/10 + sqrt(2 ln 30 / 10) = 1.1248 and 8/20 + sqrt(2 ln 30 / 20) = .9832; with 10.83 collected both are equal
    assert decide(*after_a_round([10, 20], [3, 8]), policy.params(2, 100), 30, None)[0] == 0
    assert decide(*after_a_round([10, 20], [3, 10.9]), policy.params(2, 100), 30, None)[0] == 1
    assert decide(*after_a_round([10, 20], [3, 10.8]), policy.params(2, 100), 30, None)[0] == 0


def test_round_robin_takes_turns():
    player = Recorder(ae.RoundRobin(), 3)
    assert [player.step(lambda arm, slots: 0.0)[0] for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


class Spoiled(ae.RoundRobin):
    """A policy with something wrong in its decisions; not registered, so its spec string is not checked."""

    answer: ClassVar = (0, 1, 1)
    _made: ClassVar = {}

    def kernels(self):
        answer = self.answer
        if type(self) not in self._made:
            kernels = ae.RoundRobin().kernels()
            self._made[type(self)] = kernels._replace(decide=lambda arms, own, params, t, rng: answer)
        return self._made[type(self)]


@pytest.mark.parametrize("answer", [(7, 1, 1), (-1, 1, 1), (0, 0, 0), (0, 2, 3), (0, 2, -1), (0, math.nan, 1)])
def test_a_faulty_decision_is_caught_by_the_driver_and_by_the_battery(answer, monkeypatch):
    policy = type("Faulty", (Spoiled,), {"answer": answer})()
    with pytest.raises(ValueError, match="decide must return an arm"):
        ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 10, 1)
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    with pytest.raises(AssertionError, match="decide must return"):
        check_policy(policy)


class Forgetful(Spoiled):
    """Keeps part of its state outside the arrays."""

    turns: ClassVar = [0]

    def kernels(self):
        if type(self) not in self._made:

            def decide(arms, own, params, t, rng):
                self.turns[0] += 1
                return self.turns[0] % arms.shape[1], 1, 1

            self._made[type(self)] = ae.RoundRobin().kernels()._replace(decide=decide)
        return self._made[type(self)]


def test_the_battery_finds_hidden_state(monkeypatch):
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    with pytest.raises(AssertionError, match=r"same seed|whole state"):
        check_policy(Forgetful())


def test_the_battery_finds_kernels_that_would_be_compiled_again_and_again(monkeypatch):
    class Remaking(ae.RoundRobin):
        def kernels(self):
            return ae.RoundRobin().kernels()._replace(decide=lambda arms, own, params, t, rng: (0, 1, 1))

    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    with pytest.raises(AssertionError, match="the same functions every time"):
        check_policy(Remaking())


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda arms, own, params, t, rng: 0, r"decide must return \(arm, slots, window\), got 0"),
        (lambda arms, own, params, t, rng: (0.5, 1, 1), "decide must return whole numbers"),
        (lambda arms, own, params, t, rng: (rng.integers(2), 1, 1), r"not with rng.integers"),
    ],
)
def test_the_battery_says_what_to_do(decide, message, monkeypatch):
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    policy = type("Odd", (ae.RoundRobin,), {"kernels": lambda self: ae.RoundRobin().kernels()._replace(decide=decide)})()
    with pytest.raises(AssertionError, match=message):
        check_policy(policy)


@dataclasses.dataclass(frozen=True)
class Unregistered(ae.RoundRobin):
    """A policy like any other, but without a name."""


def test_the_battery_takes_policies_that_are_registered_frozen_dataclasses():
    with pytest.raises(AssertionError, match="check_policy takes a policy"):
        check_policy(ae.Ucb1)
    with pytest.raises(AssertionError, match="must be a frozen dataclass"):
        check_policy(type("Plain", (ae.RoundRobin,), {})())
    with pytest.raises(AssertionError, match="is the class decorated with @register"):
        check_policy(Unregistered())
