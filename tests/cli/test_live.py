"""Live experiments on the command line, and the examples of the documents."""

import csv
import importlib
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.live import DEFAULT_STORAGE, write_csv

ROOT = Path(__file__).parents[2]


def test_from_create_to_end(run):
    status = run(
        "create", "banner", "--arms", "A,B,C", "--policy", "ars-ucb", "--reward-range", "0,200"
    )
    assert status.startswith(
        "banner: not begun; ars-ucb(alpha=4, growth=power(2)), 0 slots decided"
    )
    assert run("ask", "banner") == "slot 0: play A (round 0, planned up to slot 0)\n"
    assert run("ask", "banner", "--slot", 0) == "slot 0: play A (round 0, planned up to slot 0)\n"
    assert run("tell", "banner", 0, 37) == "slot 0: 37, recorded\n"
    assert run("tell", "banner", 0, "37.0") == "slot 0: 37, unchanged\n"
    assert run("ask", "banner", "--slot", 1) == "slot 1: play B (round 1, planned up to slot 1)\n"
    assert run("ask", "banner") == "slot 2: play B (hold: round 1 waits for totals)\n"
    assert run("mark-missing", "banner", 1) == "slot 1: missing, recorded\n"
    assert run("tell", "banner", 2, 5) == "slot 2: 5, recorded\n"
    assert run("status", "banner").splitlines()[1:] == [
        "arm  pulls  share  rounds  mean",
        "A        1  33.3%       1    37",
        "B        2  66.7%       1     5",
        "C        0   0.0%       0     -",
        "next: slot 3 plays C, planned up to slot 3",
    ]
    shown = [line.split()[:5] for line in run("history", "banner").splitlines()]
    assert shown[:3] == [
        ["slot", "arm", "round", "total", "remarks"],
        ["0", "A", "0", "37", "-"],
        ["1", "B", "1", "-", "missing"],
    ]
    assert run("history", "banner", "--after", 1).splitlines()[1].split()[4] == "hold"
    assert run("verify", "banner").startswith("banner: whole, 6 events, 3 slots, 2 rounds")
    assert run("end", "banner", "--yes").splitlines()[-1] == "ended"
    assert run("end", "banner").splitlines()[-1] == "ended"


def test_a_control_keeps_its_share(run, refused):
    settings = (*("--arms", "A,B,C", "--policy", "ucb1"), *("--reward-range", "0,9", "--seed", 1))
    status = run(
        *("create", "shop", *settings, "--control", "B"),
        *("--control-share", "10%", "--floor", "C=.05,A=0%"),
    )
    assert status.startswith("shop: not begun; floors(ucb1, [0.1, 0, 0.05]), 0 slots decided")
    assert [line.split()[-2:] for line in status.splitlines()[1:5]] == [
        ["floor", "probability"],
        ["10.0%", "95.0%"],
        ["-", "0.0%"],
        ["5.0%", "5.0%"],
    ]
    decision = json.loads(run("ask", "shop", "--slot", 0, "--format", "json"))
    assert decision["probabilities"] == {"B": 0.95, "A": 0, "C": 0.05}
    same = ("--control", "B", "--control-share", ".1", "--floor", "C=5%")
    assert "floors(ucb1, [0.1, 0, 0.05])" in run("create", "shop", *settings, *same)
    for given, message in (
        (("--control-share", "10%"), "control_share is the least share of the control: name"),
        (("--floor", "D=5%"), "a floor must be that of one of the arms, got 'D'"),
        (("--floor", "B"), "expected floors by name, once each, such as B=5%,C=2%, got 'B'"),
        (("--floor", "B=5%,B=5%"), "expected floors by name, once each"),
        (("--floor", "B=5%%"), "expected a share such as .1 or 10%, got '5%%'"),
        (("--floor", "B=ten"), "expected a number, got 'ten'"),
        (("--floor", "B=5"), "the floor of B must be a number from 0 to 0.9, got 5"),
        (("--control", "B", "--control-share", "95%"), "control_share must be a number from 0"),
    ):
        assert message in refused("create", "other", *settings, *given)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.usefixtures("banner")
