"""``aftereffect simulate``, called as a shell would."""

import csv
import io
import json
import os
import re
import subprocess
import sys

import polars as pl
import pytest

import aftereffect as ae
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


@pytest.mark.compiled
def test_json_is_the_study(run):
    status, out, err = run(*SIMULATE, "--policy", "ucb1", "--format", "json")
    bandit = ae.StochasticBandit([0.9, 0.5, 0.1], ae.Interval(3, 8))
    study = ae.simulate(["ars-ucb", "ucb1"], bandit, 1_000, 20, seed=7)
    expected = study.summaries()
    printed = json.loads(out)
    for summary in (*printed, *expected):
        assert summary.pop("seconds") >= 0
    assert (status, err) == (0, "")
    assert printed == expected


@pytest.mark.compiled
def test_table_is_the_study(run):
    status, out, _ = run(*SIMULATE)
    assert status == 0
    assert "horizon 1,000, 20 replications, seed 7" in out
    assert "ars-ucb(alpha=4, growth=power(2))" in out


@pytest.mark.compiled
def test_csv_has_a_row_per_policy_and_checkpoint(run):
    status, out, _ = run(*SIMULATE, "--policy", "ucb1", "--format", "csv", "--checkpoints", "4")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert [row["slot"] for row in rows] == ["1", "10", "100", "1000"] * 2
    assert [row["policy"] for row in rows] == ["ars-ucb(alpha=4, growth=power(2))"] * 4 + [
        "ucb1"
    ] * 4
    assert all(float(row["regret_mean"]) >= 0 for row in rows)


@pytest.mark.compiled
def test_out_and_plot(run, tmp_path):
    table, picture = tmp_path / "study.parquet", tmp_path / "regret.png"
    status, out, _ = run(*SIMULATE, "--out", str(table), "--plot", str(picture))
    assert status == 0
    assert str(ae.Study.load(table)) == out.strip()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert sorted(tmp_path.iterdir()) == [picture, table]


@pytest.mark.parametrize("engine", ["roundwise", "slotwise"])
@pytest.mark.compiled
def test_engine_and_jobs(run, engine):
    one, two = (run(*SIMULATE, "--engine", engine, "--jobs", jobs) for jobs in ("1", "2"))
    assert one == two
    assert f"{engine} engine" in one[1]


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
def test_unwritable_paths_are_found_before_the_run(
    run, tmp_path, monkeypatch, option, name, message
):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(
        "aftereffect.simulation._plan.Plan.play", lambda *_, **__: pytest.fail("it ran")
    )
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


def shell(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)


@pytest.mark.compiled
def test_a_reader_that_leaves_early_takes_no_file_along(tmp_path):
    arguments = " ".join(f'"{word}"' for word in SIMULATE)
    program = f"{sys.executable} -m aftereffect {arguments} --out {tmp_path}/study.parquet --plot {tmp_path}/regret.svg"
    done = shell(f"bash -c '{program} | true; echo ${{PIPESTATUS[0]}}'")
    assert (done.stdout, done.stderr) == ("141\n", "")
    assert ae.Study.load(tmp_path / "study.parquet").replications == 20
    assert (tmp_path / "regret.svg").stat().st_size > 0


@pytest.mark.compiled
def test_a_full_disk_leaves_what_is_printed(run, tmp_path, monkeypatch):
    def full(frame, path):
        raise pl.exceptions.ComputeError("No space left on device (os error 28)")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    status, out, err = run(*SIMULATE, "--out", str(tmp_path / "study.parquet"))
    assert status == 2
    assert "mean regret" in out
    assert (
        err
        == f"aftereffect: cannot write {tmp_path}/study.parquet: No space left on device (os error 28)\n"
    )
    assert not list(tmp_path.iterdir())


def test_memory_is_looked_for_before_it_is_asked_for(run):
    huge = ["simulate", "--policy", "ucb1", "--means", ".9,.1", "--horizon", "1e5"]
    status, out, err = run(*huge, "--replications", "1e7", "--checkpoints", "1e4")
    assert (status, out) == (2, "")
    assert re.search(r"[\d,.]+ GiB of memory.*ask for fewer replications", err)
    assert err.count("\n") == 1


def test_memory_that_is_not_there_after_all_is_told_in_one_line(run, monkeypatch):
    def refuse(*_, **__):
        raise MemoryError

    monkeypatch.setattr("aftereffect.simulation._plan.Plan.play", refuse)
    assert run(*SIMULATE) == (
        2,
        "",
        "aftereffect: this needs more memory than there is: ask for fewer replications, checkpoints, arms or slots\n",
    )


@pytest.mark.compiled
def test_out_as_csv_needs_no_extra_and_has_every_replication(run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "aftereffect.cli._simulate.require_extra", lambda extra: pytest.fail(f"needs {extra}")
    )
    assert run(*SIMULATE, "--out", str(tmp_path / "study.csv"))[0] == 0
    with (tmp_path / "study.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["replication"] for row in rows] == [str(number) for number in range(20)]
    assert {"pulls_0", "pulls_1", "pulls_2", "regret_1000"} <= set(rows[0])


@pytest.mark.compiled
def test_progress_is_shown_on_a_terminal_only():
    arguments = " ".join(f"'{word}'" for word in SIMULATE)
    quiet = shell(f"{sys.executable} -m aftereffect {arguments}")
    assert quiet.stderr == ""
    shown = shell(f'script -qec "{sys.executable} -m aftereffect {arguments}" {os.devnull}')
    assert "simulating" in shown.stdout
    assert "ars-ucb(alpha=4, growth=power(2))" in shown.stdout
