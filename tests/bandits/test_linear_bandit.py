"""Linear bandits: closed forms, both engines, the recursion written apart, and what is refused."""

import math

import numpy as np
import pytest

import aftereffect as ae
import independent_linear as independent
import samples
from aftereffect.bandits._matrices import find_root
from aftereffect.testing import Script, script_totals

SYSTEM = (
    *(independent.A, independent.B, independent.OMEGA, independent.THETA),
    *(0.01, 0.01 * math.sqrt(3)),
)
BANDIT = ae.LinearBandit(*SYSTEM[:4], independent.PLANS, *SYSTEM[4:])
NOISY = (
    [[0.9, 0.3], [-0.2, 0.6]],
    *([[0.2, 0.5], [0.1, -0.6]], [0.5, -0.8], [0.4, 0.9]),
    *(0.3, 0.5),
)
NOISY_PLANS = ((1, 0), (0, 1), (0.5, 0.25))
ROUNDS = (
    *((0, 1, 1), (1, 1, 1), (0, 2, 2), (1, 7, 7), (2, 30, 30), (0, 16, 5), (1, 33, 1)),
    *((2, 5, 0), (0, 63, 63), (1, 64, 17)),
)
each_engine = pytest.mark.parametrize("engine", ["roundwise", "slotwise"])


def noisy(**changes):
    settings = dict(zip(("a", "b", "omega", "theta", "sigma", "output_sigma"), NOISY, strict=True))
    return ae.LinearBandit(**{**settings, "plans": NOISY_PLANS, "reward_range": (0, 1), **changes})


