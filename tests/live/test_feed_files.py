"""Totals from files as spreadsheets write them, from a folder of such files, and from a database."""

import gzip
import os
import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

import aftereffect as ae
from aftereffect.live import (
    FeedForm,
    FolderFeed,
    find_form,
    leave_out_unplayed,
    read_totals_file,
    read_totals_query,
)

PLAIN = FeedForm()
EXPECTED = [
    (0, 1000.0, None, {}, {}, None),
    (1, None, None, {}, {}, None),
    (2, -0.5, "B", {}, {}, None),
    (3, 0.0, None, {}, {}, None),
]


def read(tmp_path, text, form=PLAIN, encoding="utf-8"):
    path = tmp_path / "totals.csv"
    path.write_bytes(text.encode(encoding))
    return read_totals_file(path, form)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("slot,total,arm\n0,1e3,\n1,,\n2,-.5, B \n3,0e-999,\n", "utf-8"),
        ("Slot;Total;Arm\r\n0;1.000,0;\r\n1;missing;\r\n2;-0,5;B\r\n3;0;\r\n", "utf-8-sig"),
        ("arm\ttotal\tslot\tshop\n\t1'000\t0\tx\n\tNA\t1\ty\nB\t-.50\t2\tz\n\t0\t3\t\n", "utf-16"),
        ('sep=,\n"slot","total","arm"\n0,"1,000.0",\n1,null,\n2,-0.5,B\n\n3,0,\n', "utf-8"),
    ],
    ids=["plain", "German", "Unicode text", "English"],
)
def test_files_as_people_write_them(tmp_path, text, encoding):
    assert read(tmp_path, text, encoding=encoding) == EXPECTED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("slot,total\n0,1,5\n", "line 2: expected 2 cells, got 3: if numbers have decimal commas"),
        ("slot,total\n0\n", "line 2: expected 2 cells, got 1"),
        (
            "slot,total\n0,1_000\n",
            "line 2: a total must be a number, or empty if it is missing, got",
        ),
        (
            "slot,total\n0,\u0661\u0662\n",
            "a total must be a number, or empty if it is missing, got",
        ),
        (
            "slot,total\n0,1e-400\n",
            "a total must be a number, or empty if it is missing, got '1e-4",
        ),
        ("slot,total\n0,5 EUR\n", "got '5 EUR': write 1234.5, without other marks"),
        ("slot,total\n0,1.2.3\n", "got '1.2.3'"),
        ('slot,total\n0,"1,234"\n', "'1,234' may have decimals or thousands, and no other number"),
        ("slot;total\n0;1.234\n1;2.345\n", "line 2: '1.234' may have decimals or thousands"),
        ("slot;total\n0;1.234,5\n1;0.5\n", "'1.234,5' has another mark before decimals than '0.5'"),
        ("slot,total\n-1,5\n", "line 2: a slot must be a whole number, got '-1'"),
        ("slot,total\n1.0,5\n", "line 2: a slot must be a whole number, got '1.0'"),
        ("time,total\n3/2/2026,5\n", "line 2: expected a time such as 2026-03-02T00:00, got '3/2"),
        ("when,total\n0,5\n", "must name the columns slot and total, once each, got 'when, total'"),
        ("slot,total,total\n0,5,6\n", "must name the columns slot and total, once each"),
        ("slot,total,arm,Arm\n0,5,A,B\n", "has more than one column arm"),
        ("slot|total\n0|5\n", "must name the columns slot and total, once each, got 'slot|total'"),
        ("", "must name the columns slot and total"),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path, text, problem):
    with pytest.raises(ae.InputError) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_names_covariates_and_guardrails(tmp_path):
    form = FeedForm(["rain"], ["refunds"], {"slot": "Stunde", "total": "Umsatz", "rain": "Regen"})
    text = "Stunde;Umsatz;Regen;Refunds\n0;1,5;;2\n1;2;0,5;missing\n"
    assert read(tmp_path, text, form) == [
        (0, 1.5, None, {}, {"refunds": 2.0}, None),
        (1, 2.0, None, {"rain": 0.5}, {}, None),
    ]
    with pytest.raises(ae.InputError, match="line 2: rain must be a number, or empty if it is not"):
        read(tmp_path, "Stunde;Umsatz;Regen\n0;1,5;wet\n", form)
    with pytest.raises(ae.ParameterError, match="'wind' cannot be named: known are slot, time"):
        read(tmp_path, text, FeedForm(columns={"wind": "Wind"}))