def test_ending_asks_first(run, refused, monkeypatch):
    assert refused("end", "banner") == (
        "end asks before it acts, and there is no terminal: give --yes"
    )
    for typed in ("", "\n", "n\n", "banner\n"):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        assert refused("end", "banner").endswith("experiment 'banner' was not ended")
    run("ask", "banner")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run("end", "banner").endswith("ended\n")
    assert "has ended" in refused("ask", "banner")


@pytest.mark.usefixtures("banner")
def test_json(run):
    assert json.loads(run("ask", "banner", "--format", "json")) == {
        "slot": 0,
        "arm": "A",
        "round": 0,
        "until": 0,
        "hold": False,
        "time": None,
        "probabilities": None,
        "arms": None,
        "unit_probabilities": None,
    }
    recorded = json.loads(run("tell", "banner", 0, 1.5, "--format", "json"))
    assert recorded == [{"slot": 0, "total": 1.5, "change": "recorded", "arm": "A", "unit": None}]
    status = json.loads(run("status", "banner", "--format", "json"))
    assert status["arms"][0] == {
        "arm": "A",
        "pulls": 1,
        "share": 1.0,
        "rounds": 1,
        "mean": 1.5,
        "floor": None,
        "stopped": None,
        "state": "active",
        "since": None,
    }
    assert status["next"] == {
        "slot": 1,
        "arm": "B",
        "round": 1,
        "until": 1,
        "hold": False,
        "time": None,
        "probabilities": None,
        "arms": None,
        "unit_probabilities": None,
    }
    (line,) = json.loads(run("history", "banner", "--format", "json"))
    assert (line["slot"], line["arm"], line["total"], line["missing"]) == (0, "A", 1.5, False)
    assert json.loads(run("verify", "banner", "--format", "json")) == {
        "name": "banner",
        "events": 2,
        "slots": 1,
        "rounds": 1,
        "problems": [],
        "difference": None,
        "whole": True,
    }
    assert json.loads(run("end", "banner", "--yes", "--format", "json"))["ended"] is True


@pytest.mark.usefixtures("banner")
def test_csv(run):
    assert (
        run("ask", "banner", "--format", "csv")
        == "slot,arm,round,until,hold,time,probabilities\n0,A,0,0,false,,\n"
    )
    assert (
        run("mark-missing", "banner", 0, "--format", "csv")
        == "slot,total,change,arm\n0,,recorded,A\n"
    )
    assert list(csv.DictReader(io.StringIO(run("status", "banner", "--format", "csv"))))[2] == {
        "arm": "C",
        "pulls": "0",
        "share": "0.0",
        "rounds": "0",
        "mean": "",
        "floor": "",
        "stopped": "",
        "state": "active",
        "since": "",
    }
    assert run("history", "banner", "--format", "csv").startswith(
        "slot,arm,played,round,hold,total,missing,learned,revisions,decided_at,received_at,time,probability\n0,A,"
    )
    assert run("history", "banner", "--after", 5, "--format", "csv").count("\n") == 1
    assert run("verify", "banner", "--format", "csv").startswith(
        "name,events,slots,rounds,problems,difference,whole\nbanner,2,"
    )


@pytest.mark.usefixtures("banner")
def test_an_outage_and_an_arm_that_was_played_by_hand(run, refused):
    run("ask", "banner", "--slot", 0)
    run("tell", "banner", 0, 5, "--arm", "C")
    assert "skip slots 1 to 5" in refused("ask", "banner", "--slot", 6)
    assert "1 slot decided (5 skipped)" in run("skip", "banner", 1, 5)
    assert run("ask", "banner", "--slot", 6) == "slot 6: play A (round 1, planned up to slot 6)\n"
    assert "slot 3 was skipped" in refused("ask", "banner", "--slot", 3)
    assert "slot 3 was skipped" in refused("tell", "banner", 3, 7)
    assert run("tell", "banner", 3, 7, "--arm", "B") == "slot 3: 7, recorded\n"
    remarks = [line.split()[4:7] for line in run("history", "banner").splitlines()[1:]]
    assert remarks[0][:3] == ["played", "C,", "waits"]
    assert remarks[1][0] == "skipped"
    assert remarks[3][:3] == ["skipped,", "played", "B,"]


