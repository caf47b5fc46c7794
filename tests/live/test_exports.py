"""Tables for other tools: marketing mix models, and experiments whose rounds are clusters."""

import csv
from datetime import datetime
from itertools import pairwise

import polars as pl
import pytest

import aftereffect as ae
from aftereffect.client import RemoteExperiment
from services import in_thread

SETTINGS = {
    "name": "shop",
    "arms": ["old", "new"],
    "slot": "1d",
    "start": "2026-03-02",
    "timezone": "Europe/Berlin",
    "covariates": ["rain"],
    "guardrails": ["guardrail(refunds)"],
    "seed": 1,
}


def play(experiment):
    """Ten days: one total missing, one day skipped, one arm replaced."""
    decided = []
    for day in range(8):
        decided.append(experiment.ask(day).arm)
        if day == 3:
            experiment.mark_missing(day)
        else:
            numbers = {"covariates": {"rain": day / 2}, "guardrails": {"refunds": day}}
            experiment.tell(day, 100 + day, **numbers)
    experiment.skip(8, 8)
    decided.append(experiment.ask(9).arm)
    other = "old" if decided[-1] == "new" else "new"
    experiment.tell(9, 109, arm=other)
    return [*decided[:8], other]


@pytest.fixture
def shop():
    with ae.Experiment.create(**SETTINGS, storage="memory://") as experiment:
        yield experiment


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_marketing_mix_model_gets_a_column_per_arm(shop, tmp_path):
    played = play(shop)
    shop.export(tmp_path / "mmm.csv", form="mmm")
    rows = read(tmp_path / "mmm.csv")
    assert list(rows[0]) == ["date", "total", "arm_old", "arm_new", "rain", "refunds"]
    days = [2, 3, 4, 5, 6, 7, 8, 9, 11]  # the tenth was skipped, and nothing was played
    assert [row["date"] for row in rows] == [f"2026-03-{day:02}T00:00:00" for day in days]
    assert [row["total"] for row in rows] == [
        *("100.0", "101.0", "102.0", "", "104.0", "105.0", "106.0", "107.0", "109.0")
    ]
    assert [(int(row["arm_old"]), int(row["arm_new"])) for row in rows] == [
        (int(arm == "old"), int(arm == "new")) for arm in played
    ]
    assert [row["rain"] for row in rows] == [
        "0.0",
        "0.5",
        "1.0",
        "",
        *("2.0", "2.5", "3.0", "3.5"),
        "",
    ]


def test_a_round_is_a_cluster(shop, tmp_path):
    played = play(shop)
    shop.export(tmp_path / "rows.csv", form="clusters")
    rows = read(tmp_path / "rows.csv")
    assert list(rows[0]) == ["date", "cluster", "treatment", "target", "rain", "refunds"]
    assert len(rows) == 8  # without the missing total
    assert [row["treatment"] for row in rows] == [*played[:3], *played[4:]]
    rounds = {record.slot: record.round for record in shop.history()}
    assert [int(row["cluster"]) for row in rows] == [
        rounds[day] for day in (0, 1, 2, 4, 5, 6, 7, 9)
    ]


@pytest.mark.parametrize("form", ["mmm", "clusters"])
def test_parquet_has_the_same_numbers(form, shop, tmp_path):
    play(shop)
    for suffix in (".csv", ".parquet"):
        shop.export(tmp_path / f"table{suffix}", form=form)
    table = pl.read_parquet(tmp_path / "table.parquet")
    assert table.equals(pl.read_csv(tmp_path / "table.csv", schema=table.schema))


def test_a_service_gives_the_same(tmp_path):
    with (
        in_thread(f"sqlite:///{tmp_path}/live.db") as service,
        ae.Client(service) as client,
    ):
        remote = client.create(**SETTINGS)
        assert isinstance(remote, RemoteExperiment)
        play(remote)
        with ae.Experiment.open("shop", storage=f"sqlite:///{tmp_path}/live.db") as local:
            for form in ("slots", "mmm", "clusters"):
                remote.export(tmp_path / "remote.csv", form=form)
                local.export(tmp_path / "local.csv", form=form)
                assert (tmp_path / "remote.csv").read_text() == (tmp_path / "local.csv").read_text()


def test_no_hour_comes_twice_when_clocks_change(tmp_path):
    """On the last Sunday of October, the clock shows the hour from two to three twice."""
    settings = {"arms": ["A", "B"], "slot": "1h", "timezone": "Europe/Berlin", "seed": 1}
    with ae.Experiment.create(
        "night", start="2026-10-25T00:00", storage="memory://", **settings
    ) as night:
        for hour in range(6):
            night.ask(hour)
        night.export(tmp_path / "night.csv", form="mmm")
    dates = [datetime.fromisoformat(row["date"]) for row in read(tmp_path / "night.csv")]
    assert dates[0] == datetime(2026, 10, 24, 22)  # in UTC
    assert {(after - before).seconds for before, after in pairwise(dates)} == {3600}


def test_what_cannot_be_exported_is_refused(shop, tmp_path):
    shop.ask(0)
    with pytest.raises(
        ae.ParameterError, match="form must be one of slots, mmm, clusters, got 'mm'"
    ):
        shop.export(tmp_path / "x.csv", form="mm")
    with ae.Experiment.create("plain", arms=["A", "B"], seed=1, storage="memory://") as plain:
        plain.ask(0)
        with pytest.raises(ae.ParameterError, match="needs slots with times"):
            plain.export(tmp_path / "x.csv", form="mmm")
    assert list(tmp_path.iterdir()) == []


def test_adstock_is_the_delay_that_made_the_totals():
    """From a history whose rewards arrive in equal shares at the lags 2 to 5."""
    bandit = ae.StochasticBandit([0.9, 0.1], ae.Interval(2, 5))
    trace = ae.simulate("ars-ucb", bandit, horizon=4_000, replications=1, seed=1).trace(0, 0)
    weights = ae.estimate_lag(trace).adstock()
    assert sum(weights) == pytest.approx(1)
    mean = sum(lag * weight for lag, weight in enumerate(weights))
    assert mean == pytest.approx(3.5, abs=0.5)
    assert sum(weights[2:6]) > 0.8
    nothing = ae.estimate_lag(["A", "B"] * 20, [0.5] * 40)
    with pytest.raises(ae.ParameterError, match="the lag is not known"):
        nothing.adstock()
