"""Made-up files of the data sets, and which of them are opened."""

import pytest

from aftereffect.reproduction import datasets
from make_data import COUPON, OUTBRAIN, write_files


@pytest.fixture
def outbrain(tmp_path):
    return write_files(tmp_path, OUTBRAIN)


@pytest.fixture
def coupon(tmp_path):
    return write_files(tmp_path, COUPON)


@pytest.fixture
def unpacked(monkeypatch):
    """The files that are opened, in order: none where a result is taken from the cache."""
    opened, read_blocks = [], datasets.read_blocks
    monkeypatch.setattr(
        datasets, "read_blocks", lambda path: opened.append(path.name) or read_blocks(path)
    )
    return opened
