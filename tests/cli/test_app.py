"""The command line as a whole: lists, help, refusals, interrupts, pipes."""

import os
import signal
import subprocess
import sys

import pytest

import aftereffect as ae
from aftereffect.__main__ import command
from aftereffect._core import installation
from aftereffect._core.spec import list_registered, name_of
from aftereffect.cli import main

ARMS = ["--means", ".9,.5,.1", "--horizon", "1e3", "--seed", "7", "--replications", "20"]
SIMULATE = ["simulate", "--policy", "ars-ucb(alpha=4)", *ARMS, "--delay", "interval(3,8)"]


@pytest.fixture
def run(capsys):
    def call(*arguments):
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        ("policies", ae.Policy),
        ("delays", ae.Delay),
        ("growths", ae.growth.Growth),
        ("reward-laws", ae.rewards.RewardLaw),
        ("schedules", ae.rewards.Schedule),
        ("bandits", ae.Bandit),
    ],
)
def test_list_names_everything_registered(run, kind, base):
    status, out, _ = run("list", kind)
    assert status == 0
    assert [line.split("  ")[0].partition("(")[0] for line in out.splitlines()] == [
        name_of(cls) for cls in list_registered(base)
    ]


def test_list_without_a_kind_lists_all(run):
    _, out, _ = run("list")
    for word in (
        "policies:",
        "delays:",
        "growths:",
        "figures:",
        "interval(first, last)",
        "ars-ucb(alpha=4, growth=power(2))",
    ):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ([], "cli"),
        (["--help"], "cli"),
        (["simulate", "--policy", "ucb1"], "simulation"),
        (["--import=my_policies", "plan", "totals.csv"], "simulation"),
        (["tell", "shop", "0", "37"], "live"),
        (["reproduce"], "paper"),
        (["serve"], "service"),
    ],
)
def test_without_its_libraries_the_program_says_what_to_install(
    arguments, extra, monkeypatch, capsys
):
    """All commands have an extra, and each extra that is named has the command line."""
    monkeypatch.setattr(installation, "find_spec", lambda module: None)
    monkeypatch.setattr(sys, "argv", ["aftereffect", *arguments])
    with pytest.raises(SystemExit) as ended:
        command()
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f': pip install "aftereffect[{extra}]"\n')


def test_without_its_libraries_the_program_has_a_version(monkeypatch, capsys):
    monkeypatch.setattr(installation, "find_spec", lambda module: None)
    monkeypatch.setattr(sys, "argv", ["aftereffect", "--version"])
    with pytest.raises(SystemExit) as ended:
        command()
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{ae.__version__}\n")


def test_help_and_version(run):
    assert "simulate" in run("--help")[1]
    assert "--replications" in run("simulate", "--help")[1]
    for words in ([], ["simulate"], ["tell"], ["token", "create"]):
        assert "--import MODULE" in run(*words, "--help")[1]
    assert run("--version")[1].strip() == ae.__version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--policy", "ars-ubc", *ARMS], "did you mean 'ars-ucb'?"),
        (["simulate", "--policy", "ars-ucb(alpha=-1)", *ARMS], "ars-ucb: alpha must be"),
        (["simulate", "--policy", "ars-ucb(growth=power(-1))", *ARMS], "power: p must be"),
        (["simulate", "--policy", "ucb1", "--means", ".5", "--horizon", "9"], "at least two"),
        (["simulate", "--policy", "ucb1", "--means", "-.5,1", "--horizon", "9"],
         "from 0 to 1, got -0.5"),
        (["simulate", "--policy", "ucb1", "--means", "nan,1", "--horizon", "9"],
         "from 0 to 1, got nan"),
        (["simulate", "--policy", "ucb1", "--means", ".5,x", "--horizon", "9"],
         "--means: expected a number, got 'x'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "1"],
         "horizon must be at least"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "-3"],
         "horizon must be a whole number"),
        ([*SIMULATE, "--replications", "1.5"], "--replications specified multiple times"),
        ([*SIMULATE[:-1], "interval(9,2)"], "interval: the last lag must be at least the first"),
        ([*SIMULATE[:-1], "shape([.5,.4])"], "shape: weights must sum to 1"),
        ([*SIMULATE, "--engine", "fast"], '"fast" for --engine'),
        ([*SIMULATE, "--polcy", "ucb1"], "Did you mean --policy?"),
        (["simulte"], 'Did you mean "simulate"?'),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--means", ".2,.3", "--horizon", "9"],
         "such as .5,.1,.2,.3"),
        (["simulate", "--policy", "ucb1", "--means", "[.5,.1]", "--horizon", "9"],
         "--means: expected a number, got '[.5'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "1_000"],
         "--horizon: expected a number, got '1_000'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "\u0661\u0660"],
         "--horizon: expected a number, got '\u0661\u0660'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,1e-400", "--horizon", "9"],
         "at least 5e-324 without its sign, got '1e-400'"),
        ([*SIMULATE, "--checkpoints", "1e9"], "checkpoints must be a whole number from 1 to 10,000"),
        (["reproduce", "--figure", "99"], "there is no figure 99"),
        (["reproduce", "--figure", "14.5"], "there is no figure 14.5"),
    ],
)  # fmt: skip
def test_refusals_are_one_line_and_exit_2(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("aftereffect: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.compiled
def test_an_interrupt_ends_at_once_and_quietly():
    endless = ["simulate", "--policy", "ucb1", "--means", ".9,.1", "--horizon", "1e12"]
    program = subprocess.Popen(
        [sys.executable, "-m", "aftereffect", *endless], stderr=subprocess.PIPE, text=True
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(timeout=8)  # by then it is deep in compiled code
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=20)
    finally:
        program.kill()
    assert (program.returncode, err) == (130, "aftereffect: stopped\n")


def shell(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)


def test_a_reader_that_leaves_early_is_told_by_the_exit_status_alone():
    program = f"{sys.executable} -m aftereffect list"
    done = shell(f"bash -c '{program} | true; echo ${{PIPESTATUS[0]}}; {program} | head -1'")
    assert (done.stdout, done.stderr) == ("141\npolicies:\n", "")


def test_help_is_wrapped_once():
    done = subprocess.run(
        [sys.executable, "-m", "aftereffect", "simulate", "--help"],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert (
        "With --means, rewards are drawn at random. With --rewards, they are read from a" in lines
    )
