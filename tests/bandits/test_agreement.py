"""The two engines agree in distribution, for every delay and policy: on final regret and on the pulls of every arm."""

import math

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae

MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
HORIZON, RUNS = 3_000, 500
DELAYS = (
    ae.Immediate(),
    ae.UniformDelay(10, 30),
    ae.RandomDelay([0.2, 0, 0.5, 0, 0, 0, 0, 0.3]),
    ae.Interval(30, 39),
    ae.LinearDecay(50),
    ae.LinearRise(50),
    ae.Geometric(0.9),
    ae.Shape([0.1, 0, 0.5, 0.4]),
    ae.PowerLaw(2),
    ae.PerArm(
        [
            *[ae.Interval(30, 39)] * 3,
            *[ae.UniformDelay(0, 9)] * 3,
            ae.Geometric(0.9),
            ae.Interval(1, 2),
            ae.Immediate(),
        ]
    ),
)
POLICIES = (
    ae.ArsUcb(4, ae.growth.Power(1)),
    ae.ArsUcb(4, ae.growth.Power(2)),
    ae.ArsUcb(1, ae.growth.Power(4)),  # long rounds, with the program of those above
    ae.Ucb1(),
)


@pytest.fixture(scope="module")
def samples():
    """By delay and policy: regret and pulls of every run, on both engines, with seeds of their own."""
    collected = {}
    for number, delay in enumerate(DELAYS):
        bandit = ae.StochasticBandit(MEANS, delay)
        fast = ae.simulate(POLICIES, bandit, HORIZON, RUNS, seed=1000 + number, engine="roundwise")
        slow = ae.simulate(POLICIES, bandit, HORIZON, RUNS, seed=2000 + number, engine="slotwise")
        for a, b in zip(fast, slow, strict=True):
            collected[delay, a.label] = [
                np.column_stack([runs.final, runs.pulls]) for runs in (a, b)
            ]
    return collected


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("delay", DELAYS, ids=str)
def test_same_distribution(samples, delay, policy):
    fast, slow = samples[delay, str(policy)]
    for column in range(1 + len(MEANS)):
        assert stats.ks_2samp(fast[:, column], slow[:, column], method="asymp").pvalue > 1e-5


def test_same_means(samples):
    deviates = []
    for fast, slow in samples.values():
        error = np.sqrt((fast.var(axis=0, ddof=1) + slow.var(axis=0, ddof=1)) / RUNS)
        deviates.append((fast.mean(axis=0) - slow.mean(axis=0))[error > 0] / error[error > 0])
    z = np.concatenate(deviates)
    assert np.abs(z).max() <= 4
    regret = np.array([each[0] for each in deviates])
    assert np.mean(regret**2) <= 1 + 4 * math.sqrt(2 / len(regret))


def test_the_comparison_notices_a_few_slots_more_of_lag():
    """The same test tells interval(30, 39) from interval(36, 45)."""
    bandit = ae.StochasticBandit(MEANS, ae.Interval(30, 39))
    shifted = ae.StochasticBandit(MEANS, ae.Interval(36, 45))
    a = ae.simulate("ars-ucb", bandit, HORIZON, RUNS, seed=1)[0].final
    b = ae.simulate("ars-ucb", shifted, HORIZON, RUNS, seed=2)[0].final
    assert stats.ks_2samp(a, b, method="asymp").pvalue < 1e-5
