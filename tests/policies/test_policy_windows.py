"""What policies learn when other slots were looked at than they planned: live, some are missing, and rounds are held longer."""

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect.policies import _settling, map_arrays, named_arrays, odaaf
from aftereffect.policies._averages import credit

ARMS, HORIZON = 4, 2**30
KNOWLEDGE = ae.StochasticBandit([0.9, 0.1], ae.Interval(2, 5)).delay_facts
LEARNERS = (
    ae.Exp3(),
    ae.Exp3("loss"),
    ae.ArsExp3(),
    ae.ArsExp3(beta=1.5, doubling=True),
    *(
        ae.Clw(3, variant, base)
        for variant in ("colt", "jmlr", "seed")
        for base in ("exp3", "exp3-gain", "tsallis")
    ),
    ae.ArsClw(),
    ae.MiniBatch(size=8),
    ae.MiniBatch("clw(d=2)", size=4),
)
AVERAGING = (ae.Ucb1(), ae.ArsUcb(), ae.ArsKlUcb(), ae.Odaaf(mean_lag=3), ae.GeneralizedOdaaf(5))


def arrays(state):
    return [array for _, array in named_arrays(state)]


class Player:
    """A policy played through its plain kernels."""

    def __init__(self, policy, seed=3, arms=ARMS, horizon=HORIZON):
        informed = samples.fit_arms(policy, arms).with_delay_facts(KNOWLEDGE)
        self.decide, self.absorb = informed.kernels()
        self.state, self.params = informed.initial(arms), informed.params(arms, horizon)
        self.rng, self.arms = np.random.default_rng(seed), arms
        self.t = 0

    def decided(self):
        arm, slots, window = self.decide(self.state, self.params, self.t, self.rng)
        assert 0 <= arm < self.arms
        assert 0 <= window <= slots
        assert slots >= 1
        self.t = min(self.t + slots, HORIZON - 1)
        return arm, slots, window

    def absorbed(self, arm, slots, total):
        """The state after one more round, which is not kept."""
        state = map_arrays(np.copy, self.state)
        self.absorb(state, self.params, arm, slots, total)
        return state

    def play(self, rounds):
        """Some rounds as planned."""
        for _ in range(rounds):
            arm, _, window = self.decided()
            self.absorb(self.state, self.params, arm, window, 0.4 * window * (arm + 1) / ARMS)