def test_workbooks_and_suffixes_in_capitals(tmp_path):
    path = tmp_path / "totals.XLSX"
    path.write_bytes(b"PK")
    with pytest.raises(ae.InputError, match=r"it is a workbook; save its sheet as a \.csv file"):
        read_totals_file(path)
    path = tmp_path / "TOTALS.CSV.GZ"
    path.write_bytes(gzip.compress(b"slot,total\n0,1\n"))
    assert read_totals_file(path)[0][1] == 1


def test_arms_that_look_like_numbers(tmp_path):
    """Prices, as an arm is often called, do not say which mark comes before decimals."""
    text = "slot;total;arm\n0;1.234,5;9.99\n1;0,5;10.999\n"
    assert [row[1:3] for row in read(tmp_path, text)] == [(1234.5, "9.99"), (0.5, "10.999")]


def test_times_and_time_zones(tmp_path):
    text = "time,total\n02.03.2026 14:00,1\n2026-03-02 15:00+02:00,2\n2026/03/02 16:00,3\n"
    first, second, third = (row[0] for row in read(tmp_path, text))
    assert (first, third) == (datetime(2026, 3, 2, 14), datetime(2026, 3, 2, 16))
    assert second == datetime(2026, 3, 2, 15, tzinfo=timezone(timedelta(hours=2)))
    (row, *_) = read(tmp_path, text, FeedForm(timezone="America/New_York"))
    assert row[0] == datetime(2026, 3, 2, 19, tzinfo=UTC)


def hourly(storage="memory://", **settings):
    """An experiment in Berlin in the night in which clocks show an hour twice."""
    settings = {"slot": "1h", "start": "2026-10-25T00:00", "timezone": "Europe/Berlin"} | settings
    experiment = ae.Experiment.create(
        "shop", arms=["A", "B"], policy="ucb1", reward_range=(0, 99), storage=storage, **settings
    )
    for slot in range(6):
        experiment.ask(slot)
    return experiment


def test_an_hour_that_clocks_show_twice(tmp_path):
    experiment = hourly()
    clocks = ["01:00", "02:00", "02:00", "03:00"]
    text = "".join(
        f"2026-10-25 {clock};{place};{'AABA'[place - 1]}\n" for place, clock in enumerate(clocks, 1)
    )
    experiment.tell_many(read(tmp_path, f"time;total;arm\n{text}"))
    lines = experiment.history()
    assert [line.total for line in lines] == [None, 1, 2, 3, 4, None]
    assert [line.played for line in lines] == list("AAABAA")
    experiment.tell(3, 3, revise=True)  # the decided arm after all
    # The same hours, as the clocks of another zone show them.
    zone = ZoneInfo("America/New_York")
    times = [datetime.fromisoformat(line.time).astimezone(zone) for line in experiment.history()]
    text = "".join(f"{time:%Y-%m-%dT%H:%M};{place}\n" for place, time in enumerate(times))
    rows = read(tmp_path, f"time;total\n{text}", FeedForm(timezone="America/New_York"))
    changes = [record.change for record in experiment.tell_many(rows)]
    assert changes == ["recorded", *["unchanged"] * 4, "recorded"]


