"""One interface: a local experiment and one on a service do the same, method by method."""

import inspect
import json
from typing import get_args
from urllib.request import urlopen

import numpy as np
import polars as pl
import pytest

import aftereffect as ae
from aftereffect._core import PACKAGE
from aftereffect.cli import app
from aftereffect.client import RemoteExperiment
from aftereffect.live import ExperimentLike
from aftereffect.live.status import State
from services import EXPERIMENT

#: Fields that hold the time of day.
TIMES = ("decided_at", "received_at", "last_total_at")


@pytest.fixture
def local():
    with ae.Experiment.create(**EXPERIMENT, storage="memory://") as experiment:
        yield experiment


@pytest.fixture
def remote(service):
    with ae.Client(service) as client:
        yield client.create(**EXPERIMENT)


def play(experiment):
    """Decide 30 slots; tell most of the first 20, with one total missing and one gap."""
    for slot in range(15):
        experiment.ask(slot)
    experiment.skip(15, 17)
    for slot in range(18, 30):
        experiment.ask(slot)
    for slot in (3, 0, 1, 7, 4, 5, 6, 18, 19):
        experiment.tell(slot, slot / 4)
    experiment.mark_missing(2)


def without_times(result):
    """The same, without times of day."""
    if isinstance(result, list):
        return [without_times(each) for each in result]
    if hasattr(result, "_replace"):
        return result._replace(**{name: None for name in TIMES if name in result._fields})
    return repr(result) if isinstance(result, ae.LagEstimate) else result  # NaN equals nothing


def result_of(call, experiment, folder):
    """What a call returns or raises, and the files that it writes."""
    folder.mkdir(exist_ok=True)
    try:
        result = without_times(call(experiment, folder))
    except ae.AftereffectError as error:
        message = str(error).replace(str(folder), "FOLDER")
        result = (type(error), message, getattr(error, "recorded", None))
    files = {
        file.name: pl.read_csv(file).drop(TIMES[:2])
        if file.suffix == ".csv"
        else pl.read_parquet(file).drop(TIMES[:2])
        for file in sorted(folder.iterdir())
    }
    return result, {name: table.rows() for name, table in files.items()}


def leave_by_with(experiment, _):
    with experiment as entered:
        assert entered is experiment
    return experiment.ask(30)


