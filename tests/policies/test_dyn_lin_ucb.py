"""DynLin-UCB: step by step beside its pseudo-code, and beside what its authors' program loses."""

import math

import numpy as np
import pytest

import aftereffect as ae
import independent_linear as independent

NOISES = (0.01, 0.01 * math.sqrt(3))
SYSTEM = (independent.A, independent.B, independent.OMEGA, independent.THETA)
BANDIT = ae.LinearBandit(*SYSTEM, independent.PLANS, *NOISES)


@pytest.mark.parametrize(
    ("radius", "leak", "regularizer", "scale"),
    [(0.667, 9.04, None, (0, 1)), (0.4, 0.3, 2.0, (-0.5, 0.8)), (0, 0, None, (-3, -1))],
)
def test_every_decision_is_that_of_the_pseudo_code(radius, leak, regularizer, scale):
    horizon, (low, high) = 8_000, scale
    policy = ae.DynLinUcb(independent.PLANS, radius, 2.4, leak, 0.03, scale, regularizer)
    theirs = independent.DynLinUcb(independent.PLANS, horizon, radius, leak, 2.4, 0.03, regularizer)
    decide, absorb = policy.kernels()
    state, params = policy.initial(6), policy.params(6, horizon)
    world = independent.System(np.random.default_rng(2), *SYSTEM, 0.05, 0.2)
    t, played, rng = 0, np.zeros(6), np.random.default_rng(1)
    while t < horizon:
        arm, slots, window = decide(state, params, t, rng)
        bounds = theirs.bounds(t)
        # Rounding may decide between bounds that are equal.
        assert bounds[arm] >= bounds.max() - 1e-9
        assert (slots, window) == (theirs.hold(), 1)
        for _ in range(slots):
            total = world.play(independent.PLANS[arm])
        absorb(state, params, arm, 1, (total - low) / (high - low))
        theirs.learn(arm, total)
        t += slots
        played[arm] += slots
    assert (played > 0).sum() > 1
    np.testing.assert_allclose(state.inverse, np.linalg.inv(theirs.v), rtol=1e-8)
    np.testing.assert_allclose(state.response, theirs.b, rtol=1e-8)


def test_without_plans_an_arm_is_an_entry():
    policy = ae.DynLinUcb(radius=0.5, size=1, leak=0, noise=0)
    given = ae.DynLinUcb(np.eye(3), radius=0.5, size=1, leak=0, noise=0)
    np.testing.assert_array_equal(policy.params(3, 99).plans, given.params(3, 99).plans)
    assert policy.initial(3).inverse.shape == (3, 3)


def test_a_window_of_several_slots_counts_with_its_average():
    policy = ae.DynLinUcb(radius=0.5, size=1, leak=0, noise=0, reward_range=[1, 3])
    params, rng = policy.params(2, 99), np.random.default_rng(1)
    one, other = policy.initial(2), policy.initial(2)
    for state in (one, other):
        policy.kernels().decide(state, params, 0, rng)
    policy.kernels().absorb(one, params, 1, 1, 0.25)
    policy.kernels().absorb(other, params, 1, 4, 1.0)
    assert one.response.tolist() == other.response.tolist() == [0, 1.5]
    np.testing.assert_array_equal(one.inverse, other.inverse)


@pytest.mark.compiled
def test_it_loses_what_the_program_of_its_authors_loses():
    """Two runs each of their program with their configuration, at T = 1e6: 75,466 and 75,608."""
    study = ae.simulate("dyn-lin-ucb", BANDIT, 10**6, 20, seed=4, checkpoints=(10**6,))
    assert study[0].final.mean() == pytest.approx(75_537, rel=0.004)
    knows_start = ae.simulate("dyn-lin-ucb(leak=2.51)", BANDIT, 10**6, 8, seed=4)
    assert knows_start[0].final.mean() == pytest.approx(37_600, rel=0.01)
    blind = ae.simulate("dyn-lin-ucb(radius=0, leak=0)", BANDIT, 10**6, 8, seed=4)
    assert blind[0].pulls.mean(axis=0).argmax() == 3  # the largest effect at once, for ever


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"radius": 1}, "radius must be"),
        ({"size": -1}, "size must be"),
        ({"noise": math.nan}, "noise must be"),
        ({"plans": [[1, 2], [3]]}, "vectors of the same length"),
        ({"plans": []}, "vectors of the same length"),
        ({"plans": [[math.inf], [1]]}, "a plan's entry must be"),
        ({"reward_range": [1]}, "two numbers, got 1"),
        ({"reward_range": [2, 1]}, "upper end of reward_range must be a number above 2"),
        ({"regularizer": 0}, "regularizer must be"),
    ],
)
def test_parameters_that_are_refused(given, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.DynLinUcb(**given)


@pytest.mark.compiled
def test_it_must_know_its_system():
    with pytest.raises(ae.ParameterError, match=r"must know its system.*pass radius="):
        ae.simulate("dyn-lin-ucb", ae.StochasticBandit([0.9, 0.5]), 100, 2, seed=1)
    with pytest.raises(ae.ParameterError, match=r"at most 100 arms without plans, got 101"):
        ae.DynLinUcb(radius=0.5, size=1, leak=1, noise=0.5).params(101, 1_000)
    known = ae.DynLinUcb(radius=0.5, size=1, leak=1, noise=0.5)
    study = ae.simulate(known, ae.StochasticBandit([0.9, 0.5]), 1_000, 4, seed=1)
    assert study[0].final.mean() < 300