def test_slots_that_were_not_played_can_be_left_out(tmp_path):
    experiment = hourly()
    experiment.skip(6, 7)
    experiment.ask(8)
    rows = read(
        tmp_path,
        "time,total,arm\n2026-10-24T22:00,1,\n2026-10-25T05:00,2,\n2026-10-25T06:00,3,B\n2026-10-25T07:00,4,\n",
    )
    with pytest.raises(ae.ParameterError, match="slot 0 begins at"):
        experiment.tell_many(rows)
    assert [row[1] for row in rows] == [1, 2, 3, 4]
    kept = leave_out_unplayed(experiment, rows)
    # 05:00 and 06:00 are slots 6 and 7, which were skipped; an arm was played in the second.
    assert [row[1] for row in kept] == [3, 4]
    assert len(experiment.tell_many(kept)) == 2
    beyond = [(17, 5.0, None, {}, {}, None)]
    assert leave_out_unplayed(experiment, beyond) == beyond  # it may be decided later


def test_totals_from_a_database(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sales (at TEXT, total REAL, arm TEXT)")
        rows = [("2026-10-25 00:00", 1.5, None), ("2026-10-25 02:00+01:00", None, "B")]
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?)", rows)
    connection.close()
    query = "SELECT at AS time, total, arm FROM sales ORDER BY at"
    rows = read_totals_query(f"sqlite:///{path}", query)
    assert [row[1:3] for row in rows] == [(1.5, None), (None, "B")]
    experiment = hourly()
    experiment.tell_many(rows)
    assert [(line.total, line.missing) for line in experiment.history()[::3]] == [
        (1.5, False),
        (None, True),
    ]
    for text, message in (
        ("SELECT * FROM prices", "the query of the totals failed: no such table: prices$"),
        ("DELETE FROM sales", "the query must be a SELECT"),
        (
            "SELECT 1 AS slot",
            "the query must have the columns slot and total, once each, got 'slot'",
        ),
    ):
        with pytest.raises(ae.InputError, match=message):
            read_totals_query(f"sqlite:///{path}", text)
    assert len(read_totals_query(f"sqlite:///{path}", query)) == 2
    with pytest.raises(ae.InputError, match="there is no such database"):
        read_totals_query(f"sqlite:///{tmp_path}/other.db", query)
    assert not (tmp_path / "other.db").exists()
    with pytest.raises(ae.InputError, match="URL of the database cannot be read") as caught:
        read_totals_query("user:secret@shop", query)
    assert "secret" not in str(caught.value)


@pytest.mark.postgres
def test_totals_from_postgresql(postgres):
    place = postgres.url()
    postgres.sql(
        place.rpartition("/")[2],
        "CREATE TABLE sales AS SELECT 3 AS slot, 12.25::numeric AS total, '2026-10-25 03:00+01'::timestamptz AS time",
    )
    assert read_totals_query(place, "SELECT slot, total FROM sales WHERE total > 1") == [
        (3, 12.25, None, {}, {}, None)
    ]
    (row,) = read_totals_query(place, "SELECT time, total FROM sales")
    assert row[0] == datetime(2026, 10, 25, 2, tzinfo=UTC)


# A batch that is recorded once


def test_a_batch_is_recorded_once(connect):
    experiment = hourly(connect())
    other = ae.Experiment.open("shop", storage=connect())
    assert [record.change for record in experiment.tell_many({0: 5, 1: 6}, key="monday")] == [
        "recorded",
        "recorded",
    ]
    other.tell(0, 7, revise=True)
    assert other.tell_many({0: 5, 1: 6}, revise=True, key="monday") == []
    assert other.history()[0].total == 7
    # One that changes nothing is remembered too: it would undo what comes later.
    assert other.tell_many({1: 6}, key="tuesday")[0].change == "unchanged"
    experiment.tell(1, 8, revise=True)
    assert experiment.tell_many({1: 6}, revise=True, key="tuesday") == []
    assert [line.total for line in experiment.history()[:2]] == [7, 8]
    # One that is refused may come again.
    with pytest.raises(ae.ConflictError):
        experiment.tell_many({2: 1, 99: 1}, key="wednesday")
    assert experiment.history()[2].total is None
    assert experiment.tell_many({2: 1}, key="wednesday")[0].change == "recorded"
    # Keys of slots are others.
    assert experiment.ask(key="monday").slot == 6
    assert experiment.ask(key="monday").slot == 6
    with pytest.raises(ae.ParameterError, match="a key must be 1 to 200 printable ASCII"):
        experiment.tell_many({3: 1}, key="ä")
    assert experiment.verify().whole
    experiment.end()
    with pytest.raises(ae.ConflictError, match="has ended"):
        experiment.tell_many({2: 1}, key="thursday")


