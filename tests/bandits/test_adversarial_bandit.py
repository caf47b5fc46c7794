"""Adversarial bandits slot by slot: totals as a literal adversary brings them, the best arm, regret and traces."""

import math
import random

import numpy as np
import pytest

import aftereffect as ae
import independent_adversarial as independent
from adversarial import ENGINES, arrays, binary, both_ways, each_engine, one_hot, played
from aftereffect.simulation import BATCH, Task, interpret_driver, prepare, run_batch
from aftereffect.testing import Script


def random_script(arms, rng, slots, longest=70):
    """Rounds of all lengths, often of the same arm again, with whole, short and empty windows."""
    rounds = []
    arm = 0
    while sum(each[1] for each in rounds) < slots:
        if rng.random() < 0.5:
            arm = rng.randrange(arms)
        length = rng.choice([1, 1, 2, 3, rng.randint(4, 12), rng.randint(10, longest)])
        window = rng.choice([length, length, 0, 1, rng.randint(0, length)])
        rounds.append((arm, length, window))
    return Script(tuple(rounds))


def literal_totals(script, world):
    """What the windows of a script show in a literal world."""
    totals = []
    for arm, slots, window in script.rounds:
        seen = [world.play(arm, slot == 0) for slot in range(slots)]
        totals.append(math.fsum(seen[slots - window :]))
    return totals


def shown_totals(script, bandit, engine):
    return played(script, bandit, engine, script.slots).states.totals[0].tolist()


@both_ways
@pytest.mark.parametrize(
    "d", [3, *(pytest.param(d, marks=pytest.mark.slow) for d in (1, 2, 7, 20))]
)
def test_hold_back_is_the_literal_adversary_number_by_number(d, reset):
    rng = random.Random(100 * d + reset)
    held = 0
    for number in range(60):
        script = random_script(3, rng, 600, longest=max(70, 8 * d))
        paying, table = one_hot(script.slots, [0.3, 0.4, 0.3], number)
        if number % 2:
            table = paying = binary(script.slots, [0.5, 0.5, 0.5], number)
        world = independent.World(table.tolist(), ("hold-back", d, reset))
        expected = literal_totals(script, world)
        held += world.held
        for engine in ENGINES:
            for rewards in (paying, table):
                bandit = ae.AdversarialBandit(rewards, ae.HoldBack(d, reset_on_round=reset))
                assert bandit.best_arm(script.slots) == world.best
                assert shown_totals(script, bandit, engine) == expected
    assert held > 300  # it did hold back


@both_ways
def test_hold_back_of_fractions(reset):
    rng = random.Random(7)
    for number in range(20):
        script = random_script(4, rng, 500)
        table = np.random.default_rng(number).random((script.slots, 4))
        world = independent.World(table.tolist(), ("hold-back", 4, reset))
        expected = literal_totals(script, world)
        for engine in ENGINES:
            shown = shown_totals(script, ae.AdversarialBandit(table, ae.HoldBack(4, reset)), engine)
            assert shown == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("delay", [(3, 7), (0, 0), (0, 29), (25, 25)])
def test_interval_spreads_land_where_a_literal_world_lands_them(delay):
    rng = random.Random(sum(delay))
    for number in range(15):
        script = random_script(3, rng, 500)
        paying, table = one_hot(script.slots, [0.3, 0.4, 0.3], number)
        if number % 2:
            table = paying = np.random.default_rng(number).random((script.slots, 3))
        expected = literal_totals(
            script, independent.World(table.tolist(), ("interval", delay[0], delay[1] + 1))
        )
        for engine in ENGINES:
            shown = shown_totals(script, ae.AdversarialBandit(paying, ae.Interval(*delay)), engine)
            assert shown == pytest.approx(expected, abs=1e-10)


