"""The policy that learns the lag: against closed forms, scipy, and a literal version of the index."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr

import aftereffect as ae
from aftereffect.policies import kl_ucb, settle_ucb, settling
from aftereffect.policies.averages import AVERAGE, PLAYS
from aftereffect.simulation.trace import traced

RNG = np.random.default_rng(0)
STEADY = (
    ae.Immediate(),
    ae.Interval(30, 40),
    ae.Interval(0, 5),
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

    def __init__(self, policy, means, spread):
        self.policy, self.means, self.spread = policy, np.array(means), spread
        self.state, self.params = policy.initial(len(means)), policy.params(len(means), 10**6)
        self.arms: list[int] = []

    def total(self, first, end):
        """What is seen in slots first .. end - 1."""
        pulled = self.means[np.array(self.arms[:end])]
        ages = np.arange(end)[:, None] - np.arange(end)[None, first:end]  # of pull against slot
        return float((pulled[:, None] * np.where(ages <= 0, self.spread.share(np.maximum(-ages, 0)), 0)).sum())

    def round(self):
        """Play one round: arm, slots, window."""
        kernels = self.policy.kernels()
        arm, slots, window = kernels.decide(*self.state, self.params, len(self.arms), RNG)
        self.arms += [arm] * slots
        end = len(self.arms)
        kernels.absorb(*self.state, self.params, arm, window, self.total(end - window, end))
        return arm, slots, window

    def settle(self):
        while self.state.own[settling.SETTLED] == 0:
            self.round()
        return self.state.own


@pytest.mark.parametrize("p", [0.0, 0.02, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("q", [0.01, 0.5, 0.98])
def test_divergences(p, q):
    assert kl_ucb.bernoulli(p, q) == pytest.approx(divergence(p, q), abs=1e-12)
    assert kl_ucb.poisson(p, q) == pytest.approx(float(rel_entr(p, q)) + q - p, abs=1e-12)
    assert kl_ucb.poisson(p, q) <= kl_ucb.bernoulli(p, q) + 1e-12


@pytest.mark.parametrize("average", [0.0, 0.1, 0.5, 0.93])
@pytest.mark.parametrize("plays", [5, 40, 10_000])
def test_index_is_where_the_evidence_is_the_logarithm(average, plays):
    log = math.log(5_000)
    wanted = brentq(lambda q: plays * divergence(average, q) - log, average + 1e-12, 1 - 1e-15)
    assert kl_ucb.highest_mean(average, plays, log, 0.0) == pytest.approx(wanted, abs=1e-8)
    assert kl_ucb.highest_mean(average, plays, log, 50.0) >= wanted - 1e-8
    assert kl_ucb.highest_mean(1.0, plays, log, 0.0) == 1.0


def test_spoilt_slots_never_say_less_than_totals_at_random_lags():
    for spoilt in (0.0, 10.0, 1e9):
        assert kl_ucb.evidence(0.3, 20, 0.8, spoilt) >= 20 * kl_ucb.poisson(0.3, 0.8)
    assert kl_ucb.evidence(0.3, 20, 0.8, 0.0) == pytest.approx(20 * divergence(0.3, 0.8))
    assert kl_ucb.evidence(0.9, 20, 0.8, 0.0) == 0
    assert kl_ucb.evidence(0.9, 20, 1.0, 0.0) == math.inf


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
                lambda q, arm=arm, log=log: plays[arm] * divergence(collected[arm] / plays[arm], q) - log,
                collected[arm] / plays[arm],
                1 - 1e-15,
            )
            for arm in range(4)
        ]
        best = [arm for arm in range(4) if index[arm] >= max(index) - 1e-9]
        wanted = min(best, key=lambda arm: (plays[arm], arm))
        arm, slots, window = kernels.decide(*state, params, t, rng)
        assert (arm, slots, window) == (wanted, (rounds[wanted] + 1) ** 2, (rounds[wanted] + 1) ** 2)
        total = float(rng.binomial(slots, means[arm]))
        kernels.absorb(*state, params, arm, slots, total)
        plays[arm] += slots
        collected[arm] += total
        rounds[arm] += 1
        t += slots
    assert rounds.min() > 1


@pytest.mark.parametrize("spread", STEADY, ids=str)
def test_without_noise_the_lag_is_found_within_its_caution(spread):
    """0.3 standard errors and half a slot above the truth; geometric is not over when it is settled."""
    own = Play(ae.SettleUcb(), [0.9, 0.5], spread).settle()
    late = own[settling.LATE]
    first = own[settling.SLOTS] - late
    error = math.sqrt(first / 9 * (1 + first / late))
    assert spread.mean_lag * 0.97 <= own[settling.LAG] <= spread.mean_lag + 0.3 * 1.2 * error + 0.5
    assert own[settling.BROUGHT] / late == pytest.approx(0.9, rel=0.01)


def test_the_first_arm_is_held_as_long_as_asked_and_credited_with_its_level():
    play = Play(ae.SettleUcb(hold=200), [0.9, 0.5], ae.Interval(3, 9))
    play.settle()
    assert 200 <= len(play.arms) <= 250
    assert set(play.arms) == {0}
    assert play.state.arms[AVERAGE, 0] == pytest.approx(0.9)
    assert play.state.arms[PLAYS, 0] == play.state.own[settling.LATE]


def test_an_arm_that_pays_nothing_is_left():
    play = Play(ae.SettleUcb(), [0, 0, 0.7], ae.Interval(3, 9))
    own = play.settle()
    assert play.arms[:96] == [0] * 32 + [1] * 32 + [2] * 32
    assert set(play.arms[64:]) == {2}
    assert own[settling.LAG] >= 64  # what came might have been from the first


def test_a_world_that_pays_nothing_is_played_all_the_same():
    play = Play(ae.SettleUcb(), [0, 0], ae.Interval(3, 9))
    least = 2 * settling.PATIENCE * settling.MOST_ROUNDS
    assert least <= play.settle()[settling.SLOTS] <= 1.25 * least
    assert {play.round()[0] for _ in range(9)} == {0, 1}


def test_totals_that_drift_for_ever_are_not_waited_for():
    policy = ae.SettleUcb()
    (arms, own), params, kernels = policy.initial(2), policy.params(2, 10**6), policy.kernels()
    t = 0
    while own[settling.SETTLED] == 0:
        arm, slots, window = kernels.decide(arms, own, params, t, RNG)
        t += slots
        kernels.absorb(arms, own, params, arm, window, sum(1e-9 * u**3 for u in range(t - slots, t)))
    assert settling.LONGEST <= t <= 1.25 * settling.LONGEST
    assert own[settling.LAG] <= t / 2


@pytest.mark.parametrize(
    ("spread", "wanted"),
    [(ae.Immediate(), 0), (ae.Interval(10, 20), 0), (ae.UniformDelay(0, 59), 59 / 60), (ae.RandomDelay([0.5, 0.5]), 0.5)],
    ids=str,
)
def test_clumping_is_one_less_the_squared_shares(spread, wanted):
    """Over 40 runs; the estimate is meant to be a standard error too high."""
    found = []
    for replication in range(40):
        trace = traced(ae.RoundRobin(), ae.StochasticBandit([0.8, 0.8], spread), 2_000, 5, replication)
        own = np.zeros(settle_ucb.CURVE + 2 * 2_000)
        own[settling.POINTS] = 2_000
        own[settle_ucb.CURVE :: 2], own[settle_ucb.CURVE + 1 :: 2] = np.arange(1, 2_001), np.cumsum(trace.observed)
        found.append(settling.clumping(own, settle_ucb.CURVE, 2_000))
    assert np.mean(found) == pytest.approx(wanted, abs=0.08)


def test_a_visit_ignores_its_beginning_and_looks_twice():
    play = Play(ae.SettleUcb(), [0.9, 0.5], ae.Interval(30, 40))
    own = play.settle()
    lag = own[settling.LAG]
    arm, slots, half = play.round()
    assert (arm, half) == (1, math.ceil(lag / 2))
    assert slots - half == math.ceil(0.7 * lag)  # no time has passed by which to prolong it
    assert play.round()[:2] == (1, half)


def rising(first, second, best=0.9, plays=0):
    """How long an arm's visit goes on after two halves of 20 slots with these averages; 0 if it is over."""
    policy = ae.SettleUcb()
    (arms, own), params = policy.initial(2), policy.params(2, 10**6)
    own[settling.SETTLED], own[settling.LAG] = 200, 20
    arms[[PLAYS, AVERAGE], 0] = 100, best
    arms[PLAYS, 1] = plays
    settle_ucb.absorb(arms, own, params, 1, 20, 20 * first)
    settle_ucb.absorb(arms, own, params, 1, 20, 20 * second)
    return own[settle_ucb.WANTED]


