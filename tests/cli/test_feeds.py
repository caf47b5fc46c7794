"""Totals on the command line: one by one, from files, folders and databases; and hooks."""

import csv
import io
import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect.cli import main


@pytest.mark.usefixtures("banner")
def test_many_totals_from_a_file(run, refused, read_log):
    for _ in range(4):
        run("ask", "banner")
    totals = Path("totals.csv")
    totals.write_text("\ufeffday,total,slot\nMo, 7 ,0\nTu,,1\nWe,missing,2\n", encoding="utf-8")
    assert run("tell", "banner", "--csv", totals) == "3 totals: 3 recorded\n"
    assert run("tell", "banner", "--csv", totals) == "3 totals: 3 unchanged\n"
    before = read_log()
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
        assert read_log() == before
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
