"""Policies: the battery, and Algorithm 1 line by line."""

import dataclasses
import itertools
import math
import re
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect._core import PolicyKernels
from aftereffect.policies._averages import blank_averages, credit
from aftereffect.simulation import _rehearsal, _replications
from aftereffect.testing import check_policy, policies


@pytest.mark.compiled
@pytest.mark.parametrize(
    "policy",
    [
        *samples.POLICIES,
        *samples.ATTRIBUTED_POLICIES,
        # A filter for each of many delays takes minutes in plain Python, and the kernels are the
        # same: its own tests compare plain and compiled runs of these.
        *(policy for policy in samples.SLOT_POLICIES if policy != ae.AdaptiveSwitchback()),
    ],
    ids=str,
)
def test_battery(policy):
    inner = policy.base if isinstance(policy, ae.Floors) else policy
    slots = 16 if isinstance(inner, ae.AdaptiveSwitchback) else 600
    # In plain Python a pull's parts take as long as ten slots of other policies.
    check_policy(policy, slots=150 if isinstance(policy, ae.AttributedPolicy) else slots)


class Recorder:
    """Plays a policy live, through its plain kernels."""

    def __init__(self, policy, arms):
        self.decide, self.absorb = policy.kernels()
        self.state = policy.initial(arms)
        self.params = policy.params(arms, 10**6)
        self.rng = np.random.default_rng(0)
        self.t = 0

    def step(self, total_of):
        arm, slots, window = self.decide(self.state, self.params, self.t, self.rng)
        self.absorb(self.state, self.params, arm, window, total_of(arm, slots))
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
        (ae.ArsUcb(4, ae.growth.Power(2)), lambda k: k**2),
        (ae.ArsUcb(0.7, ae.growth.Power(1)), lambda k: k),
        (ae.ArsUcb(1, ae.growth.Exponential()), lambda k: 4 if k == 1 else 2**k),
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
    averages = blank_averages(len(plays))
    for arm, slots in enumerate(plays):
        if slots:
            credit(averages, arm, slots, collected[arm])
    return averages


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
    arm, _, _ = decide(after_a_round(plays, collected), policy.params(3, 1000), sum(plays), None)
    assert arm == chosen


def test_t_is_the_number_of_slots_played_so_far():
    """Arm 0 leads by its average, arm 1 by its radius: they change places between ln 29 and ln 30."""
    policy = ae.ArsUcb(alpha=1)
    decide, _ = policy.kernels()
    plays = [200, 100]
    gap = math.sqrt(math.log(29.5) / 100) - math.sqrt(math.log(29.5) / 200)
    state = after_a_round(plays, [200 * (0.1 + gap), 10])
    assert [decide(state, policy.params(2, 1000), t, None)[0] for t in (28, 29, 30, 31)] == [
        0,
        0,
        1,
        1,
    ]
    ucb1 = ae.Ucb1()
    state = after_a_round(plays, [200 * (0.1 + gap * math.sqrt(2)), 10])
    assert [
        ucb1.kernels().decide(state, ucb1.params(2, 1000), t, None)[0] for t in (28, 29, 30, 31)
    ] == [0, 0, 1, 1]


def test_ucb1_is_not_capped_and_ties_go_to_the_smallest_index():
    policy = ae.Ucb1()
    decide, _ = policy.kernels()
    params = policy.params(3, 1000)
    assert decide(after_a_round([5, 5, 5], [40, 45, 45]), params, 15, None) == (1, 1, 1)
    assert decide(after_a_round([5, 5, 0], [40, 45, 0]), params, 10, None) == (2, 1, 1)


def test_ucb1_index_by_hand():
    policy = ae.Ucb1()
    decide, _ = policy.kernels()
    # 3/10 + sqrt(2 ln 30 / 10) = 1.1248 and 8/20 + sqrt(2 ln 30 / 20) = .9832; with 10.83 collected
    # both are equal
    assert decide(after_a_round([10, 20], [3, 8]), policy.params(2, 100), 30, None)[0] == 0
    assert decide(after_a_round([10, 20], [3, 10.9]), policy.params(2, 100), 30, None)[0] == 1
    assert decide(after_a_round([10, 20], [3, 10.8]), policy.params(2, 100), 30, None)[0] == 0


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
            self._made[type(self)] = kernels._replace(decide=lambda state, params, t, rng: answer)
        return self._made[type(self)]


@pytest.mark.compiled
@pytest.mark.parametrize(
    "answer", [(7, 1, 1), (-1, 1, 1), (0, 0, 0), (0, 2, 3), (0, 2, -1), (0, math.nan, 1)]
)
def test_a_faulty_decision_is_caught_by_the_driver_and_by_the_battery(answer, monkeypatch):
    policy = type("Faulty", (Spoiled,), {"answer": answer})()
    message = rf"decide of faulty must return \(arm, slots, window\): .*, got {re.escape(str(answer))} at slot 0"
    with pytest.raises(ae.ParameterError, match=message):
        ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 10, 1)
    monkeypatch.setattr(_replications, "rehearse", lambda *_: None)  # then machine code must notice
    with pytest.raises(ae.ParameterError, match=message):
        ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 10, 1)
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    with pytest.raises(AssertionError, match=message):
        check_policy(policy)


