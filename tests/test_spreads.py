"""Spreads against closed forms."""

import math

import numpy as np
import pytest
import samples

import aftereffect as ae

LAGS = np.arange(-2, 2_000)
each_spread = pytest.mark.parametrize("spread", samples.SPREADS, ids=str)


@each_spread
def test_shares_sum_to_one_and_tails_to_the_mean_lag(spread):
    assert spread.share(LAGS).sum() == pytest.approx(1, abs=1e-12)
    assert spread.tail(np.arange(2_000)).sum() == pytest.approx(spread.mean_lag, abs=1e-10)
    assert (LAGS * spread.share(LAGS)).sum() == pytest.approx(spread.mean_lag, abs=1e-10)


@each_spread
def test_the_tail_is_what_comes_later(spread):
    shares = spread.share(LAGS)
    later = shares[::-1].cumsum()[::-1] - shares
    assert spread.tail(LAGS) == pytest.approx(later, abs=1e-12)
    assert spread.tail(-1) == 1
    assert spread.share(-1) == 0


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
        lags, shares = spread.landing(rng)
        assert shares.sum() == pytest.approx(1, abs=1e-12)
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
    assert ae.Geometric(0.75).tail([0, 1, 2]) == pytest.approx([1, 0.75, 0.5625])


def test_what_float64_cannot_see_of_a_geometric_tail():
    spread = ae.Geometric(0.9)
    assert spread.tail(spread.resolution) <= 2**-53 < spread.tail(spread.resolution - 1)
