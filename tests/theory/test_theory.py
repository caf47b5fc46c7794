"""Theory against the tables of the paper's constants and against direct sums."""

import math

import numpy as np
import pytest
from scipy import special

import aftereffect as ae
from aftereffect.theory import (
    ars_clw_bound,
    censored_slope,
    d1,
    d2,
    first_right_guess,
    k0,
    lai_robbins_slope,
    theorem_1,
    theorem_2,
)

MEANS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
SETTINGS = [
    ("uniform-delay(10, 30)", 18.0, 6.643923),
    ("uniform-delay(0, 60)", 27.0, 12.285856),
    ("interval(30, 39)", 31.05, 8.2125),
    ("interval(10, 19)", 13.05, 3.2125),
    ("linear-decay(100)", 30.6, 5.150663),
    ("linear-decay(50)", 15.6, 2.651320),
    ("linear-rise(100)", 60.3, 13.400663),
    ("linear-rise(50)", 30.3, 6.734654),
    ("geometric(0.8)", 4.5, 0.694444),
    ("geometric(0.9)", 9.0, 1.315789),
    ("power-law(2)", math.inf, 0.333188),
    ("power-law(3)", 1.231589, 0.258583),
]


@pytest.mark.parametrize(("delay", "first", "second"), SETTINGS)
def test_d1_and_d2_of_the_papers_settings(delay, first, second):
    bandit = ae.StochasticBandit(MEANS, delay)
    assert d1(bandit) == pytest.approx(first, abs=1e-6)
    assert d2(bandit) == pytest.approx(second, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [2, 3])
def test_d2_of_power_laws_to_ten_digits(gamma):
    """One by one up to 1e7, and what is left from the asymptotic tail, whose error there is below 1e-14."""
    cut, fall = 10**7, gamma - 1
    squares = (special.zeta(gamma, np.arange(1, cut + 1)) / special.zeta(gamma)) ** 2
    rest = (cut + 0.0) ** (1 - 2 * fall) / (2 * fall - 1) / (fall * special.zeta(gamma)) ** 2
    assert d2(ae.StochasticBandit(MEANS, ae.PowerLaw(gamma))) == pytest.approx(
        0.25 * (squares.sum() + rest), abs=1e-10
    )


@pytest.mark.slow
def test_a_slowly_converging_d2():
    """For gamma = 1.6 the squared tail falls like x^-1.2: compare with the same sum cut at 1e7 and extrapolated."""
    gamma, cut = 1.6, 10**7
    squares = (special.zeta(gamma, np.arange(1, cut + 1)) / special.zeta(gamma)) ** 2
    rest = cut ** (1 - 1.2) / (1.2 - 1) / (0.6 * special.zeta(gamma)) ** 2
    assert d2(ae.StochasticBandit(MEANS, ae.PowerLaw(gamma))) == pytest.approx(
        0.25 * (squares.sum() + rest), rel=1e-6
    )


@pytest.mark.parametrize(
    ("gamma", "first", "second"),
    [
        (1.4, True, True),
        (1.5, True, True),
        (1.6, True, False),
        (2, True, False),
        (2.1, False, False),
    ],
)
def test_where_they_are_infinite(gamma, first, second):
    bandit = ae.StochasticBandit(MEANS, ae.PowerLaw(gamma))
    assert (math.isinf(d1(bandit)), math.isinf(d2(bandit))) == (first, second)


def test_a_spread_per_arm_takes_the_largest_arm_at_each_lag():
    bandit = ae.StochasticBandit([0.8, 0.4], ae.PerArm([ae.Interval(0, 1), ae.Interval(3, 3)]))
    # tails: .5, 0, 0 and 1, 1, 1 at lags 0, 1, 2; times the means: .4 .4 .4 beside .4 0 0
    assert d1(bandit) == pytest.approx(1.2)
    mixed = ae.StochasticBandit([0.9, 0.5], ae.PerArm([ae.PowerLaw(3), ae.Geometric(0.5)]))
    lags = np.arange(2_000_000)
    tails = np.array([special.zeta(3, lags + 1) / special.zeta(3) * 0.9, 0.5 * 0.5**lags])
    assert d1(mixed) == pytest.approx(
        tails.max(axis=0).sum() + 0.45 / special.zeta(3) / lags[-1], abs=1e-9
    )


def test_other_reward_laws_change_d2_only():
    for reward, share in (
        (ae.rewards.Constant(), 0.0),
        (ae.rewards.Beta(1), 0.5),
        (ae.rewards.Uniform(), 1 / 3),
    ):
        bandit = ae.StochasticBandit(MEANS, ae.Geometric(0.8), reward)
        assert d1(bandit) == pytest.approx(4.5)
        assert d2(bandit) == pytest.approx(share * 0.25 / 0.36)


def test_k0():
    assert [
        k0(growth)
        for growth in (
            ae.growth.Power(1),
            ae.growth.Power(2),
            ae.growth.Power(3),
            ae.growth.Exponential(),
        )
    ] == [
        1,
        3,
        4,
        0,
    ]


