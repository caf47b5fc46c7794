"""Experiments at the beginning, and in the middle of a round."""

import pytest

import aftereffect as ae
from asking import created


@pytest.fixture
def banner():
    return created()


@pytest.fixture
def third_round():
    """Three arms had a round of one slot; the fourth round is planned for slots 3 to 6, and all of them are decided."""
    experiment = created()
    for slot in range(3):
        experiment.ask()
        experiment.tell(slot, 80 - 40 * slot)
    for slot in range(3, 7):
        assert experiment.ask() == ae.live.Decision(slot, "A", 3, 6, False)
    return experiment
