"""Whole runs of every policy in adversarial bandits: on both engines, against simulators written apart, and against bounds."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
import independent_adversarial as independent
import oracles
from adversarial import ENGINES, arrays, binary, both_ways, one_hot, played
from aftereffect.simulation import Task, prepare, run_batch
from learners import BASES, VARIANTS


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
