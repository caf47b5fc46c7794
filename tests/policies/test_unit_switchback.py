"""Policies of several units: what they learn, and what they need not know."""

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core import Calendar
from aftereffect.policies import (
    blank_slots,
    learn_lifts,
    learn_noise,
    list_shapes,
    move_into,
    named_arrays,
    see_windows,
    unit_kernels,
)
from unit_worlds import make_world, regress

NOTHING = np.zeros((200, 0))


def watch(policy, world, *, arms, order=None, totals=None, slots=None):
    """A state that has observed a world: the slots in this order, the last totals counting."""
    count, units = world.totals.shape
    state = policy.initial_for_units(arms, units, slots or count)
    params, kernels = policy.params(arms, count), policy.kernels()
    shown = world.totals if totals is None else totals
    for slot in range(count) if order is None else order:
        kernels.observe(state, params, slot, world.arms[slot], shown[slot], NOTHING[:units])
    return state


def decide(policy, state, t, seed=1):
    arms = state.probabilities.shape[1]
    slots = policy.kernels().decide(state, policy.params(arms, 1), t, np.random.default_rng(seed))
    return slots, state.choices.tolist(), state.probabilities.tolist()


def learn(world, delay, lifts):
    shapes = list_shapes(1, ae.parse(delay, ae.Delay))
    slots = blank_slots(world.totals.shape[1], len(world.totals))
    slots.totals[:], slots.arms[:] = world.totals, world.arms
    slots.before[0], slots.observed[0] = 0, len(world.totals)
    windows = see_windows(slots, Calendar(), shapes.by_lag.shape[1], lifts)
    return windows, learn_lifts(windows, shapes, lifts)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("delay", "shares"), [("immediate", (1.0,)), ("interval(0, 2)", (1 / 3, 1 / 3, 1 / 3))]
)
def test_the_posterior_is_near_least_squares(seed, delay, shares):
    """With white noise, it is a regression with effects of units and slots, on the same arms.

    The prior pulls lifts a little to 0, and the mean of all units adds a little.
    """
    world = make_world(seed, lifts=(0.0, 0.1, 0.04), shares=shares, drift=0.05)
    _, posterior = learn(world, delay, 2)
    found, covariance = regress(world, shares, 3)
    errors = np.sqrt(np.diag(covariance))
    assert (np.abs(posterior.means[0] - found) < errors).all()
    ratio = np.sqrt(np.diag(posterior.covariances[0])) / errors
    assert (ratio > 1.2).all()  # the variance is taken three times as large
    assert (ratio < 2.2).all()


def test_the_delay_is_learned():
    world = make_world(5, units=12, shares=(0.0, 0.0, 0.5, 0.5), lifts=(0.0, 0.2), noise=0.03)
    shapes = list_shapes(1)
    state = watch(ae.UnitSwitchback(), world, arms=2)
    windows = see_windows(state.slots, Calendar(), shapes.by_lag.shape[1], 1)
    posterior = learn_lifts(windows, shapes, 1)
    assert posterior.weights @ shapes.mean_lags == pytest.approx(2.5, abs=0.5)
    assert posterior.weights @ posterior.means[:, 0] == pytest.approx(np.log(1.2), abs=0.02)


def test_what_is_common_to_all_units_cancels():
    """Whatever is added to all units alike, what is left of units apart is the same."""
    world, rng = make_world(2), np.random.default_rng(1)
    drift = np.exp(rng.normal(0, 1, len(world.totals)))[:, None]
    plain, _ = learn(world, "immediate", 1)
    drifting, _ = learn(world._replace(totals=world.totals * drift), "immediate", 1)
    known = ~np.isnan(plain.values)
    assert known.all()
    fitted = np.zeros(plain.values.shape)
    one, other = (learn_noise(each.values, fitted) for each in (plain, drifting))
    np.testing.assert_allclose(one.apart_left, other.apart_left, atol=1e-9)
    np.testing.assert_allclose(one.apart.weights, other.apart.weights, rtol=1e-6)
    assert other.common.spreads[0] > 10 * one.common.spreads[0]


