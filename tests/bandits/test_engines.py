"""Totals of single windows against closed forms, on both engines."""

import itertools

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect.simulation import Task, prepare, run_batch
from aftereffect.testing import Script, script_totals, window_moments

RUNS = 12_000  # a sample variance is skewed: with fewer, 4 standard errors are not rare enough
#: Rounds (arm, slots, window) of several kinds. They are all played in one run, one part after the
#: other: rewards of one part arrive in the next, as the closed forms say.
PARTS = {
    "one slot each": tuple((slot % 3, 1, 1) for slot in range(60)),
    "whole rounds, long and short": (
        (0, 100, 100),
        (1, 3, 3),
        (2, 1, 1),
        (0, 20, 20),
        (1, 150, 150),
    ),
    "windows shorter than their rounds": (
        (0, 100, 10),
        (1, 100, 60),
        (2, 5, 2),
        (0, 30, 29),
        (1, 90, 1),
    ),
    "windows of nothing": ((0, 100, 0), (1, 40, 40), (2, 4, 0), (0, 2, 2), (1, 120, 80)),
}
SCRIPT = Script(tuple(each for part in PARTS.values() for each in part))
each_engine = pytest.mark.parametrize("engine", ["roundwise", "slotwise"])


@pytest.fixture(scope="module")
def totals_by_engine():
    """By engine and bandit: the totals of every run and round, their mean and their variance."""
    return {
        engine: [
            (
                script_totals(SCRIPT, bandit, engine, RUNS, seed=100 + number),
                *window_moments(SCRIPT, bandit),
            )
            for number, bandit in enumerate(samples.BANDITS)
        ]
        for engine in ("roundwise", "slotwise")
    }


@each_engine
@pytest.mark.parametrize("part", PARTS)
def test_mean_and_variance_of_each_total(totals_by_engine, engine, part):
    first = list(itertools.takewhile(lambda name: name != part, PARTS))
    begin = sum(len(PARTS[name]) for name in first)
    rounds = slice(begin, begin + len(PARTS[part]))
    deviates = []
    for shown, means, variances in totals_by_engine[engine]:
        shown, mean, variance = shown[:, rounds], means[rounds], variances[rounds]
        random = variance > 1e-12
        assert shown[:, ~random] == pytest.approx(
            np.broadcast_to(mean[~random], (RUNS, (~random).sum())), abs=1e-12
        )
        shown, mean, variance = shown[:, random], mean[random], variance[random]
        centred = shown - mean
        squares = centred * centred  # a power takes much longer
        deviates.append(centred.mean(axis=0) / np.sqrt(variance / RUNS))
        # The error of a variance needs the fourth moment, which a sample does not show where hardly
        # anything ever arrives.
        fourth = (squares * squares).mean(axis=0)
        known = variance * RUNS > 30 * squares.max(axis=0)
        error = np.sqrt(np.maximum(fourth - variance**2, 0) / RUNS)
        known &= error > 1e-9  # a fair coin is always as far from its mean
        deviates.append((squares.mean(axis=0) - variance)[known] / error[known])
    z = np.concatenate(deviates)
    assert np.abs(z).max() <= 4
    assert np.mean(z**2) <= 1 + 4 * np.sqrt(2 / len(z))


@pytest.mark.parametrize("bandit", samples.BANDITS, ids=str)
def test_totals_are_never_negative_and_nothing_is_exactly_nothing(bandit):
    script = Script(tuple((slot % 3, 1, 1) for slot in range(30)))
    seen = script_totals(script, bandit, "roundwise", 200, seed=5)
    assert (seen >= 0).all()
    if any(isinstance(delay, ae.PowerLaw) for delay in bandit.delays):
        return  # a difference of sums, right to 1e-10 but not to the last bit
    unreached = min(np.flatnonzero(delay.share(np.arange(99)))[0] for delay in bandit.delays)
    assert (seen[:, :unreached] == 0).all()


def test_windows_between_two_deliveries_hold_exactly_nothing():
    """Rewards of any size, in rounds of several slots: what is pending before and after must not leave a rest."""
    bandit = ae.StochasticBandit([0.7, 0.0], ae.Interval(30, 30), ae.rewards.Uniform())
    script = Script(((1, 20, 20), (0, 15, 15), *[(1, 3, 3)] * 5))
    for engine in ("roundwise", "slotwise"):
        assert (script_totals(script, bandit, engine, 200, seed=5) == 0).all()


@pytest.mark.parametrize(
    "delay", [s for s in samples.LAG_LAWS if not isinstance(s, ae.delays.RandomLag)], ids=str
)
def test_the_totals_of_a_trace_are_its_rewards_convolved_with_the_delay(delay):
    lengths = [*range(1, 37), 34]
    script = Script(tuple((number % 2, slots, slots) for number, slots in enumerate(lengths)))
    bandit = ae.StochasticBandit([0.7, 0.4], delay)
    trace = ae.simulate(script, bandit, 700, 1, seed=2, engine="slotwise").trace(0, 0)
    shares = delay.share(np.arange(700))
    assert trace.totals == pytest.approx(np.convolve(trace.rewards, shares)[:700], abs=1e-12)


@pytest.mark.parametrize(
    "delay", [s for s in samples.LAG_LAWS if isinstance(s, ae.delays.RandomLag)], ids=str
)
def test_rewards_with_a_random_lag_arrive_once_and_in_time(delay):
    script = Script(tuple((slot % 2, 1, 1) for slot in range(2_000)))
    bandit = ae.StochasticBandit([0.7, 0.4], delay)
    trace = ae.simulate(script, bandit, 2_000, 1, seed=2, engine="slotwise").trace(0, 0)
    arrived, pulled = np.cumsum(trace.totals), np.cumsum(trace.rewards)
    shortest = np.flatnonzero(delay.shares)[0]
    assert (arrived <= np.append(np.zeros(shortest), pulled)[:2_000]).all()
    assert (arrived[delay.reach :] >= pulled[: 2_000 - delay.reach]).all()


def test_regret_is_gap_times_plays():
    bandit = ae.StochasticBandit([0.5, 0.9, 0.2], ae.Geometric(0.8))
    for engine in ("roundwise", "slotwise"):
        runs = ae.simulate("ars-ucb", bandit, 3_000, 20, seed=1, engine=engine)[0]
        assert runs.final == pytest.approx(runs.pulls @ np.array([0.4, 0.0, 0.7]))
        assert (runs.pulls.sum(axis=1) == 3_000).all()


def test_regret_at_checkpoints_within_a_round():
    bandit = ae.StochasticBandit([0.9, 0.4], ae.Interval(1, 1))
    study = ae.simulate(
        ae.ArsUcb(growth=lambda k: 64 * k), bandit, 200, 1, seed=1, checkpoints=range(1, 201)
    )
    trace_free = np.diff(study[0].regret[0], prepend=0)
    assert set(trace_free[:64].round(12)) == {0.0}  # the first round: 64 slots of arm 0
    assert set(trace_free[64:128].round(12)) == {0.5}  # the second: 64 slots of arm 1


@each_engine
def test_nobody_looks_at_a_round_that_the_horizon_cuts(engine):
    """A round of 100 slots looks at its last 10."""
    bandit = ae.StochasticBandit([1, 0], ae.Immediate())
    for horizon, total in ((100, 10), (99, 0), (80, 0)):
        task = Task(Script(((0, 100, 10),)), bandit, engine, horizon, (horizon,), 1, range(1))
        assert run_batch(task, prepare(task)).states.totals[0, 0] == total
