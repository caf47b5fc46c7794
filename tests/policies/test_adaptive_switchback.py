"""AdaptiveSwitchback: its filter, its shares and its noise beside second writings, and what it finds."""

import math

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.policies import adaptive_switchback
from aftereffect.policies._delay_shapes import list_shapes
from aftereffect.policies._demand_model import AS_THEY_COME, LIFTS, Filter, fit_noise, fold_window
from aftereffect.policies._switchback_models import advance
from aftereffect.policies._switchback_windows import find_shares, observe, sum_weights

RNG = np.random.default_rng
#: The covariates of a slot without any.
NONE = np.zeros(0)


def test_the_filter_is_that_of_kalman_where_nothing_surprises():
    """The textbook's equations with matrices, for a state with a season."""
    rng, size, lifts = RNG(1), 7, 2
    noise, factor, season = np.array([0.9, 0.002, 0.01]), 1.7, np.array([5.0, -1.0, 6.0])
    root = rng.normal(size=(size, size)) * 0.3
    mean, covariance = rng.normal(size=size), root @ root.T
    mine = Filter(mean.copy(), covariance.copy(), np.zeros(size), np.zeros(size))
    for _ in range(5):
        shares = rng.random(lifts)
        row = np.array([1, 1, *shares, 0, 0, 0])
        row[[5, 6]] = 1
        move = np.diag([0.9, *[1] * (size - 1)])
        mean = move @ mean
        covariance = move @ covariance @ move.T + np.diag([0.002, 1e-5, *[0] * (size - 2)])
        variance = row @ covariance @ row + 0.01 * factor
        value = row @ mean + 0.5 * math.sqrt(variance)
        gain = covariance @ row / variance
        likelihood = -0.5 * (math.log(variance) + 0.25)
        found = fold_window(
            mine, noise, factor, value, shares, season, AS_THEY_COME, np.zeros(lifts)
        )
        mean = mean + gain * (value - row @ mean)
        covariance = covariance - np.outer(gain, row @ covariance)
        assert found == pytest.approx(likelihood)
        assert mine.mean == pytest.approx(mean)
        assert mine.covariance == pytest.approx(covariance)


def test_a_missing_window_only_lets_time_pass():
    model = Filter(np.ones(3), np.eye(3), np.zeros(3), np.zeros(3))
    noise = np.array([0.5, 0.2, 0.1])
    arguments = (math.nan, np.ones(1), np.full(3, -1.0), AS_THEY_COME, np.zeros(1))
    assert fold_window(model, noise, 1.0, *arguments) == 0
    assert model.mean.tolist() == [0.5, 1, 1]
    assert model.covariance.diagonal() == pytest.approx([0.45, 1 + 1e-5, 1])


def test_a_large_surprise_moves_less_than_a_small_one():
    moved = []
    for surprise in (1.0, 30.0):
        model = Filter(np.zeros(3), np.diag([1e-4, 1e-4, 0.01]), np.zeros(3), np.zeros(3))
        fold_window(
            model,
            np.array([0.9, 1e-5, 0.01]),
            1.0,
            surprise * 0.15,
            np.ones(1),
            np.full(3, -1.0),
            AS_THEY_COME,
            np.zeros(1),
        )
        moved.append(model.mean[LIFTS])
    assert 0 < moved[1] < moved[0] / 5


def test_shares_are_those_of_a_convolution():
    policy, arms, slots = ae.AdaptiveSwitchback(24), 3, 600
    state, params = policy.initial_for(arms, slots), policy.params(arms, slots)
    shapes, rng = list_shapes(), RNG(2)
    played = np.repeat(rng.integers(arms, size=75), 8)
    weights = rng.random(168) + 0.1
    state.shape[:] = weights
    for slot, arm in enumerate(played):
        observe(state, params, slot, int(arm), 1.0, NONE)
    sum_weights(state, params)
    weight = weights[np.arange(slots) % 168]
    for row in range(len(shapes.mean_lags)):
        shares = np.zeros(200)
        for first, stop, share in zip(
            shapes.first[row], shapes.stop[row], shapes.share[row], strict=True
        ):
            shares[int(first) : int(stop)] += share / (stop - first)
        assert shares.sum() == pytest.approx(1)
        assert shares @ np.arange(200) == pytest.approx(shapes.mean_lags[row])
        parts = [np.convolve(weight * (played == arm), shares)[:slots] for arm in range(arms)]
        window = slice(100 * 4, 101 * 4)
        sums = [part[window].sum() for part in parts]
        find_shares(state, params, row, 100)
        assert state.shares == pytest.approx(np.array(sums[1:]) / sum(sums))


