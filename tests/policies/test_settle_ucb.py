"""The policy that learns the lag: against closed forms, scipy, and a literal version of the index."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr

import aftereffect as ae
from aftereffect.policies import _averages, _settling, settle_ucb
from aftereffect.simulation import trace_run

RNG = np.random.default_rng(0)
STEADY = (
    ae.Immediate(),
    ae.Interval(30, 39),
    ae.Interval(0, 4),
    ae.LinearDecay(60),
    ae.LinearRise(50),
    ae.Geometric(0.9),
    ae.UniformDelay(10, 30),
    ae.Shape([0, 0.3, *([0.0] * 78), 0.7]),
)


def divergence(p, q):
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


class Play:
    """A policy by hand, in a world without noise: an arm's pull brings its mean, spread over later slots."""

    def __init__(self, policy, means, delay):
        self.policy, self.means, self.delay = policy, np.array(means), delay
        self.state, self.params = policy.initial(len(means)), policy.params(len(means), 10**6)
        self.arms: list[int] = []

    def total(self, first, end):
        """What is seen in slots first .. end - 1."""
        pulled = self.means[np.array(self.arms[:end])]
        ages = np.arange(end)[:, None] - np.arange(end)[None, first:end]  # of pull against slot
        return float(
            (pulled[:, None] * np.where(ages <= 0, self.delay.share(np.maximum(-ages, 0)), 0)).sum()
        )

    def round(self):
        """Play one round: arm, slots, window."""
        kernels = self.policy.kernels()
        arm, slots, window = kernels.decide(self.state, self.params, len(self.arms), RNG)
        self.arms += [arm] * slots
        end = len(self.arms)
        kernels.absorb(self.state, self.params, arm, window, self.total(end - window, end))
        return arm, slots, window

    def settle(self):
        while self.state.settling.settled_at[0] == 0:
            self.round()
        return self.state.settling


