"""The contract of storages, on each of them."""

import pytest

from aftereffect.testing import StorageContract


class TestStorages(StorageContract):
    @pytest.fixture(autouse=True)
    def place(self, connect):
        self.connect = connect

    def connect(self):
        raise NotImplementedError("set for each test")
