"""Bandits with a demand of their own, against a second writing with numpy."""

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect.bandits._demand import spread_shares
from aftereffect.bandits._demand_kernels import BASE, MULTIPLIERS
from aftereffect.delays import ARM, REWARD, TOTAL
from aftereffect.rewards import read_history
from aftereffect.simulation import (
    Task,
    compile_driver,
    interpret_driver,
    plan_study,
    prepare,
    run_batch,
)
from aftereffect.testing import check_bandit

LIFTS = (0, 0.05, 0.1, 0.2)
SERIES = np.random.default_rng(3).gamma(9, 20, 7 * 60)
FEED = ae.Defects(missing=0.1, zeros=0.1, spikes=0.1)


def play(bandit, horizon, policy="round-robin", replication=0, build=interpret_driver, seed=5):
    policy = ae.parse(policy).with_delay_facts(bandit.delay_facts).with_calendar(bandit.calendar)
    runs = range(replication, replication + 1)
    task = Task(policy, bandit, "roundwise", horizon, (horizon // 2, horizon), seed, runs)
    return run_batch(task, prepare(task, build))


def days(**settings):
    return ae.HistoryBandit(SERIES, LIFTS, slot="1d", **{"weeks_before": 2, **settings})


@pytest.mark.parametrize(
    "delay", [ae.Immediate(), ae.Interval(3, 9), ae.Geometric(0.8), ae.UniformDelay(0, 4)], ids=str
)
@pytest.mark.parametrize("policy", ["round-robin", "ars-ucb", "fixed-switchback(block=3)"])
def test_totals_are_a_convolution_and_regret_is_the_lost_share(delay, policy):
    bandit, horizon = days(delay=delay, start=140, shuffle=False), 90
    result = play(bandit, horizon, policy)
    arms = result.memory[ARM, :horizon].astype(int)
    multiplier = 1 + np.array(LIFTS)
    shares = spread_shares(delay, 4)
    demand = SERIES[140 - len(shares) + 1 : 140 + horizon]
    played = np.concatenate([np.zeros(len(shares) - 1, dtype=int), arms])
    lead = max(14, len(shares) - 1)
    scale = SERIES[140 - lead : 140 + horizon].max() * 1.2
    totals = np.convolve(demand * multiplier[played], shares, "valid") / scale
    assert result.memory[TOTAL, :horizon] == pytest.approx(totals, rel=1e-12)
    assert result.memory[REWARD, :horizon].max() <= 1
    base = SERIES[140 : 140 + horizon]
    lost = np.cumsum(base * (1.2 - multiplier[arms])) / (1.2 * base.sum())
    assert result.runs.regret[0] == pytest.approx(100 * lost[[horizon // 2 - 1, horizon - 1]])


@pytest.mark.compiled
def test_random_play_loses_what_it_must():
    study = ae.simulate("round-robin", days(), 280, 40, seed=1)
    assert study[0].final.mean() == pytest.approx(100 * (1.2 - 1.0875) / 1.2, rel=0.01)


def test_each_replication_draws_a_monday_and_an_order():
    bandit, begins, orders = days(), set(), set()
    for replication in range(40):
        memory = play(bandit, 70, replication=replication).memory
        orders.add(tuple(memory[MULTIPLIERS, :4]))
        base = memory[BASE, 14 : 14 + 70]
        fits = [
            first
            for first in range(14, len(SERIES) - 69)
            if np.allclose(SERIES[first : first + 70] / SERIES[first], base / base[0])
        ]
        assert len(fits) == 1
        assert fits[0] % 7 == 0
        begins.add(fits[0])
    assert len(begins) > 20
    assert 12 < len(orders) <= 24
    assert {first for order in orders for first in order[:1]} == {1, 1.05, 1.1, 1.2}


@pytest.mark.parametrize("is_delayed", [False, True])
def test_policies_see_the_history(is_delayed):
    delay = ae.Interval(0, 3)
    bandit = days(delay=delay, start=70, shuffle=False, history_delayed=is_delayed)
    assert (bandit.history_slots, bandit.calendar) == (14, (1, 0))
    state = play(bandit, 40, "fixed-switchback(block=2)").states
    scale = SERIES[70 - 14 - 3 * is_delayed : 110].max() * 1.2
    if is_delayed:
        expected = np.convolve(SERIES[53:70], np.full(4, 0.25), "valid")
    else:
        expected = SERIES[56:70]
    assert state.totals[0, :14] == pytest.approx(expected / scale)


def test_defects_change_what_policies_are_told():
    clean, spoilt = days(start=140, shuffle=False), days(start=140, shuffle=False, feed=FEED)
    horizon = 280
    truth, told = (play(each, horizon).memory[TOTAL, :horizon] for each in (clean, spoilt))
    ratio = told / truth
    counts = [np.isnan(told).sum(), (ratio == 0).sum(), np.isclose(ratio, 10).sum()]
    assert np.isclose(ratio, 1).sum() == horizon - sum(counts)
    assert all(abs(each - 28) < 4 * math.sqrt(28) for each in counts)
    state = play(spoilt, horizon, "fixed-switchback(block=7)").states
    assert 0 < np.isnan(state.totals[0]).sum() < horizon / 2


def test_missing_totals_count_as_the_mean_of_the_others():
    bandit = ae.HistoryBandit([5.0] * 100, [0, 0], slot="1d", weeks_before=1, start=7,
                              feed=ae.Defects(missing=0.5))  # fmt: skip
    result = play(bandit, 80, "ars-ucb")
    known = ~np.isnan(result.memory[TOTAL, :80])
    assert 20 < known.sum() < 60
    state = result.states
    assert state.total[0] == pytest.approx(state.pulls[0])  # every total is 1


def test_late_totals_come_late():
    bandit = days(start=140, feed=ae.Defects(late=5))
    totals = play(bandit, 40, "fixed-switchback(block=2)").states.totals[0]
    assert np.isnan(totals).nonzero()[0].tolist() == [14 + slot for slot in range(35, 40)]


def test_holidays_and_drops_change_the_demand():
    flat = {"history": [7.0] * 500, "lifts": [0, 1], "slot": "1d", "weeks_before": 1}
    base = play(ae.HistoryBandit(**flat, feed=ae.Defects(holiday=1)), 100).memory[BASE, 7:107]
    halved = np.flatnonzero(base == 0.25)
    assert len(halved) == 7 == halved[-1] - halved[0] + 1
    base = play(ae.HistoryBandit(**flat, feed=ae.Defects(drop=0.5)), 100).memory[BASE, 7:107]
    assert base.tolist() == [0.5] * 50 + [0.25] * 50


def seasonal(horizon=364, replications=30, **settings):
    """Bases of several runs by replication and slot, divided by their means."""
    bandit = ae.SeasonalBandit([0, 0.1], weeks_before=0, **settings)
    bases = [
        play(bandit, horizon, replication=number).memory[BASE, :horizon]
        for number in range(replications)
    ]
    return np.array([base / base.mean() for base in bases])


@pytest.mark.parametrize("tails", ["normal", "heavy", "poisson"])
def test_noise_is_as_large_as_it_says(tails):
    bases = seasonal(slot="1d", noise=0.1, tails=tails)
    assert bases.std() == pytest.approx(0.1, rel=0.3 if tails == "heavy" else 0.04)
    kurtosis = ((bases - 1) ** 4).mean() / bases.var() ** 2
    assert kurtosis > 5 if tails == "heavy" else kurtosis == pytest.approx(3, abs=0.3)


def test_hours_weekdays_and_trend():
    hours = seasonal(48, 1, noise=0)[0]
    assert np.argmax(hours[:24]) == 15
    assert hours[24:] == pytest.approx(hours[:24])
    weeks = seasonal(70, 30, slot="1d", season="weekday", noise=0)
    assert weeks[:, 7:14] == pytest.approx(weeks[:, :7])
    assert (weeks.max(axis=1) - weeks.min(axis=1)).mean() == pytest.approx(0.49, abs=0.02)
    assert len(set(weeks[:, :7].argmax(axis=1))) >= 6
    trend = seasonal(100, 1, slot="1d", season="trend", noise=0)[0]
    assert trend[-1] / trend[0] == pytest.approx(1.196 / 0.8)


def test_the_level_wanders_for_days():
    levels = np.log(seasonal(2_000, 20, slot="1d", season="ar", noise=0))
    levels -= levels.mean(axis=1, keepdims=True)
    assert levels.std() == pytest.approx(0.15, rel=0.1)
    correlation = (levels[:, 14:] * levels[:, :-14]).mean() / levels.var()
    assert correlation == pytest.approx(math.exp(-1), abs=0.1)


@pytest.mark.compiled
@pytest.mark.parametrize("bandit", samples.DEMAND, ids=str)
def test_compiled_equals_interpreted(bandit):
    for policy in ("round-robin", "fixed-switchback(block=5)"):
        fast, slow = (
            play(bandit, 90, policy, build=build) for build in (compile_driver, interpret_driver)
        )
        assert np.array_equal(fast.memory, slow.memory, equal_nan=True)
        assert np.array_equal(fast.runs.regret, slow.runs.regret)


@pytest.mark.compiled
@pytest.mark.parametrize("bandit", samples.DEMAND[::2], ids=str)
def test_battery(bandit):
    if not bandit.feed.missing:
        check_bandit(bandit)


def test_a_file_has_holes_and_begins_on_any_day(tmp_path):
    lines = "time,total,weather\n2026-03-04T00:00,10,x\n2026-03-04T03:00,40,y\n2026-03-04T04:00,,\n2026-03-04T05:00,20,\n"
    path = tmp_path / "sales.csv.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    totals, first, _ = read_history(str(path), "1h")
    assert totals.tolist() == [10, 20, 30, 40, 30, 20]
    assert first == 48
    bandit = ae.HistoryBandit(str(path), [0, 0.1], start=1, weeks_before=0)
    assert bandit.calendar == (24, 49)
    assert ae.parse(str(bandit)) == bandit


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("slot,total\n1,2\n", "must name the columns time and total, once each, got"),
        ("time,total\n", "must hold at least one total"),
        ("time,total\n2026-03-04,-1\n", "line 2: expected a time such as"),
        ("time,total\nMonday,1\n", "line 2: expected a time such as"),
        ("time,total\n2026-03-04,1\n2026-03-04T00:30,1\n", "a whole number of slots of 1h apart"),
        ("time,total\n1900-03-04,1\n2199-03-04,1\n", "must span at most 2,000,000 slots"),
        ("time,total\n2026-03-04,1\n2026-03-05T00:00+01:00,1\n", "an offset from UTC"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, lines, message):
    path = tmp_path / "sales.csv"
    path.write_text(lines)
    with pytest.raises(ae.InputError, match=message) as caught:
        ae.simulate("ucb1", ae.HistoryBandit(str(path), [0, 0.1]), 100)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: days(delay=samples.PER_ARM[0]), "one law of lags for all arms"),
        (lambda: days(delay=ae.HoldBack(3)), "one law of lags for all arms"),
        (lambda: days(delay=ae.PowerLaw(2)), "at most 2,000 slots"),
        (lambda: days(delay=ae.Interval(0, 2_001)), "at most 2,000 slots"),
        (lambda: ae.HistoryBandit(SERIES, [0.1]), "at least two arms"),
        (lambda: ae.HistoryBandit(SERIES, [0, -1]), "a number above -1"),
        (lambda: ae.HistoryBandit(SERIES, [0, 1], slot="2h"), "unknown slot '2h'"),
        (lambda: ae.HistoryBandit([1, -1], [0, 1]), "totals from 0 on"),
        (lambda: ae.HistoryBandit("", [0, 1]), "a path without quotes"),
        (lambda: ae.SeasonalBandit([0, 1], noise=1e-9, tails="poisson"), "0 or at least 0.001"),
        (lambda: ae.SeasonalBandit([0, 1], season="ar+"), "unknown season"),
        (lambda: ae.Defects(missing=0.6, zeros=0.6), "at most 1, got 1.2"),
        (lambda: ae.simulate("ucb1", days(), 420), "14 slots before a Monday and 420 from it on"),
        (lambda: ae.simulate("ucb1", days(start=13), 100), "14 slots before slot 13"),
        (lambda: ae.simulate("ucb1", ae.SeasonalBandit([0, 1]), 10**9), "choose a shorter horizon"),
    ],
)
def test_what_cannot_be_played_is_refused(make, message):
    with pytest.raises(ae.ParameterError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["none", "true", "immediate", "a b/ü.csv", "x-1"])
def test_any_path_can_be_read_back(path):
    bandit = ae.HistoryBandit(path, [0, 0.1])
    assert ae.parse(str(bandit)) == bandit


def test_a_missing_file_is_reported_when_it_is_needed():
    bandit = ae.parse('history-bandit("no/such/file.csv", [0, .1])')
    with pytest.raises(ae.InputError, match=r"cannot read no/such/file\.csv: No such file"):
        ae.simulate("ucb1", bandit, 100)


def test_a_finished_study_is_played_again_after_its_history_changed(tmp_path):
    """The spec string names a file: what is in it counts as well."""
    file = tmp_path / "history.csv"
    lines = Path(samples.HISTORY).read_text().splitlines()
    file.write_text("\n".join(lines) + "\n")
    bandit = ae.HistoryBandit(str(file), [0, 0.2], slot="1d", weeks_before=2)
    first = plan_study("round-robin", bandit, 14, 2, seed=1)
    assert plan_study("round-robin", bandit, 14, 2, seed=1).made_by == first.made_by
    time, total = lines[-1].split(",")[:2]
    file.write_text("\n".join([*lines[:-1], f"{time},{float(total) + 1}"]) + "\n")
    os.utime(file, (1, 1))  # as if it had been edited at another time
    edited = plan_study("round-robin", bandit, 14, 2, seed=1)
    assert edited.made_by != first.made_by
    assert "with data" in edited.made_by
