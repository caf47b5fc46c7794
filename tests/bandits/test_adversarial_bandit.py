"""Adversarial bandits: schedules, both engines, the adversary, and whole runs against simulators written apart."""

import itertools
import math
import pickle
import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
import independent_adversarial as independent
import oracles
from aftereffect.policies import named_arrays
from aftereffect.simulation import BATCH, Task, interpret_driver, prepare, run_batch
from aftereffect.testing import Script

ENGINES = ("roundwise", "slotwise")
each_engine = pytest.mark.parametrize("engine", ENGINES)
both_ways = pytest.mark.parametrize("reset", [False, True], ids=["across rounds", "reset on round"])


def binary(horizon, means, seed):
    """A table of zeros and ones."""
    return (np.random.default_rng(seed).random((horizon, len(means))) < means).astype(int)


def one_hot(horizon, shares, seed):
    """The paying arm of each slot, and the same as a table."""
    paying = np.random.default_rng(seed).choice(len(shares), size=horizon, p=shares)
    return paying, np.eye(len(shares), dtype=int)[paying]


def played(policy, bandit, engine, horizon, runs=1, seed=1):
    """The driver as it is written, without a compiler."""
    task = Task(
        policy.with_delay_facts(bandit.delay_facts),
        bandit,
        engine,
        horizon,
        (horizon // 2, horizon),
        seed,
        range(runs),
    )
    return run_batch(task, prepare(task, interpret_driver))


# One slot after the other, one pull after the other


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


# The best arm


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


# Every policy


VARIANTS, BASES = ("colt", "jmlr", "seed"), ("exp3", "exp3-gain", "tsallis")


def policies(d):
    return (
        ae.Exp3(),
        ae.Exp3("loss"),
        ae.ArsExp3(),
        ae.ArsExp3(doubling=True),
        *(ae.Clw(d, variant, base) for variant in VARIANTS for base in BASES),
        ae.ArsClw(first_phase=256),
        ae.MiniBatch(),
    )


FURTHER = (
    ae.ArsExp3(beta=1.5),
    ae.ArsClw(lambda slots: 3, first_phase=100),
    ae.MiniBatch("exp3(form=loss)", size=20),
    ae.MiniBatch("ars-ucb(alpha=.5)", size=3),
    ae.MiniBatch("clw(2)", size=2),
    ae.ArsUcb(alpha=0.5),
)


def arrays(states):
    return [array for _, array in named_arrays(states)]


@both_ways
@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_every_policy_plays_the_same_on_both_engines_under_hold_back(d, reset):
    """Nothing is drawn but by the policy, and sums of zeros and ones are exact: all numbers are equal."""
    horizon = 700
    paying, _ = one_hot(horizon, [0.1, 0.8, 0.1], d)
    for number, rewards in enumerate([paying, binary(horizon, [0.2, 0.9, 0.1], d)]):
        bandit = ae.AdversarialBandit(rewards, ae.HoldBack(d, reset_on_round=reset))
        for policy in (*policies(d), *FURTHER):
            fast, slow = (
                played(policy, bandit, engine, horizon, seed=10 + number) for engine in ENGINES
            )
            for ours, theirs in zip(
                (*fast.runs, *arrays(fast.states)),
                (*slow.runs, *arrays(slow.states)),
                strict=True,
            ):
                assert np.array_equal(ours, theirs), policy


@pytest.mark.parametrize("delay", [ae.Interval(3, 7), ae.Interval(0, 24)], ids=str)
def test_every_policy_plays_the_same_on_both_engines_under_a_fixed_spread(delay):
    """Nothing is drawn but by the policy; totals differ by rounding, plays do not."""
    horizon = 700
    paying, _ = one_hot(horizon, [0.1, 0.8, 0.1], 1)
    bandit = ae.AdversarialBandit(paying, delay)
    for policy in (*policies(5), *FURTHER):
        fast, slow = (played(policy, bandit, engine, horizon, seed=10) for engine in ENGINES)
        for ours, theirs in zip(fast.runs, slow.runs, strict=True):
            assert np.array_equal(ours, theirs), policy
        for ours, theirs in zip(arrays(fast.states), arrays(slow.states), strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)


def test_hold_back_changes_what_policies_do():
    """Else the equality above would say little."""
    horizon = 700
    rewards = binary(horizon, [0.2, 0.9, 0.1], 1)
    changed = 0
    for policy in policies(5):
        held, free = (
            played(policy, ae.AdversarialBandit(rewards, delay), "roundwise", horizon, seed=1)
            for delay in (ae.HoldBack(5), ae.Interval(1, 1))
        )
        pairs = zip(arrays(held.states), arrays(free.states), strict=True)
        changed += not all(np.array_equal(one, other) for one, other in pairs)
    assert changed >= 10


def simulated(policy, rewards, delay, horizon, runs, seed, engine="roundwise"):
    return ae.simulate(
        policy,
        ae.AdversarialBandit(rewards, delay),
        horizon,
        runs,
        seed=seed,
        engine=engine,
    )[0]


@pytest.mark.compiled
@pytest.mark.parametrize("delay", [ae.UniformDelay(5, 10), ae.HoldBack(3)], ids=str)
def test_compiling_changes_nothing(delay):
    rewards = binary(500, [0.3, 0.7, 0.5], 1)
    for policy in policies(10):
        compiled = simulated(policy, rewards, delay, 500, 2, 3)
        interpreted = played(
            policy, ae.AdversarialBandit(rewards, delay), "roundwise", 500, 2, seed=3
        ).runs
        assert np.array_equal(compiled.final, interpreted.regret[:, -1])
        assert np.array_equal(compiled.rounds, interpreted.rounds)


HORIZON, RUNS = 3_000, 500


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("delay", "d"),
    [(ae.UniformDelay(5, 10), 3), (ae.Interval(3, 7), 8)],
    ids=["uniform-delay(5, 10)", "interval(3, 7)"],
)
def test_both_engines_agree_in_distribution(delay, d):
    """CLW is told too little in the first case: what leaks from block to block then matters more."""
    rewards = binary(HORIZON, [0.2, 0.85, 0.5], 5)
    deviates = []
    for number, policy in enumerate(policies(d)):
        fast, slow = (
            simulated(policy, rewards, delay, HORIZON, RUNS, 1_000 * side + 20 * d + number, engine)
            for side, engine in enumerate(ENGINES)
        )
        ours, theirs = (
            np.column_stack([runs.final, runs.pulls, runs.rounds]) for runs in (fast, slow)
        )
        for column in range(ours.shape[1]):
            assert (
                stats.ks_2samp(ours[:, column], theirs[:, column], method="asymp").pvalue > 1e-5
            ), policy
        error = math.sqrt((ours[:, 0].var(ddof=1) + theirs[:, 0].var(ddof=1)) / RUNS)
        deviates.append((ours[:, 0].mean() - theirs[:, 0].mean()) / error)
    assert np.abs(deviates).max() <= 4
    assert np.mean(np.square(deviates)) <= 1 + 4 * math.sqrt(2 / len(deviates))