def test_a_large_drift_does_not_matter_for_lifts():
    found = [learn(make_world(3, drift=drift), "immediate", 1)[1] for drift in (0.04, 0.1)]
    first, second = (each.means[0, 0] for each in found)
    error = np.sqrt(found[0].covariances[0, 0, 0])
    assert first == pytest.approx(second, abs=0.1 * error)
    assert np.sqrt(found[1].covariances[0, 0, 0]) == pytest.approx(error, rel=0.05)


@pytest.mark.parametrize("policy", [ae.UnitSwitchback(), ae.FixedUnitSwitchback(4, 15)], ids=str)
def test_late_missing_and_revised_totals_are_as_if_known_at_once(policy):
    world, rng = make_world(4, slots=120), np.random.default_rng(7)
    last = world.totals.copy()
    last[rng.random(last.shape) < 0.1] = np.nan
    state = watch(policy, world, arms=2)  # then nearly all of it is told again, in another order
    watched = watch(policy, world, arms=2, totals=last)
    for slot in rng.permutation(len(last)):
        policy.kernels().observe(state, (), slot, world.arms[slot], last[slot], NOTHING[:6])
    grown = watch(policy, world, arms=2, totals=last, slots=len(last))
    grown = move_into(policy.initial_for_units(2, 6, 500), grown)
    expected = decide(policy, watched, 120)
    assert decide(policy, state, 120) == expected
    assert decide(policy, grown, 120) == expected


def test_the_best_arm_is_found_and_given_to_nearly_all():
    world = make_world(8, units=6, slots=200, lifts=(0.0, 0.1, 0.2), noise=0.05)
    state = watch(ae.UnitSwitchback(), world, arms=3)
    state.decisions[0] = 50
    _, _, chances = decide(ae.UnitSwitchback(), state, 200)
    assert chances[0] == chances[5]
    assert chances[0][2] > 0.99
    assert min(chances[0]) > 0
    _, _, shared = decide(ae.UnitSwitchback(least_share=0.2), state, 200)
    assert shared[0][:2] == pytest.approx([0.2, 0.2])


def test_bursts_do_not_decide():
    """A day of zeros and a total a thousand times too large change lifts by less than an error."""
    world = make_world(9)
    plain = learn(world, "immediate", 1)[1]
    totals = world.totals.copy()
    totals[50:54, 2], totals[100, 4] = 0.0, totals[100, 4] * 1_000
    spoiled = learn(world._replace(totals=totals), "immediate", 1)[1]
    error = np.sqrt(plain.covariances[0, 0, 0])
    assert spoiled.means[0, 0] == pytest.approx(plain.means[0, 0], abs=error)


def test_a_unit_that_never_reports_and_slots_without_any_total():
    world = make_world(10)
    totals = world.totals.copy()
    totals[:, 3], totals[30:40], totals[-5:] = np.nan, np.nan, np.nan
    state = watch(ae.UnitSwitchback(), world, arms=2, totals=totals)
    _, choices, chances = decide(ae.UnitSwitchback(), state, 240)
    assert np.isfinite(chances).all()
    assert len(choices) == 6
    nothing = watch(ae.UnitSwitchback(), world, arms=2, totals=np.full_like(totals, np.nan))
    assert decide(ae.UnitSwitchback(), nothing, 240)[2][0] == pytest.approx([0.5, 0.5], abs=0.2)


