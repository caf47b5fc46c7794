"""AdaptiveSwitchback: its filter, arrivals and noise beside second writings, and what it finds."""

import math

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
from aftereffect.policies import adaptive_switchback
from aftereffect.policies._delay_shapes import list_shapes
from aftereffect.policies._demand_model import (
    AS_THEY_COME,
    LAGS,
    LIFTS,
    PERSISTENCE,
    VARIANCE,
    WANDER,
    WRITING,
    WRITTEN,
    Filter,
    enter_demand,
    find_factors,
    learn_total,
    match_noise,
    measure_together,
    take_out_weeks,
)
from aftereffect.policies._switchback_models import _expect, advance
from aftereffect.policies._switchback_windows import CELLS, observe, spread_season
from aftereffect.testing._common import check_compiled

RNG = np.random.default_rng
#: No covariates.
NONE = np.zeros(0)


def make_filter(size, *, seed):
    root = 0.3 * RNG(seed).normal(size=(size, size))
    scratch = (np.zeros(size) for _ in range(3))
    return Filter(size, RNG(seed).normal(size=size), root @ root.T, *scratch)


def test_the_filter_is_that_of_kalman_where_nothing_surprises():
    """The textbook's equations with matrices: three cells of demand, of which two arrive."""
    rng, size, cells = RNG(1), 9, 3
    noise, factor = np.array([0.9, 0.002, 1e-5, 0.01]), 1.7
    mine = make_filter(size, seed=1)
    mean, covariance = mine.mean.copy(), mine.covariance.copy()
    entries, line = np.array([1.0, 2, 3, 5, 8]), size - cells
    for window in range(7):
        parts, cell = np.array([1, *rng.random(2), 1, 7]), line + window % cells
        described = np.zeros(size)
        described[entries[:4].astype(int)] = parts[:4]  # the fifth does not count
        described[0] = 1
        drift = np.diag([0.9, *[1] * (size - 1)])
        steps = np.diag([0.002, 1e-5, *[0] * (size - 2)])
        mean, covariance = drift @ mean, drift @ covariance @ drift.T + steps
        enter = np.eye(size)
        enter[cell] = described
        mean, covariance = enter @ mean, enter @ covariance @ enter.T
        covariance[cell, cell] += 0.01 * factor
        enter_demand(mine, noise, factor, entries, parts, 4, cell)
        assert mine.mean == pytest.approx(mean)
        assert mine.covariance == pytest.approx(covariance)
        loads = np.zeros(size)
        loads[cell], loads[line + (window - 1) % cells] = 0.7, 0.3
        variance = loads @ covariance @ loads + 0.02
        surprise = 0.5 * math.sqrt(variance)
        gain = covariance @ loads / variance
        mine.loads[:] = loads
        found = learn_total(mine, surprise, 0.02, cell, AS_THEY_COME, np.zeros(9), window)
        mean, covariance = mean + gain * surprise, covariance - np.outer(gain, loads @ covariance)
        density = stats.t(4).logpdf(0.5) - stats.t(4).logpdf(0) - 0.5 * math.log(variance)
        assert found == pytest.approx(density)
        assert mine.mean == pytest.approx(mean)
        assert mine.covariance == pytest.approx(covariance)


def test_a_large_surprise_moves_less_than_a_small_one():
    moved = []
    for surprise in (0.15, 4.5):
        model = Filter(4, np.zeros(4), np.diag([1e-4, 1e-4, 0.01, 0]), *np.zeros((3, 4)))
        enter_demand(model, np.array([0.9, 1e-5, 0, 0.01]), 1.0, np.array([2.0]), np.ones(1), 1, 3)
        model.loads[3] = 1
        learn_total(model, surprise, 1e-4, 3, AS_THEY_COME, np.zeros(1), 0)
        moved.append(model.mean[LIFTS])
    assert 0 < moved[1] < moved[0] / 5


