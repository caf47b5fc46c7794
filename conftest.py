"""Examples in documents run in a folder of their own, so that the files they make are not left lying about."""

import pytest


@pytest.fixture(autouse=True)
def _elsewhere(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
