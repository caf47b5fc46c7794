"""Reward laws: mean, variance and range, one by one and in sums."""

import numpy as np
import pytest

import aftereffect as ae
import samples

DRAWS = 40_000


@pytest.mark.parametrize("reward", samples.REWARDS, ids=str)
@pytest.mark.parametrize("mean", [0, 0.05, 0.5, 0.7, 1])
def test_moments(reward, mean):
    one, many, _ = reward.kernels()
    params, rng = reward.params(), np.random.default_rng(4)
    drawn = np.array([one(params, mean, 0, rng) for _ in range(DRAWS)])
    sums = np.array([many(params, mean, 0, 7, rng) for _ in range(DRAWS // 4)])
    variance = float(reward.variance(np.array([mean]))[0])
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert drawn.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / DRAWS) + 1e-12)
    assert drawn.var() == pytest.approx(variance, rel=0.05, abs=1e-12)
    assert sums.mean() == pytest.approx(7 * mean, abs=4 * np.sqrt(7 * variance / len(sums)) + 1e-12)
    assert sums.var() == pytest.approx(7 * variance, rel=0.06, abs=1e-12)
    assert many(params, mean, 0, 0, rng) == 0


@pytest.mark.parametrize("mean", [0, 0.05, 0.3, 0.5, 0.7, 0.99, 1])
def test_eight_bernoulli_pulls_at_once_are_independent(mean):
    """Every outcome as often as it should be, bit by bit and in all; the first pull is the highest bit."""
    eight = ae.rewards.Bernoulli().kernels().byte
    rng = np.random.default_rng(5)
    seen = np.bincount([eight(np.zeros(1), mean, rng) for _ in range(DRAWS)], minlength=256)
    ones = np.array([number.bit_count() for number in range(256)])
    chances = float(mean) ** ones * (1.0 - mean) ** (8 - ones)
    assert seen[chances == 0].sum() == 0
    common = chances * DRAWS >= 5
    errors = (seen - chances * DRAWS)[common] / np.sqrt(
        DRAWS * (chances * (1 - chances))[common] + 1e-12
    )
    assert abs(errors).max() <= 4.5
    for bit in range(8):
        share = seen[[number >> bit & 1 == 1 for number in range(256)]].sum() / DRAWS
        assert share == pytest.approx(mean, abs=4 * np.sqrt(mean * (1 - mean) / DRAWS) + 1e-12)


def test_bad_concentrations_are_refused():
    for bad in (0, -1, float("nan")):
        with pytest.raises(ae.ParameterError, match="concentration must be a number above 0"):
            ae.rewards.Beta(bad)


@pytest.mark.compiled
@pytest.mark.parametrize("reward", samples.REWARDS, ids=str)
def test_both_engines_agree_for_every_law(reward):
    bandit = ae.StochasticBandit([0.8, 0.6, 0.2], ae.Interval(3, 8), reward)
    runs = 400
    fast, slow = (
        ae.simulate("ars-ucb", bandit, 2_000, runs, seed=seed, engine=engine)[0].final
        for seed, engine in ((1, "roundwise"), (2, "slotwise"))
    )
    error = np.sqrt((fast.var() + slow.var()) / runs)
    assert abs(fast.mean() - slow.mean()) <= 4 * error + 1e-9
