"""Numbers that come with the slots of a live experiment: recorded, revised, proved, and shown to the policy."""

import json
import math
import sqlite3

import numpy as np
import polars as pl
import pytest

import aftereffect as ae
from aftereffect._core import spec
from aftereffect.delays import ARM, TOTAL
from aftereffect.live import SlotRecord, _slotwise_state, chain_start, make_state
from aftereffect.live._snapshots import restore_state, take_snapshot
from aftereffect.live.settings import SLOT_COLUMNS, UNIT_COLUMN
from aftereffect.simulation import Task, prepare, run_batch
from thermometer import NAMES, Thermometer, make_numbers, write_history

ARMS = ["A", "B", "C"]
NUMBERS = make_numbers(28 + 120)
PAST, LATER = NUMBERS[:28], NUMBERS[28:]
SHOP = {"arms": ARMS, "slot": "1d", "policy": "thermometer", "covariates": NAMES, "seed": 3}
PLAIN = {"arms": ARMS, "policy": "fixed-switchback", "covariates": NAMES}


@pytest.fixture(autouse=True)
def _register(monkeypatch):
    """Only here: other tests look at all policies that are registered."""
    monkeypatch.setattr(spec, "_REGISTRY", spec._REGISTRY | {"thermometer": Thermometer})


def create(storage="memory://", **given):
    return ae.Experiment.create("shop", storage=storage, **SHOP | given)


def by_name(row):
    """Covariates as a caller gives them: those that are known."""
    return {name: x for name, x in zip(NAMES, row, strict=True) if not math.isnan(x)}


def decided(experiment):
    return [(record.arm, record.probability) for record in experiment.history()]


def shown(experiment):
    """What the policy was shown by the time of the next decision, by slot."""
    with experiment._log.reading() as (_, state):
        ahead = state.look_ahead()
        before = len(experiment.settings.history)
        return ahead.policy_state.covariates[before : before + ahead.next_slot]


def play(experiment, slots):
    for slot in range(experiment.status().slots, slots):
        experiment.ask(slot)
        experiment.tell(slot, 100, covariates=by_name(LATER[slot]))
    return experiment


@pytest.mark.compiled
def test_live_decides_as_the_simulation_bit_for_bit(tmp_path):
    """From a file with a history, over snapshots, with totals that are missing."""
    file, horizon = write_history(tmp_path / "all.csv", NUMBERS), 90
    bandit = ae.HistoryBandit(
        file,
        [0, 0.1, 0.2],
        ae.Interval(0, 2),
        slot="1d",
        start=28,
        weeks_before=4,
        shuffle=False,
        feed=ae.Defects(missing=0.1),
        covariates=NAMES,
    )
    task = Task(Thermometer(), bandit, "slotwise", horizon, (horizon,), 3, range(1))
    result = run_batch(task, prepare(task, engine=bandit.tracer(horizon)))
    storage = ae.open_storage(f"sqlite:///{tmp_path}/live.db")
    past = write_history(tmp_path / "past.csv", PAST)
    experiment = create(storage, history=past, horizon=horizon)
    for slot in range(horizon):
        experiment.ask(slot)
        total = result.memory[TOTAL, slot]
        row = (slot, None if math.isnan(total) else total, None, by_name(LATER[slot]))
        experiment.tell_many([row])
        if slot % 13 == 0:
            experiment = ae.Experiment.open("shop", storage=storage)
    played = [ARMS.index(arm) for arm, _ in decided(experiment)]
    assert played == result.memory[ARM, :horizon].astype(int).tolist()
    assert len(set(played)) == 3
    with experiment._log.reading() as (_, state):
        states = [state.look_ahead().policy_state.covariates, result.states.covariates[0]]
    assert np.array_equal(*(each[: 28 + horizon] for each in states), equal_nan=True)
    assert np.array_equal(states[1], NUMBERS[: 28 + horizon], equal_nan=True)
    checked = experiment.verify()
    assert (checked.whole, checked.difference) == (True, None)
    storage.close()


