"""Storages of other packages, found by the scheme of their URL."""

import importlib.metadata

import pytest

import aftereffect as ae
from aftereffect.live import MemoryStorage
from databases import SETTINGS


class OtherStorage(MemoryStorage):
    """A storage of another package."""

    def __init__(self, url, *, lock_timeout):
        super().__init__(url, lock_timeout=lock_timeout)
        self.given = lock_timeout


def make_nothing(url, *, lock_timeout):
    """An entry point that is not a storage."""
    return [url, lock_timeout]


@pytest.fixture
def installed(monkeypatch):
    """Entry points as a package would declare them, without installing one."""
    points = importlib.metadata.EntryPoints(
        importlib.metadata.EntryPoint(scheme, f"{__name__}:{name}", "aftereffect.storages")
        for scheme, name in (("x", "OtherStorage"), ("nothing", "make_nothing"), ("gone", "gone"))
    )
    loaded = {"OtherStorage": OtherStorage, "make_nothing": make_nothing}
    monkeypatch.setattr(
        importlib.metadata.EntryPoint, "load", lambda point: loaded[point.value.partition(":")[2]]
    )
    monkeypatch.setattr(
        "aftereffect.live.storage.entry_points", lambda *, group: points.select(group=group)
    )


@pytest.mark.usefixtures("installed")
def test_a_scheme_of_another_package_opens_its_storage():
    storage = ae.open_storage("x://some/where", lock_timeout=7)
    assert isinstance(storage, OtherStorage)
    assert (storage.url, storage.given) == ("x://some/where", 7)
    with ae.Experiment.create("banner", **SETTINGS, storage="x://other") as experiment:
        assert experiment.ask(0).slot == 0


@pytest.mark.usefixtures("installed")
def test_an_entry_point_must_return_a_storage():
    with pytest.raises(ae.StorageError, match=r"'nothing' of aftereffect\.storages must return"):
        ae.open_storage("nothing://here")


@pytest.mark.usefixtures("installed")
def test_an_entry_point_that_cannot_be_loaded():
    with pytest.raises(
        ae.StorageError, match=r"cannot load the storage 'gone' \(.*:gone\): KeyError"
    ):
        ae.open_storage("gone://here")


@pytest.mark.usefixtures("installed")
def test_an_unknown_scheme_names_all_known_ones():
    message = r"unknown scheme 'qqq' in the URL of a storage: known: memory, .*, gone, nothing, x$"
    with pytest.raises(ae.ParameterError, match=message) as caught:
        ae.open_storage("qqq://user:secret@host")
    assert "secret" not in str(caught.value)


def test_built_in_schemes_are_not_replaced(monkeypatch):
    """A package that declares sqlite must not get the experiments of others."""

    def refuse(*, group):
        raise AssertionError(group)

    monkeypatch.setattr("aftereffect.live.storage.entry_points", refuse)
    assert ae.open_storage("memory://").url == "memory://"
