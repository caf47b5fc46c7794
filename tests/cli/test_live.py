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


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Commands find their storage in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFTEREFFECT_STORAGE", "sqlite:///live.db")


@pytest.fixture
def run(capsys):
    """What a command prints; it must succeed."""

    def run(*arguments):
        assert main([str(argument) for argument in arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(capsys):
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


def log():
    experiment = ae.Experiment.open("banner", storage="sqlite:///live.db")
    with experiment.storage.reading(1) as view:
        return view.events(0, 1_000)


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
    }
    recorded = json.loads(run("tell", "banner", 0, 1.5, "--format", "json"))
    assert recorded == [{"slot": 0, "total": 1.5, "change": "recorded", "arm": "A"}]
    status = json.loads(run("status", "banner", "--format", "json"))
    assert status["arms"][0] == {
        "arm": "A",
        "pulls": 1,
        "share": 1.0,
        "rounds": 1,
        "mean": 1.5,
        "floor": None,
        "stopped": None,
    }
    assert status["next"] == {
        "slot": 1,
        "arm": "B",
        "round": 1,
        "until": 1,
        "hold": False,
        "time": None,
        "probabilities": None,
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
    }
    assert run("history", "banner", "--format", "csv").startswith(
        "slot,arm,played,round,hold,total,missing,learned,revisions,decided_at,received_at,time,probability\n0,A,"
    )
    assert run("history", "banner", "--after", 5, "--format", "csv").count("\n") == 1
    assert run("verify", "banner", "--format", "csv").startswith(
        "name,events,slots,rounds,problems,difference,whole\nbanner,2,"
    )


@pytest.mark.usefixtures("banner")
def test_many_totals_from_a_file(run, refused):
    for _ in range(4):
        run("ask", "banner")
    totals = Path("totals.csv")
    totals.write_text("\ufeffday,total,slot\nMo, 7 ,0\nTu,,1\nWe,missing,2\n", encoding="utf-8")
    assert run("tell", "banner", "--csv", totals) == "3 totals: 3 recorded\n"
    assert run("tell", "banner", "--csv", totals) == "3 totals: 3 unchanged\n"
    before = log()
    for text, message in (
        ("slot,total\n3,5\n3,6\n", "got 6"),
        ("slot,total,arm\n3,5,D\n", "known: A, B, C"),
        ("slot,total\n3,5\n9,6\n", "slot 9 is not decided yet"),
        ("slot,total\n3,5\nx,6\n", "totals.csv, line 3: a slot must be a whole number, got 'x'"),
        (
            "slot,total\n3,five\n",
            "totals.csv, line 2: a total must be a number, or empty if it is missing, got 'five'",
        ),
        (
            "slot,total\n3,12,5\n",
            "totals.csv, line 2: expected 2 cells, got 3: "
            "if numbers have decimal commas, separate cells by semicolons",
        ),
        (
            "slot,total\n3\n",
            "totals.csv, line 2: expected 2 cells, got 1",
        ),
        ("slot,total,total\n3,1,2\n", "must name the columns slot and total, once each"),
        ("slot,total\n1_0,5\n", "totals.csv, line 2: a slot must be a whole number, got '1_0'"),
        (
            "slot,value\n3,5\n",
            "the first line of totals.csv must name the columns slot and total, once each, "
            "got 'slot, value'",
        ),
        (
            "",
            "the first line of totals.csv must name the columns slot and total, once each, got ''",
        ),
        ('slot,total\n3,"5\n', "cannot read totals.csv: unexpected end of data"),
    ):
        totals.write_text(text)
        assert message in refused("tell", "banner", "--csv", totals)
        assert log() == before
    totals.write_bytes(b"slot,total\n3,\xff\n")
    assert "save it as UTF-8" in refused("tell", "banner", "--csv", totals)
    for place, reason in (("none.csv", "No such file or directory"), (".", "Is a directory")):
        message = refused("tell", "banner", "--csv", place)
        assert message.startswith(f"cannot read {place}: {reason}; give a .csv")
    totals.write_text("slot,total\n")
    assert run("tell", "banner", "--csv", totals) == "0 totals: nothing to record\n"
    totals.write_text("slot,total,arm\n3,5,C\n")
    assert run("tell", "banner", "--csv", totals) == "slot 3: 5, recorded\n"
    assert "played C" in run("history", "banner")


@pytest.mark.usefixtures("banner")
def test_totals_of_other_names_from_a_folder_and_from_a_database(run, refused, capsys):
    for slot in range(6):
        run("ask", "banner", "--slot", slot)
    Path("umsatz.csv").write_text("sep=;\nStunde;Umsatz\n0;1,5\n1;2,25\n", encoding="utf-16")
    columns = ("--columns", "slot=Stunde,total=Umsatz")
    assert run("tell", "banner", "--csv", "umsatz.csv", *columns) == "2 totals: 2 recorded\n"
    assert "by name, once each, such as time=Datum" in refused(
        "tell", "banner", "--csv", "umsatz.csv", "--columns", "slot"
    )
    with sqlite3.connect("sales.db") as connection:
        connection.execute("CREATE TABLE sales AS SELECT 2 AS slot, 7.5 AS total")
    connection.close()
    sql = ("--sql", "sqlite:///sales.db", "--query")
    assert run("tell", "banner", *sql, "SELECT * FROM sales") == "slot 2: 7.5, recorded\n"
    assert "no such table: prices" in refused("tell", "banner", *sql, "SELECT * FROM prices")
    assert "--query needs the database" in refused("tell", "banner", "--query", "SELECT 1")
    assert "need --csv or --sql" in refused("tell", "banner", 3, 5, "--ignore-unplayed")
    assert "or --sql URL --query SELECT" in refused("tell", "banner", 3, 5, *sql, "SELECT 1")

    Path("feed").mkdir()
    for name, text in (("1.csv", "slot,total\n3,5\n"), ("2.csv", "slot,total\n9,5\n")):
        path = Path("feed", name)
        path.write_text(text)
        os.utime(path, (1e9, 1e9))
    follow = ("follow", "banner", "feed", "--once")
    assert main(list(follow)) == 2
    printed = capsys.readouterr()
    assert printed.out == "1.csv: 1 recorded, 0 revised, 0 unchanged\n"
    first, second = printed.err.splitlines()
    assert first.startswith("2.csv: refused: slot 9 is not decided yet: the next slot is 6")
    assert second == "aftereffect: files in feed that were refused: 1"
    for slot in range(6, 10):
        run("ask", "banner", "--slot", slot)
    assert run(*follow) == "2.csv: 1 recorded, 0 revised, 0 unchanged\n"
    assert run(*follow) == ""
    assert "expected a folder" in refused("follow", "banner", "nothing", "--once")
    assert "every must be" in refused("follow", "banner", "feed", "--every", 0)
    assert run("verify", "banner").startswith("banner: whole")


@pytest.mark.usefixtures("banner")
def test_hooks(run, refused):
    run("ask", "banner")
    Path("hook.py").write_text("import sys; open('got.txt', 'a').write(sys.stdin.read() + '\\n')")
    command = f"{sys.executable} hook.py"
    notify = ("notify", "banner", "--once", "--command", command)
    assert run(*notify) == "banner: from slot 0 on, A is played\n"
    assert run(*notify) == ""
    run("tell", "banner", 0, 5)
    run("ask", "banner")
    assert run(*notify) == "banner: from slot 1 on, B is played instead of A\n"
    got = [json.loads(line) for line in Path("got.txt").read_text().splitlines()]
    assert [each["data"]["arm"] for each in got] == ["A", "B"]
    assert "exit status 1" in refused("notify", "banner", "--once", "--command", "false")
    assert "notify needs either --url" in refused("notify", "banner", "--once")
    assert "a hook must be an address" in refused("notify", "banner", "--url", "shop")
    assert run("verify", "banner").startswith("banner: whole")


@pytest.mark.usefixtures("banner")
def test_provisional_totals(run, refused):
    create = ("create", "ads", "--arms", "A,B", "--policy", "ucb1", "--reward-range", "0,9")
    times = ("--slot", "1d", "--start", "2190-01-01")
    assert "final_after must be a time" in refused(*create, *times, "--final-after", "soon")
    assert "final_after needs slots with times" in refused(*create, "--final-after", "72h")
    run(*create, *times, "--final-after", "72h")
    run("ask", "ads")
    run("tell", "ads", 0, 5)
    assert run("tell", "ads", 0, 6) == "slot 0: 6, revised\n"
    assert "1 provisional" in run("status", "ads")


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
def test_a_typing_error_must_be_confirmed(run, refused):
    experiment = ae.Experiment.open("banner", storage="sqlite:///live.db")
    for slot in range(30):
        experiment.ask(slot)
        experiment.tell(slot, 40 + slot % 3)
    experiment.ask(30)
    assert refused("tell", "banner", 30, 4100).endswith("confirm it if it is right, with --yes")
    assert run("tell", "banner", 30, 4100, "--yes") == "slot 30: 4100, recorded\n"


@pytest.mark.usefixtures("banner")
def test_revising(run, refused):
    run("ask", "banner")
    run("tell", "banner", 0, 5)
    for slot in (1, 2):
        run("ask", "banner")
        run("tell", "banner", slot, 5)
    for _ in range(2):
        run("ask", "banner")
    run("tell", "banner", 3, 5)
    assert "got 6" in refused("tell", "banner", 3, 6)
    assert run("tell", "banner", 3, 6, "--revise") == "slot 3: 6, revised\n"
    assert run("mark-missing", "banner", 3, "--revise") == "slot 3: missing, revised\n"
    assert "revised" in run("history", "banner", "--last", 2)


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
def test_refusals(refused, arguments, message):
    before = log()
    assert message in refused(*arguments)
    assert log() == before


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


@pytest.fixture
def weather(run):
    Path("past.csv").write_text(
        "time,total,Rain,temperature\n2026-01-01,50,,-3\n2026-01-02,60,1.5,\n"
    )
    run(
        *("create", "weather", "--arms", "A,B", "--policy", "fixed-switchback", "--slot", "1d"),
        *("--history", "past.csv", "--covariates", "temperature, rain", "--seed", 1),
        *("--start", "2026-01-03", "--unit", "EUR"),
    )
    for slot in range(4):
        run("ask", "weather", "--slot", slot)


@pytest.mark.usefixtures("weather")
def test_the_status_has_unit_and_covariates(run, refused):
    lines = run("status", "weather").splitlines()
    assert lines[0].startswith("weather: waiting for totals; fixed-switchback")
    assert "mean (EUR)" in lines[1]
    assert lines[-2] == "covariates: temperature, rain"
    assert json.loads(run("status", "weather", "--format", "json"))["unit"] == "EUR"
    assert "unit must be 1 to 20 printable characters" in refused(
        *("create", "x", "--arms", "A,B", "--policy", "ucb1", "--reward-range", "0,1"),
        *("--unit", "x" * 21),
    )


@pytest.mark.usefixtures("weather")
def test_covariates(run):
    assert run("tell", "weather", 0, 37, "--covariates", "temperature=-3.5, rain=0") == (
        "slot 0: 37, recorded\n"
    )
    assert run("mark-missing", "weather", 1, "--covariates", "rain=2e1") == (
        "slot 1: missing, recorded\n"
    )
    Path("day.csv").write_text("slot,total,RAIN,other\n2,40,1.5,x\n3,41,,y\n")
    assert run("tell", "weather", "--csv", "day.csv") == "2 totals: 2 recorded\n"
    assert run("tell", "weather", 2, 40, "--covariates", "rain=2", "--revise") == (
        "slot 2: 40, revised\n"
    )
    records = json.loads(run("history", "weather", "--format", "json"))
    assert [record["covariates"] for record in records] == [
        {"temperature": -3.5, "rain": 0},
        {"temperature": None, "rain": 20},
        {"temperature": None, "rain": 2},
        None,
    ]
    header, first, second, *_ = run("history", "weather").splitlines()
    assert header.split()[:6] == ["slot", "arm", "round", "total", "temperature", "rain"]
    assert first.split()[4:7] == ["37", "-3.5", "0"]
    assert second.split()[4:7] == ["-", "-", "20"]
    table = list(csv.DictReader(io.StringIO(run("history", "weather", "--format", "csv"))))
    assert [(row["total"], row["temperature"], row["rain"]) for row in table] == [
        ("37.0", "-3.5", "0.0"),
        ("", "", "20.0"),
        ("40.0", "", "2.0"),
        ("41.0", "", ""),
    ]
    run("export", "weather", "--out", "all.csv")
    assert "4 totals: 4 unchanged" in run("tell", "weather", "--csv", "all.csv")
    assert "whole" in run("verify", "weather")


@pytest.mark.usefixtures("weather")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("wind=3", "slot 0 has an unknown covariate 'wind': known: temperature, rain"),
        ("rain=wet", "expected a number, got 'wet'"),
        ("rain=inf", "rain of slot 0 must be a number from"),
        ("rain", "expected covariates by name, once each, such as temperature=3.5,rain=0, got"),
        ("rain=1,rain=2", "expected covariates by name, once each"),
    ],
)
def test_covariates_that_are_refused(refused, run, given, message):
    assert message in refused("tell", "weather", 0, 37, "--covariates", given)
    assert json.loads(run("status", "weather", "--format", "json"))["received"] == 0