def test_a_visit_goes_on_while_totals_rise_or_nothing_came():
    assert rising(0.5, 0.5) == 0
    assert rising(0.5, 0.9) == 30
    assert rising(0.5, 0.2) == 0  # it may be overrated, which does no harm
    assert rising(0.9, 0.1) == 30  # the first half was of another arm
    assert rising(0.1, 0.3) == 0  # rises, and is lost all the same
    assert rising(0.1, 0.3, best=0.35) == 30
    assert rising(0, 0) == 30
    assert rising(0, 0, plays=500) == 0


@pytest.mark.parametrize(("before", "wanted"), [(0.2, 0.5 + 0.8 * 20 * 0.3 / 40), (0.5, 0.5), (0.9, 0.5)])
def test_what_a_worse_arm_left_out_is_made_up_for(before, wanted):
    """The mean lag is 20, and 40 slots were looked at."""
    policy = ae.SettleUcb()
    (arms, own), params = policy.initial(2), policy.params(2, 10**6)
    own[settling.SETTLED], own[settling.LAG] = 200, 20
    arms[[PLAYS, AVERAGE], 0] = 100, before
    for _ in range(2):
        settle_ucb.absorb(arms, own, params, 1, 20, 10.0)
    assert arms[PLAYS, 1] == 40
    assert arms[AVERAGE, 1] == pytest.approx(wanted)


