"""Examples in documents run in a folder of their own, so that the files they make are not left lying about.

No test writes into the data folder of who runs it: another one is named before the package is imported.
"""

import atexit
import os
import shutil
import tempfile

import pytest

os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="aftereffect-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)
os.environ.pop("AFTEREFFECT_STORAGE", None)


@pytest.fixture(autouse=True)
def _elsewhere(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