@pytest.mark.usefixtures("weather")
def test_files_and_settings_with_covariates_that_are_refused(refused):
    Path("day.csv").write_text("slot,total,rain\n0,1,2\n1,1,wet\n")
    said = refused("tell", "weather", "--csv", "day.csv")
    assert "day.csv, line 3: rain must be a number, or empty if it is not known, got 'wet'" in said
    Path("day.csv").write_text("slot,total,rain,Rain\n0,1,2,3\n")
    assert "more than one column rain" in refused("tell", "weather", "--csv", "day.csv")
    assert "either a slot and its total, or --csv" in refused(
        "tell", "weather", "--csv", "day.csv", "--covariates", "rain=1"
    )
    created = ("create", "other", "--arms", "A,B", "--slot", "1d", "--history", "past.csv")
    assert "must have one column 'wind'" in refused(*created, "--covariates", "wind")
    assert "learns from rounds and cannot use covariates" in refused(
        *("create", "other", "--arms", "A,B", "--policy", "ars-ucb", "--reward-range", "0,1"),
        *("--covariates", "rain"),
    )


@pytest.mark.compiled
def test_guardrails(run, refused):
    run(
        *("create", "shop", "--arms", "A,B", "--policy", "fixed-switchback(block=2)", "--seed", 1),
        *("--guardrail", "guardrail(complaints, tolerated=5, stops=true)"),
        *("--guardrail", "guardrail(refunds, harm=less)"),
    )
    for slot in range(4):
        run("ask", "shop", "--slot", slot)
    assert run("tell", "shop", 0, 37, "--guardrails", "complaints=3, refunds=1.5") == (
        "slot 0: 37, recorded\n"
    )
    assert run("mark-missing", "shop", 1, "--guardrails", "refunds=2") == (
        "slot 1: missing, recorded\n"
    )
    Path("day.csv").write_text("slot,total,COMPLAINTS,refunds\n2,40,7,\n3,41,,2\n")
    assert run("tell", "shop", "--csv", "day.csv") == "2 totals: 2 recorded\n"
    assert run("tell", "shop", 2, 40, "--guardrails", "complaints=8", "--revise") == (
        "slot 2: 40, revised\n"
    )
    records = json.loads(run("history", "shop", "--format", "json"))
    assert [record["guardrails"] for record in records] == [
        {"complaints": 3, "refunds": 1.5},
        {"complaints": None, "refunds": 2},
        {"complaints": 8, "refunds": None},
        {"complaints": None, "refunds": 2},
    ]
    assert run("history", "shop").split()[:6] == [
        *("slot", "arm", "round", "total", "complaints", "refunds")
    ]
    header = run("history", "shop", "--format", "csv").splitlines()[0]
    assert header.endswith("probability,complaints,refunds")
    lines = run("status", "shop").splitlines()
    assert lines[-2:] == [
        "Not yet: whether an arm brings more than 5 % more complaints than A.",
        "Not yet: whether an arm brings less refunds than A.",
    ]
    answer = json.loads(run("status", "shop", "--format", "json"))
    assert [found["guardrail"] for found in answer["judged_guardrails"]] == [
        "complaints",
        "refunds",
    ]
    assert "complaints" in run("results", "shop")
    assert "expected guardrails by name, once each, such as complaints=3" in refused(
        *("tell", "shop", 0, 37, "--guardrails", "3")
    )
    assert "unknown guardrail" in refused("tell", "shop", 0, 37, "--guardrails", "rain=3")


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