def test_burn_ins_grow_with_time_so_that_any_reach_is_covered_in_the_end():
    policy = ae.SettleUcb()
    (arms, own), params = policy.initial(2), policy.params(2, 10**12)
    own[settling.SETTLED], own[settling.LAG] = 100, 50
    burn_ins = []
    for t in (100, 10**4, 10**6, 10**8):
        _, slots, half = settle_ucb.decide(arms, own, params, t, RNG)
        burn_ins.append(slots - half)
    assert burn_ins == [math.ceil(35 * (1 + math.log(t / 100) / 10)) for t in (100, 10**4, 10**6, 10**8)]


def test_radii_are_from_the_average_to_the_index():
    for policy in (ae.ArsKlUcb(), ae.SettleUcb()):
        state = policy.initial(3)
        state.arms[[PLAYS, AVERAGE], 0] = 50, 0.4
        state.arms[[PLAYS, AVERAGE], 1] = 50, 1.2  # more than one can land in a slot
        radii = policy.radii(state, policy.params(3, 100), 1_000)
        index = brentq(lambda q: 50 * divergence(0.4, q) - math.log(1_000), 0.4, 1 - 1e-12)
        np.testing.assert_allclose(radii, [index - 0.4, 0, math.inf], atol=1e-8)


def test_it_loses_less_than_half_of_what_ars_ucb_loses():
    """At 20,000 slots; the whole comparison is in benchmarks/regret.py."""
    world = ae.StochasticBandit([0.5, 0.9, 0.1, 0.7, 0.3], ae.Interval(10, 20))
    study = ae.simulate([ae.SettleUcb(), ae.ArsUcb()], world, 20_000, 64, seed=4)
    settle, ars = (runs.final.mean() for runs in study)
    assert settle < 0.5 * ars


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"burn_in": -1}, "burn_in must be"),
        ({"look": 0}, "look must be"),
        ({"hold": 5}, "hold must be"),
        ({"hold": 1e9}, "hold must be"),
    ],
)
def test_refusals(wrong, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.SettleUcb(**wrong)