@pytest.mark.compiled
def test_a_faulty_decision_after_hours_is_told_with_its_slot():
    def late(state, params, t, rng):
        return 9 if t == 5_000 else 0, 1, 1

    policy = type(
        "Late",
        (Spoiled,),
        {"kernels": lambda self: ae.RoundRobin().kernels()._replace(decide=late)},
    )()
    with pytest.raises(
        ae.ParameterError, match=r"decide of late must return .*, got \(9, 1, 1\) at slot 5000"
    ):
        ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 10_000, 40)


class Turns(NamedTuple):
    """Parameters with an array."""

    arms: int
    turns: Any


def beyond(state, params, t, rng):
    state.arm[50] += 1
    return 0, 1, 1


def before_the_first(state, params, t, rng):
    return int(state.arm[t - 1]), 1, 1


def into_params(state, params, t, rng):
    params.turns[0] = t
    return 0, 1, 1


def by_zero(state, params, t, rng):
    return 0, 10 // (t - 20) + 11, 1


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (beyond, "index 50 is outside 0 to 0"),
        (
            before_the_first,
            "index -1 is outside 0 to 0; write shape[0] - 1 for the last one",
        ),
        (
            into_params,
            "a kernel must not change params or covariates: put what changes into the state",
        ),
        (by_zero, "ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_a_kernel_that_leaves_its_arrays_is_told_with_its_place(decide, message):
    """Machine code would read and write whatever lies there."""
    policy = type(
        "Stray",
        (Spoiled,),
        {
            "kernels": lambda self: ae.RoundRobin().kernels()._replace(decide=decide),
            "params": lambda self, arms, horizon: Turns(arms, np.zeros(1)),
        },
    )()
    line = decide.__code__.co_firstlineno + 1
    with pytest.raises(ae.ParameterError) as caught:
        ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 1_000, 1)
    assert (
        str(caught.value)
        == f"a kernel of stray fails in {decide.__name__} (test_policies.py, line {line}): {message}"
    )


class Shape(NamedTuple):
    """A state with an array and, within, with something else."""

    arm: Any
    inner: Any = Turns(np.zeros(2), np.zeros(2))


WANTED = "in the state of shaped must be a C-contiguous float64 array of one dimension or more"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (np.zeros(2), "initial(arms) of shaped must be a named tuple of arrays, got array([0., 0.])"),
        ((np.zeros(2),), "initial(arms) of shaped must be a named tuple of arrays, got (array([0., 0.]),)"),
        (Shape(np.zeros(2, dtype=int)), f"arm {WANTED}, got int64 numbers"),
        (Shape(np.zeros((4, 4))[:, ::2]), f"arm {WANTED}, got float64 numbers"),
        (Shape(1.0), f"arm {WANTED}, got 1.0"),
        (Shape(np.zeros(2), Turns(2, np.zeros(2))), f"arms {WANTED}, got 2"),
    ],
)  # fmt: skip
def test_states_that_machine_code_is_not_made_for_are_refused(state, message):
    shaped = type("Shaped", (ae.RoundRobin,), {"initial": lambda self, arms: state})()
    with pytest.raises(ae.ParameterError) as caught:
        ae.simulate(shaped, ae.StochasticBandit([0.9, 0.1]), 10, 1)
    assert str(caught.value) == message


def test_a_rehearsal_that_takes_long_ends_early(monkeypatch):
    """One decision of a policy around the default one takes seconds in plain Python."""
    asked = []
    kernels = ae.FixedSwitchback().kernels()

    def decide(state, params, t, rng):
        asked.append(t)
        state.probabilities[0] = 1.0
        return 0, 1

    around = type(
        "Around", (ae.FixedSwitchback,), {"kernels": lambda _: kernels._replace(decide=decide)}
    )
    _rehearsal.rehearse(around(), 2, 1_000)
    assert asked == list(range(64))
    asked.clear()
    monkeypatch.setattr(_rehearsal.time, "monotonic", itertools.count().__next__)  # in seconds
    _rehearsal.rehearse(around(), 2, 1_000)
    assert asked == [0]


@pytest.mark.compiled
def test_our_own_policies_need_no_rehearsal(monkeypatch):
    monkeypatch.setattr(_replications, "rehearse", lambda *_: pytest.fail("rehearsed"))
    ae.simulate("ucb1", ae.StochasticBandit([0.9, 0.1]), 10, 1)