#: By method, calls on an experiment after `play`; each returns something to compare, or raises.
CALLS = {
    "name": [lambda exp, _: exp.name],
    "ask": [
        lambda exp, _: exp.ask(),
        lambda exp, _: exp.ask(30),
        lambda exp, _: [exp.ask(30), exp.ask(30)],
        lambda exp, _: exp.ask(4),
        lambda exp, _: [exp.ask(key="monday"), exp.ask(key="monday"), exp.ask(key="tuesday")],
        lambda exp, _: exp.ask(99),
        lambda exp, _: exp.ask(16),
        lambda exp, _: exp.ask(30, key="monday"),
        *(lambda exp, _, key=key: exp.ask(key=key) for key in ("", "é", "a\nb", "x" * 300)),
    ],
    "tell": [
        lambda exp, _: exp.tell(8, 12),
        lambda exp, _: exp.tell(8, np.float32(1.5)),
        lambda exp, _: [exp.tell(8, 12), exp.tell(8, 12)],
        lambda exp, _: exp.tell(8, 12, arm="B"),
        lambda exp, _: exp.tell(16, 5, arm="B"),
        lambda exp, _: exp.tell(19, 5, revise=True),
        lambda exp, _: exp.tell(1, 99),
        lambda exp, _: [exp.tell(1, 99, revise=True), exp.ask()],
        lambda exp, _: exp.tell(99, 1),
        lambda exp, _: exp.tell(8, -1),
        lambda exp, _: exp.tell(8, None),
        lambda exp, _: exp.tell(8, 1, arm="D"),
        lambda exp, _: exp.tell(8, 100_000),
        lambda exp, _: exp.tell(8, 2_500, confirm=True),
    ],
    "mark_missing": [
        lambda exp, _: exp.mark_missing(8),
        lambda exp, _: [exp.mark_missing(8), exp.mark_missing(8)],
        lambda exp, _: exp.mark_missing(19, revise=True),
        lambda exp, _: exp.mark_missing(1),
        lambda exp, _: exp.mark_missing(99),
    ],
    "tell_many": [
        lambda exp, _: exp.tell_many({8: 1, 9: None, 10: 2.5}),
        lambda exp, _: exp.tell_many(iter([(9, np.int64(4)), (8, np.float64(3), "B")])),
        lambda exp, _: [exp.tell_many([(8, 1)]), exp.tell_many([(8, 1)])],
        lambda exp, _: exp.tell_many([]),
        lambda exp, _: exp.tell_many({19: 7}, revise=True),
        lambda exp, _: exp.tell_many({8: 2_500}, confirm=True),
        lambda exp, _: [exp.tell_many({19: 7}, revise=True, key="monday") for _ in range(2)],
        lambda exp, _: exp.tell_many({8: 1}, key="é"),
        lambda exp, _: exp.tell_many({8: 1, 99: 1}),
        lambda exp, _: exp.tell_many({8: -1}),
        lambda exp, _: exp.tell_many({1: 99}),
        lambda exp, _: exp.tell_many([(8, 1, "B", {}, {}, None, 2)]),
        lambda exp, _: exp.tell_many([3]),
    ],
    "skip": [
        lambda exp, _: exp.skip(30),
        lambda exp, _: exp.skip(30, 34),
        lambda exp, _: exp.skip(5),
    ],
    "change_arms": [  # tests/service/test_arms.py changes some
        lambda exp, _: exp.change_arms(add="D"),
        lambda exp, _: exp.change_arms(add=["A", "B"], resume="C"),
        lambda exp, _: exp.change_arms(),
        lambda exp, _: exp.change_arms(add=3),
        lambda exp, _: exp.change_arms(pause="D"),
        lambda exp, _: exp.change_arms(add=" D"),
    ],
    "status": [lambda exp, _: exp.status(), lambda exp, _: str(exp.status())],
    "history": [
        *(
            lambda exp, _, given=given: exp.history(*given)
            for given in ((), (3,), (3, 9), (-1, 0), (25, 100), (500,), (-2,), (0, 1.5))
        ),
        lambda exp, _: [exp.skip(30, 60) and None, *exp.history(limit=40)][1:],
    ],
    "export": [
        lambda exp, folder: exp.export(folder / "history.csv"),
        lambda exp, folder: exp.export(folder / "history.parquet"),
        lambda exp, folder: exp.export(folder / "history.txt"),
        lambda exp, folder: exp.export(folder / "nowhere" / "history.csv"),
    ],
    "verify": [lambda exp, _: exp.verify()],
    "lag": [lambda exp, _: exp.lag(), lambda exp, _: exp.lag(level=0.8)],
    "results": [
        lambda exp, _: exp.results(),
        lambda exp, _: exp.results(level=0.8, stop_when_loss_below=2.5),
        lambda exp, _: exp.results(level=0.7),
        lambda exp, _: exp.results(stop_when_loss_below=0),
    ],
    "end": [
        lambda exp, _: exp.end(),
        lambda exp, _: [exp.end(), exp.end()],
        lambda exp, _: exp.end() and exp.ask(),
        lambda exp, _: exp.end() and exp.tell(8, 1),
    ],
    "close": [lambda exp, _: [exp.close(), exp.ask(30)]],
    "__enter__": [leave_by_with],
    "__exit__": [leave_by_with],
}