@pytest.mark.usefixtures("banner")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tell", "banner", "0"], "tell needs either a slot and its total, or --csv FILE"),
        (["tell", "banner"], "tell needs either a slot and its total, or --csv FILE"),
        (
            ["tell", "banner", "0", "1", "--csv", "x.csv"],
            "tell needs either a slot and its total, or --csv FILE",
        ),
        (["tell", "banner", "0", "many"], "expected a number, got 'many'"),
        (["tell", "banner", "-1", "5"], "slot must be a whole number"),
        (["tell", "banner", "0", "-5"], "slot 0 is not decided yet"),
        (["ask", "banner", "--slot", "4"], "slot 4 cannot be decided yet"),
        (
            ["ask", "banner", "--slot", "tomorrow"],
            "begins, such as 2026-03-02T00:00, got 'tomorrow'",
        ),
        (["ask", "banner", "--slot", "2026-03-02"], "no times, as it was created without slot"),
        (["ask", "banner", "0"], "aftereffect ask takes no further argument, got '0': write"),
        (["status"], "NAME requires an argument. aftereffect status --help shows what it takes."),
        (
            ["create", "x", "--arms", "A", "B"],
            "got 'B': write lists as A,B, put text with spaces in quotes, and see aftereffect create",
        ),
        (
            ["create", "x", "--arms", "A,B", "--control", "A", "--control-share", "10"],
            "expected a share such as .1 or 10%, got '10'",
        ),
        (
            ["ask", "baner"],
            "did you mean 'banner'?",
        ),
        (
            ["ask", "banner", "--storage", "live.db"],
            "must be a URL such as sqlite:///",
        ),
        (
            ["create", "banner", "--arms", "A,B", "--policy", "ars-ucb", "--reward-range", "0,200"],
            "experiment 'banner' already exists with other settings",
        ),
        (
            ["create", "x", "--arms", "A,B", "--policy", "ars-ucb", "--reward-range", "5"],
            "reward_range must be two numbers",
        ),
        (
            ["create", "x", "--arms", "A", "--policy", "ars-ucb", "--reward-range", "0,5"],
            "arms must be 2 to 10,000 names, got 1",
        ),
        (
            ["create", "x", "--arms", "A,B", "--policy", "exp3", "--reward-range", "0,5"],
            "exp3(form=gain) needs",
        ),
        (
            ["export", "banner", "--out", "x.txt"],
            "cannot write x.txt: its name must end in .csv or .parquet",
        ),
        (
            ["export", "banner", "--out", "none/x.csv"],
            "cannot write into none: it does not exist, create it first",
        ),
        (
            ["history", "banner", "--last", "-3"],
            "last must be a whole number of at least 0, got -3",
        ),
    ],
)
def test_refusals(refused, read_log, arguments, message):
    before = read_log()
    assert message in refused(*arguments)
    assert read_log() == before


def test_cells_that_a_spreadsheet_would_compute(run):
    """Arms are named by people; a total below zero is a number, and stays one."""
    arms = ["=1+1", "+1", "-1", "@SUM(A1)", "plain"]
    options = ("--policy", "ucb1", "--reward-range=-10,10", "--storage", "sqlite:///odd.db")
    run("create", "odd", "--arms", ",".join(arms), *options)
    for slot in range(5):
        run("ask", "odd", *options[-2:])
        run("tell", "odd", slot, "--storage", "sqlite:///odd.db", "--", -3.5)
    run("export", "odd", "--out", "x.csv", *options[-2:])
    expected = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "plain"]
    for text in (
        Path("x.csv").read_text(),
        run("history", "odd", *options[-2:], "--format", "csv"),
    ):
        lines = list(csv.DictReader(io.StringIO(text)))
        assert [line["arm"] for line in lines] == expected
        assert {line["total"] for line in lines} == {"-3.5"}
    assert [
        line["arm"] for line in json.loads(run("history", "odd", *options[-2:], "--format", "json"))
    ] == arms
    run("token", "create", "--scope", "read", "--label=@now", *options[-2:])
    assert "'@now" in run("token", "list", *options[-2:], "--format", "csv")


