"""Spreads against closed forms."""

import math

import numpy as np
import pytest
from scipy import special

import aftereffect as ae
import samples
from aftereffect.delays import FiniteLagLaw
from aftereffect.delays._engines import ARRIVALS
from aftereffect.delays.power_law import fit_exponentials, hurwitz_zeta

LAGS = np.arange(-2, 2_000)
each_delay = pytest.mark.parametrize("delay", samples.LAG_LAWS, ids=str)


@each_delay
def test_the_tail_is_what_comes_later(delay):
    before = np.cumsum(delay.share(LAGS))
    assert delay.tail(LAGS) == pytest.approx(1 - before, abs=1e-12)
    assert delay.tail(-1) == 1
    assert delay.share(-1) == 0


@pytest.mark.parametrize(
    "delay", [s for s in samples.LAG_LAWS if not isinstance(s, ae.PowerLaw)], ids=str
)
def test_shares_and_tails_sum_to_the_mean_lag(delay):
    assert (LAGS * delay.share(LAGS)).sum() == pytest.approx(delay.mean_lag, abs=1e-10)
    assert delay.tail(np.arange(2_000)).sum() == pytest.approx(delay.mean_lag, abs=1e-10)


@each_delay
def test_the_tail_is_exactly_one_before_the_first_share(delay):
    first = np.flatnonzero(delay.share(np.arange(100)))[0]
    assert (delay.tail(np.arange(-1, first)) == 1).all()


@each_delay
def test_the_reach_is_the_last_lag_with_a_share(delay):
    if math.isinf(delay.reach):
        assert delay.share(1000) > 0
    else:
        assert delay.share(delay.reach) > 0
        assert delay.tail(delay.reach) == 0


@each_delay
def test_arrivals_follow_the_lag_law(delay):
    rng = np.random.default_rng(3)
    draws = 400
    kernel, table, size, first, _ = delay.slotwise_recipe(1_999)
    memory = np.zeros((2, size))
    for _ in range(draws):
        kernel(memory, table[None, :], 0, 0, 1.0, rng)
    landed = memory[ARRIVALS]
    assert landed.sum() == pytest.approx(draws * (1 - delay.tail(size - 1)), abs=1e-9)
    expected = delay.share(np.arange(size))
    error = np.sqrt(np.maximum(expected * (1 - expected) / draws, 1e-20))
    assert (np.abs(landed / draws - expected) <= 5 * error).all()
    assert first == np.flatnonzero(expected)[0]


@pytest.mark.parametrize(
    ("delay", "reach", "mean_lag"),
    [
        (ae.Immediate(), 0, 0),
        (ae.UniformDelay(10, 30), 30, 20),
        (ae.UniformDelay(0, 60), 60, 30),
        (ae.UniformDelay(4, 4), 4, 4),
        (ae.RandomDelay([0, 0.5, 0.25, 0.25]), 3, 1.75),
        (ae.Interval(30, 39), 39, 34.5),
        (ae.Interval(10, 19), 19, 14.5),
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
def test_reach_and_mean_lag(delay, reach, mean_lag):
    assert delay.reach == reach
    assert delay.mean_lag == pytest.approx(mean_lag, abs=1e-12)


def test_the_papers_own_shares():
    assert ae.LinearDecay(4).share([0, 1, 2, 3, 4, 5]) == pytest.approx([0, 0.4, 0.3, 0.2, 0.1, 0])
    assert ae.LinearRise(4).share([0, 1, 2, 3, 4, 5]) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0])
    assert ae.Interval(2, 3).share([1, 2, 3, 4]) == pytest.approx([0, 0.5, 0.5, 0])
    assert ae.Geometric(0.75).share([0, 1, 2, 3]) == pytest.approx([0, 0.25, 0.1875, 0.140625])
    assert ae.PowerLaw(2).share([0, 1, 2, 3]) == pytest.approx(
        np.array([0, 1, 1 / 4, 1 / 9]) * 6 / math.pi**2
    )
    assert ae.Geometric(0.75).tail([0, 1, 2]) == pytest.approx([1, 0.75, 0.5625])


def test_what_float64_cannot_see_of_a_geometric_tail():
    delay = ae.Geometric(0.9)
    assert delay.tail(delay.effective_reach) <= 2**-53 < delay.tail(delay.effective_reach - 1)


@pytest.mark.parametrize("gamma", [1.01, 1.1, 1.5, 2, 2.5, 3, 7.5, 50])
def test_hurwitz_zeta_against_scipy(gamma):
    starts = np.array([1, 2, 3.5, 10, 1e3, 1e7])
    assert hurwitz_zeta(gamma, starts) == pytest.approx(special.zeta(gamma, starts), rel=5e-15)


@pytest.mark.parametrize("gamma", [1.5, 2, 3])
@pytest.mark.parametrize("horizon", [3, 100, 3_000, 100_000])
def test_few_exponentials_miss_nothing_of_a_power_law(gamma, horizon):
    rates, weights = fit_exponentials(gamma, horizon)
    lags = np.arange(horizon + 1)
    fitted = sum(weight * np.exp(-rate * lags) for rate, weight in zip(rates, weights, strict=True))
    missed = np.abs(fitted - special.zeta(gamma, lags + 1) / special.zeta(gamma)).sum()
    assert missed <= 2e-10
    assert len(rates) <= 60


def test_a_power_law_that_cannot_be_certified_is_refused():
    bandit = ae.StochasticBandit([0.9, 0.1], ae.PowerLaw(1.1))
    with pytest.raises(
        ae.ParameterError,
        match=r"power-law\(1.1\) cannot be simulated roundwise to within 1e-10 over 10,000,000",
    ):
        ae.simulate("ars-ucb", bandit, 10**7, 1)


def test_a_spread_for_each_arm_is_needed():
    with pytest.raises(
        ae.ParameterError, match="per-arm needs a delay for each of the 3 arms, got 2"
    ):
        ae.StochasticBandit([0.9, 0.5, 0.1], ae.PerArm([ae.Immediate(), ae.Immediate()]))


@pytest.mark.parametrize(
    "shares", [[-0.5, 1.5], [0.5, 0.4], [2.0, 3.0], [[0.5, 0.5]], [0.5, 0.5, 0.0], [math.nan, 1]]
)
def test_shares_of_a_spread_of_ones_own_are_checked(shares):
    own = type(
        "Own", (FiniteLagLaw,), {"shares": np.array(shares), "__str__": lambda self: "own"}
    )()
    for delay in (own, ae.PerArm([own, ae.Immediate()])):
        with pytest.raises(
            ae.ParameterError,
            match="the shares of own must be numbers of at least 0 that sum to 1",
        ):
            ae.StochasticBandit([0.9, 0.1], delay)
