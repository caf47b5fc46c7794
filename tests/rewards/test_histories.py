"""Files of times and totals: understood as people write them, or refused with the line."""

import gzip
import math
from datetime import UTC, date, datetime

import polars as pl
import pytest

import aftereffect as ae
from aftereffect.live._history import place_history
from aftereffect.rewards import read_timed_totals


def read(tmp_path, text, **given):
    """What an experiment makes of a file: when slot 0 begins, and the totals before it."""
    path = tmp_path / "totals.csv"
    path.write_text(text)
    settings = {"slot": "1h", "start": None, "timezone": None} | given
    clock, totals, _ = place_history(**settings, history=str(path))
    return clock.start.isoformat(), list(totals)


@pytest.mark.parametrize(
    "text",
    [
        "time,total\n2026-03-02T00:00,10\n2026-03-02T01:00,20.5\n2026-03-02T02:00,30\n",
        "time;total\n2026-03-02T00:00;10\n2026-03-02T01:00;20,5\n2026-03-02T02:00;30,0\n",
        "Total\tTime\tshop\n10\t2026-03-02 00:00\tx\n20,5\t2026-03-02 01:00\ty\n30\t2026-03-02 02:00\t\n",
        "time,total\n2026-03-02T02:00,30\n2026-03-02T00:00,10\n\n2026-03-02T01:00,20.5\n",
        "time,total\n2026-03-02T00:00,10\n2026-03-02T01:00,20.5\n2026-03-02T01:00,20.5\n2026-03-02T02:00,30\n",
        "\ufefftime,total\r\n2026-03-02T00:00Z,10\r\n2026-03-02T02:00+01:00,20.5\r\n2026-03-02T02:00Z,30\r\n",
        "sep=;\nTime;Total\n02.03.2026 00:00;10\n02.03.2026 01:00;20,5\n2.3.2026 02:00:00;30\n",
        'time,total\n2026/03/02 00:00,10\n2026/03/02 01:00,"20,5"\n2026-03-02T02:00,30\n',
        '"time","total"\n"2026-03-02T00:00:00","10"\n"2026-03-02T01:00:00","20.5"\n"2026-03-02T02:00:00","3e1"\n',
    ],
    ids=[
        *("plain", "semicolons", "tabs", "order", "doubled", "offsets"),
        *("as Excel does", "as Sheets does", "quotes"),
    ],
)
def test_files_as_people_write_them(tmp_path, text):
    assert read(tmp_path, text) == ("2026-03-02T03:00:00", [10, 20.5, 30])


@pytest.mark.parametrize(
    "text",
    [
        "time;total\n2026-03-02;1.234,5\n2026-03-03;12.345\n2026-03-04;0,125\n",
        'time,total\n2026-03-02,"1,234.5"\n2026-03-03,"12,345"\n2026-03-04,.125\n',
        "time\ttotal\n2026-03-02\t1'234.5\n2026-03-03\t12'345\n2026-03-04\t0.125\n",
        "time;total\n2026-03-02;1 234,5\n2026-03-03;12\u00a0345\n2026-03-04;0,125\n",
        "time;total\n2026-03-02;1\u202f234,50\n2026-03-03;12345,0\n2026-03-04;1,25e-1\n",
    ],
    ids=["German", "English", "Swiss", "French", "French too"],
)
def test_marks_between_thousands(tmp_path, text):
    assert read(tmp_path, text, slot="1d")[1] == [1234.5, 12345, 0.125]


def test_utf_16_as_excel_saves_it(tmp_path):
    path = tmp_path / "totals.csv"
    path.write_bytes("time\ttotal\r\n2026-03-02\t1,5\r\n".encode("utf-16"))
    assert read_timed_totals(str(path))[0].total == 1.5
    path.write_bytes("time;total;Umsätze\n2026-03-02;1;2\n".encode("cp1252"))
    with pytest.raises(ae.InputError, match=r"cannot read .*; save it as UTF-8; give a \.csv"):
        read_timed_totals(str(path))