def test_every_method_is_compared():
    own = {"__enter__", "__exit__"}
    members = {name for name in vars(ExperimentLike) if not name.startswith("_") or name in own}
    assert members == set(CALLS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_both_give_the_same(local, remote, tmp_path, monkeypatch, name):
    """Each call begins with an experiment in the same state, here and there."""
    monkeypatch.setattr("aftereffect.client._remote._PAGE", 7)  # a history in several requests
    for number, call in enumerate(CALLS[name]):
        results = []
        for place, first in (("local", local), ("remote", remote)):
            experiment = create_like(first, f"{name.strip('_')}-{number}")
            play(experiment)
            before = without_times(experiment.status())
            results.append(result_of(call, experiment, tmp_path / f"{place}-{number}"))
            results[-1] += (before, without_times(experiment.status()))
        ours, theirs = results
        assert theirs == ours, inspect.getsource(call)


def create_like(experiment, name):
    """Another experiment beside one, with the same settings but its name."""
    settings = EXPERIMENT | {"name": name}
    if isinstance(experiment, RemoteExperiment):
        return ae.Client(experiment._transport.url).create(**settings)
    return ae.Experiment.create(**settings, storage=experiment.storage)


def test_both_have_the_signatures_of_the_protocol(local, remote):
    for experiment in (local, remote):
        assert isinstance(experiment, ExperimentLike)
        for name in CALLS:
            wanted = getattr(ExperimentLike, name)
            if not callable(wanted):
                continue
            have = inspect.signature(getattr(type(experiment), name)).parameters
            want = inspect.signature(wanted).parameters
            assert [(each.name, each.kind, each.default) for each in have.values()] == [
                (each.name, each.kind, each.default) for each in want.values()
            ], name


def test_closing_ends_neither(local, remote):
    for experiment in (local, remote):
        with experiment:
            experiment.ask(0)
        experiment.close()
        assert not experiment.status().ended
        assert experiment.ask(1).slot == 1
        assert experiment.end().ended


def test_every_interface_ends_experiments_with_the_same_word(service):
    """Python, client, command line, service and page: "end" ends, and "close" is no operation."""
    with urlopen(f"{service}/openapi.json") as answer:
        paths = json.load(answer)["paths"]
    operations = {
        operation["operationId"]: path
        for path, each in paths.items()
        for operation in each.values()
    }
    assert operations["end"] == "/v1/experiments/{name}/end"
    assert "end" in app
    assert not any(word in app or word in operations for word in ("close", "finish", "stop"))
    for kind in (ae.Experiment, RemoteExperiment, ExperimentLike):
        assert callable(kind.end)
    page = "".join(path.read_text() for path in (PACKAGE / "service/page").glob("*.js"))
    assert "Ended after" in page
    assert "ended" in get_args(State)


@pytest.mark.compiled
def test_a_policy_that_looks_at_every_slot_is_played_on_a_service_as_here(service, tmp_path):
    """History from a file, slots by their times, probabilities, revisions."""
    file = tmp_path / "past.csv"
    rows = [
        f"2026-03-{day:02}T{hour:02}:00;{90 + hour},5" for day in range(1, 29) for hour in range(24)
    ]
    file.write_text("\n".join(["time;total", *rows]))
    given = {
        "arms": ["A", "B", "C"],
        "control": "B",
        "slot": "1h",
        "timezone": "Europe/Berlin",
        "history": file,
        "seed": 5,
    }
    played = []
    with ae.Client(service) as client:
        for experiment in (
            ae.Experiment.create("shop", **given, storage="memory://"),
            client.create("shop", **given),
        ):
            assert experiment.ask("2026-03-29T00:00").arm in given["arms"]
            for slot in range(1, 60):
                experiment.ask(slot)
            experiment.tell("2026-03-29T01:00", 80)
            experiment.tell_many([(slot, 90 + slot % 24) for slot in range(2, 50)])
            experiment.tell(20, 99, revise=True)
            experiment.skip(60, 62)
            for slot in range(63, 80):
                experiment.ask(slot)
            played.append((without_times(experiment.history()), without_times(experiment.status())))
            assert experiment.verify().whole
    assert played[0] == played[1]
    records, status = played[0]
    assert records[2].time == "2026-03-29T03:00:00+02:00"
    assert all(record.probability > 0 for record in records if record.arm)
    assert (status.control, status.history, status.timezone) == ("B", 28 * 24, "Europe/Berlin")
    assert status.start == "2026-03-29T00:00:00+01:00"


def test_provisional_totals_on_a_service_are_as_here(service):
    given = {
        "arms": ["A", "B"],
        "policy": "ucb1",
        "reward_range": (0, 9),
        "slot": "1d",
        "start": "2190-01-01",
        "final_after": "6w",
        "seed": 5,
    }
    played = []
    with ae.Client(service) as client:
        for create in (
            lambda **more: ae.Experiment.create("ads", storage="memory://", **given | more),
            lambda **more: client.create("ads", **given | more),
        ):
            experiment = create()
            for slot in range(8):
                experiment.ask(slot)
                experiment.tell(slot, slot % 4)
            changes = experiment.tell_many({0: 8, 7: None}, key="monday")
            assert experiment.tell_many({0: 1}, key="monday") == []
            said = []
            for span in ("soon", "999999w"):
                with pytest.raises(ae.ParameterError) as caught:
                    create(final_after=span)
                said.append(caught.value.field)
            arms = [experiment.ask(slot).arm for slot in range(8, 12)]
            status = without_times(experiment.status())
            played.append((changes, arms, status, without_times(experiment.history()), said))
            assert experiment.verify().whole
    assert played[0] == played[1]
    assert played[0][2].provisional == 8
    assert played[0][2].final_after == "6w"


@pytest.mark.compiled
def test_a_history_that_cannot_be_is_refused_alike(service):
    with ae.Client(service) as client:
        said = []
        for create in (
            lambda **given: ae.Experiment.create("shop", storage="memory://", **given),
            lambda **given: client.create("shop", **given),
        ):
            with pytest.raises(ae.ParameterError, match="is not before the start") as caught:
                create(
                    arms=["A", "B"],
                    slot="1h",
                    start="2026-03-02",
                    history=[("2026-03-02T01:00", 4)],
                )
            said.append((str(caught.value), caught.value.field))
        assert said[0] == said[1]
        assert client.experiments() == []


def test_covariates_are_recorded_on_a_service_as_here(service, tmp_path):
    file = tmp_path / "past.csv"
    rows = [f"2026-03-{day:02};{90 + day},5;{'' if day == 3 else -day}" for day in range(1, 29)]
    file.write_text("\n".join(["time;total;temperature", *rows]))
    past = [("2026-03-01", 90, {"temperature": np.float32(1.5)}), ("2026-03-02", 91)]
    given = {
        "arms": ["A", "B"],
        "policy": "fixed-switchback",
        "slot": "1d",
        "covariates": ["temperature"],
        "unit": "°C €",
        "seed": 5,
    }
    played = []
    with ae.Client(service) as client:
        for create in (
            lambda name, **more: ae.Experiment.create(name, storage="memory://", **given, **more),
            lambda name, **more: client.create(name, **given, **more),
        ):
            said = []
            create("pairs", history=past)
            experiment = create("shop", history=file)
            for slot in range(8):
                experiment.ask(slot)
            experiment.tell(0, 80, covariates={"temperature": np.float64(-3.5)})
            experiment.tell_many([(1, 81, None, {"temperature": 2}), (2, None, None, {}), (3, 83)])
            experiment.tell_many([(4, None, None, {"temperature": 0})])
            experiment.tell(1, 81, covariates={"temperature": 4}, revise=True)
            experiment.mark_missing(5, covariates={"temperature": None})
            for row in (
                *((6, 1, None, {"rain": 1}), (0, 80, None, {"temperature": 1})),
                (6, 1, None, {"temperature": 1e101}),
            ):
                with pytest.raises(ae.AftereffectError) as caught:
                    experiment.tell_many([row])
                said.append((type(caught.value), str(caught.value)))
            with pytest.raises(ae.ParameterError, match="unknown covariate 'rain'"):
                create("other", history=[("2026-03-01", 90, {"rain": 1})])
            status = experiment.status()
            said.append((status.state, status.unit, status.covariates))
            assert said[-1] == ("running", "°C €", ("temperature",))
            played.append((without_times(experiment.history()), said))
            assert experiment.verify().whole
        whole = ae.Experiment.create("shop", storage="memory://", **given, history=file)
        with pytest.raises(ae.ConflictError, match="unit"):
            client.create("shop", **given | {"unit": "USD"}, history=file)
        with pytest.raises(ae.ConflictError, match="covariates"):
            client.create("shop", **given | {"covariates": []}, history=file)
        assert not client.create("shop", **given, history=file).is_new
    assert whole.settings.history_covariates[:4] == ((-1.0,), (-2.0,), (None,), (-4.0,))
    assert played[0] == played[1]
    assert [record.covariates and record.covariates["temperature"] for record in played[0][0]] == [
        *(-3.5, 4, None, None, 0, None, None, None)
    ]


def test_guardrails_are_recorded_on_a_service_as_here(service):
    given = {
        "arms": ["A", "B"],
        "policy": "fixed-switchback(block=3)",
        "control": "A",
        "control_share": 0.4,
        "guardrails": [ae.Guardrail("complaints", tolerated=2.5, stops=True), "guardrail(refunds)"],
        "stop_when_loss_below": 2,
        "seed": 5,
    }
    played = []
    with ae.Client(service) as client:
        for create in (
            lambda **more: ae.Experiment.create("shop", storage="memory://", **given, **more),
            lambda **more: client.create("shop", **given, **more),
        ):
            experiment, said = create(), []
            for slot in range(6):
                experiment.ask(slot)
            changes = [
                experiment.tell(0, 80, guardrails={"complaints": np.int64(3)}),
                experiment.tell(0, 80, guardrails={"refunds": 1.5}),
                experiment.tell(0, 80, guardrails={"complaints": 4}, revise=True),
                experiment.mark_missing(1, guardrails={"refunds": None, "complaints": 1}),
                *experiment.tell_many(
                    [(2, 82, None, {}, {"refunds": 2}), (3, None, None, None, {"complaints": 0})]
                ),
            ]
            for row in ((4, 1, None, None, {"rain": 1}), (0, 80, None, None, {"refunds": 9})):
                with pytest.raises(ae.AftereffectError) as caught:
                    experiment.tell_many([row])
                said.append((type(caught.value), str(caught.value)))
            status = experiment.status()
            said.append((status.guardrails, status.guardrail_problem, status.arms))
            assert experiment.verify().whole
            results = experiment.results()
            assert [found.guardrail for found in results.guardrails] == ["complaints", "refunds"]
            played.append((changes, without_times(experiment.history()), said, results))
        with pytest.raises(ae.ConflictError, match="guardrails"):
            client.create("shop", **given | {"guardrails": []})
        with pytest.raises(ae.AftereffectError, match="unknown guardrail 'refunds'"):
            client.create("other", **given | {"guardrails": ["refunds"]})
    assert played[0] == played[1]
    assert [record.guardrails for record in played[0][1]] == [
        {"complaints": 4, "refunds": 1.5},
        {"complaints": 1, "refunds": None},
        {"complaints": None, "refunds": 2},
        {"complaints": 0, "refunds": None},
        None,
        None,
    ]


def play_units(experiment, folder):
    """What an experiment with units answers to all that it is asked and told."""
    said = []
    for slot in range(6):
        decision = experiment.ask(slot)
        said.append(decision)
        experiment.tell(slot, {"north": 10 + slot, "south": 20.5})
    said += experiment.tell(0, {"north": 10, "west": None})
    said.append(experiment.tell(1, 7, unit="west", arm="B", covariates={"rain": 2}))
    said.append(experiment.tell(1, 8, unit="west", arm="B", revise=True))
    said.append(experiment.mark_missing(2, unit="west"))
    said += experiment.tell_many({3: {"west": 3}, 4: {"west": 4, "south": 20.5}})
    for call in (
        lambda: experiment.tell(0, 37),
        lambda: experiment.tell(0, 37, unit="east"),
        lambda: experiment.tell(0, {"north": 99}),
        lambda: experiment.tell(0, {"north": 1}, arm="A"),
        lambda: experiment.mark_missing(0),
        lambda: experiment.lag(),
    ):
        with pytest.raises(ae.AftereffectError) as caught:
            call()
        said.append((type(caught.value), str(caught.value)))
    said.append(experiment.change_arms(add="C").next)
    said += [experiment.history(), experiment.history(2, 2), experiment.history(limit=1)]
    for form in ("slots", "mmm", "clusters"):
        experiment.export(folder / f"{form}.csv", form=form)
    said += [experiment.status(), experiment.results().effects, experiment.verify()]
    assert experiment.verify().whole
    return [without_times(each) for each in said], {
        file.name: pl.read_csv(file).drop(TIMES[:2], strict=False).rows()
        for file in sorted(folder.iterdir())
    }


def test_several_units_on_a_service_are_as_here(service, tmp_path):
    past = {
        "north": [("2026-03-01T22:00", 9), ("2026-03-01T23:00", 11)],
        "south": [("2026-03-01T23:00", 21)],
    }
    given = {
        "arms": ["A", "B"],
        "units": ["north", "south", "west"],
        "slot": "1h",
        "history": past,
        "covariates": ["rain"],
        "seed": 5,
    }
    (tmp_path / "past.csv").write_text(
        "time,unit,total,rain\n"
        + "".join(
            f"{time},{unit},{total},\n" for unit, rows in past.items() for time, total in rows
        )
    )
    played = []
    with ae.Client(service) as client:
        for name, create in (
            ("here", lambda **more: ae.Experiment.create("shop", storage="memory://", **more)),
            ("there", lambda **more: client.create("shop", **more)),
        ):
            (tmp_path / name).mkdir()
            experiment = create(**given)
            assert isinstance(experiment, ExperimentLike)
            played.append(play_units(experiment, tmp_path / name))
        assert not client.create("shop", **given | {"history": tmp_path / "past.csv"}).is_new
        one = client.create("one", arms=["A", "B"], units=["north"], seed=1)
        assert one.ask(0).arms is None
    assert played[0] == played[1]
    assert played[0][1]["mmm.csv"][0][1] == "north"
