"""Who won, on a service and on the command line: the same as here."""

import csv
import io
import json
from time import monotonic

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.service import _cache
from services import EXPERIMENT, call, in_thread
from worlds import play_shop


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """The URL of a storage with a played experiment, and one without probabilities."""
    url = f"sqlite:///{tmp_path_factory.mktemp('results')}/live.db"
    with ae.open_storage(url) as storage:
        play_shop(slots=1_000, storage=storage)
        ae.Experiment.create(**EXPERIMENT, storage=storage)
    return url


@pytest.fixture(scope="module")
def expected(storage):
    with ae.Experiment.open("shop", storage=storage) as experiment:
        return experiment.results(stop_when_loss_below=2.5)


@pytest.fixture(scope="module")
def service(storage):
    with in_thread(storage) as address:
        yield address


PATH = "/v1/experiments/shop/results"


def test_the_service_and_its_client(service, expected):
    status, answer, _ = call(service, "GET", f"{PATH}?stop_when_loss_below=2.5")
    assert (status, answer) == (200, json.loads(json.dumps(expected.to_dict())))
    assert answer["stops"] is True
    with ae.Client(service) as client:
        remote = client.experiment("shop")
        assert remote.results(stop_when_loss_below=2.5) == expected
        assert remote.results(level=0.8).level == 0.8
        assert remote.results().stops is None
        with pytest.raises(ae.ConflictError, match=r"ars-ucb.* does not record"):
            client.experiment("banner").results()


def test_a_recorded_rule(service, storage, capsys):
    """On a service and on the command line, as `create` recorded it."""
    address = ("--storage", storage)
    with ae.Client(service) as client:
        remote = play_shop("ruled", slots=30, create=client.create, stop_when_loss_below=1e-3)
        with ae.Experiment.open("ruled", storage=storage) as local:
            assert remote.status() == local.status()
            assert remote.status().stop_when_loss_below == 1e-3
            assert remote.results() == local.results()
            (said,) = local.results().describe_rule()
        assert remote.results().stops is False
        assert remote.results(stop_when_loss_below=50).stop_when_loss_below == 50
    assert main(["status", "ruled", *address]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert main(["status", "ruled", "--format", "json", *address]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["stop_when_loss_below"], answer["stops"]) == (1e-3, False)
    command = ["create", "written", "--arms", "A,B", "--unit", "EUR"]
    assert main([*command, "--stop-when-loss-below", "2.5", *address]) == 0
    capsys.readouterr()
    assert main(["results", "written", *address]) == 0
    assert "The rule says go on: too little is known." in capsys.readouterr().out
    assert main(["status", "shop", *address]) == 0
    assert "rule" not in capsys.readouterr().out


@pytest.mark.parametrize("query", ["level=0.7", "level=x", "stop_when_loss_below=0"])
def test_what_the_service_refuses(service, query):
    status, answer, _ = call(service, "GET", f"{PATH}?{query}")
    assert (status, answer["field"]) == (422, query.partition("=")[0])


def test_results_are_cached_until_something_is_recorded():
    with play_shop(slots=40) as experiment:
        cache = _cache.ResultsCache(experiment)
        first = cache.find(0.95, monotonic())
        assert cache.find(0.95, monotonic()) is first
        assert cache.find(0.9, monotonic()).level == 0.9
        experiment.ask(40)
        assert cache.find(0.95, monotonic()) is not first


def test_requests_that_waited_share_one_computation():
    with play_shop(slots=40) as experiment:
        cache, came = _cache.ResultsCache(experiment), monotonic()
        first = cache.find(0.95, came)
        experiment.ask(40)
        assert cache.find(0.95, came) is first
        assert cache.find(0.95, monotonic()) is not first


def test_the_command_line(storage, expected, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    command = ["results", "shop", "--storage", storage, "--stop-when-loss-below", "2.5"]
    assert main([*command, "--plot", str(tmp_path / "results.png")]) == 0
    assert capsys.readouterr().out == f"{expected}\n"
    assert (tmp_path / "results.png").stat().st_size > 5_000
    assert main([*command, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(expected.to_dict()))
    assert main([*command, "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["arm"], float(row["percent"])) == ("B", expected.effects[0].percent)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop", "--level", ".5"], "level must be one of 0.8, 0.9, 0.95, 0.99, got 0.5"),
        (["banner"], "create experiments with control_share or floors"),
        (["shop", "--plot", "results.gif"], ".png"),
        (["shop", "--stop-when-loss-below", "0"], "stop_when_loss_below must be"),
    ],
)
def test_what_the_command_line_refuses(storage, arguments, message, capsys):
    assert main(["results", *arguments, "--storage", storage]) == 2
    assert message in capsys.readouterr().err