def test_theorem_1_by_hand():
    bandit = ae.StochasticBandit([0.9, 0.5], ae.Geometric(0.8))
    bound = theorem_1(ae.ArsUcb(alpha=9, growth=ae.growth.Power(1)), bandit, 10**6)
    assert bound.logarithmic == pytest.approx(8 * 9 * math.log(10**6) / 0.4)
    assert bound.log_t1 == pytest.approx((4 * 4.5 / 1) ** 2)
    # 12 d2 K / F(K) <= 1/4 from K (K+1)/2 >= 33.33 K on: K = 66, so N(d2) = F(65) = 2145, and t2 =
    # e^(2145/9) + ...
    assert bound.log_t2 == pytest.approx(2145 / 9)
    assert bound.k0 == 1
    assert bound.rounds == 2 * (8 + 1)
    assert bound.log_t_star == pytest.approx(324)
    assert bound.log_total == pytest.approx(324 + math.log(2))


@pytest.mark.parametrize("alpha", [1, 4])
def test_the_constant_is_infinite_up_to_alpha_4(alpha):
    bound = theorem_1(ae.ArsUcb(alpha), ae.StochasticBandit(MEANS, ae.Geometric(0.8)), 10**5)
    assert math.isinf(bound.log_t_star)
    assert math.isinf(bound.log_total)
    assert math.isfinite(bound.logarithmic)


def test_the_lai_robbins_slope():
    divergence = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert lai_robbins_slope(ae.StochasticBandit([0.9, 0.5, 0.9])) == pytest.approx(
        0.4 / divergence
    )
    assert lai_robbins_slope(ae.StochasticBandit([1, 0.5])) == 0
    assert lai_robbins_slope(ae.StochasticBandit([0.5, 0])) == pytest.approx(0.5 / math.log(2))
    with pytest.raises(ae.ParameterError, match="Bernoulli rewards only, got constant"):
        lai_robbins_slope(ae.StochasticBandit([0.9, 0.5], reward_law=ae.rewards.Constant()))


def test_theorem_2_by_hand():
    """T = 1e5, beta = 1/2: K = 2796 rounds, the longest of 53 slots (52^2 = 2704 < K <= 53^2 = 2809), and so is the next."""
    bound = theorem_2(ae.ArsExp3(), arms=12, d=20, horizon=100_000)
    assert (bound.rounds, bound.longest_round, bound.rest) == (2_796, 53, 53)
    assert bound.learning == pytest.approx(3 * 53 * math.sqrt(12 * math.log(12) * 2_796))
    assert bound.delay == 2 * 20 * 2_796
    assert bound.total == bound.learning + bound.delay + bound.rest


def test_theorem_2_grows_like_two_thirds():
    small, large = (theorem_2(ae.ArsExp3(), 3, 10, horizon).total for horizon in (10**9, 10**12))
    assert math.log10(large / small) / 3 == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.compiled
def test_arms_exp3_stays_below_theorem_2():
    bandit = ae.AdversarialBandit(ae.rewards.DrawnArm([0.5, 0.3, 0.2]), ae.HoldBack(5))
    study = ae.simulate(ae.ArsExp3(), bandit, 20_000, 50, seed=1)
    assert study[0].final.mean() < theorem_2(ae.ArsExp3(), 3, 5, 20_000).total


@pytest.mark.parametrize(("d", "first"), [(1, 2), (2, 3), (4, 244), (10, 59_050), (20, 2_476_100)])
def test_the_first_right_guess(d, first):
    """h(T) = T^.2, rounded up, reaches d just above (d - 1)^5; it is 2 from T = 3 on, as h(T) < T."""
    assert first_right_guess(ae.ArsClw(), d) == first
    assert ae.ArsClw().guess(first) >= d


def test_the_bound_of_ars_clw_by_hand():
    """Phases end after 1024, 2048, 4096, ...; only those whose guess is at least d = 5 count: from 1024 on h is 4, 5, 6."""
    assert [ae.ArsClw().guess(end) for end in (1_024, 2_048, 4_096)] == [4, 5, 6]
    bound = ars_clw_bound(ae.ArsClw(), arms=3, d=5, horizon=3_000)
    expected = sum(
        8 * math.sqrt(h * 13 * slots * math.log(3)) for h, slots in ((5, 1_024), (6, 952))
    )
    assert bound.learning == pytest.approx(expected)
    assert bound.guessing == 2 * 1_025


def test_censored_slope():
    """By hand: half of the rewards of 0.9 and 0.5 arrive by lag 5, so coins of 0.45 and 0.25."""
    bandit = ae.StochasticBandit([0.9, 0.5], ae.UniformDelay(1, 10))
    divergence = 0.25 * math.log(0.25 / 0.45) + 0.75 * math.log(0.75 / 0.55)
    assert censored_slope(bandit, 5) == pytest.approx(0.4 / divergence)
    assert censored_slope(bandit, 10) == lai_robbins_slope(bandit) < censored_slope(bandit, 9)
    assert censored_slope(bandit, 0) == math.inf
    assert censored_slope(ae.StochasticBandit([0.5, 0.5], bandit.delay), 0) == 0
    for delay in ("interval(1, 10)", "per-arm([immediate, uniform-delay(1, 2)])"):
        with pytest.raises(ae.ParameterError, match="arrive whole"):
            censored_slope(ae.StochasticBandit([0.9, 0.5], delay), 5)