@pytest.mark.parametrize("policy", LEARNERS, ids=str)
@pytest.mark.parametrize("times", [2, 4, 0.5])
def test_a_learner_takes_the_average_however_many_slots_it_is_of(policy, times):
    player = Player(policy)
    player.play(10)
    for _ in range(20):
        arm, _, window = player.decided()
        slots = 16 * window  # so that half of it is whole
        for average in (0.0, 0.3, 1.0, 1.7):
            one = player.absorbed(arm, slots, average * slots)
            other = player.absorbed(arm, int(times * slots), average * times * slots)
            for a, b in zip(arrays(one), arrays(other), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
        player.absorb(player.state, player.params, arm, window, 0.3 * window)


@pytest.mark.parametrize("policy", LEARNERS, ids=str)
def test_a_learner_takes_totals_below_0_as_0(policy):
    player = Player(policy)
    player.play(10)
    arm, _, window = player.decided()
    below, zero = (player.absorbed(arm, window, total) for total in (-5.0 * window, 0.0))
    for a, b in zip(arrays(below), arrays(zero), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("policy", AVERAGING, ids=str)
@pytest.mark.parametrize("looked", [1, 3, 1_000])
def test_an_average_weighs_by_the_slots_that_were_looked_at(policy, looked):
    player = Player(policy)
    player.play(9)
    arm, *_ = player.decided()
    before, after = player.state, player.absorbed(arm, looked, 0.25 * looked)
    assert after.pulls[arm] == before.pulls[arm] + looked
    assert after.total[arm] == pytest.approx(before.total[arm] + 0.25 * looked)


@pytest.mark.parametrize("looked", [1, 2, 9, 300])
def test_a_batch_counts_for_its_slots_in_a_base_that_averages(looked):
    player = Player(ae.MiniBatch("ucb1", size=3))
    arm, slots, window = player.decided()
    assert (slots, window) == (3, 3)
    after = player.absorbed(arm, looked, 0.25 * looked).base
    batches = max(round(looked / 3), 1)
    assert after.pulls[arm] == batches
    assert after.average[arm] == pytest.approx(0.25)


@pytest.mark.parametrize("policy", [*samples.POLICIES, *LEARNERS], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_looked_at_decisions_stay_valid_and_the_state_finite(policy, seed):
    player, draw = Player(policy, seed), np.random.default_rng(seed)
    for _ in range(600):
        arm, _, window = player.decided()
        if draw.random() < 0.1:
            arm = int(draw.integers(ARMS))  # another was played
        looked = (
            min(max(1, int(window * draw.choice([0.05, 0.3, 1, 1, 2, 24]))), 10**6) if window else 0
        )
        average = draw.choice(
            [0.0, 0.3, 1.0, 3.0, -1.0, -1e6, 1e9], p=[0.3, 0.3, 0.2, 0.05, 0.05, 0.05, 0.05]
        )
        player.absorb(player.state, player.params, arm, looked, average * looked)
    assert all(np.isfinite(array).all() for array in arrays(player.state))


@pytest.mark.parametrize("policy", [ae.Ucb1(), ae.ArsUcb(), ae.Odaaf(mean_lag=1)], ids=str)
def test_arms_that_cost_are_compared_as_well(policy):
    """Averages below -1, as live with totals below the range: the best of them is not the first by default."""
    state = policy.initial(3)
    for arm, average in enumerate((-9.0, -4.0, -7.0)):
        if isinstance(policy, ae.Odaaf):
            state.pulls[arm], state.total[arm] = 1e6, average * 1e6
        else:
            credit(state, arm, 10**6, average * 10**6)
    params = policy.params(3, 100)
    if isinstance(policy, ae.Odaaf):
        assert odaaf.find_best(state) == (1, 3)
    else:
        assert policy.kernels().decide(state, params, 3 * 10**6, None)[0] == 1


class Settling(Player):
    """A `SettleUcb` of which the first arm is held."""

    def __init__(self, hold=10, arms=ARMS):
        super().__init__(ae.SettleUcb(hold=hold), arms=arms)

    def learn(self, looked, average):
        arm, slots, window = self.decided()
        self.absorb(self.state, self.params, arm, looked, average * looked)
        return arm, slots, window

    @property
    def settling(self):
        return self.state.settling


@pytest.mark.parametrize("average", [0.001, 0.0, 0.4])
def test_settling_with_most_slots_missing_ends(average):
    """Of each round one slot is told; the points of the curve stay within their room."""
    player = Settling()
    for _ in range(20_000):
        player.learn(1, average)
        if player.settling.settled_at[0] > 0:
            break
    assert 0 < player.settling.settled_at[0] <= 1.3 * _settling.MAX_HOLD
    assert player.settling.points[0] <= len(player.settling.curve_slots)


@pytest.mark.parametrize("longer", [24, 1_000, 20_000])
def test_settling_in_rounds_that_are_held_far_longer(longer):
    player = Settling()
    for _ in range(40):
        player.learn(longer, 0.4)
    assert player.settling.settled_at[0] > 0
    assert all(np.isfinite(array).all() for array in arrays(player.state))
    assert player.state.averages.average[0] == pytest.approx(0.4)


def test_settling_bears_totals_that_fall_below_0():
    player = Settling()
    player.learn(6_000, 0.5)
    player.learn(5_000, -0.1)
    assert player.settling.settled_at[0] > 0
    assert all(np.isfinite(array).all() for array in arrays(player.state))


def settled(arms=2):
    player = Settling(arms=arms)
    while player.settling.settled_at[0] == 0:
        player.learn(player.decided()[2], 0.5)
    return player


def test_a_silent_visit_grows_though_most_of_it_is_missing():
    player = settled()
    halves = [player.learn(1, 0.0)[2] for _ in range(12)]
    assert halves == sorted(halves)
    assert halves[-1] > 10 * halves[1]


def test_a_visit_is_given_up_when_another_arm_was_played():
    player = settled(arms=3)
    arm, _, half = player.decided()
    player.absorb(player.state, player.params, arm, half, 0.9 * half)
    other = 3 - arm
    assert other not in (0, arm)
    player.absorb(player.state, player.params, other, 50, 5.0)
    assert int(player.settling.arm[0]) == other
    assert (player.settling.step_slots[0], player.settling.step_total[0]) == (50, 5.0)
    assert player.state.averages.pulls[other] == 0  # its visit has just begun


def test_what_another_arm_brings_while_one_settles_is_its_own():
    player = Settling()
    player.learn(1, 0.5)
    player.absorb(player.state, player.params, 2, 30, 12.0)
    assert player.settling.slots[0] == 1
    assert player.state.averages.average[2] == pytest.approx(0.4)


def test_no_gain_is_divided_by_a_chance_of_nothing():
    """An arm that would never be drawn was played for other reasons."""
    for base in ("exp3", "tsallis"):
        player = Player(ae.Clw(3, base=base), horizon=1_000)
        player.state.score[1] = -1e9 if base == "exp3" else 1e9
        player.state.weight[1] = 0.0
        player.absorb(player.state, player.params, 1, 4, 0.0)
        assert all(np.isfinite(array).all() for array in player.state)