def test_three_decimals_in_a_file_with_commas_between_cells(tmp_path):
    assert read(tmp_path, "time,total\n2026-03-02,1.234\n", slot="1d")[1] == [1.234]


def test_gaps_and_missing_totals(tmp_path):
    text = "time,total\n2026-03-02T00:00,10\n2026-03-02T02:00,\n2026-03-02T03:00,NaN\n2026-03-02T04:00,5\n"
    assert read(tmp_path, text)[1] == [10, None, None, None, 5]
    start, totals = read(tmp_path, text, start="2026-03-02T06:00")
    assert (start, totals) == ("2026-03-02T06:00:00", [10, None, None, None, 5, None])


def test_other_time_zones(tmp_path):
    """The file has UTC; the shop is in Berlin, where clocks are set forward on 29 March."""
    text = "time,total\n2026-03-28T23:00Z,1\n2026-03-29T00:00Z,2\n2026-03-29T01:00Z,3\n2026-03-29T02:00Z,4\n"
    start, totals = read(tmp_path, text, timezone="Europe/Berlin")
    assert (start, totals) == ("2026-03-29T05:00:00", [1, 2, None, 3, 4])
    text = "time,total\n2026-10-25T01:00,1\n2026-10-25T02:00,2\n2026-10-25T02:00,4\n2026-10-25T03:00,5\n"
    assert read(tmp_path, text, timezone="Europe/Berlin")[1] == [1, 3, 5]


def test_days_and_weeks(tmp_path):
    text = "time,total\n2026-03-02,1\n2026-03-03,2\n2026-03-05,3\n"
    assert read(tmp_path, text, slot="1d") == ("2026-03-06T00:00:00", [1, 2, None, 3])
    text = "time,total\n2026-03-02,1\n2026-03-09,2\n"
    assert read(tmp_path, text, slot="1w") == ("2026-03-16T00:00:00", [1, 2])