@pytest.mark.parametrize("text", ["\tx", "\rx"])
def test_control_characters_before_a_formula(text):
    file = io.StringIO()
    write_csv(["a", "b"], [[text, -1]], file)
    assert file.getvalue() == f"a,b\n'{text},-1\n"


@pytest.mark.usefixtures("banner")
def test_export(run):
    for slot in range(30):
        run("ask", "banner")
        if slot != 7:
            run(
                "mark-missing" if slot == 3 else "tell",
                "banner",
                slot,
                *([] if slot == 3 else [slot / 4]),
            )
    assert run("export", "banner", "--out", "x.csv") == "x.csv\n"
    run("export", "banner", "--out", "x.parquet")
    parquet = pl.read_parquet("x.parquet")
    table = pl.read_csv("x.csv", schema=parquet.schema)
    assert table.equals(parquet)
    assert table.height == 30
    assert table.row(3, named=True)["missing"] is True
    assert table["total"].to_list()[28] == 7.0
    shown = list(
        csv.reader(io.StringIO(run("history", "banner", "--last", 1_000, "--format", "csv")))
    )
    assert shown == list(csv.reader(io.StringIO(Path("x.csv").read_text())))


@pytest.mark.usefixtures("banner")
def test_verify_of_a_damaged_file(run, capsys):
    for slot in range(3):
        run("ask", "banner")
        run("tell", "banner", slot, 5)
    with sqlite3.connect("live.db") as connection:
        connection.execute("UPDATE aftereffect_events SET total = 6 WHERE seq = 6")
    connection.close()
    assert main(["verify", "banner"]) == 2
    printed = capsys.readouterr()
    assert "event 6" in printed.out.splitlines()[1]
    assert printed.err == "aftereffect: experiment 'banner' is damaged: restore a backup\n"
    assert main(["status", "banner"]) == 2
    assert capsys.readouterr().err.startswith("aftereffect: experiment 'banner' is damaged, ")


