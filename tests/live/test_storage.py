"""The contract of storages, on each of them."""

import pytest

from aftereffect.testing import StorageContract


class TestStorages(StorageContract):
    @pytest.fixture(autouse=True)
    def place(self, connect):
        self.another = connect

    def connect(self):
        return self.another()
