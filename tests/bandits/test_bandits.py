"""Environments: the battery, over everything registered."""

import pytest

import samples
from aftereffect.testing import check_bandit


@pytest.mark.parametrize(
    "bandit", [*samples.BANDITS, *samples.ADVERSARIAL, *samples.LINEAR], ids=str
)
def test_battery(bandit):
    check_bandit(bandit)