def test_the_storage_of_the_environment_and_of_the_option(run, monkeypatch):
    arguments = ("--arms", "A,B", "--policy", "ucb1", "--reward-range", "0,1")
    run("create", "one", *arguments)
    assert Path("live.db").exists()
    run("create", "two", *arguments, "--storage", "sqlite:///other.db")
    assert ae.open_storage("sqlite:///other.db").names() == ["two"]
    monkeypatch.delenv("AFTEREFFECT_STORAGE")
    run("create", "three", *arguments)
    with ae.open_storage(DEFAULT_STORAGE) as storage:
        assert storage.names() == ["three"]
        ae.delete_experiment(storage, "three", "three.jsonl")
    assert (
        str(Path.home()) not in DEFAULT_STORAGE
    )  # tests keep away from the files of who runs them


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("document", ["README.md", "docs/live.md"])
def test_the_commands_of_the_documents(document, tmp_path):
    blocks = re.findall("```sh\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    commands = "".join(block for block in blocks if "aftereffect create" in block)
    # All its worlds would take most of a minute; that plans are right is checked elsewhere.
    commands, plans = re.subn("^aftereffect plan [^#\n]*", r"\g<0>--quick ", commands, flags=re.M)
    assert plans == 1
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    done = subprocess.run(
        ["bash", "-euc", commands],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
    )
    assert done.returncode == 0, done.stderr
    for command, promised in re.findall(r"^(.*?) +# (slot .*)$", commands, re.MULTILINE):
        assert promised in done.stdout, command
    assert "next: slot 2 (2018-10-01 02:00) plays B, planned up to slot 23" in done.stdout


@pytest.mark.usefixtures("banner")
def test_numbers_are_read_the_same_way_beside_pydantic(run, refused):
    importlib.import_module("pydantic")  # where it is loaded, cyclopts has it check types
    run("ask", "banner")
    assert run("tell", "banner", 0, 1.5) == "slot 0: 1.5, recorded\n"
    assert "slot must be a whole number" in refused("ask", "banner", "--slot", 1.5)


@pytest.fixture
def shop(run):
    """Six weeks of hours, and an experiment that follows them."""
    times = [datetime(2026, 1, 1) + timedelta(hours=hour) for hour in range(6 * 168)]
    lines = [f"{time.isoformat()},{50 + 2 * time.hour + time.weekday()}" for time in times]
    Path("past.csv").write_text("\n".join(["time,total", *lines, ""]))
    return run(
        "create", "shop", "--arms", "old,new", "--slot", "1h", "--history", "past.csv", "--seed", 1
    )


@pytest.mark.compiled
def test_an_experiment_without_a_policy_takes_the_one_for_real_totals(shop, run):
    assert shop.startswith(
        "shop: not begun; adaptive-switchback(slots_per_day=24, first=72), 0 slots"
    )
    status = json.loads(run("status", "shop", "--format", "json"))
    assert (status["start"], status["history"]) == ("2026-02-12T00:00:00+00:00", 1_008)
    assert run("ask", "shop").startswith("slot 0 (2026-02-12 00:00:00): play ")
    assert run("ask", "shop", "--slot", "2026-02-12T01:00").startswith("slot 1 (2026-02-12 01:00")
    assert run("tell", "shop", "2026-02-12T00:00", 51) == "slot 0: 51, recorded\n"
    Path("day.csv").write_text("time,total\n2026-02-12T01:00,52.5\n")
    assert run("tell", "shop", "--csv", "day.csv") == "slot 1: 52.5, recorded\n"
    assert run("history", "shop").splitlines()[2].startswith("2026-02-12 01:00")
    run("skip", "shop", "2026-02-12T02:00", "2026-02-12T05:00")
    assert "whole" in run("verify", "shop")
    decision = json.loads(run("ask", "shop", "--format", "json"))
    assert decision["slot"] == 6
    assert sum(decision["probabilities"].values()) == pytest.approx(1)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("time,total\n2026-01-01,1\nyesterday,2\n", "past.csv, line 3: expected a time such as"),
        ("when;what\n", "the first line of past.csv must name the columns time and total"),
        (
            "time,total\n2026-01-01,1\n2026-01-01T00:10,1\n",
            "line 3: no slot begins at 2026-01-01T00:10",
        ),
    ],
)
def test_a_history_that_cannot_be_read_is_refused(refused, run, lines, message):
    Path("past.csv").write_text(lines)
    said = refused("create", "shop", "--arms", "A,B", "--slot", "1h", "--history", "past.csv")
    assert message in said
    assert run("experiments") == "no experiments\n"


SMALL = "adaptive-switchback(slots_per_day=2, delay=interval(0, 2))"


@pytest.mark.compiled
def test_arms_come_and_go(run, refused):
    run("create", "shop", "--arms", "A,B,C", "--policy", SMALL, "--control", "A", "--seed", 1)
    for slot in range(6):
        run("ask", "shop", "--slot", slot)
    table = run("arms", "shop", "--add", "D, E", "--pause", "B")
    assert "B is paused from slot 6 on" in table
    assert "D is active from slot 6 on" in table
    assert run("arms", "shop", "--add", "D,E", "--pause", "B") == table
    assert refused("arms", "shop", "--retire", "C") == (
        "arms asks before it acts, and there is no terminal: give --yes"
    )
    status = json.loads(run("arms", "shop", "--retire", "C", "--yes", "--format", "json"))
    states = {arm["arm"]: (arm["state"], arm["since"]) for arm in status["arms"]}
    assert states == {
        "A": ("active", None),
        "B": ("paused", 6),
        "C": ("retired", 6),
        "D": ("active", 6),
        "E": ("active", 6),
    }
    run("arms", "shop", "--retire", "C")  # it is already, so there is nothing to ask
    assert refused("arms", "shop") == (
        "expected at least one arm to add, pause, resume or retire, got none"
    )
    assert refused("arms", "shop", "--pause", "F").startswith("there is no arm 'F'")
    assert refused("arms", "shop", "--add", "C").endswith("add an arm with another name")
    assert "'A' is the control" in refused("arms", "shop", "--pause", "A")
    for slot in range(6, 12):
        assert "play B" not in run("ask", "shop", "--slot", slot)
    assert "every decision derived again" in run("verify", "shop")