def test_spreads_by_arm_land_where_a_literal_world_lands_them():
    """Where an arm rests its spread goes on to deliver, and nobody's pulls bring nothing."""
    delay = ae.PerArm(
        [ae.Interval(3, 7), ae.Immediate(), ae.Interval(20, 40), ae.Shape([0, 0.5, 0.5])]
    )
    rng = random.Random(4)
    for number in range(20):
        script = random_script(4, rng, 500)
        paying, table = one_hot(script.slots, [0.2, 0.3, 0.3, 0.2], number)
        if number % 2:
            table = paying = np.random.default_rng(number).random((script.slots, 4))
        world = independent.World(table.tolist(), ("intervals", (3, 8), (0, 1), (20, 41), (1, 3)))
        expected = literal_totals(script, world)
        for engine in ENGINES:
            assert shown_totals(
                script, ae.AdversarialBandit(paying, delay), engine
            ) == pytest.approx(expected, abs=1e-10)


def test_a_table_and_its_paying_arms_are_the_same_bandit():
    script = random_script(3, random.Random(3), 700)
    paying, table = one_hot(script.slots, [0.2, 0.5, 0.3], 1)
    for delay in (
        "uniform-delay(2, 9)",
        "geometric(0.8)",
        "shape([.1, .5, .4])",
        "power-law(2)",
        "hold-back(3)",
    ):
        for engine in ENGINES:
            first, second = (
                played(script, ae.AdversarialBandit(rewards, delay), engine, script.slots, seed=3)
                for rewards in (paying, table)
            )
            for one, other in zip(*map(arrays, (first.states, second.states)), strict=True):
                assert np.array_equal(one, other)
            assert np.array_equal(first.runs.regret, second.runs.regret)


@pytest.mark.slow
@each_engine
def test_windows_under_random_delays_have_the_right_mean_and_variance(engine):
    """Pull s lands in a window with a probability w: mean x w, variance x^2 w (1 - w)."""
    runs, deviates = 1_200, []
    script = Script(
        (
            (0, 30, 30),
            (1, 7, 7),
            (0, 1, 1),
            (2, 40, 5),
            (0, 3, 0),
            (0, 20, 20),
            (1, 60, 25),
            (2, 5, 2),
            (0, 9, 9),
        )
    )
    table = np.random.default_rng(8).random((script.slots, 3))
    arms = np.repeat([arm for arm, _, _ in script.rounds], [slots for _, slots, _ in script.rounds])
    rewards = table[np.arange(script.slots), arms]
    for number, (low, high) in enumerate([(0, 0), (0, 6), (5, 10), (10, 45)]):
        bandit = ae.AdversarialBandit(table, ae.UniformDelay(low, high))
        seen = []
        for first in range(0, runs, BATCH):
            batch = range(first, min(first + BATCH, runs))
            task = Task(script, bandit, engine, script.slots, (script.slots,), 40 + number, batch)
            seen.append(run_batch(task, prepare(task, interpret_driver)).states.totals)
        seen = np.concatenate(seen)
        mean, variance = [], []
        for end, (_, _, window) in zip(
            np.cumsum([each[1] for each in script.rounds]), script.rounds, strict=True
        ):
            lands = np.arange(script.slots)[:, None] + np.arange(low, high + 1)
            share = ((lands >= end - window) & (lands < end)).mean(axis=1)
            mean.append((rewards * share).sum())
            variance.append((rewards**2 * share * (1 - share)).sum())
        mean, variance = np.array(mean), np.array(variance)
        fixed = variance < 1e-12
        assert seen[:, fixed] == pytest.approx(
            np.broadcast_to(mean[fixed], (len(seen), fixed.sum())), abs=1e-10
        )
        z = (seen.mean(axis=0) - mean)[~fixed] / np.sqrt(variance[~fixed] / len(seen))
        deviates.extend(z)
        squares = (seen - mean)[:, ~fixed] ** 2
        deviates.extend(
            (squares.mean(axis=0) - variance[~fixed]) / (squares.std(axis=0) / math.sqrt(len(seen)))
        )
    assert np.abs(deviates).max() <= 4
    assert np.mean(np.square(deviates)) <= 1 + 4 * math.sqrt(2 / len(deviates))


