"""Inference: bets that are fair, a baseline that knows no future, and effects that are found."""

import json
import math
import tracemalloc

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core import Calendar
from aftereffect.inference import Trial, _scores, analyse
from aftereffect.inference._scores import list_segments
from aftereffect.inference._sequence import EFFECTS, weigh_evidence
from aftereffect.inference._trial import (
    add_delayed,
    spread_by_arm,
    spread_by_block,
    undo_delays,
)

RNG = np.random.default_rng
WEEK, HOURS = 168, 6 * 168
ZERO = int(np.argmin(np.abs(EFFECTS)))


def make_demand(seed, slots, noise=0.015):
    """Hours with a season, and noise that persists for some hours."""
    rng = RNG(seed)
    hours = np.arange(slots)
    season = 100 + 50 * np.sin(2 * np.pi * hours / 24) + 20 * (hours % WEEK > 120)
    wander = add_delayed(0.8 ** np.arange(24), rng.normal(0, noise, slots))
    return season * np.exp(wander)


def make_trial(seed, lifts=(0.0, 0.0), *, block=12, chances=None, slots=HOURS, before=4, lags=12):
    """Arms drawn block by block, with effects that arrive evenly over some hours."""
    rng, arms = RNG(seed + 1_000), len(lifts)
    demand = make_demand(seed, before * WEEK + slots)
    starts = np.arange(0, slots, block)
    chances = np.full(arms, 1 / arms) if chances is None else np.array(chances)
    decided = rng.choice(arms, len(starts), p=chances)
    played = np.repeat(decided, block)[:slots]
    lifted = demand.copy()
    lifted[before * WEEK :] *= 1 + np.array(lifts)[played]
    totals = add_delayed(np.full(lags, 1 / lags), lifted)
    return Trial(
        totals=totals[before * WEEK :],
        played=played,
        starts=starts,
        decided=decided,
        probabilities=np.tile(chances, (len(starts), 1)),
        places=np.arange(slots) % WEEK,
        calendar=Calendar(24),
        history=totals[: before * WEEK],
    )


def test_results_of_many_arms_stay_small():
    """As JSON, the history of intervals of 40 arms had 349 kB."""
    names = [f"arm {number}" for number in range(40)]
    found = analyse(make_trial(3, [0.0] * 40, block=4, slots=3 * WEEK), names)
    assert len(json.dumps(found.to_dict())) < 150_000
    assert len(found.history) >= 10
    assert found.history[-1].effects == found.effects
    few = analyse(make_trial(3, block=4), names[:2])
    assert len(few.history) == 200


def test_segments_may_be_cut_anywhere(monkeypatch):
    """Long segments are cut to save memory, which changes no score and no bet."""
    trial, whole = make_trial(5, (0.0, 0.1), block=3), {}
    for most in (10_000, 7):
        monkeypatch.setattr(_scores, "MAX_BLOCKS", most)
        segments = list_segments(trial)
        assert max(len(segment.starts) for segment in segments) <= most
        found = [
            np.concatenate([segment.starts for segment in segments]),
            np.concatenate([segment.slots for segment in segments]),
            np.concatenate([segment.score(segment.views[0], np.eye(2)) for segment in segments]),
            np.concatenate([segment.expect(1, 0.1).T for segment in segments]),
        ]
        for name, numbers in zip(["starts", "slots", "scores", "expected"], found, strict=True):
            assert whole.setdefault(name, numbers) == pytest.approx(numbers, abs=1e-9), name
    assert len(whole["starts"]) > 300


