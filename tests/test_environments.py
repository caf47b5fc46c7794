"""Environments: the battery, over everything registered."""

import pytest
import samples

from aftereffect.testing import check_environment


@pytest.mark.parametrize("environment", [*samples.ENVIRONMENTS, *samples.ADVERSARIAL], ids=str)
def test_battery(environment):
    check_environment(environment)