def test_the_system_of_the_authors():
    """As read in their configuration: the best plan is the fifth best at once."""
    assert BANDIT.levels.round(3).tolist() == [0.305, 0.233, 0.232, 0.089, 0.088, 0.017]
    assert BANDIT.effects(1)[0].argsort()[::-1].tolist() == [3, 5, 1, 4, 0, 2]
    assert BANDIT.system.radius == pytest.approx(0.667, abs=5e-4)
    ends = [independent.level(plan) for plan in independent.PLANS]
    np.testing.assert_allclose(BANDIT.levels, ends, rtol=1e-12)
    one = ae.LinearBandit(*SYSTEM[:4], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(
        one.effects(7)[:, 0], [0.13, -0.084, -0.003, 0.044, 0.055, 0.048, 0.035], atol=6e-4
    )
    np.testing.assert_allclose(one.effects(400).sum(axis=0), one.levels, rtol=1e-9)
    assert one.levels.round(3).tolist() == [0.252, -0.036, 0.106]


def test_bounds_that_dyn_lin_ucb_must_know():
    """By the formulas of the paper, with norms of their matrices."""
    a, b, omega, theta = map(np.array, SYSTEM[:4])
    rho = abs(np.linalg.eigvals(a)).max()
    phi = max(np.linalg.norm(np.linalg.matrix_power(a / rho, i), 2) for i in range(1_001))
    action, push = math.sqrt(1.25), np.linalg.norm(b, 2)
    omega, theta = np.linalg.norm(omega), np.linalg.norm(theta)
    size = theta + omega * push * phi / (1 - rho)
    leak = action * omega * phi * (action * push / (1 - rho) + action / (1 - rho))
    noise = 0.01 * math.sqrt(3 + (omega * phi) ** 2 / (1 - rho**2))
    assert BANDIT.system[1:5] == pytest.approx((rho, size, leak, noise), rel=1e-5)
    assert BANDIT.system.plans == BANDIT.plans
    assert BANDIT.delay_facts.reach == BANDIT.delay_facts.mean_lag == math.inf


def test_the_range_holds_every_total_without_noise():
    low, high = BANDIT.scale
    effects = BANDIT.effects(400)
    assert low == pytest.approx(effects.min(axis=1).cumsum().min(), rel=1e-5)
    assert high == pytest.approx(effects.max(axis=1).cumsum().max(), rel=1e-5)
    quiet = ae.LinearBandit(*SYSTEM[:4], independent.PLANS)
    lags = effects.max(axis=1).cumsum().argmax() + 1
    chosen = effects[:lags].argmax(axis=1)[::-1]
    script = Script(tuple((int(arm), 1, 1) for arm in chosen))
    assert script_totals(script, quiet, "slotwise", 1, seed=1)[0, -1] == pytest.approx(1, abs=1e-5)


@each_engine
@pytest.mark.parametrize("slots", [1, 2, 3, 10, 100, 1_023])
@pytest.mark.parametrize("share", [0, 0.3, 1])
def test_the_total_of_a_constant_plan(engine, slots, share):
    """Without noise: level minus what the state still lacks, <omega, A^t z>, in each slot."""
    window = round(share * slots)
    a, b, omega = (np.array(each) for each in SYSTEM[:3])
    settled = np.linalg.solve(np.eye(3) - a, b @ independent.PLANS[4])
    sums = [np.linalg.matrix_power(a, slot) for slot in range(slots - window, slots)]
    wanted = (
        window * independent.level(independent.PLANS[4])
        - omega @ sum(sums, np.zeros((3, 3))) @ settled
    )
    quiet = ae.LinearBandit(*SYSTEM[:4], independent.PLANS, reward_range=[0, 1])
    found = script_totals(Script(((4, slots, window),)), quiet, engine, 1, seed=1)
    assert found[0, 0] == pytest.approx(wanted, abs=1e-11)


@each_engine
def test_mean_and_covariance_of_totals(engine):
    """Of rounds of all kinds, and of one with the next ones: the noise of the state is shared."""
    runs = 12_000
    found = script_totals(Script(ROUNDS), noisy(), engine, runs, seed=21)
    mean, covariance = independent.moments(ROUNDS, NOISY, NOISY_PLANS)
    deviations = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    error = np.abs(found.mean(axis=0) - mean)
    assert (error <= 4 * deviations / math.sqrt(runs) + 1e-9).all()
    centred = found - mean
    products = centred.T @ centred / runs
    # The variance of a product of two normal numbers is that of each, multiplied, and the square.
    width = np.sqrt((np.outer(deviations, deviations) ** 2 + covariance**2) / runs)
    z = np.abs(products - covariance)[width > 1e-200] / width[width > 1e-200]
    assert z.max() <= 4
    assert np.mean(z**2) <= 1 + 4 * np.sqrt(2 / len(ROUNDS))


def test_rounds_of_a_trillion_slots():
    """In the long run a slot adds s^2 |omega (I - A)^-1|^2 + r^2 to the variance, and its level."""
    slots, runs = 10**12, 4_000
    found = script_totals(Script(((2, slots, slots),)), noisy(), "roundwise", runs, seed=3)[:, 0]
    gain = np.array(NOISY[2]) @ np.linalg.inv(np.eye(2) - np.array(NOISY[0]))
    deviation = math.sqrt(slots * (0.3**2 * gain @ gain + 0.5**2))
    level = independent.level(NOISY_PLANS[2], *NOISY[:4])
    assert found.mean() == pytest.approx(slots * level, abs=4 * deviation / math.sqrt(runs))
    assert found.std() == pytest.approx(deviation, rel=4 / math.sqrt(2 * runs))


@each_engine
def test_ucb1_loses_what_it_loses_in_a_simulator_written_apart(engine):
    runs, horizon = 300, 600
    bandit = noisy(reward_range=(-3, 4))
    study = ae.simulate("ucb1", bandit, horizon, 2_000, seed=5, engine=engine)[0]
    other = [
        independent.ucb1(seed, horizon, NOISY, NOISY_PLANS, bandit.scale) for seed in range(runs)
    ]
    ours = np.column_stack([study.final, study.pulls])
    theirs = np.array([[regret, *pulls] for regret, pulls in other])
    allowed = 4 * np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / runs)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= allowed).all()


@pytest.mark.parametrize("policy", ["ucb1", "settle-ucb", "dyn-lin-ucb", "mini-batch"])
def test_engines_agree(policy):
    bandit = samples.LINEAR[1]
    fast, slow = (
        ae.simulate(policy, bandit, 3_000, 600, seed=seed, engine=engine)[0]
        for seed, engine in ((1, "roundwise"), (2, "slotwise"))
    )
    one, other = (np.column_stack([runs.final, runs.pulls]) for runs in (fast, slow))
    allowed = 4 * np.sqrt((one.var(axis=0) + other.var(axis=0)) / 600)
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= allowed).all()


