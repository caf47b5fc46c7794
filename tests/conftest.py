"""What holds for all tests."""

import pytest

from aftereffect.simulation import compiled


@pytest.fixture(scope="session", autouse=True)
def without_counting():
    """Every driver compiles without counting references, which makes it slow; some tests allow it."""
    compile_driver = compiled._compiled

    def checked(clones, world, *, counting):
        assert not counting, f"{clones.replay.__qualname__} cannot be compiled without counting references"
        return compile_driver(clones, world, counting=counting)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_compiled", checked)
        yield compile_driver


@pytest.fixture
def counting_allowed(without_counting, monkeypatch):
    """For kernels that make arrays of their own."""
    monkeypatch.setattr(compiled, "_compiled", without_counting)