def test_the_best_arm_is_the_first_of_several_and_depends_on_the_horizon():
    table = [[0, 1, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 0, 0]]
    bandit = ae.AdversarialBandit(table, ae.HoldBack(1))
    assert [bandit.best_arm(slots) for slots in range(1, 7)] == [1, 0, 2, 1, 1, 0]
    assert [bandit.second_gap(slots) for slots in range(1, 7)] == pytest.approx(
        [0, 0, 1 / 3, 0, 1 / 5, 0]
    )
    paying = ae.AdversarialBandit([2, 1, 1, 0, 0, 2, 2])
    assert [paying.best_arm(slots) for slots in range(1, 8)] == [2, 1, 1, 1, 0, 0, 2]


@each_engine
def test_hold_back_holds_the_best_arm_of_the_horizon(engine):
    """Arm 1 pays in the first 40 slots, arm 0 in the 60 after: played up to slot 80, arm 1 is held back, up to 100 arm 0."""
    paying = np.repeat([1, 0], [40, 60])
    for horizon, best in ((79, 1), (80, 0), (100, 0)):  # at 80 both have paid 40 times
        script = Script(((1, 40, 40), (0, horizon - 40, horizon - 40)))
        bandit = ae.AdversarialBandit(paying, ae.HoldBack(5))
        # Held are pulls from the 15th on: of 40 the last 5 are still to come when the next round
        # begins, else the last one.
        lost = 5 if best == 1 else 1
        late = 5 if best == 0 else 1
        expected = [40 - lost, lost + (horizon - 40) - late]
        assert shown_totals(script, bandit, engine) == expected


def test_hold_back_by_hand():
    """d = 2: from the 6th pull in a row on rewards wait 2 slots, so that slot 6 shows nothing."""
    script = Script(tuple((arm, 1, 1) for arm in (0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0)))
    for engine in ENGINES:
        row = ae.AdversarialBandit(np.zeros(11, dtype=int), ae.HoldBack(2))
        assert shown_totals(script, row, engine) == [0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1]
        reset = ae.AdversarialBandit(np.zeros(11, dtype=int), ae.HoldBack(2, reset_on_round=True))
        assert shown_totals(script, reset, engine) == [0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1]


@each_engine
@pytest.mark.parametrize(
    "delay", [ae.HoldBack(3), ae.UniformDelay(2, 9), ae.Interval(2, 4)], ids=str
)
def test_regret_is_against_the_arm_that_is_best_over_the_whole_horizon(engine, delay):
    """At every slot, also before the horizon, where it may be negative."""
    horizon = 600
    table = np.concatenate([binary(200, [0.9, 0.1, 0.5], 1), binary(1_000, [0.1, 0.9, 0.5], 2)])
    marks = tuple(range(1, horizon + 1))
    for rewards in (table, np.random.default_rng(1).random((800, 3)) * table[:800]):
        bandit = ae.AdversarialBandit(rewards, delay)
        best = np.asarray(rewards)[:horizon].sum(axis=0).argmax()
        task = Task(ae.ArsExp3(), bandit, engine, horizon, marks, 5, range(1))
        regret = run_batch(task, prepare(task, interpret_driver)).runs.regret[0]
        record = run_batch(task, prepare(task, interpret_driver, engine=bandit.tracer(horizon)))
        arms = record.memory[-3, :horizon].astype(int)
        gained = np.asarray(rewards)[np.arange(horizon), arms]
        observed, generated = record.memory[-2:, :horizon]
        assert np.array_equal(generated, gained)
        if isinstance(delay, ae.Interval):
            assert observed == pytest.approx(
                np.convolve(gained, [0, 0, 1 / 3, 1 / 3, 1 / 3])[:horizon], abs=1e-12
            )
        elif isinstance(delay, ae.UniformDelay):
            landed, brought = np.cumsum(observed), np.cumsum(gained)
            assert (landed[2:] <= brought[:-2] + 1e-9).all()
            assert (landed[9:] >= brought[:-9] - 1e-9).all()
        if engine == "slotwise" or not isinstance(
            delay, ae.UniformDelay
        ):  # else it is another run of the same law
            assert regret == pytest.approx(
                np.cumsum(np.asarray(rewards)[:horizon, best] - gained), abs=1e-9
            )
        if rewards is table:
            assert regret.min() < -10


