"""The parts of a plan beside closed forms: worlds, tests of blocks, quantiles, found lifts."""

import math

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae
from aftereffect.planning._designs import check_design, list_designs, name_design
from aftereffect.planning._endings import LEVEL, find_t, is_better
from aftereffect.planning._history import describe, read_past
from aftereffect.planning._promises import find_quantile, find_smallest
from aftereffect.planning._worlds import (
    draw_delay,
    draw_lifts,
    make_world,
    read_lags,
    read_lifts,
    resample,
)
from made_up_history import make_history


@pytest.mark.parametrize("chance", [0.9, 0.975, 0.9996])
@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 200])
def test_quantiles_of_t_are_right(chance, freedom):
    # Far out with one degree of freedom, the tangent is steep.
    assert find_t(chance, freedom) == pytest.approx(stats.t.ppf(chance, freedom), rel=2e-2)


@pytest.mark.parametrize(("arms", "passes", "lift"), [(2, 10, 0.0), (2, 10, 0.05), (4, 8, 0.08)])
def test_power_with_white_noise_is_that_of_the_t_test(arms, passes, lift):
    rng, runs, noise = np.random.default_rng(1), 2_000, 0.05
    shown = 0
    for _ in range(runs):
        values = noise * rng.standard_normal((passes, arms)) + rng.standard_normal((passes, 1))
        values[:, 1] += lift
        shown += is_better(values, 1, 0)
    freedom = (passes - 1) * (arms - 1)
    limit = stats.t.ppf(1 - (1 - LEVEL) / math.comb(arms, 2) / 2, freedom)
    power = stats.nct.sf(limit, freedom, lift / (noise * math.sqrt(2 / passes)))
    error = math.sqrt(power * (1 - power) / runs)
    assert shown / runs == pytest.approx(power, abs=4 * error)


def test_a_quantile_holds_for_a_new_value():
    rng, inside, runs = np.random.default_rng(1), 0, 4_000
    for _ in range(runs):
        *known, new = rng.standard_exponential(41)
        inside += find_quantile(known, 0.05) <= new <= find_quantile(known, 0.95)
    assert inside / runs == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / runs))


def test_the_smallest_lift_is_where_the_curve_of_found_lifts_crosses_nine_tenths():
    rng = np.random.default_rng(1)
    lifts = np.exp(rng.uniform(math.log(0.01), math.log(0.3), 4_000))
    chance = 1 / (1 + (0.05 / lifts) ** 3)  # .9 at .05 * 9^(1/3)
    found = find_smallest(lifts, rng.random(4_000) < chance)
    assert found.mean == pytest.approx(0.05 * 9 ** (1 / 3), abs=4 * found.error)
    assert 0 < found.error < 0.01
    assert find_smallest(lifts, rng.random(4_000) < 0.3 * chance) is None


@pytest.mark.parametrize("moved", [0.995, 1.0, 1.005])
def test_lifts_that_are_found_however_large_they_are_have_no_smallest_one(moved):
    lifts = np.geomspace(0.01, 0.3, 5)
    lifts[-1] *= moved
    found = np.array([True, False, False, False, True])
    assert find_smallest(lifts, found) is None


def test_resampled_weeks_keep_the_season_and_how_the_level_wanders():
    history = make_history(26, deviation=0.1, memory=0.9)
    past, _ = read_past(history, "1d")
    rng = np.random.default_rng(2)
    made = np.array([resample(past, 364, rng) for _ in range(40)])
    season = np.median(made.reshape(40, 52, 7), axis=(0, 1))
    given = np.median(history.reshape(26, 7), axis=0)
    assert season == pytest.approx(given, rel=0.06)

    def correlate(logs, lag):
        logs = logs - logs.mean(axis=-1, keepdims=True)
        return float((logs[..., lag:] * logs[..., :-lag]).mean() / (logs**2).mean())

    known = np.log(past.totals / past.usual)
    drawn = np.log(made / np.tile(given, 52))
    assert correlate(drawn, 1) == pytest.approx(correlate(known, 1), abs=0.12)
    assert drawn.std() == pytest.approx(known.std() * math.sqrt(26 / 25), rel=0.15)
    assert not any((row[:182] == history).all() for row in made)


def test_resampled_totals_come_from_their_place_in_the_week():
    past, _ = read_past(np.tile(np.arange(168.0), 8) + np.repeat(np.arange(8) / 20, 168), "1h")
    made = resample(past, 1_000, np.random.default_rng(1))
    assert np.abs(made - np.arange(1_000) % 168)[3:].max() < 5
    assert (np.argsort(made[168:336]) == np.argsort(past.usual[:168])).mean() > 0.9


