"""Both engines against simulators written apart from the package."""

import math

import independent
import numpy as np
import pytest

import aftereffect as ae

HORIZON, RUNS = 1_500, 300
#: n_m for that horizon, worked out by hand from equations (18) with E = 2, d = 5, and (28) with d = 3.
BOUNDED = {1: 277, 2: 734, 3: 1869, 4: 4018}
GENERALISED = {1: 70, 2: 232, 3: 661, 4: 1580}
SPREADS = [
    (("immediate",), ae.Immediate()),
    (("uniform", 10, 30), ae.UniformDelay(10, 30)),
    (("interval", 30, 40), ae.Interval(30, 40)),
    (("rise", 20), ae.LinearRise(20)),
    (("geometric", 0.8), ae.Geometric(0.8)),
]
POLICIES = [
    (lambda seed, spread: independent.ars_ucb(seed, spread, HORIZON), ae.ArsUcb()),
    (
        lambda seed, spread: independent.ars_ucb(seed, spread, HORIZON, alpha=1, f=lambda k: 2 ** max(k, 2)),
        ae.ArsUcb(1, ae.Exponential()),
    ),
    (lambda seed, spread: independent.ucb1(seed, spread, HORIZON), ae.Ucb1()),
    (
        lambda seed, spread: independent.odaaf(seed, spread, HORIZON, BOUNDED.__getitem__, bridged=True),
        ae.Odaaf("bounded", mean_delay=2, bound=5),
    ),
    (
        lambda seed, spread: independent.odaaf(seed, spread, HORIZON, GENERALISED.__getitem__, bridged=False),
        ae.GeneralizedOdaaf(3),
    ),
]


@pytest.fixture(scope="module")
def literal_regrets():
    """By spread and policy, the regret of every run of the independent simulators."""
    return [
        (spread, policy, np.array([literal(seed, words) for seed in range(RUNS)]))
        for words, spread in SPREADS
        for literal, policy in POLICIES
    ]


@pytest.mark.parametrize("engine", ["roundwise", "slotwise"])
def test_mean_regret_equals_that_of_independent_simulators(literal_regrets, engine):
    deviates = []
    for spread, policy, theirs in literal_regrets:
        environment = ae.StochasticBandit(independent.MEANS, spread)
        ours = ae.simulate(policy, environment, HORIZON, RUNS, seed=17, engine=engine)[0].final
        error = math.sqrt(theirs.var(ddof=1) / RUNS + ours.var(ddof=1) / RUNS)
        deviates.append((ours.mean() - theirs.mean()) / error)
    assert np.abs(deviates).max() <= 4
    assert np.mean(np.square(deviates)) <= 1 + 4 * math.sqrt(2 / len(deviates))