def ars_exp3_begins(horizon, epochs):
    """Where rounds of ARS-EXP3 begin, by the definition of K."""
    begins, t = set(), 0
    for slots in epochs:
        k, end = 1, t + slots
        while t + independent.root_up(k) <= end:
            begins.add(t)
            t += independent.root_up(k)
            k += 1
        if t < end:
            begins.add(t)
        t = end
    return {begin for begin in begins if begin < horizon}


@pytest.mark.compiled
@both_ways
@pytest.mark.parametrize(
    ("policy", "epochs"),
    [(ae.ArsExp3(), [2_000]), (ae.ArsExp3(doubling=True), [1_024, 2_048])],
    ids=str,
)
def test_a_trace_under_hold_back_is_that_of_the_literal_adversary(policy, epochs, reset):
    horizon = 2_000
    table = binary(horizon, [0.1, 0.9, 0.2], 3)
    bandit = ae.AdversarialBandit(table, ae.HoldBack(2, reset_on_round=reset))
    study = ae.simulate(policy, bandit, horizon, 2, seed=6, engine="slotwise")
    begins = ars_exp3_begins(horizon, epochs)
    assert (study[0].rounds == len(begins)).all()
    for replication in range(2):
        trace = study.trace(0, replication)
        world = independent.World(table.tolist(), ("hold-back", 2, reset))
        seen = [world.play(arm, slot in begins) for slot, arm in enumerate(trace.arms.tolist())]
        assert trace.totals.tolist() == seen
        assert trace.rewards.sum() == world.gained
        assert study[0].final[replication] == world.regret
        assert world.held > 100
        assert np.bincount(trace.arms, minlength=3).tolist() == study[0].pulls[replication].tolist()


def test_single_slots_are_never_held_back_when_rounds_reset():
    paying, _ = one_hot(400, [0.1, 0.9], 1)
    for reset in (False, True):
        bandit = ae.AdversarialBandit(paying, ae.HoldBack(2, reset_on_round=reset))
        task = Task(ae.Exp3(), bandit, "slotwise", 400, (400,), 1, range(1))
        _, observed, generated = run_batch(
            task, prepare(task, interpret_driver, engine=bandit.tracer(400))
        ).memory[-3:, :400]
        assert np.array_equal(observed[1:], generated[:-1]) == reset
        assert observed[0] == 0


def test_what_a_policy_learns_of_the_delay():
    held = ae.AdversarialBandit([[0, 1]], ae.HoldBack(7))
    assert held.delay_facts.reach == 7
    assert ae.Clw().with_delay_facts(held.delay_facts) == ae.Clw(7)
    assert ae.Clw(3).with_delay_facts(held.delay_facts) == ae.Clw(3)
    assert ae.Clw(variant="colt").with_delay_facts(
        ae.AdversarialBandit([[0, 1]]).delay_facts
    ) == ae.Clw(1, "colt")
    assert ae.Clw().with_delay_facts(ae.AdversarialBandit([[0, 1]]).delay_facts) == ae.Clw(0)
    assert ae.Clw().with_delay_facts(
        ae.AdversarialBandit([[0, 1]], ae.UniformDelay(5, 10)).delay_facts
    ) == ae.Clw(10)
    assert ae.MiniBatch("clw").with_delay_facts(held.delay_facts) == ae.MiniBatch(ae.Clw(7))
