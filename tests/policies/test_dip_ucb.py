"""DipUcb: what a dip measures, the noise around it, evidence, and regret beside that of SettleUcb."""

import math

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.policies import dip_ucb

MEANS = (0.9, 0.6, 0.2)


def play_by_hand(policy, means, shares, slots):
    """Play with constant rewards that are cut into shares; returns the state and the rounds."""
    decide, absorb = policy.kernels()
    state, params = policy.initial(len(means)), policy.params(len(means), slots)
    rng, t, rounds = np.random.default_rng(1), 0, []
    totals = np.zeros(slots + len(shares))
    while True:
        arm, count, window = decide(state, params, t, rng)
        if t + count > slots:
            return state, rounds
        for slot in range(t, t + count):
            totals[slot : slot + len(shares)] += means[arm] * np.array(shares)
        t += count
        absorb(state, params, arm, window, float(totals[t - window : t].sum()))
        rounds.append((arm, count, window))


def test_a_dip_measures_an_arm_exactly_if_the_wait_covers_the_reach():
    shares = [0, 0, 0, 0.25, 0.25, 0.25, 0.25]
    state, rounds = play_by_hand(ae.DipUcb(), MEANS, shares, 3_000)
    np.testing.assert_allclose(state.averages.average, MEANS, rtol=1e-9)
    wait = dip_ucb.count_wait(state, ae.DipUcb().params(3, 3_000), 1)
    assert wait >= 7
    dips = [place for place, (arm, _, _) in enumerate(rounds) if arm != 0]
    assert {rounds[place][0] for place in dips} == {1, 2}
    for place in dips:  # after each, the leader is held and looked at from the first slot on
        arm, count, window = rounds[place + 1]
        assert arm == 0
        assert count == window >= wait


def test_an_arm_that_is_better_becomes_the_leader():
    shares = [0, 0, 0, 0.25, 0.25, 0.25, 0.25]
    state, _ = play_by_hand(ae.DipUcb(), MEANS[::-1], shares, 3_000)
    assert state.settling.arm[0] == 2
    np.testing.assert_allclose(state.averages.average, MEANS[::-1], rtol=1e-9)
    assert state.averages.pulls[2] > 2_000


def test_the_noise_of_a_wait_is_that_of_totals():
    """For lags uniform on 10 .. 30; the windows of the wait and of the leader are drawn here."""
    rng, mean, pulls, wait, runs = np.random.default_rng(4), 0.9, 120, 40, 40_000
    slots = 30 + pulls + 40 + wait

    def sum_window(rewards, lags, first, count):
        arrival = np.arange(slots) + lags
        return (rewards * ((arrival >= first) & (arrival < first + count))).sum(axis=1)

    rewards = rng.random((runs, slots)) < mean
    lags = rng.integers(10, 31, (runs, slots))
    level = sum_window(rewards, lags, 30, pulls) / pulls
    missing = wait * level - sum_window(rewards, lags, slots - wait, wait)
    state = ae.DipUcb().initial(2)
    state.averages.pulls[0], state.averages.average[0] = pulls, mean
    state.settling.lag[0], state.settling.clumping[0] = 20, 1 - 1 / 21
    assert missing.mean() == pytest.approx(0, abs=4 * missing.std() / math.sqrt(runs))
    # It adds 1 / pulls to the variance of a reward, as the mean is not known.
    ours = dip_ucb.find_noise(state, wait) - (wait + wait**2 / pulls) / pulls
    assert ours == pytest.approx(missing.var(), rel=0.06)


def test_evidence_is_the_harmonic_sum_of_that_of_both_noises():
    own = 40 * (0.3 * math.log(0.3 / 0.8) + 0.7 * math.log(0.7 / 0.2))
    assert dip_ucb.weigh(0.3, 40, 0.8, 0.0) == pytest.approx(own)
    other = (40 * 0.5) ** 2 / (2 * 7)
    assert dip_ucb.weigh(0.3, 40, 0.8, 7.0) == pytest.approx(1 / (1 / own + 1 / other))
    assert dip_ucb.weigh(0.3, 40, 1.0, 7.0) == pytest.approx((40 * 0.7) ** 2 / 14)
    assert dip_ucb.weigh(1.0, 40, 1.0, 0.0) == 0
    for log in (0.5, 3.0, 9.0):
        index = dip_ucb.find_index(0.3, 40, 7.0, log)
        assert dip_ucb.weigh(0.3, 40, index, 7.0) == pytest.approx(log, rel=1e-5)


def test_an_alien_round_ends_a_dip_and_counts_for_nothing():
    policy = ae.DipUcb()
    decide, absorb = policy.kernels()
    state, params = policy.initial(3), policy.params(3, 10**5)
    state.settling.settled_at[0], state.settling.lag[0] = 100, 10
    state.averages.pulls[:] = state.averages.total[:] = 500
    absorb(state, params, 1, 7, 3.0)
    assert decide(state, params, 1_000, np.random.default_rng(1))[0] == 0
    absorb(state, params, 2, 7, 3.0)
    assert state.averages.pulls.tolist() == [500] * 3
    assert state.arm[0] == -1


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("delay", "most"),
    [(ae.UniformDelay(0, 200), 0.8), (ae.LinearRise(100), 0.8), (ae.Geometric(0.9), 1.0)],
    ids=str,
)
def test_it_loses_less_than_settle_ucb(delay, most):
    means = [round(0.9 - 0.1 * arm, 1) for arm in range(9)]
    study = ae.simulate(
        [ae.DipUcb(), ae.SettleUcb()], ae.StochasticBandit(means, delay), 100_000, 64, seed=4
    )
    dip, settle = (runs.final for runs in study)
    assert dip.mean() < most * settle.mean()
    assert dip.max() < 3 * dip.mean()


@pytest.mark.parametrize("wrong", [{"wait": 0}, {"wait": 101}, {"hold": 9}, {"hold": 10_001}])
def test_refusals(wrong):
    with pytest.raises(ae.ParameterError, match=next(iter(wrong))):
        ae.DipUcb(**wrong)
