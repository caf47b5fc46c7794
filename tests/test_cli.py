"""The command line, called as a shell would."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys

import polars as pl
import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.spec import name_of, registered

ARMS = ["--means", ".9,.5,.1", "--horizon", "1e3", "--seed", "7", "--replications", "20"]
SIMULATE = ["simulate", "--policy", "ars-ucb(alpha=4)", *ARMS, "--spread", "interval(3,9)"]


@pytest.fixture
def run(capsys):
    def call(*arguments):
        status = main(list(arguments))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def test_json_is_the_study(run):
    status, out, err = run(*SIMULATE, "--policy", "ucb1", "--format", "json")
    environment = ae.StochasticBandit([0.9, 0.5, 0.1], ae.Interval(3, 9))
    study = ae.simulate(["ars-ucb", "ucb1"], environment, 1_000, 20, seed=7)
    expected = study.summaries()
    printed = json.loads(out)
    for summary in (*printed, *expected):
        assert summary.pop("seconds") >= 0
    assert (status, err) == (0, "")
    assert printed == expected


def test_table_is_the_study(run):
    status, out, _ = run(*SIMULATE)
    assert status == 0
    assert "horizon 1,000, 20 replications, seed 7" in out
    assert "ars-ucb(alpha=4, growth=power(2))" in out


def test_csv_has_a_row_per_policy_and_checkpoint(run):
    status, out, _ = run(*SIMULATE, "--policy", "ucb1", "--format", "csv", "--checkpoints", "4")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert [row["slot"] for row in rows] == ["1", "10", "100", "1000"] * 2
    assert [row["policy"] for row in rows] == ["ars-ucb(alpha=4, growth=power(2))"] * 4 + ["ucb1"] * 4
    assert all(float(row["regret_mean"]) >= 0 for row in rows)


def test_out_and_plot(run, tmp_path):
    table, picture = tmp_path / "study.parquet", tmp_path / "regret.png"
    status, out, _ = run(*SIMULATE, "--out", str(table), "--plot", str(picture))
    assert status == 0
    assert str(ae.Study.load(table)) == out.strip()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(tmp_path.iterdir()) == [picture, table]


@pytest.mark.parametrize("engine", ["roundwise", "slotwise"])
def test_engine_and_jobs(run, engine):
    one, two = (run(*SIMULATE, "--engine", engine, "--jobs", jobs) for jobs in ("1", "2"))
    assert one == two
    assert f"{engine} engine" in one[1]


@pytest.mark.parametrize(
    ("kind", "base"),
    [("policies", ae.Policy), ("spreads", ae.Delaying), ("growths", ae.Growth), ("rewards", ae.Reward)],
)
def test_list_names_everything_registered(run, kind, base):
    status, out, _ = run("list", kind)
    assert status == 0
    assert [line.split("  ")[0].partition("(")[0] for line in out.splitlines()] == [name_of(cls) for cls in registered(base)]


def test_list_without_a_kind_lists_all(run):
    _, out, _ = run("list")
    for word in ("policies:", "spreads:", "growths:", "figures:", "interval(a, b)", "ars-ucb(alpha=4, growth=power(2))"):
        assert word in out


def test_help_and_version(run):
    assert "simulate" in run("--help")[1]
    assert "--replications" in run("simulate", "--help")[1]
    assert run("--version")[1].strip() == ae.__version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "--policy", "ars-ubc", *ARMS], "unknown policy 'ars-ubc': did you mean 'ars-ucb'?"),
        (["simulate", "--policy", "ars-ucb(alpha=-1)", *ARMS], "ars-ucb: alpha must be a number above 0, got -1"),
        (["simulate", "--policy", "ars-ucb(growth=power(-1))", *ARMS], "power: p must be a number from 0 to 100, got -1"),
        (["simulate", "--policy", "ucb1", "--means", ".5", "--horizon", "9"], "means must hold at least two arms, got 1"),
        (["simulate", "--policy", "ucb1", "--means", "-.5,1", "--horizon", "9"],
         "the mean of arm 0 must be a number from 0 to 1, got -0.5"),
        (["simulate", "--policy", "ucb1", "--means", "nan,1", "--horizon", "9"],
         "the mean of arm 0 must be a number from 0 to 1, got nan"),
        (["simulate", "--policy", "ucb1", "--means", ".5,x", "--horizon", "9"],
         "Invalid value for --means: expected a number, got 'x'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "1"],
         "horizon must be at least the number of arms, 2, got 1"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "-3"],
         "horizon must be a whole number from 1 to 9,007,199,254,740,992, got -3"),
        ([*SIMULATE, "--replications", "1.5"], "Parameter --replications specified multiple times."),
        ([*SIMULATE[:-1], "interval(9,3)"], "interval: the end b must be above the first lag a = 9, got 3"),
        ([*SIMULATE[:-1], "shape([.5,.4])"], "shape: weights must sum to 1, got a sum of 0.9: divide each by it"),
        ([*SIMULATE, "--engine", "fast"], 'Invalid value "fast" for --engine. Choose from: "roundwise", "slotwise".'),
        ([*SIMULATE, "--polcy", "ucb1"], "Unknown option: --polcy. Did you mean --policy?"),
        (
            ["simulte"],
            'Unknown command "simulte". Did you mean "simulate"? '
            "Available commands: simulate, sweep, paper, list, create, ask, tell, missing, ...",
        ),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--means", ".2,.3", "--horizon", "9"],
         "a list of numbers is given once, with commas: .5,.1,.2,.3"),
        (["simulate", "--policy", "ucb1", "--means", "[.5,.1]", "--horizon", "9"],
         "Invalid value for --means: expected a number, got '[.5'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "1_000"],
         "Invalid value for --horizon: expected a number, got '1_000'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,.1", "--horizon", "\u0661\u0660"],
         "Invalid value for --horizon: expected a number, got '\u0661\u0660'"),
        (["simulate", "--policy", "ucb1", "--means", ".5,1e-400", "--horizon", "9"],
         "Invalid value for --means: expected a number of at least 5e-324 in size, or 0, got '1e-400'"),
        ([*SIMULATE, "--checkpoints", "1e9"], "checkpoints must be a whole number from 1 to 10,000, got 1000000000"),
        (["paper", "--figure", "99"], f"there is no figure 99; known: {', '.join(map(str, range(2, 20)))}"),
        (["paper", "--figure", "14.5"], f"there is no figure 14.5; known: {', '.join(map(str, range(2, 20)))}"),
    ],
)  # fmt: skip
def test_refusals_are_one_line_and_exit_2(run, arguments, message):
    assert run(*arguments) == (2, "", f"aftereffect: {message}\n")


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("--out", "missing/study.parquet", "does not exist, create it first"),
        ("--out", "study.txt", "its name must end in .parquet or .csv"),
        ("--out", "folder.parquet/", "expected a file, got the folder"),
        ("--plot", "folder.png/", "expected a file, got the folder"),
        ("--out", "file/study.parquet", "it is not a folder"),
        ("--out", "x" * 300 + ".parquet", "File name too long"),
        ("--plot", "missing/regret.png", "does not exist, create it first"),
        ("--plot", "regret.txt", "its name must end in .png or .svg or .pdf"),
    ],
)
def test_unwritable_paths_are_found_before_the_run(run, tmp_path, monkeypatch, option, name, message):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("aftereffect.simulation.plan.Plan.play", lambda *_, **__: pytest.fail("it ran"))
    status, out, err = run(*SIMULATE, option, f"{tmp_path}/{name}")
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_permission_is_found_before_the_run(run, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    status, _, err = run(*SIMULATE, "--out", str(tmp_path / "study.parquet"))
    assert (status, err) == (2, f"aftereffect: cannot write {tmp_path}: Permission denied\n")


def test_an_interrupt_ends_at_once_and_quietly():
    endless = ["simulate", "--policy", "ucb1", "--means", ".9,.1", "--horizon", "1e12"]
    program = subprocess.Popen([sys.executable, "-m", "aftereffect", *endless], stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(timeout=8)  # by then it is deep in compiled code
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=20)
    assert (program.returncode, err) == (130, "aftereffect: stopped\n")


def shell(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)


def test_a_reader_that_leaves_early_is_told_by_the_exit_status_alone():
    program = f"{sys.executable} -m aftereffect list"
    done = shell(f"bash -c '{program} | true; echo ${{PIPESTATUS[0]}}; {program} | head -1'")
    assert (done.stdout, done.stderr) == ("141\npolicies:\n", "")


def test_a_reader_that_leaves_early_takes_no_file_along(tmp_path):
    arguments = " ".join(f'"{word}"' for word in SIMULATE)
    program = f"{sys.executable} -m aftereffect {arguments} --out {tmp_path}/study.parquet --plot {tmp_path}/regret.svg"
    done = shell(f"bash -c '{program} | true; echo ${{PIPESTATUS[0]}}'")
    assert (done.stdout, done.stderr) == ("141\n", "")
    assert ae.Study.load(tmp_path / "study.parquet").replications == 20
    assert (tmp_path / "regret.svg").stat().st_size > 0


def test_a_full_disk_leaves_what_is_printed(run, tmp_path, monkeypatch):
    def full(frame, path):
        raise pl.exceptions.ComputeError("No space left on device (os error 28)")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    status, out, err = run(*SIMULATE, "--out", str(tmp_path / "study.parquet"))
    assert status == 2
    assert "mean regret" in out
    assert err == f"aftereffect: cannot write {tmp_path}/study.parquet: No space left on device (os error 28)\n"
    assert not list(tmp_path.iterdir())


def test_memory_is_looked_for_before_it_is_asked_for(run):
    huge = ["simulate", "--policy", "ucb1", "--means", ".9,.1", "--horizon", "1e5"]
    status, out, err = run(*huge, "--replications", "1e7", "--checkpoints", "1e4")
    assert (status, out) == (2, "")
    assert re.fullmatch(
        r"aftereffect: this needs [\d,.]+ GiB of memory for its results, and [\d,.]+ GiB are here: "
        r"ask for fewer replications, checkpoints or arms\n",
        err,
    )


def test_memory_that_is_not_there_after_all_is_told_in_one_line(run, monkeypatch):
    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr("aftereffect.simulation.plan.Plan.play", refuse)
    assert run(*SIMULATE) == (
        2,
        "",
        "aftereffect: this needs more memory than there is: ask for fewer replications, checkpoints, arms or slots\n",
    )


def test_out_as_csv_needs_no_extra_and_has_every_replication(run, tmp_path, monkeypatch):
    monkeypatch.setattr("aftereffect.cli.simulate.require", lambda extra: pytest.fail(f"needs {extra}"))
    assert run(*SIMULATE, "--out", str(tmp_path / "study.csv"))[0] == 0
    with (tmp_path / "study.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["replication"] for row in rows] == [str(number) for number in range(20)]
    assert {"pulls_0", "pulls_1", "pulls_2", "regret_1000"} <= set(rows[0])


def test_help_is_wrapped_once(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "aftereffect", "simulate", "--help"],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert "(--rewards, --delays). Names of policies and spreads: aftereffect list." in lines


def test_progress_is_shown_on_a_terminal_only():
    arguments = " ".join(f"'{word}'" for word in SIMULATE)
    quiet = shell(f"{sys.executable} -m aftereffect {arguments}")
    assert quiet.stderr == ""
    shown = shell(f'script -qec "{sys.executable} -m aftereffect {arguments}" {os.devnull}')
    assert "simulating" in shown.stdout
    assert "ars-ucb(alpha=4, growth=power(2))" in shown.stdout