@pytest.mark.slow
@pytest.mark.parametrize(("persistence", "deviation"), [(0.5, 0.1), (0.95, 0.1), (0.95, 0.02)])
def test_noise_is_found_again(persistence, deviation):
    rng, count = RNG(3), 3_000
    level = np.zeros(count)
    step = deviation * math.sqrt(1 - persistence**2)
    for window in range(1, count):
        level[window] = persistence * level[window - 1] + step * rng.normal()
    usual = np.tile([0.03, 0.06], count // 2)
    noise, factors = np.zeros(3), np.zeros(2)
    fit_noise(level + usual * rng.normal(size=count), count, 2, 0, noise, factors, np.zeros(count))
    found = math.sqrt(noise[1] / (1 - noise[0] ** 2))
    assert found == pytest.approx(deviation, rel=0.55)
    assert noise[0] == pytest.approx(persistence, abs=0.25)
    assert factors[1] > factors[0]


def test_every_arm_keeps_a_chance_and_blocks_end_with_windows():
    policy = ae.AdaptiveSwitchback(24)
    state, params, rng = policy.initial_for(3, 400), policy.params(3, 400), RNG(4)
    for slot in range(-336, 0):
        observe(state, params, slot, 0, 100 + slot % 24, NONE)
    t = 0
    for _ in range(3):
        arm, slots = adaptive_switchback.decide(state, params, t, rng)
        assert state.probabilities.sum() == pytest.approx(1)
        assert state.probabilities.min() > 0
        assert (t + slots) % params.window == 0
        for slot in range(t, t + slots):
            observe(state, params, slot, arm, 100 + slot % 24, NONE)
        t += slots


def test_a_late_total_counts_at_its_own_slot():
    """The same totals, in another order and after NaN, leave the same posterior once they are fitted."""
    policy, rng = ae.AdaptiveSwitchback(0), RNG(5)
    totals, played = 100 + 10 * rng.random(12), rng.integers(2, size=12)
    found = []
    for order in (range(12), rng.permutation(12)):
        state, params = policy.initial_for(2, 12), policy.params(2, 12)
        for slot in range(12):
            observe(state, params, slot, int(played[slot]), math.nan, NONE)
        for slot in order:
            observe(state, params, int(slot), int(played[slot]), totals[slot], NONE)
        advance(state, params)
        found.append(state.means.copy())
    assert found[0] == pytest.approx(found[1])


@pytest.mark.compiled
def test_it_loses_less_than_fixed_switchbacks_with_and_without_defects():
    """With totals that are right and come at once, and with some that are missing, wrong or late."""
    policies = [ae.AdaptiveSwitchback(), ae.FixedSwitchback(24, 2), ae.FixedSwitchback(12, 4)]
    random_play = 100 * (0.2 - 0.35 / 4) / 1.2
    for feed in (ae.Defects(), ae.Defects(missing=0.1, zeros=0.01, spikes=0.01, late=24)):
        bandit = ae.SeasonalBandit(
            [0, 0.05, 0.1, 0.2], ae.Interval(0, 11), "1h", "weekday", 0.1, feed=feed
        )
        lost = [runs.final for runs in ae.simulate(policies, bandit, 1_344, 100, seed=11)]
        means = [each.mean() for each in lost]
        errors = [each.std() / 10 for each in lost]
        assert means[0] + 4 * errors[0] < random_play / 4
        assert means[0] + 4 * math.hypot(errors[0], max(errors[1:])) < min(means[1:])


@pytest.mark.compiled
@pytest.mark.parametrize("slot", ["1h", "1d", "1w"])
def test_nothing_breaks_where_arms_do_not_differ(slot):
    bandit = ae.SeasonalBandit([0, 0, 0], slot=slot, season="ar")
    runs = ae.simulate(ae.AdaptiveSwitchback(), bandit, 200, 20, seed=3)[0]
    assert runs.final.tolist() == [0] * 20
    assert (runs.pulls.sum(axis=0) > 200).all()


@pytest.mark.compiled
@pytest.mark.parametrize("slot", ["1d", "1w"])
def test_it_learns_without_a_history(slot):
    bandit = ae.SeasonalBandit([0, 0.3], ae.Interval(0, 2), slot, "flat", weeks_before=0)
    lost = ae.simulate(ae.AdaptiveSwitchback(), bandit, 300, 60, seed=3)[0].final
    assert lost.mean() + 4 * lost.std() / math.sqrt(60) < 100 * 0.15 / 1.3 / 2


@pytest.mark.parametrize(
    ("policy", "arms", "horizon", "limit"),
    [
        ("adaptive-switchback", 65, 100, "at most 64 arms"),
        ("adaptive-switchback", 2, 300_001, "at most 300,000"),
        ("fixed-switchback", 2, 300_001, "at most 300,000"),
        ("optimal-switchback", 2, 300_001, "at most 300,000"),
    ],
)
def test_what_would_take_too_much_memory_is_refused(policy, arms, horizon, limit):
    with pytest.raises(ae.ParameterError, match=limit):
        ae.simulate(policy, ae.StochasticBandit([0.5] * arms), horizon, 1)


@pytest.mark.parametrize("given", [{"slots_per_day": -1}, {"slots_per_day": 1.5}, {"first": -3}])
def test_bad_calendars_are_refused(given):
    with pytest.raises(ae.ParameterError, match="must be a whole number"):
        ae.AdaptiveSwitchback(**given)