@pytest.mark.compiled
def test_the_comparison_notices_longer_delays():
    rewards = binary(HORIZON, [0.2, 0.85, 0.5], 5)
    first, second = (
        simulated(ae.ArsExp3(), rewards, delay, HORIZON, RUNS, seed).final
        for seed, delay in enumerate([ae.UniformDelay(5, 10), ae.UniformDelay(8, 13)])
    )
    assert stats.ks_2samp(first, second, method="asymp").pvalue < 1e-5


# Simulators written apart


def literally(policy, d):
    """The independent simulator of a policy above, as a function of a world and a generator."""
    match policy:
        case ae.Exp3(form=form):
            return lambda world, rng: independent.exp3(world, rng, HORIZON, form)
        case ae.ArsExp3(doubling=doubling):
            return lambda world, rng: independent.ars_exp3(world, rng, HORIZON, doubling=doubling)
        case ae.Clw(variant=variant, base=base):
            return lambda world, rng: independent.clw(world, rng, HORIZON, d, variant, base)
        case ae.ArsClw():
            return lambda world, rng: independent.ars_clw(world, rng, HORIZON, 256)
        case ae.MiniBatch():
            return lambda world, rng: independent.mini_batch(world, rng, HORIZON, "gain")


CASES = (
    (("hold-back", 5, False), ae.HoldBack(5), 5, binary(HORIZON, [0.3, 0.9, 0.5], 11)),
    (("uniform", 5, 10), ae.UniformDelay(5, 10), 10, binary(HORIZON, [0.8, 0.1, 0.4, 0.6], 12)),
    (
        ("interval", 3, 8),
        ae.Interval(3, 7),
        8,
        np.concatenate([binary(1_000, [0.9, 0.2], 13), binary(HORIZON - 1_000, [0.15, 0.8], 14)]),
    ),
)
THEIR_RUNS, OUR_RUNS = 125, 600