@pytest.mark.parametrize("p", [0.0, 0.02, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("q", [0.01, 0.5, 0.98])
def test_divergences(p, q):
    assert _averages.kl_bernoulli(p, q) == pytest.approx(divergence(p, q), abs=1e-12)
    assert _averages.kl_poisson(p, q) == pytest.approx(float(rel_entr(p, q)) + q - p, abs=1e-12)
    assert _averages.kl_poisson(p, q) <= _averages.kl_bernoulli(p, q) + 1e-12


@pytest.mark.parametrize("average", [0.0, 0.1, 0.5, 0.93])
@pytest.mark.parametrize("plays", [5, 40, 10_000])
def test_index_is_where_the_evidence_is_the_logarithm(average, plays):
    log = math.log(5_000)
    wanted = brentq(lambda q: plays * divergence(average, q) - log, average + 1e-12, 1 - 1e-15)
    assert _averages.highest_mean(average, plays, log, 0.0) == pytest.approx(wanted, abs=1e-8)
    assert _averages.highest_mean(average, plays, log, 50.0) >= wanted - 1e-8
    assert _averages.highest_mean(1.0, plays, log, 0.0) == 1.0


def test_evidence_is_the_harmonic_sum_of_that_of_both_noises():
    own = 40 * divergence(0.3, 0.8)
    assert _averages.weigh(0.3, 40, 0.8, 0.0) == pytest.approx(own)
    other = (40 * 0.5) ** 2 / (2 * 7)
    assert _averages.weigh(0.3, 40, 0.8, 7.0) == pytest.approx(1 / (1 / own + 1 / other))
    assert _averages.weigh(0.3, 40, 1.0, 7.0) == pytest.approx((40 * 0.7) ** 2 / 14)
    assert _averages.weigh(1.0, 40, 1.0, 0.0) == 0
    assert _averages.weigh(0.9, 40, 1.0, 0.0) == math.inf
    for log in (0.5, 3.0, 9.0):
        index = _averages.highest_mean(0.3, 40, log, 7.0)
        assert _averages.weigh(0.3, 40, index, 7.0) == pytest.approx(log, rel=1e-5)


def test_kl_rounds_choose_as_a_literal_version_does():
    """Totals from nowhere; the same arm every time."""
    policy, means, rng = ae.ArsKlUcb(), [0.6, 0.5, 0.4, 0.3], np.random.default_rng(3)
    state, params, kernels = policy.initial(4), policy.params(4, 10**9), policy.kernels()
    plays, collected, rounds, t = np.zeros(4), np.zeros(4), np.zeros(4, dtype=int), 0
    for _ in range(200):
        log = math.log(max(t, 1))
        index = [
            math.inf
            if plays[arm] == 0
            else 1.0
            if collected[arm] == plays[arm]
            else brentq(
                lambda q, arm=arm, log=log: (
                    plays[arm] * divergence(collected[arm] / plays[arm], q) - log
                ),
                collected[arm] / plays[arm],
                1 - 1e-15,
            )
            for arm in range(4)
        ]
        best = [arm for arm in range(4) if index[arm] >= max(index) - 1e-9]
        wanted = min(best, key=lambda arm: (plays[arm], arm))
        arm, slots, window = kernels.decide(state, params, t, rng)
        assert (arm, slots, window) == (
            wanted,
            (rounds[wanted] + 1) ** 2,
            (rounds[wanted] + 1) ** 2,
        )
        total = float(rng.binomial(slots, means[arm]))
        kernels.absorb(state, params, arm, slots, total)
        plays[arm] += slots
        collected[arm] += total
        rounds[arm] += 1
        t += slots
    assert rounds.min() > 1


@pytest.mark.parametrize("delay", STEADY, ids=str)
def test_without_noise_the_lag_is_found_within_its_caution(delay):
    """A part of the error and half a slot above the truth; geometric is not over when it is settled."""
    settling = Play(ae.SettleUcb(), [0.9, 0.5], delay).settle()
    level_slots = settling.level_slots[0]
    first = settling.slots[0] - level_slots
    error = math.sqrt(first / 9 * (1 + first / level_slots))
    caution = _settling.CAUTION + _settling.MORE_CAUTION * 0.1
    highest = delay.mean_lag + caution * 1.2 * error + 0.5
    assert delay.mean_lag * 0.97 <= settling.lag[0] <= highest
    assert settling.level_total[0] / level_slots == pytest.approx(0.9, rel=0.01)


def test_the_first_arm_is_held_as_long_as_asked_and_credited_with_its_level():
    play = Play(ae.SettleUcb(hold=200), [0.9, 0.5], ae.Interval(3, 8))
    play.settle()
    assert 200 <= len(play.arms) <= 250
    assert set(play.arms) == {0}
    assert play.state.averages.average[0] == pytest.approx(0.9)
    assert play.state.averages.pulls[0] == play.state.settling.level_slots[0]


def test_an_arm_that_pays_nothing_is_left():
    play = Play(ae.SettleUcb(), [0, 0, 0.7], ae.Interval(3, 8))
    settling = play.settle()
    assert play.arms[:96] == [0] * 32 + [1] * 32 + [2] * 32
    assert set(play.arms[64:]) == {2}
    assert settling.lag[0] >= 64  # what came might have been from the first


def test_a_world_that_pays_nothing_is_played_all_the_same():
    play = Play(ae.SettleUcb(), [0, 0], ae.Interval(3, 8))
    least = 2 * _settling.MAX_SILENT_SLOTS * _settling.MAX_SILENT_ROUNDS
    assert least <= play.settle().slots[0] <= 1.25 * least
    assert {play.round()[0] for _ in range(9)} == {0, 1}


def test_totals_that_drift_for_ever_are_not_waited_for():
    policy = ae.SettleUcb()
    state, params, kernels = policy.initial(2), policy.params(2, 10**6), policy.kernels()
    t = 0
    while state.settling.settled_at[0] == 0:
        arm, slots, window = kernels.decide(state, params, t, RNG)
        t += slots
        kernels.absorb(state, params, arm, window, sum(1e-9 * u**3 for u in range(t - slots, t)))
    assert settle_ucb.MAX_HOLD <= t <= 1.25 * settle_ucb.MAX_HOLD
    assert state.settling.lag[0] <= t / 2


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("delay", "wanted"),
    [
        (ae.Immediate(), 0),
        (ae.Interval(10, 19), 0),
        (ae.UniformDelay(0, 59), 59 / 60),
        (ae.RandomDelay([0.5, 0.5]), 0.5),
    ],
    ids=str,
)
def test_clumping_is_one_less_the_squared_shares(delay, wanted):
    """Over 40 runs; the estimate is meant to be a standard error too high."""
    found = []
    for replication in range(40):
        trace = trace_run(
            ae.RoundRobin(), ae.StochasticBandit([0.8, 0.8], delay), 2_000, 5, replication
        )
        settling = _settling.blank_settling(2_000)
        settling.points[0] = 2_000
        settling.curve_slots[:2_000] = np.arange(1, 2_001)
        settling.curve_totals[:2_000] = np.cumsum(trace.totals)
        found.append(_settling.estimate_clumping(settling, 2_000))
    assert np.mean(found) == pytest.approx(wanted, abs=0.08)


def test_a_poor_first_arm_makes_the_lag_in_use_longer():
    def lag_of(mean):
        settling = Play(ae.SettleUcb(), [mean, 0.5], ae.Interval(3, 8)).settle()
        return settling.lag[0], settling.slots[0]

    lags, slots = zip(*map(lag_of, (0.9, 0.5, 0.1)), strict=True)
    assert 5.5 < lags[0] < lags[1] < lags[2]
    assert slots[2] <= 1.25 * _settling.RARE_FACTOR * 120


@pytest.mark.parametrize("means", [(0.2, 0.9), (0.9, 0.2)])
def test_a_step_gives_the_lag_again(means):
    """The second arm is held for longer than the reach, and then its level is seen."""
    lag, slots, level_slots = 34.5, 60, 200
    settling = _settling.blank_settling(10)
    settling.lag[0] = lag
    first, second = means
    _settling.begin_step(settling, 1, first, 1e9, slots, slots * second - lag * (second - first))
    _settling.estimate_step(settling, level_slots, level_slots * second)
    weight = settling.last_weight[0]
    assert settling.last_lag[0] / weight == pytest.approx(lag)
    variance = slots * second * (1 - second) * (1 + slots / level_slots)
    assert 1 / weight == pytest.approx(variance / (second - first) ** 2, rel=0.12)
    # Steps are combined by their precision, and a step is added to the others when it ends.
    _settling.end_step(settling)
    settling.weighted_lag[0] += 10 * weight
    settling.weight[0] += weight
    assert settling.weighted_lag[0] / settling.weight[0] == pytest.approx((lag + 10) / 2)
    assert settling.last_weight[0] == settling.step_slots[0] == 0


def test_a_visit_ignores_its_beginning_and_looks_twice():
    play = Play(ae.SettleUcb(), [0.5, 0.9], ae.Interval(30, 39))
    lag = play.settle().lag[0]
    half = math.ceil(max(0.7 * lag, settle_ucb.MIN_LOOK) / 2)
    # No time has passed by which to prolong it.
    assert play.round() == (1, math.ceil(0.85 * lag) + 1, math.ceil(0.85 * lag) + 1)
    assert play.round()[:2] == (1, half)
    assert play.state.averages.pulls[1] == 0
    assert play.round()[:2] == (1, half)


def settled(policy, slots, lag, average):
    """A state with two arms after a hold of the first, which has this average."""
    state = policy.initial(2)
    state.settling.settled_at[0], state.settling.lag[0] = slots, lag
    state.averages.pulls[0], state.averages.average[0] = 100, average
    return state


def visited(first, second, best, plays=0):
    """A state after a burn-in of arm 1 and two halves of 20 slots with these averages."""
    policy = ae.SettleUcb()
    state, params = settled(policy, 200, 20, best), policy.params(2, 10**6)
    state.settling.weight[0], state.settling.weighted_lag[0] = 1.0, 20.0
    state.averages.pulls[1] = plays
    settle_ucb.absorb(state, params, 0, 100, 100 * best)
    state.averages.average[0] = min(best, 0.69)  # or it would be waited on, not visited from
    settle_ucb.absorb(state, params, 1, 18, 9.0)
    state.averages.average[0] = best
    state.burning[0] = 20
    settle_ucb.absorb(state, params, 1, 20, 20 * first)
    state.before[0] = best
    settle_ucb.absorb(state, params, 1, 20, 20 * second)
    return state


def rising(first, second, best=0.9, plays=0):
    """How long an arm's visit goes on after two halves of 20 slots with these averages; 0 if it is over."""
    return visited(first, second, best, plays).wanted[0]


def test_a_visit_goes_on_while_totals_rise_or_nothing_came():
    assert rising(0.5, 0.5) == 0
    assert rising(0.5, 0.9) == 30
    assert rising(0.5, 0.2) == 0  # it may be overrated, which does no harm
    assert rising(0.9, 0.1) == 30  # the first half was of another arm
    assert rising(0.1, 0.3) == 0  # rises, and is lost all the same
    assert rising(0.1, 0.3, best=0.35) == 30
    assert rising(0, 0) == 30
    assert rising(0, 0, plays=500) == 0


@pytest.mark.parametrize(
    ("before", "wanted"), [(0.2, 0.5 + 0.8 * 20 * 0.3 / 40), (0.5, 0.5), (0.9, 0.5)]
)
def test_what_a_worse_arm_left_out_is_made_up_for(before, wanted):
    """The mean lag is 20, and 40 slots were looked at."""
    state = visited(0.5, 0.5, before)
    assert state.averages.pulls[1] == 40
    assert state.averages.average[1] == pytest.approx(wanted)


def test_burn_ins_and_waits_grow_with_time_so_that_any_reach_is_covered_in_the_end():
    state = settled(ae.SettleUcb(), 100, 50, 0.5)
    for lags in (0.85, 1.5):
        found = [settle_ucb.count_slots(state, lags, t) for t in (100, 10**4, 10**6, 10**8)]
        assert found == [
            math.ceil(lags * 50 * (1 + math.log(t / 100) / 10)) + 1
            for t in (100, 10**4, 10**6, 10**8)
        ]


def test_a_dip_measures_an_arm_exactly_if_the_wait_covers_the_reach():
    play = Play(ae.SettleUcb(), [0.9, 0.6, 0.2], ae.Interval(3, 6))
    play.settle()
    rounds = [play.round() for _ in range(25)]
    np.testing.assert_allclose(play.state.averages.average, [0.9, 0.6, 0.2], rtol=1e-6)
    dips = [place for place, (arm, _, _) in enumerate(rounds) if arm != 0]
    assert {rounds[place][0] for place in dips} == {1, 2}
    for place in dips:  # after each, the held arm is looked at from the first slot on
        arm, count, window = rounds[place + 1]
        assert arm == 0
        assert count == window >= 7


@pytest.mark.parametrize("means", [(0.2, 0.6, 0.9), (0.75, 0.6, 0.9)])
def test_the_best_arm_is_held_in_the_end_whichever_came_first(means):
    play = Play(ae.SettleUcb(), means, ae.Interval(3, 6))
    play.settle()
    for _ in range(40):
        play.round()
    assert play.state.settling.arm[0] == 2
    assert play.state.averages.average[2] == pytest.approx(0.9, rel=0.01)
    assert play.arms[-1_000:].count(2) > 900


def test_the_noise_of_a_wait_is_that_of_totals():
    """For lags uniform on 10 .. 30; the windows of the wait and of the held arm are drawn here."""
    rng, mean, pulls, wait, runs = np.random.default_rng(4), 0.9, 120, 40, 40_000
    slots = 30 + pulls + 40 + wait

    def sum_window(rewards, lags, first, count):
        arrival = np.arange(slots) + lags
        return (rewards * ((arrival >= first) & (arrival < first + count))).sum(axis=1)

    rewards = rng.random((runs, slots)) < mean
    lags = rng.integers(10, 31, (runs, slots))
    level = sum_window(rewards, lags, 30, pulls) / pulls
    missing = wait * level - sum_window(rewards, lags, slots - wait, wait)
    state = ae.SettleUcb().initial(2)
    state.averages.pulls[0], state.averages.average[0] = pulls, mean
    state.settling.lag[0], state.settling.clumping[0] = 20, 1 - 1 / 21
    assert missing.mean() == pytest.approx(0, abs=4 * missing.std() / math.sqrt(runs))
    # It adds 1 / pulls to the variance of a reward, as the mean is not known.
    ours = settle_ucb.find_noise(state, wait) - (wait + wait**2 / pulls) / pulls
    assert ours == pytest.approx(missing.var(), rel=0.06)


def test_an_alien_round_ends_a_dip_and_counts_for_nothing():
    policy = ae.SettleUcb()
    state, params = policy.initial(3), policy.params(3, 10**5)
    state.settling.settled_at[0], state.settling.lag[0] = 100, 10
    state.averages.pulls[:] = state.averages.total[:] = 500
    state.averages.average[:] = 0.9, 0.8, 0.8
    settle_ucb.absorb(state, params, 1, 7, 3.0)
    assert state.dip[0] == 1
    assert settle_ucb.decide(state, params, 1_000, RNG)[0] == 0
    settle_ucb.absorb(state, params, 2, 7, 3.0)
    assert state.averages.pulls.tolist() == [500] * 3
    assert state.dip[0] == -1


@pytest.mark.compiled
@pytest.mark.parametrize(
    "delay",
    [ae.UniformDelay(10, 30), ae.LinearRise(60), ae.Shape([0, 0.5, *[0] * 30, 0.5])],
    ids=str,
)
def test_no_order_of_the_arms_leaves_it_with_a_wrong_one(delay):
    """Arms in five orders; a run that stays with a wrong arm has a regret of 2,000 at least."""
    rng, horizon = np.random.default_rng(8), 20_000
    for seed in range(5):
        means = rng.permutation([0.9, 0.8, 0.6, 0.4, 0.2, 0.1]).tolist()
        study = ae.simulate("settle-ucb", ae.StochasticBandit(means, delay), horizon, 40, seed=seed)
        assert study[0].final.max() < 0.1 * horizon


@pytest.mark.compiled
def test_it_loses_less_than_half_of_what_ars_ucb_loses():
    """At 20,000 slots; the whole comparison is in reproduction/beyond."""
    world = ae.StochasticBandit([0.5, 0.9, 0.1, 0.7, 0.3], ae.Interval(10, 19))
    study = ae.simulate([ae.SettleUcb(), ae.ArsUcb()], world, 20_000, 64, seed=4)
    settle, ars = (runs.final.mean() for runs in study)
    assert settle < 0.5 * ars


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"burn_in": -1}, "burn_in must be"),
        ({"look": 0}, "look must be"),
        ({"wait": 0}, "wait must be"),
        ({"hold": 5}, "hold must be"),
        ({"hold": 1e9}, "hold must be"),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.SettleUcb(**wrong)