@pytest.mark.compiled
def test_the_adaptive_switchback_remembers_them(tmp_path):
    past = write_history(tmp_path / "past.csv", PAST)
    experiment = play(create(policy="adaptive-switchback", history=past), 30)
    slots = experiment.ask(29).until + 1  # it is shown a block when the next one is decided
    play(experiment, slots)
    assert np.array_equal(shown(experiment), LATER[:slots], equal_nan=True)
    with experiment._log.reading() as (_, state):
        numbers = state.policy_state.covariates
    assert np.array_equal(numbers[:28], PAST, equal_nan=True)
    assert np.isnan(numbers[28 + slots :]).all()


@pytest.mark.compiled
def test_a_state_that_grows_or_is_read_from_a_snapshot_is_the_same(tmp_path, monkeypatch):
    whole = play(create(), 60)
    monkeypatch.setattr(_slotwise_state, "_ROOM", 4)
    monkeypatch.setattr("aftereffect.live._snapshots._SNAPSHOT_EVENTS", 1)
    url = f"sqlite:///{tmp_path}/live.db"
    create(url, start=whole.settings.start).close()
    for slots in range(7, 61, 7):
        with ae.Experiment.open("shop", storage=url) as grown:
            play(grown, slots)
            grown.tell(3, 100, covariates={"rain": slots}, revise=True)
            grown.tell(3, 100, covariates=by_name(LATER[3]), revise=True)
    grown = play(ae.Experiment.open("shop", storage=url), 60)
    assert np.array_equal(shown(grown), shown(whole), equal_nan=True)
    assert np.array_equal(shown(grown), LATER[:60], equal_nan=True)
    with grown._log.reading() as (view, state):
        start = chain_start(grown.record)
        folded = make_state(grown.settings, start).fold_all(view.events(0, 10**6))
        snapshot = take_snapshot(state)
        assert take_snapshot(folded) == snapshot
        assert take_snapshot(restore_state(grown.settings, start, snapshot)) == snapshot
        assert json.loads(snapshot.text)["slots"]["covariates"]
    assert grown.verify().whole
    grown.close()


@pytest.mark.compiled
def test_what_comes_late_or_is_revised_counts_from_then_on():
    on_time, late = play(create(), 42), create()
    for slot in range(42):
        late.ask(slot)
        if slot % 3 == 0:  # the total first, its covariates with the next one
            late.tell(slot, 100)
        elif slot % 3 == 1:
            late.tell(slot, 100, covariates={"temperature": -999, "rain": -1})
    assert decided(late) != decided(on_time)
    for slot in reversed(range(42)):
        known = by_name(LATER[slot])
        if slot % 3 == 1:
            wrong = dict.fromkeys(NAMES) | known
            assert late.tell(slot, 100, covariates=wrong, revise=True).change == "revised"
        else:
            changed = late.tell(slot, 100, covariates=known).change
            assert changed == ("revised" if slot % 3 == 0 else "recorded")
    assert np.array_equal(shown(late), shown(on_time), equal_nan=True)
    assert late.status().received == 42
    assert late.verify().whole


def test_what_was_recorded_stays_unless_it_is_revised():
    experiment = ae.Experiment.create("shop", storage="memory://", **PLAIN)
    for slot in range(3):
        experiment.ask(slot)
    given = {"temperature": 3.5}
    assert experiment.tell(0, 10, covariates=given).change == "recorded"
    assert experiment.tell(0, 10, covariates=given).change == "unchanged"
    assert experiment.tell(0, 10).change == "unchanged"
    with pytest.raises(
        ae.ConflictError, match=r"slot 0 has the temperature 3.5, got 4: give --revise"
    ) as caught:
        experiment.tell(0, 10, covariates={"temperature": 4, "rain": 1})
    assert (caught.value.recorded, caught.value.given) == (
        {"covariates": given},
        {"covariates": {"temperature": 4.0}},
    )
    with pytest.raises(ae.ConflictError, match=r"has the temperature 3\.5, got nothing"):
        experiment.tell(0, 10, covariates={"temperature": None})
    with pytest.raises(ae.ConflictError, match="slot 0 has the total 10, got 11"):
        experiment.tell(0, 11, covariates={"rain": 1})
    assert experiment.history()[0].covariates == {"temperature": 3.5, "rain": None}
    assert experiment.tell(0, 10, covariates={"rain": 1}).change == "revised"  # it was not known
    assert experiment.history()[0].covariates == {"temperature": 3.5, "rain": 1.0}
    experiment.tell(0, 12, revise=True)
    assert experiment.history()[0].covariates == {"temperature": 3.5, "rain": 1.0}
    experiment.tell(0, 12, covariates={"temperature": None}, revise=True)
    assert experiment.history()[0].covariates == {"temperature": None, "rain": 1.0}
    assert experiment.mark_missing(1, covariates={"rain": 2}).total is None
    assert experiment.tell(1, 10, revise=True).change == "revised"
    assert experiment.history()[1].covariates == {"temperature": None, "rain": 2.0}
    assert experiment.history()[2].covariates is None
    assert experiment.verify().whole


