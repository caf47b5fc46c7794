"""Commands about live experiments: how tests run them, and an experiment to begin with."""

import pytest

import aftereffect as ae
from aftereffect.cli import main


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Commands find their storage in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTEREFFECT_STORAGE", "sqlite:///live.db")


@pytest.fixture
def run(capsys, place):
    """What a command prints; it must succeed."""

    def run(*arguments):
        assert main([str(argument) for argument in arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(capsys, place):
    """What a command says when it fails: one line, and exit status 2."""

    def refused(*arguments):
        assert main([str(argument) for argument in arguments]) == 2
        printed = capsys.readouterr()
        (line,) = printed.err.splitlines()
        return line.removeprefix("aftereffect: ")

    return refused


@pytest.fixture
def banner(run):
    run(
        "create",
        "banner",
        "--arms",
        "A, B,C",
        "--policy",
        "ars-ucb",
        "--reward-range",
        "0,200",
        "--seed",
        "3",
    )


@pytest.fixture
def read_log():
    """The events of the banner."""

    def read_log():
        experiment = ae.Experiment.open("banner", storage="sqlite:///live.db")
        with experiment.storage.reading(1) as view:
            return view.events(0, 1_000)

    return read_log