def test_the_season_of_each_unit_comes_from_its_history():
    rng = np.random.default_rng(1)
    place = np.arange(-56, 0) % 7
    season = np.stack([1 + place, 8.0 - place], axis=1)
    policy = ae.UnitSwitchback(slots_per_day=1)
    state, params = policy.initial_for_units(2, 2, 80), policy.params(2, 80)
    history = season * np.exp(rng.normal(0, 0.01, (56, 2)))
    for slot, totals in zip(range(-56, 0), history, strict=True):
        policy.kernels().observe(state, params, slot, np.zeros(2, int), totals, NOTHING[:2])
    windows = see_windows(state.slots, params.calendar, 1, 1)
    assert windows.before == 30
    assert np.abs(windows.values - windows.values.mean(axis=0)).max() < 0.06


def test_arms_come_and_go():
    policy, world = ae.UnitSwitchback(), make_world(11)
    assert policy.allows_new_arms
    state = policy.change_arms(watch(policy, world, arms=2), [True, False, True])
    assert state.probabilities.shape == (6, 3)
    _, choices, chances = decide(policy, state, 240)
    assert chances[0][1] == 0
    assert chances[0][2] > 0.02
    assert 1.0 not in choices
    back = policy.change_arms(state, [True, True, True])
    assert decide(policy, back, 240)[2][0][1] > 0


def test_one_unit_plays_the_policy_of_one_unit():
    delay = ae.Interval(0, 3)
    assert ae.UnitSwitchback(24, 5, delay).for_one_unit() == ae.AdaptiveSwitchback(24, 5, delay)
    fixed = ae.FixedUnitSwitchback(12, 3, 24, 5)
    assert fixed.for_one_unit() == ae.FixedSwitchback(12, 3, 24, 5)
    with pytest.raises(ae.ParameterError, match="give floors instead"):
        ae.UnitSwitchback(least_share=0.1).for_one_unit()


def test_the_fixed_switchback_plays_the_best_arm_for_good():
    policy, world = ae.FixedUnitSwitchback(block=4, blocks_per_arm=20), make_world(12, slots=160)
    state = watch(policy, world, arms=2)
    slots, choices, chances = decide(policy, state, 160)
    assert (slots, set(choices), chances[0]) == (4, {1.0}, [0.0, 1.0])
    slots, choices, chances = decide(policy, state, 158)
    assert (slots, sum(choices), chances[0]) == (2, 3.0, [0.5, 0.5])


@pytest.mark.parametrize("policy", ["unit-switchback", "fixed-unit-switchback"])
def test_what_plays_one_unit_refuses_it(policy):
    bandit = ae.SeasonalBandit([0, 0.1])
    with pytest.raises(ae.ParameterError, match="plays several units at once"):
        ae.simulate(policy, bandit, 100)
    with pytest.raises(ae.ParameterError, match="plays several units at once"):
        ae.Floors(policy, [0.1, 0])
    with pytest.raises(AssertionError, match="plays several units at once"):
        ae.testing.check_policy(ae.parse(policy, ae.Policy))
    assert unit_kernels(ae.parse(policy, ae.Policy)).decide
    with pytest.raises(ae.ParameterError, match="plays one unit, but here are several"):
        unit_kernels(ae.Ucb1())


def test_bad_parameters():
    with pytest.raises(ae.ParameterError, match="least_share must be"):
        ae.UnitSwitchback(least_share=0.6)
    with pytest.raises(ae.ParameterError, match=r"least_share must be at most 0\.3 for 3 arms"):
        ae.UnitSwitchback(least_share=0.4).params(3, 10)
    with pytest.raises(ae.ParameterError, match="at most 64 arms"):
        ae.UnitSwitchback().params(65, 10)


def test_many_units_take_little_memory():
    world = make_world(1, units=200, slots=1_000, block=6, lifts=(0.0, 0.02, 0.05, 0.1))
    state = watch(ae.UnitSwitchback(), world, arms=4)
    assert sum(array.nbytes for _, array in named_arrays(state)) < 4_000_000


def test_states_hold_numbers_only():
    for policy in (ae.UnitSwitchback(), ae.FixedUnitSwitchback()):
        state = policy.initial_for_units(3, units=4, slots=50)
        assert {array.dtype for _, array in named_arrays(state)} == {np.dtype(float)}