@pytest.mark.compiled
def test_the_scale_of_a_world_turns_its_totals_into_those_of_the_history():
    past, _ = read_past(make_history(10), "1d")
    world = make_world(past, (0.0, 0.1, -0.05), ae.Interval(0, 3), 28, np.random.default_rng(1))
    task = ae.simulation.Task(ae.RoundRobin(), world.bandit, "slotwise", 28, (28,), 1, range(1))
    trace = ae.simulation.trace_run(ae.RoundRobin(), world.bandit, 28, 1, 0)
    played = 1 + np.array(world.lifts)[trace.arms]
    assert trace.rewards * world.scale == pytest.approx(world.demand * played)
    assert task.bandit.calendar.first == 0


def test_lifts_and_lags_are_drawn_as_asked():
    rng = np.random.default_rng(1)
    lifts = np.array([draw_lifts(0.05, 4, rng) for _ in range(300)])
    assert (lifts[:, 0] == 0).all()
    assert lifts[:, 1:].max(axis=1) == pytest.approx(np.full(300, 0.05))
    assert lifts.min() > -0.05
    assert {int(np.argmax(row)) for row in lifts} == {1, 2, 3}
    down = np.array([draw_lifts(-0.02, 3, rng) for _ in range(50)])
    assert (down[:, 1:].max(axis=1) == -0.02).all()
    delays = [draw_delay(12, rng) for _ in range(60)]
    assert len(set(delays)) == 4
    assert all(0.949 <= 1 - float(delay.tail(12)) <= 1 + 1e-12 for delay in delays)
    assert draw_delay(0, rng) == ae.Immediate()


@pytest.mark.parametrize(
    ("given", "ends"),
    [("5%", (0.05, 0.05)), ("3..10%", (0.03, 0.1)), (0.05, (0.05, 0.05)), ((0.0, 0.1), (0, 0.1))],
)
def test_lifts_are_read(given, ends):
    assert tuple(read_lifts(given)) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("given", "slot", "ends"),
    [
        ("12h", "1h", (12, 12)),
        ("6..48h", "1h", (6, 48)),
        ("2d", "15min", (192, 192)),
        (3, "1d", (3, 3)),
    ],
)
def test_lags_are_read(given, slot, ends):
    assert tuple(read_lags(given, slot)) == ends


@pytest.mark.parametrize("given", ["5 percent", "10..3%", "200%", (0.1,), "-80%"])
def test_other_lifts_are_refused(given):
    with pytest.raises(ae.ParameterError, match="lift"):
        read_lifts(given)


@pytest.mark.parametrize("given", ["12 hours", "-3h", "9..2h", "900h"])
def test_other_lags_are_refused(given):
    with pytest.raises(ae.ParameterError, match="lag"):
        read_lags(given, "1h")


def test_candidates_fit_into_the_experiment():
    past, _ = read_past(make_history(10), "1d")
    designs = list_designs(past, 3, read_lags("2..4d", "1d"), 84)
    assert [name_design(design) for design in designs] == [
        "floors(adaptive-switchback, [0.1, 0, 0])",
        "fixed-switchback(block=4, blocks_per_arm=2)",
        "fixed-switchback(block=7, blocks_per_arm=2)",
    ]
    assert all(check_design(name_design(design), 3, 84) for design in designs)
    with pytest.raises(ae.ParameterError, match="compare the arms at least 2 times"):
        check_design("fixed-switchback(block=28, blocks_per_arm=2)", 3, 84)


def test_a_history_is_described():
    history = make_history(26, deviation=0.1, memory=0.6)
    history[10] = np.nan
    past, _ = read_past(history, "1d")
    found = describe(past, None)
    assert found.high_day[0] == "Saturday"
    assert found.low_day[0] == "Monday"
    assert found.level_deviation == pytest.approx(9.5, abs=2)
    assert found.level_days == pytest.approx(-1 / math.log(0.6), abs=1)
    assert found.missing == pytest.approx(100 / 182)
    hours = np.tile(np.repeat([1.0, 3.0], 12), 56) * np.random.default_rng(1).normal(100, 5, 1_344)
    hourly = describe(read_past(hours, "1h")[0], None)
    assert hourly.noise == pytest.approx(5, abs=1)
    assert hourly.high_hour[1] == pytest.approx(50, abs=5)
