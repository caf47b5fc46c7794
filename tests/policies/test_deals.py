"""Deals: each unit has each arm with its probability, and arms are balanced over units."""

import numpy as np
import pytest

from aftereffect.policies._deals import deal_arms


def deal_many(units, chances, count, seed=1):
    rng, choices = np.random.default_rng(seed), np.zeros(units)
    rows = []
    for _ in range(count):
        deal_arms(choices, np.array(chances), rng)
        rows.append(choices.astype(int))
    return np.array(rows)


@pytest.mark.parametrize(
    ("units", "chances"),
    [(1, [0.3, 0.7]), (2, [0.1, 0.9]), (5, [0.25, 0.25, 0.5]), (7, [0.05, 0.0, 0.4, 0.55])],
)
def test_each_unit_has_each_arm_with_its_probability(units, chances):
    count = 20_000
    dealt = deal_many(units, chances, count)
    for arm, chance in enumerate(chances):
        shares = (dealt == arm).mean(axis=0)
        error = np.sqrt(chance * (1 - chance) / count)
        assert (np.abs(shares - chance) <= 4.5 * error).all()


def test_arms_are_balanced():
    chances = [0.22, 0.28, 0.5]
    dealt = deal_many(8, chances, 2_000)
    for arm, chance in enumerate(chances):
        assert (np.abs((dealt == arm).sum(axis=1) - 8 * chance) < 1).all()


def test_all_ways_to_give_arms_are_alike_given_their_numbers():
    """Chi-square of 60 deals of five units, of which three, one and one have an arm."""
    dealt = deal_many(5, [0.55, 0.2, 0.25], 40_000)
    rows = dealt[((dealt == 0).sum(axis=1) == 3) & ((dealt == 1).sum(axis=1) == 1)]
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 20
    expected = len(rows) / 20
    square = ((counts - expected) ** 2 / expected).sum()
    assert abs(square - 19) < 4 * np.sqrt(2 * 19)


def test_an_arm_of_no_chance_is_never_dealt():
    assert set(np.unique(deal_many(3, [0.0, 1.0, 0.0], 100))) == {1}
    # These do not quite sum to 1.
    assert set(np.unique(deal_many(3, [0.7, 0.1, 0.2 - 1e-16, 0.0], 1_000))) == {0, 1, 2}


def test_only_random_is_drawn():
    class Numbers:
        def __init__(self):
            self.rng = np.random.default_rng(3)

        def random(self):
            return self.rng.random()

    choices, same = np.zeros(9), np.zeros(9)
    deal_arms(choices, np.array([0.5, 0.5]), Numbers())
    deal_arms(same, np.array([0.5, 0.5]), np.random.default_rng(3))
    assert (choices == same).all()