@pytest.mark.compiled
def test_final_regrets_equal_those_of_independent_simulators():
    deviates = {}
    for words, delay, d, table in CASES:
        rows = table.tolist()
        for policy in policies(d):
            seed = 1_000 * len(deviates)
            play_literally = literally(policy, d)
            theirs = oracles.look_up(
                independent,
                f"{policy} under {' '.join(map(str, words))}",
                [HORIZON, d, rows],
                lambda run, rows=rows, words=words, play_literally=play_literally: play_literally(
                    independent.World(rows, words, random.Random(2 * run)),
                    random.Random(2 * run + 1),
                ),
                range(seed, seed + THEIR_RUNS),
            )
            ours = simulated(policy, table, delay, HORIZON, OUR_RUNS, seed).final
            error = math.sqrt(theirs.squared_error + ours.var(ddof=1) / OUR_RUNS)
            deviates[words, str(policy)] = (ours.mean() - theirs.mean) / error
    z = np.array(list(deviates.values()))
    assert np.abs(z).max() <= 4, deviates
    assert np.mean(z**2) <= 1 + 4 * math.sqrt(2 / len(z)), deviates


# Exp3 without delay


AT_ONCE = ae.Interval(0, 0)  # the kernels of other tests; the very numbers of Immediate


def test_a_spread_over_the_slot_itself_is_no_delay():
    rewards = binary(300, [0.3, 0.7], 2)
    for policy in policies(1):
        first, second = (
            played(policy, ae.AdversarialBandit(rewards, delay), "roundwise", 300)
            for delay in (AT_ONCE, ae.Immediate())
        )
        assert np.array_equal(first.runs.regret, second.runs.regret)


@pytest.mark.compiled
@pytest.mark.parametrize("form", ["gain", "loss"])
def test_exp3_has_the_exhaustive_expectation(form):
    """All 64 courses of a game of six slots, each with its probability."""
    table = [[1, 0], [0, 1], [1, 1], [0, 1], [1, 0], [0, 1]]
    expected, certain, plays = 0.0, 0.0, np.zeros(2)
    for course in itertools.product(range(2), repeat=6):
        learner = independent.naive_learner(form, 2, 6)
        chance, gained = 1.0, 0
        for slot, arm in enumerate(course):
            chance *= learner.p[arm]
            gained += table[slot][arm]
            learner.feed(arm, table[slot][arm])
        certain += chance
        expected += chance * (4 - gained)
        plays += chance * np.bincount(course, minlength=2)
    assert certain == pytest.approx(1)
    runs = simulated(ae.Exp3(form), table, AT_ONCE, 6, 10_000, 3)
    assert abs(runs.final.mean() - expected) <= 4 * runs.sem[-1]
    assert abs(runs.pulls[:, 0].mean() - plays[0]) <= 4 * runs.pulls[:, 0].std() / 100
    assert abs(expected - 1) > 20 * runs.sem[-1]  # which drawing at random would have