def test_a_total_that_is_told_again_with_covariates_counts_once():
    experiment = ae.Experiment.create("shop", storage="memory://", **PLAIN)
    experiment.ask(0)
    experiment.tell(0, 10)
    for rain in range(5):
        experiment.tell(0, 10, covariates={"rain": rain}, revise=True)
    status = experiment.status()
    assert (status.received, status.missing, status.waiting + status.learned) == (1, 0, 1)
    assert status.arms[0].mean in (10, None)
    with experiment._log.reading() as (_, state):
        assert state.statistics.count == 1
    assert experiment.history()[0].revisions == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temprature": 1}, "slot 0 has an unknown covariate 'temprature': did you mean"),
        ({7: 1}, "slot 0 has an unknown covariate 7"),
        ({"rain": "wet"}, "rain of slot 0 must be a number .* got 'wet': leave it out where"),
        ({"rain": math.inf}, "rain of slot 0 must be a number from .* got inf: leave it out"),
        ({"rain": math.nan}, "rain of slot 0 must be a number .* got nan: leave it out"),
        ({"rain": True}, "rain of slot 0 must be a number"),
        ({"rain": 1e101}, "rain of slot 0 must be a number from"),
        ([1, 2], "the covariates of slot 0 must be numbers by name"),
    ],
)
def test_covariates_that_are_refused(given, message):
    experiment = ae.Experiment.create("shop", storage="memory://", **PLAIN)
    experiment.ask(0)
    experiment.ask(1)
    with pytest.raises(ae.ParameterError, match=message) as caught:
        experiment.tell_many([(1, 10, None, {"rain": 1}), (0, 10, None, given)])
    assert caught.value.field == "covariates"
    assert "\n" not in str(caught.value)
    assert experiment.status().received == 0
    with experiment.read_log() as view:
        assert len(view.events(0, 10)) == 2


def test_an_experiment_without_covariates_takes_none():
    experiment = ae.Experiment.create(
        "shop", arms=ARMS, policy="fixed-switchback", storage="memory://"
    )
    experiment.ask(0)
    with pytest.raises(ae.ParameterError, match="the experiment has none; they are named when it"):
        experiment.tell(0, 1, covariates={"rain": 1})
    assert experiment.tell(0, 1, covariates={}).change == "recorded"
    assert "covariates" not in experiment.settings.to_json()
    with experiment.read_log() as view:
        assert view.events(0, 10)[-1].covariates is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"policy": "ars-ucb", "reward_range": (0, 1)},
            "learns from rounds and cannot use covaria",
        ),
        (
            {"covariates": ["rain", "rain"]},
            "covariates must have different names, got 'rain' twice",
        ),
        ({"covariates": ["Played"]}, "the name of another column, got 'Played'"),
        ({"covariates": "rain"}, "covariates must be a list"),
        ({"covariates": [f"x{n}" for n in range(17)]}, "at most 16, got 17"),
        ({"covariates": [3]}, "a covariate's name must be"),
    ],
)
def test_experiments_that_are_refused(given, message):
    storage = ae.open_storage("memory://")
    with pytest.raises(ae.ParameterError, match=message) as caught:
        ae.Experiment.create("shop", storage=storage, **PLAIN | given)
    assert caught.value.field == "covariates"
    assert storage.names() == []


