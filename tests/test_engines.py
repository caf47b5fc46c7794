"""Totals of single windows against closed forms, on both engines."""

import numpy as np
import pytest
import samples

import aftereffect as ae
from aftereffect.simulation.replications import Task, play, ready
from aftereffect.testing import Script, totals, window_moments

RUNS = 12_000  # a sample variance is skewed: with fewer, 4 standard errors are not rare enough
SCRIPTS = {
    "whole rounds, long and short": ((0, 100, 100), (1, 3, 3), (2, 1, 1), (0, 20, 20), (1, 150, 150)),
    "windows shorter than their rounds": ((0, 100, 10), (1, 100, 60), (2, 5, 2), (0, 30, 29), (1, 90, 1)),
    "windows of nothing": ((0, 100, 0), (1, 40, 40), (2, 4, 0), (0, 2, 2), (1, 120, 80)),
    "one slot each": tuple((slot % 3, 1, 1) for slot in range(60)),
}
each_engine = pytest.mark.parametrize("engine", ["roundwise", "slotwise"])


@each_engine
@pytest.mark.parametrize("name", SCRIPTS)
def test_mean_and_variance_of_each_total(engine, name):
    script = Script(SCRIPTS[name])
    deviates = []
    for number, environment in enumerate(samples.ENVIRONMENTS):
        seen = totals(script, environment, engine, RUNS, seed=100 + number)
        mean, variance = window_moments(script, environment)
        random = variance > 1e-12
        assert seen[:, ~random] == pytest.approx(np.broadcast_to(mean[~random], (RUNS, (~random).sum())), abs=1e-12)
        seen, mean, variance = seen[:, random], mean[random], variance[random]
        centred = seen - mean
        deviates.append(centred.mean(axis=0) / np.sqrt(variance / RUNS))
        # The error of a variance needs the fourth moment, which a sample does not show where hardly anything ever lands.
        fourth = (centred**4).mean(axis=0)
        known = variance * RUNS > 30 * np.abs(centred).max(axis=0) ** 2
        error = np.sqrt(np.maximum(fourth - variance**2, 0) / RUNS)
        known &= error > 1e-9  # a fair coin is always as far from its mean
        deviates.append(((centred**2).mean(axis=0) - variance)[known] / error[known])
    z = np.concatenate(deviates)
    assert np.abs(z).max() <= 4
    assert np.mean(z**2) <= 1 + 4 * np.sqrt(2 / len(z))


@pytest.mark.parametrize("environment", samples.ENVIRONMENTS, ids=str)
def test_totals_are_never_negative_and_nothing_is_exactly_nothing(environment):
    script = Script(tuple((slot % 3, 1, 1) for slot in range(30)))
    seen = totals(script, environment, "roundwise", 200, seed=5)
    assert (seen >= 0).all()
    if any(isinstance(spread, ae.PowerLaw) for spread in environment.spreads):
        return  # a difference of sums, right to 1e-10 but not to the last bit
    unreached = min(np.flatnonzero(spread.share(np.arange(99)))[0] for spread in environment.spreads)
    assert (seen[:, :unreached] == 0).all()


def test_windows_between_two_deliveries_hold_exactly_nothing():
    """Rewards of any size, in rounds of several slots: what is pending before and after must not leave a rest."""
    environment = ae.StochasticBandit([0.7, 0.0], ae.Interval(30, 31), ae.Uniform())
    script = Script(((1, 20, 20), (0, 15, 15), *[(1, 3, 3)] * 5))
    for engine in ("roundwise", "slotwise"):
        assert (totals(script, environment, engine, 200, seed=5) == 0).all()


@pytest.mark.parametrize("spread", [s for s in samples.SPREADS if not isinstance(s, ae.spreads.RandomLag)], ids=str)
def test_a_trace_is_the_convolution_of_what_was_generated(spread):
    study = ae.simulate("ars-ucb", ae.StochasticBandit([0.7, 0.4], spread), 700, 1, seed=2, engine="slotwise")
    trace = study.trace("ars-ucb", 0)
    shares = spread.share(np.arange(700))
    assert trace.observed == pytest.approx(np.convolve(trace.generated, shares)[:700], abs=1e-12)


@pytest.mark.parametrize("spread", [s for s in samples.SPREADS if isinstance(s, ae.spreads.RandomLag)], ids=str)
def test_rewards_with_a_random_lag_land_once_and_in_time(spread):
    study = ae.simulate("ucb1", ae.StochasticBandit([0.7, 0.4], spread), 2_000, 1, seed=2, engine="slotwise")
    trace = study.trace("ucb1", 0)
    landed, generated = np.cumsum(trace.observed), np.cumsum(trace.generated)
    shortest = np.flatnonzero(spread.shares)[0]
    assert (landed <= np.append(np.zeros(shortest), generated)[:2_000]).all()
    assert (landed[spread.reach :] >= generated[: 2_000 - spread.reach]).all()


def test_regret_is_gap_times_plays():
    environment = ae.StochasticBandit([0.5, 0.9, 0.2], ae.Geometric(0.8))
    for engine in ("roundwise", "slotwise"):
        runs = ae.simulate("ars-ucb", environment, 3_000, 20, seed=1, engine=engine)[0]
        assert runs.final == pytest.approx(runs.pulls @ np.array([0.4, 0.0, 0.7]))
        assert (runs.pulls.sum(axis=1) == 3_000).all()


def test_regret_at_checkpoints_within_a_round():
    environment = ae.StochasticBandit([0.9, 0.4], ae.Interval(1, 2))
    study = ae.simulate(ae.ArsUcb(growth=lambda k: 64 * k), environment, 200, 1, seed=1, checkpoints=range(1, 201))
    trace_free = np.diff(study[0].regret[0], prepend=0)
    assert set(trace_free[:64].round(12)) == {0.0}  # the first round: 64 slots of arm 0
    assert set(trace_free[64:128].round(12)) == {0.5}  # the second: 64 slots of arm 1


@each_engine
def test_nobody_looks_at_a_round_that_the_horizon_cuts(engine):
    """A round of 100 slots looks at its last 10."""
    environment = ae.StochasticBandit([1, 0], ae.Immediate())
    for horizon, total in ((100, 10), (99, 0), (80, 0)):
        task = Task(Script(((0, 100, 10),)), environment, engine, horizon, (horizon,), 1, range(1))
        assert play(task, ready(task)).own[0, 1] == total