def spiteful(horizon, arms):
    """Whoever follows the leader gets nothing: all arms pay but the one that has paid most so far."""
    sums = np.zeros(arms)
    rows = np.ones((horizon, arms), dtype=int)
    for slot in range(horizon):
        rows[slot, np.argmax(sums)] = 0
        sums += rows[slot]
    return rows


def greedy(table):
    """What following the leader gains."""
    sums = np.zeros(len(table[0]))
    gained = 0
    for row in table:
        gained += row[np.argmax(sums)]
        sums += row
    return gained


@pytest.mark.compiled
@pytest.mark.parametrize("family", ["independent", "switching", "spiteful"])
def test_exp3_stays_below_its_bound(family):
    horizon, arms = 4_000, 4
    if family == "independent":
        table = binary(horizon, [0.5, 0.6, 0.4, 0.5], 1)
    elif family == "switching":
        table = np.concatenate(
            [
                binary(500, np.roll([0.9, 0.1, 0.2, 0.3], stretch % 3), stretch)
                for stretch in range(8)
            ]
        )
    else:
        table = spiteful(horizon, arms)
        assert greedy(table) == 0
    best = table.sum(axis=0).max()
    runs = simulated(ae.Exp3(), table, AT_ONCE, horizon, 200, 4)
    assert runs.final.mean() + 4 * runs.sem[-1] < 2.63 * math.sqrt(best * arms * math.log(arms))
    at_random = best - table.mean(axis=1).sum()
    assert runs.final.mean() < at_random + 4 * runs.sem[-1]


# Long runs


@pytest.mark.compiled
def test_every_policy_stays_finite_over_ten_million_slots():
    """One arm pays always and one never: scores and weights come as far apart as they can."""
    horizon = 10_000_000
    rewards = np.zeros((horizon, 3), dtype=np.uint8)
    rewards[:, 1] = 1
    rewards[::2, 2] = 1
    bandit = ae.AdversarialBandit(rewards, AT_ONCE)
    for policy in policies(8):
        task = Task(policy, bandit, "roundwise", horizon, (horizon,), 1, range(1))
        left = run_batch(task, prepare(task))
        assert all(np.isfinite(array).all() for array in arrays(left.states))
        assert left.runs.regret[0, -1] < 0.1 * horizon, policy


# Regret and traces


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


# Schedules


def test_drawn_arms_pay_by_their_shares():
    shares = [0.372, 0.344, 0.284]
    slots = 200_000
    paying = ae.rewards.DrawnArm(shares, seed=3).rows(slots)
    assert paying.shape == (slots,)
    assert paying.dtype == np.int8
    counts = np.bincount(paying, minlength=3)
    assert stats.chisquare(counts, np.array(shares) * slots).pvalue > 1e-5
    pairs = np.bincount(
        3 * paying[:-1].astype(int) + paying[1:], minlength=9
    )  # and one slot says nothing of the next
    assert stats.chisquare(pairs, np.outer(shares, shares).ravel() * (slots - 1)).pvalue > 1e-5


def test_drawn_rewards_pay_by_their_means_and_independently():
    means = np.array([0.9, 0.5, 0.1, 0, 1])
    slots = 100_000
    rows = ae.rewards.DrawnRewards(means, seed=3).rows(slots)
    assert rows.shape == (slots, 5)
    assert rows.dtype == np.uint8
    assert (rows[:, 3] == 0).all()
    assert (rows[:, 4] == 1).all()
    error = np.sqrt(means * (1 - means) / slots)[:3]
    assert (np.abs(rows.mean(axis=0)[:3] - means[:3]) <= 4 * error).all()
    together = np.corrcoef(rows[:, :3].T)[np.triu_indices(3, 1)]
    following = [np.corrcoef(rows[:-1, arm], rows[1:, arm])[0, 1] for arm in range(3)]
    assert np.abs([*together, *following]).max() <= 4 / math.sqrt(slots)


