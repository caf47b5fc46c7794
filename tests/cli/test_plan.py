"""The command ``plan``."""

import csv
import io
import json
import re
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2026-03-04,much", "line 4"),
        ("2026-03-03,5", "line 4.*line 3"),
        ("2026-03-03T05:00,5", "line 4.*whole number of slots"),
        ("2026-03-04,5;6", "line 4"),
        ("", "at least 14 slots of 1d, got 2"),
    ],
)
def test_a_broken_history_is_refused_in_one_line(capsys, tmp_path, line, message):
    (tmp_path / "broken.csv").write_text(f"time,total\n2026-03-02,5\n2026-03-03,6\n{line}\n")
    assert main(["plan", "broken.csv", *OPTIONS]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert re.search(message, said)


@pytest.mark.compiled
def test_two_weeks_are_enough_with_a_warning(capsys, tmp_path):
    lines = (tmp_path / "history.csv").read_text().splitlines()
    (tmp_path / "short.csv").write_text("\n".join(lines[:15]))
    assert main(["plan", "short.csv", *OPTIONS[:-2], "--quick"]) == 0
    warning = capsys.readouterr().err
    assert "warning: short.csv has only 2.0 weeks: the plan cannot know" in warning
    (tmp_path / "short.csv").write_text("\n".join(lines[:14]))
    assert main(["plan", "short.csv", *OPTIONS]) == 2
    assert "must have at least 14 slots of 1d, got 13" in capsys.readouterr().err


@pytest.mark.compiled
def test_a_quick_plan_as_csv(capsys):
    assert main(["plan", "history.csv", *OPTIONS[:-2], "--quick", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    (row,) = csv.DictReader(io.StringIO(printed.out))
    assert row["design"] == DESIGN
    assert row["worlds"] == "64"  # eight times as many as adaptive designs have
    assert float(row["loss_error"]) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lift", "many"), "lift must be such as 5%"),
        (("--lift", "5..15"), "lift must be such as 5% or 3..10%, got '5..15'"),
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
