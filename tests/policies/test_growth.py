"""Growths against the paper's own formulas."""

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect.testing import check_policy


def test_power_is_exact_for_whole_powers_and_rounds_up_others():
    assert [ae.growth.Power(2)(k) for k in range(1, 200)] == [k * k for k in range(1, 200)]
    assert [ae.growth.Power(3)(k) for k in (1, 2, 10, 100_000)] == [1, 8, 1000, 10**15]
    assert [ae.growth.Power(0.5)(k) for k in (1, 2, 3, 4, 5, 9, 10**10)] == [
        1,
        2,
        2,
        2,
        3,
        3,
        10**5,
    ]
    assert [ae.growth.Power(1 / r)(b**r) for r in range(2, 8) for b in range(1, 40)] == [
        b for r in range(2, 8) for b in range(1, 40)
    ]
    assert [ae.growth.Power(100)(k) for k in (1, 2, 10**4)] == [1, 2**53, 2**53]
    assert {ae.growth.Power(0)(k) for k in range(1, 50)} == {1}


def test_exponential_doubles_what_was_played():
    growth = ae.growth.Exponential()
    assert [growth(k) for k in (1, 2, 3, 4)] == [4, 4, 8, 16]
    played = 0
    for k in range(1, 30):
        played += growth(k)
        assert growth(k + 1) == played


@pytest.mark.parametrize("growth", samples.GROWTHS, ids=str)
def test_growths_never_decrease_and_never_overflow(growth):
    slots = [growth(k) for k in (*range(1, 100), 10**6, 10**9, 10**15)]
    assert slots == sorted(slots)
    assert slots[0] >= 1
    assert slots[-1] <= 2**53


@pytest.mark.compiled
def test_a_callable_plays_as_the_formula_it_computes():
    bandit = ae.StochasticBandit([0.9, 0.5, 0.1], ae.Interval(2, 4))
    formula, called = (
        ae.simulate(ae.ArsUcb(growth=growth), bandit, 5_000, 8, seed=1)[0]
        for growth in (ae.growth.Power(2), lambda k: k * k)
    )
    assert (formula.regret == called.regret).all()
    assert called.label.startswith("ars-ucb(alpha=4, growth=callable:")


def test_a_callable_can_be_asked_directly():
    growth = ae.ArsUcb(growth=lambda k: 3 * k).growth
    assert [growth(k) for k in (1, 2, 100)] == [3, 6, 300]


@pytest.mark.compiled
@pytest.mark.parametrize("power", [0, 63, 100])
def test_extreme_powers_play_compiled_as_plain(power):
    check_policy(ae.ArsUcb(growth=ae.growth.Power(power)))


@pytest.mark.compiled
def test_two_callables_of_the_same_name_can_be_compared():
    bandit = ae.StochasticBandit([0.9, 0.1])
    study = ae.simulate(
        [ae.ArsUcb(growth=lambda k: k), ae.ArsUcb(growth=lambda k: k * k)], bandit, 1_000, 4, seed=1
    )
    first, second = (runs.label for runs in study)
    assert second == f"{first} #2"
    assert not np.array_equal(study[first].regret, study[second].regret)


@pytest.mark.compiled
def test_a_callable_is_asked_once_per_round_however_many_batches_run():
    asked = []

    def growth(k):
        asked.append(k)
        return k

    policy = ae.ArsUcb(growth=growth)
    asked.clear()
    ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 1_000, 200, seed=1)
    assert len(asked) <= 3 * 45
