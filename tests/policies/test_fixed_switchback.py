"""Fixed switchbacks: their designs, the season they learn, and the arm they choose."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core import SlotKernels
from aftereffect.policies._season import find_median, learn_season, scratch_size
from aftereffect.policies.base import round_kernels
from aftereffect.simulation import load_decide
from aftereffect.testing import check_policy
from aftereffect.testing.policies import _check_continues, _check_decisions, _check_late

#: The covariates of a slot without any.
NONE = np.zeros(0)


class Player:
    """Plays a policy slot by slot, through its plain kernels."""

    def __init__(self, policy, arms=3, slots=2_000, seed=0):
        self.decide, self.observe = policy.kernels()
        self.state, self.params = policy.initial_for(arms, slots), policy.params(arms, slots)
        self.rng, self.t, self.arms, self.starts = np.random.default_rng(seed), 0, [], []

    def show(self, history):
        for number, total in enumerate(history):
            self.observe(self.state, self.params, number - len(history), 0, total, NONE)

    def play(self, slots, total_of):
        while self.t < slots:
            arm, length = self.decide(self.state, self.params, self.t, self.rng)
            self.starts.append((self.t, length))
            assert self.state.probabilities.sum() == pytest.approx(1)
            assert self.state.probabilities[arm] > 0
            for _ in range(length):
                self.arms.append(arm)
                self.observe(self.state, self.params, self.t, arm, total_of(self.t, arm), NONE)
                self.t += 1
        return self.arms


def test_every_arm_has_a_block_in_each_pass_in_random_order():
    orders = set()
    for seed in range(60):
        player = Player(ae.FixedSwitchback(block=4, blocks_per_arm=3), seed=seed)
        blocks = np.array(player.play(36, lambda t, arm: 1.0)).reshape(9, 4)
        assert (blocks == blocks[:, :1]).all()
        for turn in range(3):
            orders.add(tuple(blocks[3 * turn : 3 * turn + 3, 0]))
            assert set(blocks[3 * turn : 3 * turn + 3, 0]) == {0, 1, 2}
    assert len(orders) == 6


def test_probabilities_are_those_of_a_permutation_drawn_step_by_step():
    player = Player(ae.FixedSwitchback(block=1, blocks_per_arm=1))
    seen = []
    for t in range(3):
        arm, _ = player.decide(player.state, player.params, t, player.rng)
        seen.append(sorted(player.state.probabilities))
        player.observe(player.state, player.params, t, arm, 1.0, NONE)
    assert seen == [pytest.approx([1 / 3] * 3), pytest.approx([0, 0.5, 0.5]), [0, 0, 1]]


def test_only_the_second_half_of_a_block_counts():
    """Arm 1 is best in the last three slots of each block, arm 0 in all five."""
    by_arm = ([9, 9, 1, 1, 1], [0, 0, 1, 2, 1], [0, 0, 0, 1, 1])
    player = Player(ae.FixedSwitchback(block=5, blocks_per_arm=2))
    arms = player.play(60, lambda t, arm: by_arm[arm][t % 5])
    assert set(arms[30:]) == {1}
    assert player.state.sums.tolist() == [6, 8, 4]
    assert player.state.forecasts.tolist() == [6, 6, 6]  # 1 without a history


def test_the_forecast_takes_out_the_season():
    """Weekends bring three times as much: whoever has them does not win by that."""
    week = np.array([1, 1, 1, 1, 1, 3, 3.0])
    for seed in range(20):
        policy = ae.FixedSwitchback(block=3, blocks_per_arm=2, slots_per_day=1, first=4)
        player = Player(policy, seed=seed)
        player.show(np.tile(np.roll(week, -4), 8))
        arms = player.play(40, lambda t, arm: week[(4 + t) % 7] * (1 + 0.1 * arm))
        assert set(arms[18:]) == {2}
        assert player.state.shape == pytest.approx(week)


def test_missing_totals_are_left_out():
    player = Player(ae.FixedSwitchback(block=4, blocks_per_arm=2))
    player.play(24, lambda t, arm: math.nan if t % 4 == 2 else 1.0 + arm)
    assert player.play(30, lambda t, arm: 1.0)[-1] == 2
    assert player.state.sums.tolist() == [2, 4, 6]


def test_totals_that_come_late_change_the_choice():
    player = Player(ae.FixedSwitchback(block=2, blocks_per_arm=1))
    arms = list(player.play(6, lambda t, arm: math.nan))
    assert player.decide(player.state, player.params, 6, player.rng) == (0, 2)
    for t, arm in enumerate(arms):
        player.observe(player.state, player.params, t, arm, 1.0 if arm == 1 else 0.5, NONE)
    assert player.decide(player.state, player.params, 6, player.rng) == (1, 2)


def test_the_optimal_design_draws_at_these_slots():
    player = Player(ae.OptimalSwitchback(carryover=5, blocks=4))
    player.play(40, lambda t, arm: 1.0 + arm)
    assert player.starts[:5] == [(0, 10), (10, 5), (15, 5), (20, 10), (30, 5)]
    once = Player(ae.OptimalSwitchback(carryover=5, blocks=1))
    once.play(12, lambda t, arm: 1.0)
    assert once.starts == [(0, 10), (10, 5)]


def test_the_optimal_design_counts_slots_after_as_many_of_the_same_arm():
    counted = np.zeros(2)
    for seed in range(30):
        player = Player(ae.OptimalSwitchback(carryover=3, blocks=6), arms=2, seed=seed)
        arms = player.play(30, lambda t, arm: 1.0)[:24]
        expected = [0, 0]
        for t in range(3, 24):
            expected[arms[t]] += len(set(arms[t - 3 : t + 1])) == 1
        assert player.state.forecasts.tolist() == expected
        counted += expected
    assert abs(counted[0] / counted.sum() - 0.5) < 0.15


def medians(totals, first, week):
    """A second writing with numpy, for totals without holes in whole weeks."""
    weeks = totals.reshape(-1, week)
    levels = weeks.mean(axis=1, keepdims=True)
    return np.roll(np.median(weeks / levels, axis=0), first) * levels[-3:].mean()


@pytest.mark.parametrize(("weeks", "first"), [(1, 0), (2, 3), (5, 0), (8, 6)])
def test_the_season_is_a_median_by_place(weeks, first):
    totals = np.random.default_rng(weeks).gamma(2, 1, 7 * weeks)
    shape, scratch = np.zeros(7), np.zeros(scratch_size(len(totals), 7))
    assert learn_season(totals, first, len(totals), 7, shape, scratch)
    assert shape == pytest.approx(medians(totals, first, 7))
    longer = np.concatenate([[1e9, 1e9], totals])  # before the first whole week
    shape[:] = 0
    assert learn_season(longer, (first - 2) % 7, len(longer), 7, shape, scratch)
    assert shape == pytest.approx(medians(totals, first, 7))


def test_holes_and_outliers_hardly_change_the_season():
    totals = np.tile([1.0, 2, 3, 4, 5, 6, 7], 9)
    totals[[3, 20]] = math.nan
    totals[28:35] = math.nan  # a week that is not known
    totals[14] = 20
    shape, scratch = np.zeros(7), np.zeros(scratch_size(63, 7))
    assert learn_season(totals, 0, 63, 7, shape, scratch)
    assert shape == pytest.approx([1, 2, 3, 4, 5, 6, 7], rel=1e-9)
    totals[np.arange(63) % 7 == 2] = math.nan
    assert not learn_season(totals, 0, 63, 7, shape, scratch)
    assert not learn_season(totals, 0, 5, 7, shape, scratch)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 51])
def test_medians(count):
    values = np.random.default_rng(count).random(60)
    before = values.copy()
    assert find_median(values, 4, count) == np.median(before[4 : 4 + count])
    assert (values[:4] == before[:4]).all()
    assert (values[4 + count :] == before[4 + count :]).all()


def test_a_calendar_is_filled_in_and_rounds_are_refused():
    policy = ae.FixedSwitchback(block=7)
    bandit = ae.SeasonalBandit([0, 0.1], slot="1d")
    assert policy.with_calendar(bandit.calendar) == ae.FixedSwitchback(7, 2, 1, 0)
    given = ae.OptimalSwitchback(3, slots_per_day=24, first=5)
    assert given.with_calendar(bandit.calendar) is given
    with pytest.raises(ae.ParameterError, match="looks at every slot"):
        round_kernels(policy)


def first_total_only(state, params, t, arm, total, covariates):
    """Forgets a total that comes after NaN."""
    index = t + 28
    if state.arms[index] < 0:
        state.totals[index], state.arms[index] = total, arm
    state.origin[0] = 28


def first_covariate_only(state, params, t, arm, total, covariates):
    """Forgets a covariate that comes after NaN."""
    index = t + 28
    if state.arms[index] < 0:
        state.arms[index] = arm
        state.totals[index] = 0 if math.isnan(covariates[0]) else total
    state.origin[0] = 28


@dataclass(frozen=True)
class OldObserve(ae.FixedSwitchback):
    """The contract before there were covariates."""

    def kernels(self):
        return ae.FixedSwitchback().kernels()._replace(observe=observe_without_covariates)


def observe_without_covariates(state, params, t, arm, total):
    pass


@dataclass(frozen=True)
class WritingObserve(ae.FixedSwitchback):
    """Changes what it is shown."""

    def kernels(self):
        return ae.FixedSwitchback().kernels()._replace(observe=write_into_covariates)


def write_into_covariates(state, params, t, arm, total, covariates):
    covariates[0] = total


@dataclass(frozen=True)
class OldRoom(ae.FixedSwitchback):
    """Makes no room for covariates."""

    def initial_for(self, arms, slots):
        return super().initial_for(arms, slots)


REMEMBERED = []


def remember_outside(state, params, t, rng):
    REMEMBERED.append(t)
    arm = len(REMEMBERED) // 2 % 3
    state.probabilities[:] = np.eye(3)[arm]
    return arm, 7


def check_late(policy, slots):
    _check_late(policy, slots, _check_decisions(policy, slots))


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ({"observe": first_total_only}, check_late, "must count as if it had come at once"),
        ({"observe": first_covariate_only}, check_late, "must count as if it had come at once"),
        ({"decide": remember_outside}, _check_decisions, "the same seed must give"),
        ({"decide": remember_outside}, _check_continues, "must play on from a copy"),
    ],
)
def test_the_battery_notices_faulty_slot_policies(change, check, message):
    kernels = ae.FixedSwitchback().kernels()._replace(**change)
    assert isinstance(kernels, SlotKernels)
    faulty = type("Faulty", (ae.FixedSwitchback,), {"kernels": lambda self: kernels})(7, 2, 1)
    with pytest.raises(AssertionError, match=message):
        check(faulty, 600)
    check(ae.FixedSwitchback(7, 2, 1), 600)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (OldObserve, r"observe of .* must take \(state, .* total, covariates\), got \(state"),
        (WritingObserve, "must not change params or covariates"),
        (
            OldRoom,
            r"initial_for of .* must take \(arms, slots, covariates=0\), got \(arms, slots\)",
        ),
    ],
)
def test_policies_that_do_not_take_covariates_are_told_so(policy, message):
    with pytest.raises(AssertionError, match=message):
        check_policy(policy(7, 2, 1))
    with pytest.raises(ae.ParameterError, match=message):
        ae.simulate(policy(7, 2, 1), ae.SeasonalBandit([0, 0.1], slot="1d"), 60, 2)


@pytest.mark.compiled
def test_a_faulty_decision_in_machine_code_is_told_without_a_window():
    def late(state, params, t, rng):
        state.probabilities[0] = 1.0
        return 9 if t == 500 else 0, 1

    kernels = SlotKernels(late, ae.FixedSwitchback().kernels().observe)
    faulty = type("Faulty", (ae.FixedSwitchback,), {"kernels": lambda self: kernels})()
    message = r"must return \(arm, slots\): an arm .* slot, as whole .*, got \(9, 1\) at slot 500"
    with pytest.raises(ae.ParameterError, match=message):
        ae.simulate(faulty, ae.SeasonalBandit([0, 0.1], slot="1d"), 600, 2)


@pytest.mark.compiled
def test_a_kernel_that_leaves_its_arrays_is_not_compiled_for_live_decisions():
    """Machine code would write whatever lies there."""

    def beyond(state, params, t, rng):
        state.probabilities[50] = 1.0
        return 0, 1

    kernels = SlotKernels(beyond, ae.FixedSwitchback().kernels().observe)
    stray = type("Stray", (ae.FixedSwitchback,), {"kernels": lambda self: kernels})()
    with pytest.raises(ae.ParameterError, match=r"fails in beyond .* index 50 is outside 0 to 2"):
        load_decide(stray)


@pytest.mark.compiled
@pytest.mark.parametrize("policy", [ae.FixedSwitchback(14, 2), ae.OptimalSwitchback(7, 8)], ids=str)
def test_they_find_the_best_arm(policy):
    bandit = ae.SeasonalBandit([0, 0.3], ae.Interval(0, 6), slot="1d", season="ar+weekday")
    study = ae.simulate(policy, bandit, 364, 60, seed=1)
    random_play = 100 * 0.15 / 1.3
    assert study[0].final.mean() < random_play / 2
