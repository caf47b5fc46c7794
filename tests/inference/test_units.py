"""Who won, over several units: bets are fair whatever totals are, and a single unit is as before."""

from itertools import permutations

import numpy as np
import pytest

from aftereffect.errors import ParameterError
from aftereffect.inference import Trial, UnitTrial, analyse, follow
from aftereffect.inference._sequence import find_intervals, weigh_evidence
from aftereffect.inference._unit_scores import list_bets, list_unit_segments
from unit_worlds import make_world

#: Sizes of bets, as in the package.
SIZES = np.array([-0.08, -0.02, 0.02, 0.08])


def make_trial(world, arms=2, control=0, history=0):
    slots, units = world.totals.shape
    chances = np.full((len(world.starts), arms), 1 / arms)
    return UnitTrial(
        tuple(
            Trial(
                totals=world.totals[history:, unit],
                played=world.arms[history:, unit],
                starts=world.starts[world.starts >= history] - history,
                decided=world.arms[world.starts[world.starts >= history], unit],
                probabilities=chances[world.starts >= history],
                places=np.zeros(slots - history, int),
                history=world.totals[:history, unit],
                control=control,
            )
            for unit in range(units)
        )
    )


@pytest.mark.parametrize("arms", [2, 3])
def test_the_bets_on_a_deal_are_fair(arms):
    """The mean over all ways to give the arms of a block to the units is 1, for every bet.

    Totals are wild and units missing; the supposed effect is 0, so scores do not depend on arms.
    """
    rng = np.random.default_rng(1)
    world = make_world(3, units=5, slots=60, lifts=(0.0,) * arms, noise=0.3, drift=0.2)
    totals = world.totals * np.exp(rng.standard_t(2, world.totals.shape) / 4)
    totals[rng.random(totals.shape) < 0.1] = np.nan
    segments = list_unit_segments(make_trial(world._replace(totals=totals), arms))
    checked = 0
    for segment in segments:
        square = np.full(len(segment.starts), 0.7)
        for block in range(len(segment.starts)):
            won = []
            for deal in sorted(set(permutations(segment.dealt[block]))):
                dealt = segment.dealt.copy()
                dealt[block] = deal
                views = segment._replace(dealt=dealt).list_gains(
                    square, (arms - 1, 0), SIZES, np.zeros(1)
                )
                won.append([gains[:, block, 0] for gains in views])
            means = np.exp(won).mean(axis=0)
            np.testing.assert_allclose(means, 1, rtol=1e-12)
            checked += np.ptp(np.exp(won)) > 0.01
    assert checked > 5


@pytest.mark.slow
def test_capital_is_a_martingale_where_arms_do_not_differ():
    """Its mean is at most 1: it is the least of several gamblers, of whom each has a mean of 1."""
    last, peaks = [], []
    for seed in range(120):
        world = make_world(seed, units=4, slots=72, lifts=(0.0, 0.0), drift=0.1)
        capital = weigh_evidence(list_bets(make_trial(world)), 1, 0, np.zeros(1)).capital[:, 0]
        last.append(np.exp(capital[-1]))
        peaks.append(np.exp(capital.max()))
    assert np.mean(last) <= 1 + 4 * np.std(last) / np.sqrt(len(last))
    assert np.mean(np.array(peaks) >= 20) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(peaks))
    assert np.std(last) > 0.1


def test_what_is_common_to_all_units_changes_no_score():
    world, rng = make_world(4), np.random.default_rng(2)
    for segment in list_unit_segments(make_trial(world)):
        drift = rng.normal(0, 1, (len(segment.values), 1))
        moved = segment._replace(values=segment.values + drift)
        for view in segment.views:
            lifts = np.array([[0.0, 0.1]])
            before, after = (each.score(view, lifts) for each in (segment, moved))
            np.testing.assert_allclose(before, after, atol=1e-9)