def test_other_policies_say_that_their_arms_stay(run, refused):
    run(
        *("create", "old", "--arms", "A,B", "--policy", "ucb1", "--reward-range", "0,9"),
        *("--seed", 1),
    )
    assert refused("arms", "old", "--add", "C").startswith("ucb1 cannot go on with other arms:")


@pytest.mark.parametrize(("answer", "state"), [("y", "retired"), ("n", "active")])
@pytest.mark.compiled
def test_to_retire_an_arm_asks_on_a_terminal(run, monkeypatch, answer, state):
    run("create", "shop", "--arms", "A,B,C", "--policy", SMALL, "--seed", 1)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    main(["arms", "shop", "--retire", "C"])
    assert asked == ["Retire C for good? A retired arm is never played again. [y/N] "]
    with ae.Experiment.open("shop", storage="sqlite:///live.db") as experiment:
        assert experiment.status().arms[2].state == state


def test_units_have_an_arm_and_a_total_each(run, refused, tmp_path):
    policy = ("--policy", "fixed-unit-switchback(block=3)", "--seed", 1)
    status = run("create", "stores", "--arms", "A,B", "--units", "north,south", *policy)
    assert "unit   next arm  totals  missing  outstanding  mean\n" in status
    answer = run("ask", "stores", "--slot", 0)
    assert answer.startswith(
        "slot 0: play A in 1 unit, B in 1 unit (round 0, planned up to slot 2)\nunit   arm\n"
    )
    assert run("ask", "stores", "--slot", 0) == answer
    decision = json.loads(run("ask", "stores", "--slot", 0, "--format", "json"))
    assert [line.split() for line in answer.splitlines()[2:]] == [
        *map(list, decision["arms"].items())
    ]
    assert run("tell", "stores", 0, "north=37", "south=") == "2 totals: 2 recorded\n"
    assert run("tell", "stores", 0, 37, "--unit", "north") == "slot 0 in north: 37, unchanged\n"
    assert run("tell", "stores", 0, "south=12", "--revise") == "slot 0 in south: 12, revised\n"
    run("ask", "stores", "--slot", 1)
    assert (
        run("mark-missing", "stores", 1, "--unit", "south")
        == "slot 1 in south: missing, recorded\n"
    )
    (tmp_path / "monday.csv").write_text("Filiale,slot,total\nnorth,1,40\n")
    fed = run("tell", "stores", "--csv", tmp_path / "monday.csv", "--columns", "unit=Filiale")
    assert fed == "slot 1 in north: 40, recorded\n"
    rows = list(csv.DictReader(io.StringIO(run("history", "stores", "--format", "csv"))))
    assert [(row["slot"], row["unit"], row["total"]) for row in rows] == [
        ("0", "north", "37.0"),
        ("0", "south", "12.0"),
        ("1", "north", "40.0"),
        ("1", "south", ""),
    ]
    for message, *command in (
        ("is for no unit, and the experiment has 2", "tell", "stores", 1, 37),
        ("unknown unit 'west': known: north, south", "tell", "stores", 1, "west=3"),
        ("totals by unit, once each", "tell", "stores", 1, "north=3", "north=4"),
        ("totals by unit, once each", "tell", "stores", 1, 3, 4),
        (
            "units must have different names, got 'north' twice",
            "create",
            "s",
            "--arms",
            "A,B",
            "--units",
            "north,north",
        ),
        (
            "must name the columns slot and unit and total",
            "tell",
            "stores",
            "--csv",
            tmp_path / "bare.csv",
        ),
    ):
        (tmp_path / "bare.csv").write_text("slot,total\n1,3\n")
        assert message in refused(*command)