def test_covariates_are_settings():
    storage = ae.open_storage("memory://")
    past = [
        ("2026-03-01", 480, {"rain": 2}),
        ("2026-03-02", 510),
        ("2026-03-04", None, {"rain": 3}),
    ]
    given = PLAIN | {"slot": "1d", "history": past, "seed": 1, "storage": storage}
    experiment = ae.Experiment.create("shop", **given)
    assert experiment.settings.covariates == NAMES
    assert experiment.settings.history_covariates == (
        *((None, 2.0), (None, None), (None, None)),
        (None, 3.0),
    )
    assert not ae.Experiment.create("shop", **given).is_new
    other = [("2026-03-01", 480, {"rain": 2.5}), *past[1:]]
    with pytest.raises(ae.ConflictError, match="history_covariates is"):
        ae.Experiment.create("shop", **given | {"history": other})
    with pytest.raises(ae.ConflictError, match="covariates is"):
        ae.Experiment.create("shop", **given | {"history": past[:0], "covariates": ()})
    # Exported histories have a column for each.
    assert SlotRecord._fields == (*SLOT_COLUMNS, UNIT_COLUMN)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([1, 2, 3], "totals without times have no covariates"),
        ([("2026-03-01", 1, {"wind": 2})], "row 1 of a history has an unknown covariate 'wind'"),
        ([("2026-03-01", 1, 2)], r"row 1 of a history must be .* \(time, total, {covariate"),
        (
            [("2026-03-01", 1), ("2026-03-02", 1, {"rain": "x"})],
            "line 2: expected a number as rain",
        ),
        ([("2026-03-01", 1, {"rain": 1e200})], "rain must be a number from"),
    ],
)
def test_histories_that_are_refused(history, message):
    with pytest.raises(ae.ParameterError, match=message):
        ae.Experiment.create("shop", storage="memory://", slot="1d", history=history, **PLAIN)


def test_exports_have_a_column_for_each(tmp_path):
    experiment = ae.Experiment.create("shop", storage="memory://", **PLAIN)
    for slot in range(3):
        experiment.ask(slot)
    experiment.tell(0, 10, covariates={"rain": 1.5})
    experiment.tell(1, 11)
    for suffix, read in ((".csv", pl.read_csv), (".parquet", pl.read_parquet)):
        experiment.export(tmp_path / f"history{suffix}")
        frame = read(tmp_path / f"history{suffix}")
        assert frame.columns == [*SlotRecord._fields[:-3], *NAMES]
        assert frame["rain"].to_list() == [1.5, None, None]
        assert frame["temperature"].to_list() == [None, None, None]
    assert pl.read_parquet(tmp_path / "history.parquet").schema["temperature"] == pl.Float64


def test_a_changed_covariate_is_found(tmp_path):
    url = f"sqlite:///{tmp_path}/live.db"
    with ae.Experiment.create("shop", storage=url, **PLAIN) as experiment:
        for slot in range(3):
            experiment.ask(slot)
            experiment.tell(slot, 10, covariates={"rain": slot})
    for change in ("replace(covariates, '1.0', '1.5')", "NULL", "'[1.0'"):
        with sqlite3.connect(tmp_path / "live.db") as connection:
            before = connection.execute(
                "SELECT covariates FROM aftereffect_events WHERE seq = 4"
            ).fetchone()
            connection.execute(f"UPDATE aftereffect_events SET covariates = {change} WHERE seq = 4")
        assert before == ("[null, 1.0]",)
        with pytest.raises(ae.CorruptionError, match="event 4 of the log"):
            ae.Experiment.open("shop", storage=url)
        with sqlite3.connect(tmp_path / "live.db") as connection:
            connection.execute("UPDATE aftereffect_events SET covariates = ? WHERE seq = 4", before)
        connection.close()
    with ae.Experiment.open("shop", storage=url) as experiment:
        assert experiment.verify().whole


@pytest.mark.compiled
def test_an_hour_that_clocks_skip_has_no_covariates():
    """In Berlin, 2:00 does not exist on 29 March 2026."""
    experiment = create(slot="1h", start="2026-03-29T00:00", timezone="Europe/Berlin")
    for slot in range(5):
        experiment.ask(slot)
        experiment.tell(slot, 100, covariates={"rain": slot})
    with experiment._log.reading() as (_, state):
        rain = state.look_ahead().policy_state.covariates[:6, 1].tolist()
    assert rain[:2] + rain[3:] == [0, 1, 2, 3, 4]
    assert math.isnan(rain[2])