# Folders


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "feed"
    place.mkdir()
    return place


def put(folder, name, text, *, age=60.0):
    """Put a file into the folder that was changed so many seconds ago."""
    path = folder / name
    path.write_text(text)
    moment = path.stat().st_mtime - age
    os.utime(path, (moment, moment))
    return path


def test_each_file_of_a_folder_is_told_once(folder, connect):
    experiment = hourly(connect())
    feed = FolderFeed(experiment, folder, revise=True)
    assert feed.tell_new() == []
    put(folder, "2.csv", "slot,total\n0,20\n1,20\n")
    put(folder, "1.csv", "slot,total\n0,10\n")
    put(folder, ".3.csv", "slot,total\n0,30\n")
    put(folder, "notes.txt", "not totals")
    assert [tuple(report) for report in feed.tell_new()] == [
        ("1.csv", 1, 0, 0, None),
        ("2.csv", 1, 1, 0, None),
    ]
    assert feed.tell_new() == []
    # Another process, or this one after a crash: nothing is told again, and nothing is undone.
    again = FolderFeed(ae.Experiment.open("shop", storage=connect()), folder, revise=True)
    assert again.tell_new() == []
    assert [line.total for line in experiment.history()[:2]] == [20, 20]
    put(folder, "1.csv", "slot,total\n0,11\n")  # with other content it is another file
    assert [str(report) for report in again.tell_new()] == [
        "1.csv: 0 recorded, 1 revised, 0 unchanged"
    ]
    assert feed.tell_new() == []
    assert experiment.history()[0].total == 11
    assert experiment.verify().whole


def test_files_that_are_refused_are_tried_again(folder):
    experiment = hourly()
    feed = FolderFeed(experiment, folder)
    put(folder, "1.csv", "slot,total\n0,10\n6,10\n")
    put(folder, "2.csv", "slot,total\n1,ten\n")
    put(folder, "3.csv", "slot,total\n2,30\n")
    first, second, third = feed.tell_new()
    assert "refused: slot 6 is not decided yet" in str(first)
    assert "2.csv, line 2: a total must be a number" in second.problem
    assert third.recorded == 1
    experiment.ask(6)
    put(folder, "2.csv", "slot,total\n1,10\n")
    assert [report.recorded for report in feed.tell_new()] == [2, 1]
    assert feed.tell_new() == []


def test_a_file_that_is_being_written_is_left_alone(folder):
    feed = FolderFeed(hourly(), folder)
    put(folder, "1.csv", "slot,total\n0,10\n", age=0.5)
    assert feed.tell_new() == []
    put(folder, "1.csv", "slot,total\n0,10\n1,20\n", age=3)
    assert feed.tell_new()[0].recorded == 2


def test_what_is_no_folder(tmp_path):
    with pytest.raises(ae.InputError, match="expected a folder with files of totals"):
        FolderFeed(hourly(), tmp_path / "nothing")
    with pytest.raises(ae.ParameterError, match="timezone must be a name"):
        FolderFeed(hourly(), tmp_path, timezone="Mars")


@pytest.mark.compiled
def test_the_form_of_a_feed_is_that_of_the_experiment():
    experiment = ae.Experiment.create(
        "cafe",
        arms=["A", "B"],
        policy="fixed-switchback(block=2)",
        covariates=["rain"],
        guardrails=["guardrail(refunds)"],
        storage="memory://",
    )
    assert find_form(experiment, {"total": "Umsatz"}) == FeedForm(
        ("rain",), ("refunds",), {"total": "Umsatz"}, None
    )
