"""Closing lets go of a storage; only `end` ends an experiment."""

import contextlib
import gc
import os

import pytest

import aftereffect as ae
from databases import SETTINGS, url


@pytest.fixture
def place(tmp_path):
    """The URL of a storage with an experiment that waits for its first slot."""
    path = url(tmp_path / "live.db")
    ae.Experiment.create("banner", **SETTINGS, storage=path).close()
    return path


def is_running(place):
    with ae.Experiment.open("banner", storage=place) as experiment:
        status = experiment.status()
        return not status.ended and status.next is not None


def test_a_with_block_leaves_the_experiment_running(place):
    with ae.Experiment.open("banner", storage=place) as experiment:
        assert experiment.ask(0).slot == 0
    assert is_running(place)


def test_a_with_block_that_fails_leaves_the_experiment_running(place):
    with pytest.raises(ZeroDivisionError), ae.Experiment.open("banner", storage=place):
        raise ZeroDivisionError
    assert is_running(place)


def test_contextlib_closing_leaves_the_experiment_running(place):
    with contextlib.closing(ae.Experiment.open("banner", storage=place)) as experiment:
        experiment.ask(0)
    assert is_running(place)


def test_only_end_ends_an_experiment(place):
    with ae.Experiment.open("banner", storage=place) as experiment:
        experiment.ask(0)
        final = experiment.end()
        assert final.ended
        assert experiment.end() == final
    assert not is_running(place)


def test_close_leaves_one_file_and_may_be_called_twice(place, tmp_path):
    experiment = ae.Experiment.open("banner", storage=place)
    experiment.ask(0)
    assert len(os.listdir(tmp_path)) == 3
    experiment.close()
    experiment.close()
    assert os.listdir(tmp_path) == ["live.db"]


@pytest.mark.parametrize(
    "begin",
    [
        lambda storage: ae.Experiment.open("banner", storage=storage),
        lambda storage: ae.Experiment.create("banner", **SETTINGS, storage=storage),
    ],
)
def test_a_storage_that_was_passed_stays_open(place, tmp_path, begin):
    with ae.open_storage(place) as storage:
        with begin(storage) as experiment:
            experiment.ask(0)
        assert len(os.listdir(tmp_path)) == 3, "its connections must still be open"
        assert storage.names() == ["banner"]
    assert os.listdir(tmp_path) == ["live.db"]


@pytest.mark.parametrize(
    ("error", "begin"),
    [
        (ae.NotFoundError, lambda place: ae.Experiment.open("other", storage=place)),
        (
            ae.ConflictError,
            lambda place: ae.Experiment.create(
                "banner", **SETTINGS | {"arms": ["A", "Z"]}, storage=place
            ),
        ),
    ],
)
def test_a_storage_is_closed_when_no_experiment_comes_of_it(place, tmp_path, error, begin):
    gc.disable()  # the collector would close it, some day
    try:
        with pytest.raises(error):
            begin(place)
        assert os.listdir(tmp_path) == ["live.db"]
    finally:
        gc.enable()