def test_a_single_unit_is_a_trial_without_units():
    trial = make_trial(make_world(5, units=1, lifts=(0.0, 0.1)))
    one, same = analyse(trial, ["A", "B"]), analyse(trial.units[0], ["A", "B"])
    assert one == same
    assert one.blocks > 20
    first, second = (follow(each, 0.5) for each in (trial, trial.units[0]))
    np.testing.assert_array_equal(first.losses, second.losses)
    assert first.stop == second.stop


def find_ends(world, arms=2):
    evidence = weigh_evidence(list_bets(make_trial(world, arms)), 1, 0)
    return find_intervals(evidence.capital[-1:], 0.05)[0]


def test_more_units_make_intervals_narrow_under_a_common_drift():
    widths = {}
    for units in (2, 8):
        ends = [find_ends(make_world(seed, units=units, drift=0.1)) for seed in range(8)]
        assert sum(low <= np.log(1.1) <= high for low, high in ends) >= 7
        widths[units] = np.median([high - low for low, high in ends])
    # Seven differences between units instead of one: 2.6 times as narrow in the long run.
    assert 1.6 < widths[2] / widths[8] < 4


def test_results_are_about_all_units_together():
    world = make_world(6, lifts=(0.0, 0.1, 0.2), slots=300)
    found = analyse(make_trial(world, 3), ["A", "B", "C"])
    assert found.leader == "C"
    assert found.effects[1].is_shown
    control = np.where(world.arms == 0, world.totals, np.nan)
    assert found.mean == pytest.approx(np.nanmean(control, axis=0).sum(), rel=0.03)
    assert found.lost is not None
    brought = np.nanmean(control, axis=0) @ (1.2 - (1 + np.array([0, 0.1, 0.2])[world.arms])).sum(0)
    assert found.lost == pytest.approx(brought, rel=0.15)
    stop = follow(make_trial(world, 3), 0.001 * found.mean).stop
    assert stop is not None


def test_the_control_may_be_any_arm():
    world = make_world(7, lifts=(0.0, 0.1, 0.05))
    plain = analyse(make_trial(world, 3), ["A", "B", "C"])
    turned = make_trial(world._replace(arms=(world.arms + 1) % 3), 3, control=1)
    other = analyse(turned, ["C", "A", "B"])
    by_arm = {effect.arm: effect for effect in other.effects}
    for effect in plain.effects:
        assert by_arm[effect.arm].low == pytest.approx(effect.low, abs=1e-6)


def test_missing_totals_and_a_history():
    world = make_world(8, slots=280)
    totals = world.totals.copy()
    totals[np.random.default_rng(1).random(totals.shape) < 0.2] = np.nan
    totals[:, 3] = np.nan
    world.arms[:40] = 0
    found = analyse(make_trial(world._replace(totals=totals), history=40), ["A", "B"])
    assert found.effects[0].low < 10 < found.effects[0].high
    for nothing in (np.nan, 0.0):
        empty = world._replace(totals=np.full_like(totals, nothing))
        assert analyse(make_trial(empty), ["A", "B"]).blocks == 0
    late = totals.copy()
    late[:100] = np.nan
    found = analyse(make_trial(world._replace(totals=late), history=40), ["A", "B"])
    assert found.effects[0].low < 10 < found.effects[0].high


def test_before_anything_is_known():
    world = make_world(9, slots=4)
    found = analyse(make_trial(world), ["A", "B"])
    assert (found.blocks, found.lost) == (0, None)


def test_units_of_different_experiments_are_refused():
    units = make_trial(make_world(10, units=2)).units
    other = units[1]._replace(control=1)
    with pytest.raises(ParameterError, match="the same control"):
        analyse(UnitTrial((units[0], other)), ["A", "B"])
    other = units[1]._replace(starts=np.append(0, units[1].starts[1:] + 1))
    with pytest.raises(ParameterError, match="the same starts"):
        analyse(UnitTrial((units[0], other)), ["A", "B"])
    with pytest.raises(ParameterError, match="at least one unit"):
        analyse(UnitTrial(()), ["A", "B"])
