"""The command ``plan``."""

import csv
import io
import json
import shlex

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.cli import main
from made_up_history import make_history

DESIGN = "fixed-switchback(block=7, blocks_per_arm=3)"
OPTIONS = (
    *("--slot", "1d", "--weeks", "12", "--lift", "8..12%", "--lag", "0..2d", "--seed", "1"),
    *("--design", DESIGN, "--jobs", "1", "--runs", "12"),
)


@pytest.fixture(autouse=True)
def history(tmp_path, monkeypatch):
    """The folder has a history of twelve weeks."""
    monkeypatch.chdir(tmp_path)
    times = np.datetime64("2026-03-02") + np.arange(84)
    rows = zip(times, make_history(12), strict=True)
    lines = [f"{time},{total:.2f}" for time, total in rows]
    (tmp_path / "history.csv").write_text("\n".join(["time,total", *lines]))


@pytest.mark.compiled
def test_a_plan_is_printed_and_saved(capsys, tmp_path):
    saved = ("--out", "plan.json", "--out", "plan.html")
    assert main(["plan", "history.csv", *OPTIONS, "--unit", "EUR", *saved]) == 0
    printed = capsys.readouterr()
    plan = ae.Plan.load("plan.json")
    assert printed.out == f"{plan}\n"
    assert "Rough figures" in printed.err
    assert f"Run {DESIGN} for 12 weeks." in printed.out
    command = plan.command
    assert command in printed.out
    assert "--history history.csv" in command
    assert (tmp_path / "plan.html").read_text().startswith("<!doctype html>")
    again = ("--resume", "parts", "--format", "json")
    for _ in range(2):
        assert main(["plan", "history.csv", *OPTIONS, "--unit", "EUR", *again]) == 0
        assert json.loads(capsys.readouterr().out)["digest"] == plan.digest
    assert len(list((tmp_path / "parts").glob("*.json"))) == 6


@pytest.mark.compiled
def test_the_recommended_command_creates_that_experiment(capsys, monkeypatch):
    monkeypatch.setenv("AFTEREFFECT_STORAGE", "sqlite:///live.db")
    plan = ae.plan("history.csv", slot="1d", weeks=12, lift="12%", designs=[DESIGN], runs=4, seed=1)
    assert plan.warning is None
    words = shlex.split(plan.command.replace("NAME", "banner"))
    assert main(words[1:]) == 0
    assert DESIGN.partition(",")[0] in capsys.readouterr().out


@pytest.mark.compiled
def test_a_quick_plan_as_csv(capsys):
    assert main(["plan", "history.csv", *OPTIONS[:-2], "--quick", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    (row,) = csv.DictReader(io.StringIO(printed.out))
    assert row["design"] == DESIGN
    assert row["worlds"] == "8"
    assert float(row["loss_error"]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lift", "many"), "lift must be such as 5%"),
        (("--lag", "soon"), "lag must be such as 12h"),
        (("--design", "fixed-switchback(100)"), "fixed-switchback"),
        (("--out", "plan.txt"), ".json or .html"),
        (("--arms", "1"), "arms must be"),
    ],
)
def test_bad_options_are_refused_in_one_line(capsys, options, message):
    assert main(["plan", "history.csv", "--slot", "1d", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
