"""What tests of the service share."""

import pytest

from services import EXPERIMENT, call


@pytest.fixture
def banner(service):
    """The address of a service that has an experiment."""
    assert call(service, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
    return service