def test_a_trace_shows_what_pulls_bring_in_all_and_scaled_totals():
    quiet = ae.LinearBandit([[0.5]], [[1]], [-0.4], [1], [[0.5], [1]], reward_range=[-1, 1])
    trace = ae.simulate("round-robin", quiet, 4, 1, seed=1, engine="slotwise").trace(0, 0)
    assert trace.rewards.tolist() == pytest.approx([0.55, 0.6, 0.55, 0.6])
    own = [0.5, 1 - 0.2, 0.5 - 0.4 - 0.1, 1 - 0.2 - 0.2 - 0.05]
    assert trace.totals.tolist() == pytest.approx([(total + 1) / 2 for total in own])


def test_regret_is_against_the_best_constant_plan_and_in_the_unit_of_totals():
    study = ae.simulate("round-robin", noisy(reward_range=(-90, 90)), 300, 2, seed=1)
    assert study[0].final == pytest.approx(noisy().gaps.sum() * 100)


def test_a_chain_of_states_that_ends_is_a_finite_kernel():
    """A is nilpotent: nothing is left after two slots, though a power of it exceeds any radius."""
    chain = ae.LinearBandit([[0, 1], [0, 0]], [[0], [1]], [1, 0], [0], [[1], [-1]])
    assert chain.effects(5)[:, 0].tolist() == [0, 0, 1, 0, 0]
    assert chain.levels.tolist() == [1, -1]
    assert chain.scale == (-1, 1)
    assert 0 < chain.system.radius < 0.01
    assert all(math.isfinite(bound) for bound in chain.system[1:5])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a": [[1, 0], [0, 0.5]]}, "spectral radius of at most 0.99999, got 1"),
        ({"a": [[0.5, 1001], [0, 0.5]]}, r"a\[0\]\[1\] must be a number from -1000 to 1000"),
        ({"a": [[0.5]]}, "a must have 2 rows of 2 numbers, got 1 rows"),
        ({"a": [[0.5, 0], [0]]}, r"a\[1\] must be 2 numbers, got 1"),
        ({"a": [[0.5, 0], [0, math.nan]]}, r"a\[1\]\[1\] must be a number"),
        ({"b": [[1, 2]]}, "b must have 2 rows"),
        ({"plans": [[1, 0]]}, "at least two, one per arm, got 1"),
        ({"plans": [[1], [0]]}, r"plans\[0\] must be 2 numbers"),
        ({"omega": []}, "omega must be at least one number"),
        ({"omega": [0.0] * 21}, "at most 20 numbers"),
        ({"sigma": -1}, "sigma must be"),
        ({"output_sigma": "x"}, "output_sigma must be"),
        ({"reward_range": (1, 1)}, "reward_range must be a number above 1"),
        ({"reward_range": (1,)}, "reward_range must be 2 numbers"),
        ({"plans": [[0, 0], [0, 0]], "reward_range": None}, "all totals are the same"),
        (
            {"a": [[0.99999, 0], [0, 0]], "reward_range": None},
            "last longer than 100,000 slots: give reward_range",
        ),
    ],
)
def test_systems_that_are_refused(changes, message):
    with pytest.raises(ae.ParameterError, match=message):
        noisy(**changes)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("odaaf", "needs mean_lag, which is infinite or unknown here"),
        ("generalized-odaaf", "needs d, the largest lag, which is infinite or unknown here"),
        ("clw", "needs d, the largest lag, which is infinite or unknown here"),
        ("delayed-ucb1", "has totals only and cannot say from which pull"),
        ("dyn-lin-ucb(plans=[[1], [2]])", "plans must be those of 6 arms, got 2"),
    ],
)
def test_policies_that_cannot_bear_negative_parts_are_refused(policy, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.simulate(policy, BANDIT, 1_000, 2, seed=1)


def test_numbers_do_not_depend_on_a_library():
    """Powers and roots are made by plain sums; here is what they must be."""
    world = noisy().engine("roundwise", 5).world
    f = np.array([[0.9, 0.3, 0], [-0.2, 0.6, 0], [0.5, -0.8, 1]])
    n = np.diag([0.09, 0.09, 0.25])
    assert world.moves.shape == (9, 3)
    np.testing.assert_allclose(world.moves[6:], np.linalg.matrix_power(f, 4), rtol=1e-13)
    powers = [np.linalg.matrix_power(f, i) for i in range(4)]
    wanted = sum(power @ n @ power.T for power in powers)
    np.testing.assert_allclose(world.spreads[6:], np.linalg.cholesky(wanted), rtol=1e-12)
    certain = find_root([[0.0, 0.0], [0.0, 4.0]])
    assert certain == [[0.0, 0.0], [0.0, 2.0]]