def test_weights_that_were_written_down_are_used():
    weights, found, moved = np.ones(1), [], []
    for mode, surprise in ((WRITING, 3.0), (WRITTEN, 0.1), (AS_THEY_COME, 0.1)):
        model = Filter(3, np.zeros(3), np.eye(3), *np.zeros((3, 3)))
        model.loads[1] = 1
        found.append(learn_total(model, surprise, 0.0, 2, mode, weights, 0))
        moved.append(model.mean[1])
    assert found[0] == pytest.approx(4 / 0.774)  # a square of nine is cut
    assert weights[0] == pytest.approx(3 / 1.2)
    assert moved == pytest.approx([3 / 2.5**2, 0.1 / 2.5**2, 0.1])


def test_arrivals_are_those_of_a_convolution():
    """By shape of delay, of a demand with a season, in the mean over windows and in each of them."""
    policy, slots = ae.AdaptiveSwitchback(24, first=10), 1_008
    state, params = policy.initial_for(2, slots), policy.params(2, slots)
    shapes, weights = list_shapes(4), RNG(2).random(168) + 0.1
    state.shape[:] = weights
    spread_season(state, params)
    demand = weights[(np.arange(slots) + 10) % 168]
    for row in range(len(shapes.mean_lags)):
        shares = shapes.by_lag[row]
        assert shares.sum() == pytest.approx(1)
        assert shares @ np.arange(len(shares)) == pytest.approx(shapes.mean_lags[row])
        assert shapes.by_age[row].sum() == pytest.approx(1)
        for window in (100, 187):
            arrived = np.convolve(demand, shares)[window * 4 : window * 4 + 4].sum()
            place = (10 // 4 + window) % 42
            assert state.arrivals[row, place].sum() == pytest.approx(arrived)
            now = np.zeros(slots)
            now[window * 4 - 8 : window * 4 - 4] = demand[window * 4 - 8 : window * 4 - 4]
            arrived = np.convolve(now, shares)[window * 4 : window * 4 + 4].sum()
            assert state.arrivals[row, place, 2] == pytest.approx(arrived, abs=1e-9)


def test_what_a_model_expects_is_linear_in_its_loads():
    """The loads are the derivatives of what is expected, for delays within and beyond the cells."""
    policy = ae.AdaptiveSwitchback(24)
    state, params, rng = policy.initial_for(3, 2_000), policy.params(3, 2_000), RNG(6)
    for slot in range(-336, 0):
        observe(state, params, slot, 0, 100 + slot % 24, NONE)
    for slot in range(800):
        observe(state, params, slot, slot // 12 % 3, 100 + slot % 24, NONE)
    spread_season(state, params)
    ages = params.ages.astype(int)
    for row in (0, int(np.argmax(ages)), len(ages) + 17):
        size = state.means.shape[1]
        cells = size - CELLS + np.arange(min(ages[row % len(ages)], CELLS))
        state.means[row] = 0.1 * rng.normal(size=size)
        expected, _ = _expect(state, params, row, 190)
        loads = state.loads.copy()
        assert loads[cells].sum() <= 1 + 1e-9
        assert (ages[row % len(ages)] > CELLS) == (loads[LIFTS] > 0)
        for entry in (*cells, 1, LIFTS, LIFTS + 1):
            state.means[row, entry] += 1e-6
            slope = (_expect(state, params, row, 190)[0] - expected) / 1e-6
            state.means[row, entry] -= 1e-6
            assert slope == pytest.approx(loads[entry], abs=1e-4)


def test_a_delay_is_in_doubt_only_while_demand_of_different_heights_arrives():
    """Two heights: the variance is that of shares which are off by half of themselves at each age."""
    policy = ae.AdaptiveSwitchback(24, delay=ae.Interval(0, 23))
    state, params = policy.initial_for(2, 100), policy.params(2, 100)
    spread_season(state, params)  # flat
    ages = int(params.ages[0])
    cells = state.means.shape[1] - CELLS + (20 - np.arange(ages)) % ages
    state.means[0, cells] = 1.0
    assert _expect(state, params, 0, 20) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-12))
    state.means[0, cells[:2]] = 1.2
    shares, heights = params.by_age[0, :ages], np.exp(state.means[0, cells])
    changes = heights / (shares @ heights) - 1
    expected = np.log(shares @ heights), 0.25 * (shares**2 @ changes**2)
    assert _expect(state, params, 0, 20) == pytest.approx(expected)
    assert expected[1] > 1e-4


