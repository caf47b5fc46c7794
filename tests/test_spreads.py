"""Spreads against closed forms."""

import math

import numpy as np
import pytest
import samples
from scipy import special

import aftereffect as ae
from aftereffect.spreads import FixedShares
from aftereffect.spreads.exponential_fit import exponential_fit
from aftereffect.spreads.power_law import hurwitz_zeta

LAGS = np.arange(-2, 2_000)
each_spread = pytest.mark.parametrize("spread", samples.SPREADS, ids=str)


@each_spread
def test_the_tail_is_what_comes_later(spread):
    before = np.cumsum(spread.share(LAGS))
    assert spread.tail(LAGS) == pytest.approx(1 - before, abs=1e-12)
    assert spread.tail(-1) == 1
    assert spread.share(-1) == 0


@pytest.mark.parametrize("spread", [s for s in samples.SPREADS if not isinstance(s, ae.PowerLaw)], ids=str)
def test_shares_and_tails_sum_to_the_mean_lag(spread):
    assert (LAGS * spread.share(LAGS)).sum() == pytest.approx(spread.mean_lag, abs=1e-10)
    assert spread.tail(np.arange(2_000)).sum() == pytest.approx(spread.mean_lag, abs=1e-10)


@each_spread
def test_the_tail_is_exactly_one_before_the_first_share(spread):
    first = np.flatnonzero(spread.share(np.arange(100)))[0]
    assert (spread.tail(np.arange(-1, first)) == 1).all()


@each_spread
def test_the_reach_is_the_last_lag_with_a_share(spread):
    if math.isinf(spread.reach):
        assert spread.share(1000) > 0
    else:
        assert spread.share(spread.reach) > 0
        assert spread.tail(spread.reach) == 0


@each_spread
def test_drawn_landings_follow_the_lag_law(spread):
    rng = np.random.default_rng(3)
    landed = np.zeros(2_000)
    draws = 4_000
    for _ in range(draws):
        lags, shares = spread.landing(rng, 1_999)
        assert shares.sum() == pytest.approx(1 - spread.tail(1_999), abs=1e-12)
        landed[lags] += shares
    expected = spread.share(np.arange(2_000))
    error = np.sqrt(np.maximum(expected * (1 - expected) / draws, 1e-20))
    assert (np.abs(landed / draws - expected) <= 5 * error).all()


@pytest.mark.parametrize(
    ("spread", "reach", "mean_lag"),
    [
        (ae.Immediate(), 0, 0),
        (ae.UniformDelay(10, 30), 30, 20),
        (ae.UniformDelay(0, 60), 60, 30),
        (ae.UniformDelay(4, 4), 4, 4),
        (ae.RandomDelay([0, 0.5, 0.25, 0.25]), 3, 1.75),
        (ae.Interval(30, 40), 39, 34.5),
        (ae.Interval(10, 20), 19, 14.5),
        (ae.LinearDecay(100), 100, 34),  # (d + 2) / 3
        (ae.LinearDecay(50), 50, 52 / 3),
        (ae.LinearRise(100), 100, 67),  # (2 d + 1) / 3
        (ae.LinearRise(50), 50, 101 / 3),
        (ae.Geometric(0.8), math.inf, 5),
        (ae.Geometric(0.9), math.inf, 10),
        (ae.Shape([0.5, 0, 0.5, 0]), 2, 1),
        (ae.PowerLaw(2), math.inf, math.inf),
        (ae.PowerLaw(3), math.inf, special.zeta(2) / special.zeta(3)),
        (ae.PowerLaw(2.1), math.inf, special.zeta(1.1) / special.zeta(2.1)),
    ],
    ids=str,
)
def test_reach_and_mean_lag(spread, reach, mean_lag):
    assert spread.reach == reach
    assert spread.mean_lag == pytest.approx(mean_lag, abs=1e-12)


def test_the_papers_own_shares():
    assert ae.LinearDecay(4).share([0, 1, 2, 3, 4, 5]) == pytest.approx([0, 0.4, 0.3, 0.2, 0.1, 0])
    assert ae.LinearRise(4).share([0, 1, 2, 3, 4, 5]) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0])
    assert ae.Interval(2, 4).share([1, 2, 3, 4]) == pytest.approx([0, 0.5, 0.5, 0])
    assert ae.Geometric(0.75).share([0, 1, 2, 3]) == pytest.approx([0, 0.25, 0.1875, 0.140625])
    assert ae.PowerLaw(2).share([0, 1, 2, 3]) == pytest.approx(np.array([0, 1, 1 / 4, 1 / 9]) * 6 / math.pi**2)
    assert ae.Geometric(0.75).tail([0, 1, 2]) == pytest.approx([1, 0.75, 0.5625])


def test_what_float64_cannot_see_of_a_geometric_tail():
    spread = ae.Geometric(0.9)
    assert spread.tail(spread.resolution) <= 2**-53 < spread.tail(spread.resolution - 1)


@pytest.mark.parametrize("gamma", [1.01, 1.1, 1.5, 2, 2.5, 3, 7.5, 50])
def test_hurwitz_zeta_against_scipy(gamma):
    starts = np.array([1, 2, 3.5, 10, 1e3, 1e7])
    assert hurwitz_zeta(gamma, starts) == pytest.approx(special.zeta(gamma, starts), rel=5e-15)


@pytest.mark.parametrize("gamma", [1.5, 2, 3])
@pytest.mark.parametrize("horizon", [3, 100, 3_000, 100_000])
def test_few_exponentials_miss_nothing_of_a_power_law(gamma, horizon):
    rates, weights = exponential_fit(ae.PowerLaw(gamma), horizon)
    lags = np.arange(horizon + 1)
    fitted = sum(weight * np.exp(-rate * lags) for rate, weight in zip(rates, weights, strict=True))
    missed = np.abs(fitted - special.zeta(gamma, lags + 1) / special.zeta(gamma)).sum()
    assert missed <= 2e-10
    assert len(rates) <= 60


def test_a_power_law_that_cannot_be_certified_is_refused():
    environment = ae.StochasticBandit([0.9, 0.1], ae.PowerLaw(1.1))
    with pytest.raises(
        ae.ParameterError, match=r"power-law\(1.1\) cannot be simulated roundwise to within 1e-10 over 10,000,000"
    ):
        ae.simulate("ars-ucb", environment, 10**7, 1)


def test_a_spread_for_each_arm_is_needed():
    with pytest.raises(ae.ParameterError, match="per-arm needs a spread for each of the 3 arms, got 2"):
        ae.StochasticBandit([0.9, 0.5, 0.1], ae.PerArm([ae.Immediate(), ae.Immediate()]))


@pytest.mark.parametrize("shares", [[-0.5, 1.5], [0.5, 0.4], [2.0, 3.0], [[0.5, 0.5]], [0.5, 0.5, 0.0], [math.nan, 1]])
def test_shares_of_a_spread_of_ones_own_are_checked(shares):
    own = type("Own", (FixedShares,), {"shares": np.array(shares), "__str__": lambda self: "own"})()
    for spread in (own, ae.PerArm([own, ae.Immediate()])):
        with pytest.raises(ae.ParameterError, match="the shares of own must be an array of numbers from 0 on that sum to 1"):
            ae.StochasticBandit([0.9, 0.1], spread)