class Windows(NamedTuple):
    """How many windows of 0 to 4 slots there were."""

    counts: Any


@dataclasses.dataclass(frozen=True)
class Windowed(ae.Policy):
    """Rounds of ten slots of which it looks at four: there is room for windows, not for rounds."""

    def kernels(self):
        return PolicyKernels(ten_slots, count_windows)

    def initial(self, arms):
        return Windows(np.zeros(5))


def ten_slots(state, params, t, rng):
    return int(state.counts[4]) % 2, 10, 4


def count_windows(state, params, arm, window, total):
    state.counts[window] += 1


@pytest.mark.compiled
def test_the_battery_tells_a_policy_the_window_as_a_simulation_does(capsys):
    check_policy(Windowed())
    assert capsys.readouterr().out == (
        "Windowed is not registered: "
        "put @aftereffect.register above it to name it in specs and use it live\n"
    )


class Forgetful(Spoiled):
    """Keeps part of its state outside the arrays."""

    turns: ClassVar = [0]

    def kernels(self):
        if type(self) not in self._made:

            def decide(state, params, t, rng):
                self.turns[0] += 1
                return self.turns[0] % 3, 1, 1

            self._made[type(self)] = ae.RoundRobin().kernels()._replace(decide=decide)
        return self._made[type(self)]


@pytest.mark.compiled
def test_the_battery_finds_hidden_state(monkeypatch):
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    with pytest.raises(AssertionError, match=r"same seed|copy of its state"):
        check_policy(Forgetful())


def test_the_battery_finds_kernels_that_would_be_compiled_again_and_again(monkeypatch):
    class Remaking(ae.RoundRobin):
        def kernels(self):
            return (
                ae.RoundRobin().kernels()._replace(decide=lambda state, params, t, rng: (0, 1, 1))
            )

    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    with pytest.raises(AssertionError, match="the same functions every time"):
        check_policy(Remaking())


def second_half(state, params, t, rng):
    return int(2 * t >= params.arms), 1, 1


def test_the_battery_finds_a_policy_that_needs_the_horizon(monkeypatch):
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    policy = type(
        "Halves",
        (Spoiled,),
        {
            "kernels": lambda self: ae.RoundRobin().kernels()._replace(decide=second_half),
            "params": lambda self, arms, horizon: Turns(horizon, np.zeros(1)),
        },
    )()
    with pytest.raises(AssertionError, match="set needs_horizon = True"):
        check_policy(policy)


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (
            lambda state, params, t, rng: 0,
            r"decide of odd must return \(arm, slots, window\): .* got 0 at slot 0",
        ),
        (
            lambda state, params, t, rng: (0.5, 1, 1),
            r"as whole numbers, got \(0.5, 1, 1\) at slot 0",
        ),
        (
            lambda state, params, t, rng: (rng.integers(2), 1, 1),
            r"<lambda> \(.*\): .* not with rng.integers",
        ),
    ],
)
def test_the_battery_says_what_to_do(decide, message, monkeypatch):
    monkeypatch.setattr("aftereffect.testing.policies.check_spec", lambda policy: None)
    policy = type(
        "Odd",
        (ae.RoundRobin,),
        {"kernels": lambda self: ae.RoundRobin().kernels()._replace(decide=decide)},
    )()
    with pytest.raises(AssertionError, match=message):
        check_policy(policy)


@dataclasses.dataclass(frozen=True)
class Unregistered(ae.RoundRobin):
    """A policy like any other, but without a name."""


@pytest.mark.compiled
def test_the_battery_takes_policies_that_are_frozen_dataclasses(capsys):
    with pytest.raises(AssertionError, match="check_policy needs a policy"):
        check_policy(ae.Ucb1)
    with pytest.raises(AssertionError, match="must be a frozen dataclass"):
        check_policy(type("Plain", (ae.RoundRobin,), {})())
    check_policy(Unregistered())
    assert capsys.readouterr().out.startswith(
        "Unregistered is not registered: put @aftereffect.register above it"
    )

    @dataclasses.dataclass(frozen=True)
    class Local(ae.RoundRobin):
        """Nobody else can import it."""

    check_policy(Local())
    assert capsys.readouterr().out.startswith(
        "Local is defined within a function: define it at the top of a module"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda policy, state, active: state, "the arrays that initial_for makes for as many arms"),
        (
            lambda policy, state, active: ae.AdaptiveSwitchback.change_arms(
                policy, state, [True] * len(active)
            ),
            "must have the probability 0, and never be played",
        ),
    ],
    ids=["too small", "plays all"],
)
def test_the_battery_finds_arms_that_do_not_come_or_go(change, message):
    policy = type("Stubborn", (ae.AdaptiveSwitchback,), {"change_arms": change})
    with pytest.raises(AssertionError, match=message):
        policies._check_arm_changes(policy(0, delay=ae.Interval(0, 1)), 60)