@pytest.mark.parametrize("width", [1, 6])
@pytest.mark.parametrize(("persistence", "deviation"), [(0.7, 0.1), (0.95, 0.1), (0.9, 0.03)])
def test_noise_is_found_again(persistence, deviation, width):
    """Of demand that arrives at once, or evenly over six windows, with more noise every second."""
    rng, count = RNG(3), 6_000
    level = np.zeros(count)
    step = deviation * math.sqrt(1 - persistence**2)
    for window in range(1, count):
        level[window] = persistence * level[window - 1] + step * rng.normal()
    shares = np.full(width, 1 / width)
    arrived = np.convolve(level + 0.4 * deviation * rng.normal(size=count), shares)[:count]
    residuals, scratch = arrived * np.tile([1, 2], count // 2), np.zeros(count)
    residuals[rng.integers(count, size=20)] = np.nan
    factors, together, noise = np.zeros(2), np.zeros(LAGS), np.zeros(4)
    find_factors(residuals, count, 0, factors, scratch)
    assert factors[1] / factors[0] == pytest.approx(4, rel=0.15)
    measure_together(residuals, count, 0, factors, together, scratch)
    match_noise(together, shares, width, noise, np.zeros(LAGS))
    found = math.sqrt(noise[WANDER] / (1 - noise[PERSISTENCE] ** 2))
    assert found == pytest.approx(deviation * math.sqrt(2), rel=0.35)
    assert noise[PERSISTENCE] == pytest.approx(persistence, abs=0.21)
    if width == 1:
        assert math.sqrt(noise[VARIANCE] / 2) == pytest.approx(0.4 * deviation, rel=0.5)


def test_a_level_that_changes_from_week_to_week_drifts():
    rng, weekly = RNG(4), 42
    levels = np.cumsum(0.2 * rng.normal(size=40))
    wild, still = (np.repeat(each, weekly) for each in (levels, np.zeros(40)))
    drifts = [
        take_out_weeks(each + 0.01 * rng.normal(size=len(each)), len(each), weekly, np.zeros(2_000))
        for each in (wild, still)
    ]
    assert drifts[0] == pytest.approx(0.3 * 0.04 / weekly, rel=0.6)
    assert drifts[1] == pytest.approx(1e-5, rel=0.1)
    assert np.abs(wild).max() > 0.2  # what was subtracted is a copy
    residuals = wild.copy()
    take_out_weeks(residuals, len(residuals), weekly, np.zeros(2_000))
    assert residuals == pytest.approx(0)


@pytest.mark.compiled
def test_covariates_explain_demand(tmp_path):
    """Weather that changes demand by a fifth, and is known, is no noise."""
    rng, hours = RNG(9), 24 * 7 * 60
    weather = np.repeat(rng.normal(size=hours // 12), 12)
    base = 100 * (1 + 0.5 * np.sin(np.arange(hours) * 2 * math.pi / 24))
    totals = base * np.exp(0.2 * weather + 0.02 * rng.normal(size=hours))
    times = np.datetime64("2024-01-01T00:00") + np.arange(hours) * np.timedelta64(1, "h")
    rows = zip(times, totals.tolist(), weather.tolist(), strict=True)
    path = tmp_path / "history.csv"
    path.write_text("\n".join(["time,total,weather", *(f"{a},{b},{c}" for a, b, c in rows)]))
    lost = []
    for covariates in (None, ("weather",)):
        bandit = ae.HistoryBandit(
            str(path), [0, 0.05, 0.1], ae.Interval(0, 5), covariates=covariates
        )
        policy = ae.AdaptiveSwitchback(delay=bandit.delay)
        lost.append(ae.simulate(policy, bandit, 672, 60, seed=1)[0].final)
    assert lost[1].mean() + 4 * lost[1].std() / math.sqrt(60) < lost[0].mean()
    assert lost[1].mean() < lost[0].mean() / 2


def test_every_arm_keeps_a_chance_and_blocks_end_with_windows():
    policy = ae.AdaptiveSwitchback(24, delay=ae.Interval(0, 5))
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
    policy, rng = ae.AdaptiveSwitchback(0, delay=ae.Interval(0, 5)), RNG(5)
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
@pytest.mark.parametrize("weeks_before", [0, 16])
def test_comparing_delays_is_the_same_in_plain_python(weeks_before):
    bandit = ae.SeasonalBandit(
        [0, 0.1], slot="1w", weeks_before=weeks_before, feed=ae.Defects(missing=0.1, late=2)
    )
    check_compiled(ae.AdaptiveSwitchback(slots_per_day=0), bandit, 16, engines=["roundwise"])


@pytest.mark.compiled
def test_it_loses_less_if_it_is_told_the_delay():
    """A dead time is hard to tell from noise."""
    bandit = ae.SeasonalBandit([0, 0.1, 0.2], "interval(4, 11)", season="ar+weekday", noise=0.1)
    policies = [ae.AdaptiveSwitchback(delay=bandit.delay), ae.AdaptiveSwitchback()]
    told, learned = (runs.final for runs in ae.simulate(policies, bandit, 1_344, 64, seed=4))
    assert told.mean() + 4 * math.hypot(told.std(), learned.std()) / 8 < learned.mean()


@pytest.mark.compiled
def test_dead_times_of_days_do_not_lock_it():
    """The level wanders, and the history has the same delay; it lies between the coarse shapes."""
    bandit = ae.SeasonalBandit([0, 0.05, 0.1, 0.2], ae.Interval(2, 7), "1d", "ar", 0.03)
    lost = 1.2 * ae.simulate(ae.AdaptiveSwitchback(), bandit, 364, 30, seed=5)[0].final
    assert lost.mean() + 4 * lost.std() / math.sqrt(30) < 0.7 * 11.25


@pytest.mark.compiled
def test_it_loses_less_than_fixed_switchbacks_with_and_without_defects():
    """With totals that are right and come at once, and with some that are missing, wrong or late."""
    fixed = [ae.FixedSwitchback(24, 2), ae.FixedSwitchback(12, 4)]
    random_play = 100 * (0.2 - 0.35 / 4) / 1.2
    for feed in (ae.Defects(), ae.Defects(missing=0.1, zeros=0.01, spikes=0.01, late=24)):
        bandit = ae.SeasonalBandit(
            [0, 0.05, 0.1, 0.2], ae.Interval(0, 11), "1h", "weekday", 0.1, feed=feed
        )
        # Runs of fixed switchbacks differ more, and take a hundredth of the time.
        lost = ae.simulate(ae.AdaptiveSwitchback(), bandit, 1_344, 16, seed=11)[0].final
        theirs = [runs.final for runs in ae.simulate(fixed, bandit, 1_344, 400, seed=12)]
        error = lost.std() / 4
        assert lost.mean() + 4 * error < random_play / 4
        errors = math.hypot(error, max(each.std() for each in theirs) / 20)
        assert lost.mean() + 4 * errors < min(each.mean() for each in theirs)


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
    lost = ae.simulate(ae.AdaptiveSwitchback(), bandit, 300, 20, seed=3)[0].final
    assert lost.mean() + 4 * lost.std() / math.sqrt(20) < 100 * 0.15 / 1.3 / 2


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


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        ("geometric(0.9999)", "at most 2,000 slots"),
        ("power-law(1.5)", "at most 2,000 slots"),
        ("ars-ucb", "expected a delay"),
        (3, "expected a delay"),
        ("per-arm([immediate, geometric(.5)])", "'per-arm' cannot be used here"),
    ],
)
def test_delays_that_it_cannot_be_told_are_refused(delay, expected):
    with pytest.raises((ae.ParameterError, ae.SpecError), match=expected):
        ae.AdaptiveSwitchback(delay=delay)


@pytest.mark.parametrize("given", [{"slots_per_day": -1}, {"slots_per_day": 1.5}, {"first": -3}])
def test_bad_calendars_are_refused(given):
    with pytest.raises(ae.ParameterError, match="must be a whole number"):
        ae.AdaptiveSwitchback(**given)


def fold(policy, arms, totals, played):
    """The state after these slots, learned from every seventh slot on."""
    state, params = policy.initial_for(arms, len(totals), 1), policy.params(arms, len(totals))
    for slot, (total, arm) in enumerate(zip(totals, played, strict=True)):
        observe(state, params, slot, int(arm), total, np.array([slot % 5.0]))
        if slot % 7 == 0:
            advance(state, params)
    return state


@pytest.mark.parametrize("per_day", [0, 2])
@pytest.mark.parametrize("slots", [3, 40, 61])
def test_an_arm_that_is_added_is_as_one_that_was_never_played(per_day, slots):
    """All that is known is what it would be had the arms been there from the start, and so it stays."""
    policy, rng = ae.AdaptiveSwitchback(per_day, delay=ae.Interval(0, 3)), RNG(6)
    totals, played = 100 + 10 * rng.random(90), rng.integers(2, size=90)
    state = fold(policy, 2, totals[:slots], played[:slots])
    state = policy.change_arms(state, [True] * 3)
    grown = policy.change_arms(policy.change_arms(state, [True] * 4), [True, False, True, True])
    whole = fold(policy, 4, totals[:slots], played[:slots])
    known = whole._fields[: whole._fields.index("probabilities")]
    assert {"means", "covariances", "evidence", "noise"} < {*known}
    for name in known:
        wanted = getattr(whole, name)
        assert getattr(grown, name) == pytest.approx(wanted, rel=1e-7, abs=1e-9, nan_ok=True), name
    assert grown.active.tolist() == [1, 0, 1, 1]


def test_only_active_arms_are_drawn_and_the_best_of_them_is_likely():
    """Also if the first arm is not active, and if the best of all is not."""
    policy, rng = ae.AdaptiveSwitchback(0, delay=ae.Interval(0, 0)), RNG(7)
    played = rng.integers(4, size=200)
    totals = np.exp(np.array([0.0, 0.5, 0.1, 0.3])[played] + 0.02 * rng.standard_normal(200))
    state, params = policy.initial_for(4, 300), policy.params(4, 300)
    for slot in range(200):
        observe(state, params, slot, int(played[slot]), totals[slot], NONE)
    for active, best in ([1, 1, 1, 1], 1), ([1, 0, 1, 1], 3), ([0, 0, 1, 0], 2), ([1, 0, 1, 0], 2):
        state = policy.change_arms(state, active)
        drawn = {adaptive_switchback.decide(state, params, 200, rng)[0] for _ in range(20)}
        assert drawn <= {arm for arm in range(4) if active[arm]}
        assert (state.probabilities > 0).tolist() == [bool(each) for each in active]
        assert state.probabilities.sum() == pytest.approx(1)
        assert state.probabilities[best] > 0.95


def test_a_last_arm_that_is_not_active_is_not_drawn_by_rounding():
    class Highest:
        def random(self):
            return 1 - 2.0**-53

    policy = ae.AdaptiveSwitchback(0, delay=ae.Interval(0, 0))
    state, params = policy.change_arms(policy.initial(4), [1, 1, 1, 0]), policy.params(4, 99)
    for _ in range(20):
        assert adaptive_switchback.decide(state, params, 0, Highest())[0] < 3