def test_long_experiments_need_little_memory():
    """40,000 slots without a calendar took 960 MB, and a reader could ask for it twice."""
    rng, slots, block = RNG(1), 40_000, 10
    decided = rng.integers(0, 3, slots // block)
    trial = Trial(
        totals=rng.normal(100, 10, slots),
        played=np.repeat(decided, block),
        starts=np.arange(0, slots, block),
        decided=decided,
        probabilities=np.full((len(decided), 3), 1 / 3),
        places=np.zeros(slots, int),
    )
    tracemalloc.start()
    try:
        list_segments(trial)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 350e6


def test_delayed_sums_are_convolutions():
    values, shares = RNG(1).random((50, 3)), RNG(2).random(8)
    expected = np.column_stack([np.convolve(column, shares)[:50] for column in values.T])
    assert add_delayed(shares, values) == pytest.approx(expected)
    assert add_delayed(shares, values.T, axis=1) == pytest.approx(expected.T)


def test_what_blocks_bring_is_what_their_arms_bring():
    trial, shares, season = make_trial(3), np.array([0.0, 0.5, 0.3, 0.2]), RNG(4).random(WEEK) + 1
    by_arm = trial.add_up(spread_by_arm(trial, shares, season))
    windows = HOURS // trial.window
    blocks = spread_by_block(trial, shares, season, 0, len(trial.starts), windows)
    for arm in range(2):
        mine = blocks[:, trial.decided == arm].sum(axis=1)
        # Before slot 0 the control was played.
        assert mine[1:] == pytest.approx(by_arm[1:, arm])


def test_the_season_of_demand_arrives_as_that_of_totals():
    demand = 100 + 50 * np.sin(2 * np.pi * np.arange(WEEK) / 24)
    shares = np.zeros((2, 200))
    shares[0, :12], shares[1, 190:] = 1 / 12, 1 / 10  # one is longer than the week
    for row in shares:
        weeks = add_delayed(row, np.tile(demand, 4))
        season = weeks[-WEEK:]
        found = undo_delays(season, row[None])[0]
        assert add_delayed(row, np.tile(found, 4))[-WEEK:] == pytest.approx(season, rel=0.02)
        assert np.abs(found - demand).mean() < 0.5 * np.abs(season - demand).mean()


def test_large_effects_are_not_made_smaller():
    """A mixture of arms brings more than the mean of their logarithms says."""
    lift, missed = 0.25, 0
    for seed in range(12):
        trial = make_trial(seed, (0.0, lift), block=6, chances=(0.2, 0.8))
        (effect,) = analyse(trial, ["A", "B"]).effects
        missed += not effect.low < 100 * lift < effect.high
        assert effect.low > 10
    assert missed <= 2


@pytest.mark.parametrize("chances", [(0.5, 0.5), (0.1, 0.9), (0.2, 0.3, 0.5)])
def test_every_bet_is_fair(chances):
    """With the draw of a block replaced, the capital is that before it, on average.

    That holds for the mean delay, and what counts is never more than that.
    """
    trial = make_trial(5, [0.0] * len(chances), chances=chances)
    segments = list_segments(trial)
    assert max(len(segment.views) for segment in segments) > 1
    shares = np.array(chances)[[1, 0]] / sum(chances[:2])
    none = np.zeros(0, int)
    only_mean = [
        segment._replace(views=segment.views[:1], plausible=none, stands_for=none)
        for segment in segments
    ]
    for row in range(len(segments[-1].starts)):
        before, mean = replace_draw(only_mean, row, shares)
        assert mean == pytest.approx(before)
    all_delays, mean_delay = (weigh_evidence(each, 1, 0).capital for each in (segments, only_mean))
    assert (all_delays <= mean_delay + 1e-9).all()
    assert (all_delays < mean_delay - 0.1).any()


def replace_draw(segments, row, shares):
    """The capital before a block of the last segment; and after it, on average over its draw."""
    last, mean = segments[-1], 0.0
    place = 1 + sum(len(segment.starts) for segment in segments[:-1]) + row
    for arm, share in zip((1, 0), shares, strict=True):
        draws = last.draws.copy()
        draws[row] = np.eye(draws.shape[1])[arm]
        capital = weigh_evidence([*segments[:-1], last._replace(draws=draws)], 1, 0).capital
        mean = mean + share * np.exp(capital[place])
    return np.exp(capital[place - 1]), mean


def test_alarms_are_rare_if_draws_change_nothing():
    """The same totals, with arms drawn anew: how often is the capital against 0 ever 20?"""
    trial, alarms, runs = make_trial(6, slots=2 * WEEK), 0, 100
    for seed in range(runs):
        decided = RNG(seed).choice(2, len(trial.starts), p=[0.2, 0.8])
        again = trial._replace(
            decided=decided,
            played=np.repeat(decided, 12),
            probabilities=np.tile([0.2, 0.8], (len(decided), 1)),
        )
        capital = weigh_evidence(list_segments(again), 1, 0).capital[:, ZERO]
        alarms += capital.max() >= math.log(20)
    assert alarms <= 0.05 * runs + 4 * math.sqrt(0.05 * 0.95 * runs)


def test_later_totals_change_nothing_that_was_known():
    trial = make_trial(7, (0.0, 0.1))
    totals = trial.totals.copy()
    totals[700:] *= 3
    first, second = (
        weigh_evidence(list_segments(each), 1, 0) for each in (trial, trial._replace(totals=totals))
    )
    known = int(np.searchsorted(first.slots, 700))
    assert known > 20
    assert np.array_equal(first.capital[:known], second.capital[:known])
    assert not np.array_equal(first.capital[-1], second.capital[-1])


@pytest.mark.parametrize("before", [4, 0])
@pytest.mark.parametrize("lift", [0.1, -0.1])
def test_it_finds_effects(lift, before):
    results = analyse(make_trial(8, (0.0, lift), before=before), ["A", "B"])
    effect = results.effects[0]
    assert effect.is_shown
    assert effect.low < 100 * lift < effect.high
    assert abs(effect.percent - 100 * lift) < 5
    assert results.leader == ("B" if lift > 0 else "A")
    assert results.probabilities[results.leader] > 0.95
    assert results.leads[0].low > 0
    assert str(effect).startswith(
        f"B brings {abs(effect.percent):.1f} % {'more' if lift > 0 else 'less'}"
    )
    # Totals of the control are 100 to 120 per slot.
    assert results.mean == pytest.approx(105, rel=0.1)
    assert effect.amount == pytest.approx(effect.percent / 100 * results.mean)
    assert results.loss < 0.1


def test_several_arms_are_compared_with_the_control_and_with_the_leader():
    trial = make_trial(9, (0.0, 0.15, 0.1), slots=8 * WEEK)
    results = analyse(trial, ["A", "B", "C"])
    assert [effect.arm for effect in results.effects] == ["B", "C"]
    assert results.leader == "B"
    assert [effect.versus for effect in results.leads] == ["A", "C"]
    assert all(effect.is_shown for effect in results.effects)
    for effect, lift in zip(results.effects, (15, 10), strict=True):
        assert effect.low < lift < effect.high
    assert sum(results.probabilities.values()) == pytest.approx(1)
    assert json.loads(json.dumps(results.to_dict()))["leader"] == "B"
    slots = [look.slots for look in results.history]
    assert slots == sorted(slots)
    assert results.history[-1].effects == results.effects


def test_a_delay_that_is_told_is_used():
    """Without it, the delay is one of many at first."""
    trial = make_trial(16, (0.0, 0.05), slots=4 * WEEK)
    told = trial._replace(delay=ae.Interval(0, 11))
    widths = []
    for each in (trial, told):
        effect = analyse(each, ["A", "B"]).effects[0]
        assert effect.low < 5 < effect.high
        widths.append(effect.high - effect.low)
    assert widths[1] < widths[0]


def test_where_arms_do_not_differ_it_says_not_yet():
    results = analyse(make_trial(10), ["A", "B"])
    assert not results.effects[0].is_shown
    assert results.effects[0].low < 0 < results.effects[0].high
    assert str(results.effects[0]).startswith("Not yet: B may bring up to")
    assert "leads" in str(results)


def test_intervals_are_not_much_wider_than_those_of_a_t_test():
    """Where that is right: at one look, with white noise, and with effects that arrive at once."""
    ratios = []
    for seed in range(5):
        rng, starts = RNG(seed + 500), np.arange(0, 240, 2)
        decided = rng.choice(2, len(starts))
        played = np.repeat(decided, 2)
        logarithms = np.log(500 * (1 + 0.1 * played)) + rng.normal(0, 0.03, 240)
        chances = np.full((len(starts), 2), 0.5)
        places = np.zeros(240, int)
        trial = Trial(np.exp(logarithms), played, starts, decided, chances, places)
        (effect,) = analyse(trial, ["A", "B"]).effects
        groups = [logarithms[played == arm] for arm in (0, 1)]
        error = np.sqrt(sum(group.var(ddof=1) / len(group) for group in groups))
        width = np.log1p(effect.high / 100) - np.log1p(effect.low / 100)
        ratios.append(width / (2 * 1.97 * error))  # the quantile of Student's t
    assert 1.5 < np.median(ratios) < 2


def test_a_wider_level_gives_a_wider_interval():
    trial = make_trial(11, (0.0, 0.1))
    narrow, wide = (analyse(trial, ["A", "B"], level).effects[0] for level in (0.8, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(
    "spoil", ["missing", "zeros", "spikes", "all missing", "short", "late", "constant"]
)
def test_nothing_breaks(spoil):
    trial = make_trial(12, (0.0, 0.1))
    totals, draw = trial.totals.copy(), RNG(13).random(HOURS)
    if spoil == "missing":
        totals[draw < 0.3] = np.nan
    elif spoil == "zeros":
        totals[draw < 0.02] = 0
    elif spoil == "spikes":
        totals[draw < 0.02] *= 10
    elif spoil == "all missing":
        totals[:] = np.nan
    elif spoil == "constant":
        totals[:] = 100
    elif spoil == "late":
        totals[-200:] = np.nan
    trial = trial._replace(totals=totals)
    if spoil == "short":
        trial = trial._replace(
            totals=totals[:30],
            played=trial.played[:30],
            places=trial.places[:30],
            starts=trial.starts[:3],
            decided=trial.decided[:3],
            probabilities=trial.probabilities[:3],
        )
    results = analyse(trial, ["A", "B"])
    effect = results.effects[0]
    if spoil == "constant":
        assert not effect.is_shown
    elif spoil in ("all missing", "short"):
        assert (effect.low, effect.high) == (None, None)
        assert "too little is known" in str(effect)
    else:
        assert effect.low is None or effect.low < 10
        assert effect.high is None or effect.high > 10


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"totals": np.zeros(5)}, "the same length"),
        ({"places": np.arange(HOURS)}, "from 0 to 167"),
        ({"decided": np.zeros(3, int)}, "one row per block"),
        ({"starts": np.arange(1, 1 + HOURS, 12)}, "begin with 0 and increase"),
        ({"probabilities": np.full((HOURS // 12, 2), 0.7)}, "sum to 1"),
        ({"probabilities": np.tile([1.0, 0.0], (HOURS // 12, 1))}, "recorded probability is 0"),
    ],
)
def test_impossible_records_are_refused(change, expected):
    with pytest.raises(ae.ParameterError, match=expected):
        analyse(make_trial(14)._replace(**change), ["A", "B"])


def test_other_levels_are_refused():
    with pytest.raises(ae.ParameterError, match="level must be one of"):
        analyse(make_trial(15), ["A", "B"], 0.5)


def add_arm(trial, lift, seed):
    """The same experiment, but from its middle on, a further arm has a third of the draws."""
    rng, half = RNG(seed), len(trial.starts) // 2
    chances = np.column_stack([trial.probabilities, np.zeros(len(trial.starts))])
    chances[half:] = [1 / 3] * 3
    is_new = (np.arange(len(trial.starts)) >= half) & (rng.random(len(trial.starts)) < 1 / 3)
    block = int(trial.starts[1])
    lifted = np.repeat(np.where(is_new, 1 + lift, 1.0), block)
    return trial._replace(
        totals=trial.totals * add_delayed(np.full(12, 1 / 12), lifted),
        played=np.where(np.repeat(is_new, block), 2, trial.played),
        decided=np.where(is_new, 2, trial.decided),
        probabilities=chances,
    )


def test_an_arm_that_came_later_is_compared_from_then_on():
    """No bet on it is won or lost in blocks in which it could not be drawn; it is found all the same."""
    found, alone = [], []
    for seed in range(8):
        trial = make_trial(seed, slots=2 * HOURS)
        later = add_arm(trial, 0.1, seed)
        evidence = weigh_evidence(list_segments(later), 2, 0)
        before = evidence.slots <= len(later.totals) // 2
        assert before.sum() > 60
        assert (evidence.capital[before] == 0).all()
        assert (evidence.capital[~before][20:] != 0).any()
        results = analyse(later, ["A", "B", "C"])
        found.append(results.effects[1])
        alone.append(results.effects[0])
    assert sum(effect.low > 0 for effect in found if effect.low is not None) >= 6
    assert all((effect.low or -99) < 10 < (effect.high or 99) for effect in found)
    assert all((effect.low or -99) < 0 < (effect.high or 99) for effect in alone)


def test_an_arm_that_is_retired_neither_leads_nor_counts_as_the_best():
    trial, names = make_trial(2, (0.0, 0.05, 0.15), slots=2 * HOURS), ["A", "B", "C"]
    every, without = analyse(trial, names), analyse(trial, names, retired=["C"])
    assert (every.leader, without.leader) == ("C", "B")
    assert without.effects == every.effects
    assert [effect.versus for effect in without.leads] == ["A"]
    assert without.probabilities["C"] == 0
    assert sum(without.probabilities.values()) == pytest.approx(1)
    assert without.loss < 0.1 * without.mean
    two = analyse(trial, names, retired=["B", "C"])
    assert (two.leader, two.leads, two.loss) == ("A", (), 0)