@pytest.mark.parametrize(
    "schedule",
    [ae.rewards.DrawnArm([0.5, 0.2, 0.3], seed=9), ae.rewards.DrawnRewards([0.4, 0.6], seed=9)],
    ids=str,
)
def test_more_slots_begin_with_the_same(schedule):
    longest = schedule.rows(1_000_050).copy()  # more than are drawn at once
    for slots in (1, 7, 999_999, 1_000_000, 1_000_001):
        assert np.array_equal(schedule.rows(slots), longest[:slots])
    assert not np.array_equal(longest[:50], longest[1_000_000:])
    other = replace(schedule, seed=10)
    assert not np.array_equal(other.rows(1_000), longest[:1_000])
    assert np.array_equal(replace(other, seed=9).rows(1_000), longest[:1_000])


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (ae.rewards.DrawnArm([0.5, 0.3, 0.2]), "drawn-arm([0.5, 0.3, 0.2], seed=0)"),
        (ae.rewards.DrawnRewards([0.5, 1], 7), "drawn-rewards([0.5, 1], seed=7)"),
        (ae.HoldBack(10), "hold-back(10, reset_on_round=false)"),
        (ae.HoldBack(10, True), "hold-back(10, reset_on_round=true)"),
        (
            ae.AdversarialBandit(ae.rewards.DrawnArm([0.5, 0.5], 3), ae.HoldBack(4)),
            "adversarial-bandit(drawn-arm([0.5, 0.5], seed=3), delay=hold-back(4, reset_on_round=false))",
        ),
        (
            ae.AdversarialBandit("drawn-rewards([.5, .5])", "uniform-delay(5, 10)"),
            "adversarial-bandit(drawn-rewards([0.5, 0.5], seed=0), delay=uniform-delay(5, 10))",
        ),
    ],
)
def test_spec_strings_and_pickles(thing, text):
    assert str(thing) == text
    assert ae.parse(text) == thing
    again = pickle.loads(pickle.dumps(thing))
    assert again == thing
    assert hash(again) == hash(thing)


def test_recorded_rewards_are_values():
    """A copy of what was given, equal and hashed by content whatever the type of numbers, and picklable."""
    table = np.array([[0.0, 1.0], [0.25, 0.5], [1.0, 0.0]])
    recorded = ae.rewards.Recorded(table)
    label = str(recorded)
    same = ae.rewards.Recorded(table.tolist())
    table[:] = 0
    assert recorded.values.tolist() == [[0, 1], [0.25, 0.5], [1, 0]]
    assert recorded == same
    assert hash(recorded) == hash(same)
    assert recorded != ae.rewards.Recorded(table)
    assert label.startswith("recorded(3 slots of 2 arms, ")
    assert (recorded.arms, recorded.length) == (2, 3)
    assert recorded.rows(2).tolist() == [[0, 1], [0.25, 0.5]]
    for thing in (
        recorded,
        ae.rewards.Recorded([1, 0, 1]),
        ae.AdversarialBandit(recorded, ae.HoldBack(2)),
    ):
        again = pickle.loads(pickle.dumps(thing))
        assert again == thing
        assert hash(again) == hash(thing)
        assert str(again) == str(thing)
    kinds = (bool, np.uint8, np.int64, np.float32, float)
    assert len({ae.rewards.Recorded(np.array([[0, 1], [1, 0]], dtype=kind)) for kind in kinds}) == 1
    assert ae.rewards.Recorded([0, 1, 1]) == ae.rewards.Recorded(
        np.array([0, 1, 1], dtype=np.int16), paying_arms=2
    )
    assert ae.rewards.Recorded([0, 1, 1]) != ae.rewards.Recorded([0, 1, 1], paying_arms=3)
    assert ae.rewards.Recorded([0, 1, 1, 0]) != ae.rewards.Recorded([[0, 1], [1, 0]])
    assert ae.rewards.Recorded([0, 0, 0]).arms == 2
    assert ae.rewards.Recorded([0, 0], paying_arms=5).arms == 5


