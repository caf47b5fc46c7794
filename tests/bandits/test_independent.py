"""Both engines against simulators written apart from the package."""

import math

import numpy as np
import pytest

import aftereffect as ae
import independent
import oracles

HORIZON, RUNS = 1_500, 300
#: n_m for that horizon, worked out by hand from equation (18) with E = 2, d = 5, and
#: (28) with d = 3.
BOUNDED = {1: 277, 2: 734, 3: 1869, 4: 4018}
GENERALISED = {1: 70, 2: 232, 3: 661, 4: 1580}
DELAYS = [
    (("immediate",), ae.Immediate()),
    (("uniform", 10, 30), ae.UniformDelay(10, 30)),
    (("interval", 30, 40), ae.Interval(30, 39)),
    (("rise", 20), ae.LinearRise(20)),
    (("geometric", 0.8), ae.Geometric(0.8)),
]
#: The simulators by name, and the policies that they are of.
POLICIES = {
    "ars_ucb": (lambda *run: independent.ars_ucb(*run), ae.ArsUcb()),
    "ars_ucb, exponential": (
        lambda *run: independent.ars_ucb(*run, alpha=1, f=independent.exponential),
        ae.ArsUcb(1, ae.growth.Exponential()),
    ),
    "ucb1": (lambda *run: independent.ucb1(*run), ae.Ucb1()),
    "odaaf, bounded": (
        lambda *run: independent.odaaf(*run, BOUNDED.__getitem__, bridged=True),
        ae.Odaaf("bounded", mean_lag=2, reach=5),
    ),
    "odaaf, generalised": (
        lambda *run: independent.odaaf(*run, GENERALISED.__getitem__, bridged=False),
        ae.GeneralizedOdaaf(3),
    ),
}


@pytest.fixture(scope="module")
def oracles_by_case():
    """By delay and policy, what the independent simulators lose."""
    return [
        (
            delay,
            policy,
            oracles.look_up(
                independent,
                f"{name} under {' '.join(map(str, words))}",
                [HORIZON, BOUNDED, GENERALISED],
                lambda seed, words=words, simulate=simulate: simulate(seed, words, HORIZON),
                range(RUNS),
            ),
        )
        for words, delay in DELAYS
        for name, (simulate, policy) in POLICIES.items()
    ]


@pytest.mark.parametrize("engine", ["roundwise", "slotwise"])
def test_mean_regret_equals_that_of_independent_simulators(oracles_by_case, engine):
    deviates = []
    for delay, policy, theirs in oracles_by_case:
        bandit = ae.StochasticBandit(independent.MEANS, delay)
        ours = ae.simulate(policy, bandit, HORIZON, RUNS, seed=17, engine=engine)[0].final
        error = math.sqrt(theirs.squared_error + ours.var(ddof=1) / RUNS)
        deviates.append((ours.mean() - theirs.mean) / error)
    assert np.abs(deviates).max() <= 4
    assert np.mean(np.square(deviates)) <= 1 + 4 * math.sqrt(2 / len(deviates))