def test_parquet_and_gzip(tmp_path):
    times = [datetime(2026, 3, 2, hour) for hour in range(3)]
    for column in (times, [str(time) for time in times], [t.replace(tzinfo=UTC) for t in times]):
        frame = pl.DataFrame({"time": column, "total": [10, None, 30]})
        frame.write_parquet(tmp_path / "totals.parquet")
        rows = read_timed_totals(str(tmp_path / "totals.parquet"))
        assert [row.time.hour for row in rows] == [0, 1, 2]
        assert [row.total for row in rows[::2]] == [10, 30]
        assert math.isnan(rows[1].total)
    days = pl.DataFrame({"time": [date(2026, 3, 2)], "total": [1.5]})
    days.write_parquet(tmp_path / "totals.parquet")
    assert read_timed_totals(str(tmp_path / "totals.parquet"))[0].time == datetime(2026, 3, 2)
    (tmp_path / "totals.csv.gz").write_bytes(gzip.compress(b"time,total\n2026-03-02,7\n"))
    assert read_timed_totals(str(tmp_path / "totals.csv.gz"))[0].total == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-03-02,1\n", "the first line of .* must name the columns time and total"),
        ("time,total,total\n2026-03-02,1,2\n", "once each, got 'time, total, total'"),
        (
            "time,total\n2026-03-02T00:00,1\n2026-03-02T01:00,2,5\n",
            "line 3: expected 2 cells, got 3: if",
        ),
        ("time,total\n2026-03-02T00:00,1\n2026-03-02T01:00\n", "line 3: expected 2 cells, got 1"),
        ("time,total\n2026-03-02T00:00,1\n3/2/2026 01:00,2\n", "line 3: expected a time such as"),
        ("time;total\n2026-03-02T00:00;1.23,5\n", "line 2: expected .* got \\('2026"),
        ("time;total\n2026-03-02T00:00;1.234\n", "line 2: '1.234' may have decimals or thousands"),
        ('time,total\n2026-03-02T00:00,"1,234"\n', "line 2: '1,234' may have decimals or thou"),
        (
            "time;total\n2026-03-02T00:00;1,5\n2026-03-02T01:00;1.5\n",
            "line 2: '1,5' has another mark before decimals than '1.5' in line 3: use one of them",
        ),
        ("time,total\n2026-03-02T00:00,1_000\n", "line 2: expected a time such as"),
        ("time,total\n2026-03-02T00:00,-1\n", "line 2: expected a time such as"),
        ("time,total\n2026-03-02T00:00,inf\n", "line 2: expected a time such as"),
        ("time,total\n2026-03-02T00:00,1\n2026-03-02T00:20,2\n", "line 3: no slot begins at"),
        (
            "time,total\n2026-03-02T00:00,1\n2026-03-02T01:00,2\n2026-03-02T00:00,3\n",
            "line 4: 2026-03-02T00:00:00 has the total 3, but 1 in line 2: keep one of them",
        ),
        ("time,total\n2026-03-02,\n", "must hold at least one total"),
        ("time,total\n", "must hold at least one total"),
        ("", "the first line of"),
        ("time,total\n1900-01-01,1\n2026-01-01,1\n", "at most 100,000 slots before the start"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    with pytest.raises((ae.InputError, ae.ParameterError), match=message) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "time,total,rain,wind\n2026-03-02T00:00,10,1.5,-3\n2026-03-02T01:00,20,,1e1\n",
        "Wind;time; RAIN ;total;other\n-3,0;2026-03-02T00:00;1,5;10;x\n10;2026-03-02T01:00;NA;20;y\n",
        "time,rain,total,wind\n2026-03-02T01:00,,,10\n2026-03-02T00:00,1.5,10,-3\n2026-03-02T01:00,,20,\n",
    ],
    ids=["plain", "semicolons", "in two rows"],
)
def test_covariates_are_further_columns(tmp_path, text):
    path = tmp_path / "totals.csv"
    path.write_text(text)
    settings = {"slot": "1h", "start": None, "timezone": None, "history": path}
    _, totals, numbers = place_history(**settings, covariates=["wind", "rain"])
    assert totals == (10, 20)
    assert numbers == ((-3, 1.5), (10, None))
    _, _, fewer = place_history(**settings, covariates=["rain"])
    assert fewer == ((1.5,), (None,))
    assert place_history(**settings)[2] == ()


def test_covariates_of_gaps_and_of_a_double_hour(tmp_path):
    path = tmp_path / "totals.csv"
    rows = ["25T01:00,1,5", "25T02:00,2,6", "25T02:00,4,8", "25T05:00,5,9"]
    path.write_text("\n".join(["time,total,rain", *(f"2026-10-{row}" for row in rows)]))
    given = {"slot": "1h", "start": "2026-10-25T07:00", "timezone": "Europe/Berlin"}
    _, totals, numbers = place_history(**given, history=path, covariates=["rain"])
    assert totals == (1, 3, None, None, 5, None)
    assert [rain for (rain,) in numbers] == [5, 7, None, None, 9, None]