NO_REWARDS = "rewards must be a table with a row per slot and a column per arm, or the paying arm of each slot, got "


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.rewards.Recorded([]), NO_REWARDS + "[]"),
        (lambda: ae.rewards.Recorded([[], []]), NO_REWARDS + "[[], []]"),
        (lambda: ae.rewards.Recorded([[0, 1], [1]]), NO_REWARDS + "[[0, 1], [1]]"),
        (lambda: ae.rewards.Recorded([[[0, 1]]]), NO_REWARDS + "[[[0, 1]]]"),
        (lambda: ae.rewards.Recorded(1), NO_REWARDS + "1"),
        (lambda: ae.rewards.Recorded(None), NO_REWARDS + "None"),
        (lambda: ae.rewards.Recorded([["0", "1"]]), NO_REWARDS + "[['0', '1']]"),
        (lambda: ae.rewards.Recorded(["a", "b"]), NO_REWARDS + "['a', 'b']"),
        (lambda: ae.rewards.Recorded([[1j, 0]]), NO_REWARDS + "[[1j, 0]]"),
        (lambda: ae.rewards.Recorded([[0, math.nan]]), "rewards must be numbers from 0 to 1, got nan"),
        (lambda: ae.rewards.Recorded([[0, 1], [math.inf, 1]]), "rewards must be numbers from 0 to 1, got inf"),
        (lambda: ae.rewards.Recorded([[0.5, -0.1]]), "rewards must be numbers from 0 to 1, got -0.1"),
        (lambda: ae.rewards.Recorded([[0.5, 1.25]]), "rewards must be numbers from 0 to 1, got 1.25"),
        (lambda: ae.rewards.Recorded([[0, 2]]), "rewards must be numbers from 0 to 1, got 2"),
        (lambda: ae.rewards.Recorded([[0], [1]]), "a table of rewards must have at least two columns, one per arm, got 1"),
        (lambda: ae.rewards.Recorded([0.0, 1.0]), "paying arms must be whole numbers from 0 on, got [0.0, 1.0]"),
        (lambda: ae.rewards.Recorded([0, -1]), "paying arms must be whole numbers from 0 on, got [0, -1]"),
        (lambda: ae.rewards.Recorded([0, 1, 2], paying_arms=2), "paying arms must be numbers from 0 to 1, got 2"),
        (lambda: ae.rewards.Recorded([0, 0], paying_arms=1), "paying_arms must be a whole number of at least 2, got 1"),
        (lambda: ae.rewards.Recorded([0, 0], paying_arms=2.5), "paying_arms must be a whole number of at least 2, got 2.5"),
        (lambda: ae.rewards.Recorded([[0, 1]], paying_arms=2),
         "paying_arms can be given only with a list of paying arms, got a table of rewards"),
        (lambda: ae.AdversarialBandit([[0, 7]]), "rewards must be numbers from 0 to 1, got 7"),
        (lambda: ae.rewards.DrawnArm([1]), "shares must be at least two numbers, one per arm, got [1]"),
        (lambda: ae.rewards.DrawnArm([0.5, 0.4]), "shares must sum to 1, got a sum of 0.9: divide each by it"),
        (lambda: ae.rewards.DrawnArm([1.5, -0.5]), "shares[1] must be a number of at least 0, got -0.5"),
        (lambda: ae.rewards.DrawnArm(0.5), "shares must be a list, got 0.5"),
        (lambda: ae.rewards.DrawnArm([0.5, 0.5], seed=-1), "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got -1"),
        (lambda: ae.rewards.DrawnRewards([0.5]), "means must be at least two numbers, one per arm, got 1"),
        (lambda: ae.rewards.DrawnRewards([0.5, 1.5]), "the mean of arm 1 must be a number from 0 to 1, got 1.5"),
        (lambda: ae.rewards.DrawnRewards([0.5, 0.5], 0.5), "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got 0.5"),
        (lambda: ae.HoldBack(0), "d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.HoldBack(-2), "d must be a whole number from 1 to 10,000,000, got -2"),
        (lambda: ae.HoldBack(2.5), "d must be a whole number from 1 to 10,000,000, got 2.5"),
        (lambda: ae.HoldBack("2"), "d must be a whole number from 1 to 10,000,000, got '2'"),
        (lambda: ae.HoldBack(10**8), "d must be a whole number from 1 to 10,000,000, got 100000000"),
        (lambda: ae.parse("hold-back(0)"), "hold-back: d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.AdversarialBandit([[0, 1]], ae.PerArm(["immediate"] * 3)),
         "per-arm needs a delay for each of the 2 arms, got 3"),
        (lambda: ae.simulate("exp3", ae.AdversarialBandit([[0, 1]] * 1_500, ae.HoldBack(2)), 1_501, 1),
         "horizon must be at most the 1,500 slots of recorded(1500 slots of 2 arms, bb03ab0223db), got 1,501"),
        (lambda: ae.StochasticBandit([0.5, 0.4], ae.HoldBack(3)),
         "hold-back(3, reset_on_round=false) depends on the play: use it with an AdversarialBandit"),
        (lambda: ae.simulate("exp3", ae.AdversarialBandit([0, 2, 1]), 2, 1),
         "horizon must be at least the number of arms, 3, got 2"),
    ],
)  # fmt: skip
def test_bad_rewards_and_delays(make, message):
    with pytest.raises(ae.ParameterError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ae.AdversarialBandit([[0, 1]], "hold-bak(3)"),
            "unknown delay 'hold-bak': did you mean 'hold-back'?",
        ),
        (
            lambda: ae.AdversarialBandit("drawn-arms([.5, .5])"),
            "unknown schedule 'drawn-arms': did you mean 'drawn-arm'?",
        ),
        (
            lambda: ae.AdversarialBandit([[0, 1]], "exp3"),
            "expected a delay, got the policy 'exp3'",
        ),
        (lambda: ae.AdversarialBandit([[0, 1]], 3), "expected a delay, got 3"),
        (
            lambda: ae.PerArm([ae.HoldBack(3), ae.Immediate()]),
            "the delay 'hold-back' cannot be used here",
        ),
        (lambda: ae.parse("recorded([0, 1])"), "unknown name 'recorded'"),
    ],
)
def test_other_things_in_place_of_rewards_and_delays(make, message):
    with pytest.raises(ae.SpecError) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def held_bytes(thing):
    """The bytes of all arrays in a tuple of tuples."""
    if isinstance(thing, np.ndarray):
        return (thing if thing.base is None else thing.base).nbytes
    return sum(map(held_bytes, thing)) if isinstance(thing, tuple) else 0


def test_ten_million_slots_of_twelve_arms_are_held_compactly():
    schedule = ae.rewards.DrawnArm(np.full(12, 1 / 12), seed=2)
    tracemalloc.start()
    engine = ae.AdversarialBandit(schedule, ae.HoldBack(20)).engine("roundwise", 10_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 10_000_000 <= held_bytes(engine.world) < 30_000_000
    assert peak < 150_000_000
    assert math.prod(engine.memory) < 100


@pytest.mark.parametrize("rewards", [np.zeros((2, 2, 2)), np.full(100, 0.5)], ids=["deep", "long"])
def test_refusals_of_arrays_are_one_line(rewards):
    with pytest.raises(ae.ParameterError) as refusal:
        ae.rewards.Recorded(rewards)
    assert "\n" not in str(refusal.value)


def test_schedules_cannot_be_changed_through_what_they_give():
    for rows in (
        ae.rewards.DrawnArm([0.5, 0.3, 0.2], 1).paying(8),
        ae.rewards.DrawnRewards([0.5, 0.3]).rows(8),
        ae.rewards.Recorded([[0, 1]]).values,
    ):
        with pytest.raises(ValueError, match="read-only"):
            rows[:] = 0
