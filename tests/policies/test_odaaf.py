"""ODAAF and its generalisation: the published numbers of plays, what they must be told, and how they run."""

import numpy as np
import pytest

import aftereffect as ae

U1030, U060 = ae.UniformDelay(10, 30), ae.UniformDelay(0, 60)


@pytest.mark.parametrize(
    ("horizon", "delay", "variant", "expected"),
    [
        (10**5, U1030, "mean", [805, 2834, 8790, 25636, 71333]),
        (10**5, U1030, "bounded", [686, 1854, 5238, 15136, 43232]),
        (10**5, U1030, "variance", [1498, 3591, 8949, 22991, 59655]),
        (10**5, U060, "mean", [977, 3517, 10877, 31349, 86006]),
        (10**5, U060, "bounded", [805, 2110, 5784, 16281, 45601]),
        (10**5, U060, "variance", [6731, 14525, 31920, 71394, 161428]),
        (10**6, U1030, "mean", [907, 3207, 10181, 30917, 91700]),
        (10**6, U1030, "bounded", [786, 2203, 6527, 20071, 62531]),
        (10**6, U1030, "variance", [1615, 3985, 10345, 28170, 79486]),
    ],
)
def test_plays_of_odaaf(horizon, delay, variant, expected):
    assert ae.Odaaf(variant).with_delay_facts(delay.facts(1)).targets(horizon)[:5] == expected


@pytest.mark.parametrize(
    ("horizon", "d", "expected"),
    [
        (10**5, 30, [268, 1013, 3167, 9119, 24879]),
        (10**5, 60, [426, 1637, 5064, 14288, 38110]),
        (10**6, 30, [290, 1105, 3529, 10512, 30253]),
        (10**5, 20, [211, 791, 2492, 7275, 20151]),
        (10**5, 40, [322, 1226, 3816, 10888, 29413]),
        (10**5, 50, [375, 1434, 4446, 12607, 33812]),
        (10**5, 100, [626, 2424, 7448, 20766, 54643]),
    ],
)
def test_plays_of_generalised_odaaf(horizon, d, expected):
    assert ae.GeneralizedOdaaf(d).targets(horizon)[:5] == expected


@pytest.mark.parametrize(
    ("delay", "mean_lag", "variance", "bound"),
    [
        (U1030, 20, 36.6666666667, 30),
        (U060, 30, 310, 60),
        (ae.Interval(30, 39), 34.5, 8.25, 40),
        (ae.LinearDecay(100), 34, 561, 100),
        (ae.LinearRise(50), 101 / 3, 50 * 51 / 2 - (101 / 3) ** 2, 50),
        (ae.RandomDelay([0, 0.5, 0.5]), 1.5, 0.25, 2),
    ],
    ids=str,
)
def test_the_truth_about_a_spread(delay, mean_lag, variance, bound):
    delay_facts = ae.StochasticBandit([0.9, 0.1], delay).delay_facts
    assert delay_facts[:3] == pytest.approx((mean_lag, variance, bound))


def test_for_a_spread_per_arm_the_truth_is_the_largest_of_each_number():
    delay = ae.PerArm([ae.UniformDelay(0, 60), ae.Interval(40, 44)])
    assert ae.StochasticBandit([0.9, 0.1], delay).delay_facts[:3] == pytest.approx((42, 310, 60))


@pytest.mark.compiled
def test_a_simulation_tells_the_truth_and_the_label_says_so():
    bandit = ae.StochasticBandit([0.9, 0.1], U1030)
    study = ae.simulate(
        ["odaaf(variant=bounded)", "odaaf(mean_lag=16)", "generalized-odaaf"],
        bandit,
        2_000,
        4,
        seed=1,
    )
    assert [runs.label for runs in study] == [
        "odaaf(variant=bounded, mean_lag=20, reach=30)",
        "odaaf(variant=mean, mean_lag=16)",
        "generalized-odaaf(d=30)",
    ]
    assert study["odaaf(variant=bounded)"] is study.runs[0]
    assert study[ae.GeneralizedOdaaf()] is study.runs[2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.Odaaf("mode"), "unknown variant 'mode': known: mean, bounded, variance"),
        (lambda: ae.Odaaf("bounde"), "unknown variant 'bounde': did you mean 'bounded'?"),
        (lambda: ae.Odaaf(mean_lag=-1), "mean_lag must be a number from 0 to 9,007,199,254,740,992, got -1"),
        (lambda: ae.GeneralizedOdaaf(float("nan")), "d must be a number from 0 to 9,007,199,254,740,992, got nan"),
        (lambda: ae.Odaaf("bounded").targets(100), "odaaf(variant=bounded) needs mean_lag and reach: pass mean_lag=..., reach=..."),
        (lambda: ae.GeneralizedOdaaf().targets(100), "generalized-odaaf needs d, the largest lag: pass d=..."),
        (lambda: ae.simulate("odaaf(variant=bounded)", ae.StochasticBandit([0.9, 0.1], ae.Geometric(0.5)), 100),
         "odaaf(variant=bounded) needs reach, which is infinite or unknown here: pass reach=..."),
        (lambda: ae.simulate("generalized-odaaf", ae.StochasticBandit([0.9, 0.1], ae.PowerLaw(2)), 100),
         "generalized-odaaf needs d, the largest lag, which is infinite or unknown here: pass d=..."),
    ],
)  # fmt: skip
def test_refusals(make, message):
    with pytest.raises(ae.ParameterError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.compiled
def test_every_arm_has_as_many_plays_as_its_phase_wants():
    """With constant rewards seen at once every decision is known: .5 is dropped after phase 2 and .75 after phase 3."""
    bandit = ae.StochasticBandit([1, 0.8, 0.5], ae.Immediate(), ae.rewards.Constant())
    policy = ae.GeneralizedOdaaf(0)
    first, second, third, *_ = policy.targets(50_000)
    pulls = ae.simulate(policy, bandit, 50_000, 20, seed=1)[0].pulls
    assert (pulls == [50_000 - second - third, third, second]).all()
    assert first < second < third


@pytest.mark.compiled
def test_the_bridge_is_played_by_the_best_arm_and_not_counted():
    bandit = ae.StochasticBandit([1, 0.8, 0.5], ae.Immediate(), ae.rewards.Constant())
    policy = ae.Odaaf("bounded", mean_lag=0, reach=1)
    first, second, third, *_ = policy.targets(50_000)
    arms = ae.simulate(policy, bandit, 50_000, 1, seed=1, engine="slotwise").trace(0, 0).arms
    phase_1, bridge, rest = np.split(arms, [3 * first, 4 * first])
    assert np.bincount(phase_1).tolist() == [first] * 3
    assert set(bridge) == {0}
    assert np.bincount(rest[: 3 * (second - first)]).tolist() == [second - first] * 3
    assert np.bincount(arms)[1:].tolist() == [third, second]


@pytest.mark.compiled
def test_the_order_of_the_arms_is_drawn_anew_in_every_run():
    bandit = ae.StochasticBandit([0.9, 0.8, 0.7], ae.Immediate())
    study = ae.simulate("generalized-odaaf(3)", bandit, 5_000, 30, seed=1, engine="slotwise")
    first = [study.trace(0, run).arms[0] for run in range(30)]
    assert set(first) == {0, 1, 2}
    assert study.trace(0, 0).arms.tolist() == study.trace(0, 0).arms.tolist()