def test_covariates_in_parquet(tmp_path):
    times = [datetime(2026, 3, 2, hour) for hour in range(2)]
    frame = pl.DataFrame({"time": times, "total": [10, 20], "Rain": [None, -1.5]})
    frame.write_parquet(tmp_path / "totals.parquet")
    rows = read_timed_totals(str(tmp_path / "totals.parquet"), ["rain"])
    assert math.isnan(rows[0].covariates[0])
    assert rows[1].covariates == (-1.5,)
    with pytest.raises(ae.InputError, match=r"one column 'wind'.* columns are time, total, rain"):
        read_timed_totals(str(tmp_path / "totals.parquet"), ["rain", "wind"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "time,total\n2026-03-02,1\n",
            "one column 'rain', .* got none: its columns are time, total$",
        ),
        ("time,total,rain,Rain\n2026-03-02,1,2,3\n", "one column 'rain', .* got 2: its columns"),
        ("time,total,rain\n2026-03-02,1,2\n2026-03-03,1,wet\n", "line 3: .* as rain, .* got 'wet'"),
        ("time,total,rain\n2026-03-02,1,inf\n", "line 2: expected a number as rain, such as 3.5"),
        ("time;total;rain\n2026-03-02;1;1.23,5\n", "line 2: expected a number as rain"),
        ("time,total,rain\n2026-03-02,1,2,5\n", "line 2: expected 3 cells, got 4: if numbers"),
        (
            "time,total,rain\n2026-03-02,1,2\n2026-03-02,1,3\n",
            "line 3: 2026-03-02T00:00:00 has the covariate 3, but 2 in line 2: keep one",
        ),
    ],
)
def test_covariates_that_are_refused(tmp_path, text, message):
    path = tmp_path / "totals.csv"
    path.write_text(text)
    with pytest.raises(ae.InputError, match=message) as caught:
        place_history("1d", None, None, str(path), ["rain"])
    assert "\n" not in str(caught.value)


def test_a_damaged_parquet_file(tmp_path):
    (tmp_path / "totals.parquet").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(ae.InputError, match=r"cannot read .* as Parquet"):
        read_timed_totals(str(tmp_path / "totals.parquet"))
    pl.DataFrame({"when": [1]}).write_parquet(tmp_path / "totals.parquet")
    with pytest.raises(ae.InputError, match="must have the columns time and total"):
        read_timed_totals(str(tmp_path / "totals.parquet"))


def test_a_history_that_reaches_into_the_experiment_is_refused(tmp_path):
    text = "time,total\n2026-03-02T00:00,1\n2026-03-02T01:00,2\n"
    with pytest.raises(ae.InputError, match="line 3: 2026-03-02T01:00:00 is not before the start"):
        read(tmp_path, text, start="2026-03-02T01:00")


@pytest.mark.parametrize(
    ("start", "timezone", "message"),
    [
        (
            "2026-03-29T02:30",
            "Europe/Berlin",
            r"they skip 2026-03-29T02:30:00: .*29T03:30:00\+02:00",
        ),
        (
            "2026-10-25T02:30",
            "Europe/Berlin",
            r"twice: for the first, give 2026-10-25T02:30:00\+02:00",
        ),
        ("2026-10-25T02:30+01:00", "Europe/Berlin", "cannot be the second of two"),
        ("2026-10-04T02:00", "Australia/Sydney", r"they skip 2026-10-04T02:00:00"),
    ],
)
@pytest.mark.parametrize("slot", ["1h", "1d"])
def test_a_start_that_clocks_skip_or_show_twice_does_not_move(slot, start, timezone, message):
    with pytest.raises(ae.ParameterError, match=message) as refused:
        place_history(slot, start, timezone, None)
    assert refused.value.field == "start"


@pytest.mark.parametrize(
    ("start", "begins"),
    [
        ("2026-10-25T02:30+02:00", "2026-10-25T02:30:00+02:00"),  # the first of two
        ("2026-10-25T03:00", "2026-10-25T03:00:00+01:00"),
        ("2026-03-29T03:00", "2026-03-29T03:00:00+02:00"),
        ("2026-03-29T01:00Z", "2026-03-29T03:00:00+02:00"),
    ],
)
def test_starts_beside_a_change_of_clocks(start, begins):
    clock, _, _ = place_history("1h", start, "Europe/Berlin", None)
    assert clock.find_time(0).isoformat() == begins


def test_after_a_history_the_next_hour_is_one_that_clocks_show():
    past = [("2026-03-29T00:00", 1), ("2026-03-29T01:00", 2)]
    clock, totals, _ = place_history("1h", None, "Europe/Berlin", past)
    assert clock.find_time(0).isoformat() == "2026-03-29T03:00:00+02:00"
    assert totals == (1.0, 2.0, None)
