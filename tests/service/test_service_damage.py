"""Experiments that are deleted, replaced or damaged under the service."""

import json
import sqlite3
from pathlib import Path

import pytest

import aftereffect as ae
from services import BANNER, EXPERIMENT, call, in_thread


def test_deleting_with_the_log_in_hand(banner, storage):
    """Every service that has the experiment open, in whatever process, finds that it is gone, and what takes its place."""
    status, first, headers = call(banner, "GET", f"{BANNER}/log")
    assert (status, headers["Content-Disposition"]) == (200, 'attachment; filename="banner.jsonl"')
    with in_thread(storage) as another:
        paths = [
            BANNER,
            f"{BANNER}/slots",
            f"{BANNER}/timeline",
            f"{BANNER}/lag",
            f"{BANNER}/verify",
            f"{BANNER}/export",
        ]
        services = (banner, another)
        for service in services:
            call(service, "PUT", f"{BANNER}/slots/0/decision")
            assert {call(service, "GET", path)[0] for path in paths} == {200}
        stale = json.loads(first.splitlines()[-1])["digest"]
        status, answer, _ = call(banner, "DELETE", f"{BANNER}?confirm=banner&last={stale}")
        assert (status, answer["given"]) == (409, {"last": stale})
        log = call(banner, "GET", f"{BANNER}/log")[1]
        last = json.loads(log.splitlines()[-1])["hash"]
        assert answer["recorded"] == {"last": last}
        assert call(banner, "DELETE", f"{BANNER}?confirm=banner&last={last}")[:2] == (
            200,
            {"deleted": "banner"},
        )
        assert call(banner, "DELETE", f"{BANNER}?confirm=banner&last={last}")[0] == 404
        for service in services:
            assert {call(service, "GET", path)[0] for path in paths} == {404}
            assert call(service, "PUT", f"{BANNER}/slots/1/decision")[0] == 404
            assert call(service, "PUT", f"{BANNER}/slots/0/total", {"total": 1})[0] == 404
            assert call(service, "POST", f"{BANNER}/end")[0] == 404
            assert call(service, "GET", "/v1/experiments")[1] == {"experiments": []}
        assert (
            call(another, "POST", "/v1/experiments", EXPERIMENT | {"arms": ["X", "Y"], "seed": 2})[
                0
            ]
            == 201
        )
        for service in services:
            assert call(service, "GET", BANNER)[1]["arms"][0]["arm"] == "X"
            assert call(service, "GET", f"{BANNER}/timeline")[1]["slots"] == 0
        assert call(banner, "PUT", f"{BANNER}/slots/0/decision")[1]["arm"] == "X"
        assert call(another, "GET", f"{BANNER}/timeline")[1]["slots"] == 1


def test_a_name_that_changes_hands_between_two_requests(banner, storage):
    """Nobody asks while it is gone: what is open is of the old one all the same."""
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    paths = [BANNER, f"{BANNER}/slots", f"{BANNER}/timeline", f"{BANNER}/lag", f"{BANNER}/export"]
    assert {call(banner, "GET", path)[0] for path in paths} == {200}
    with ae.open_storage(storage) as place:
        ae.delete_experiment(place, "banner", storage.removeprefix("sqlite:///") + ".jsonl")
        ae.Experiment.create(**EXPERIMENT | {"arms": ["X", "Y"]}, storage=place)
    assert {call(banner, "GET", path)[0] for path in paths} == {200}
    assert call(banner, "PUT", f"{BANNER}/slots/0/decision")[:2][1]["arm"] == "X"
    assert call(banner, "GET", f"{BANNER}/slots")[1]["slots"][0]["arm"] == "X"
    assert call(banner, "GET", f"{BANNER}/verify")[1]["whole"] is True


def test_a_damaged_experiment_is_deleted_too(banner, storage):
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.execute(
            "UPDATE aftereffect_experiments SET settings = replace(settings, 'ars-ucb', 'unknown')"
        )
    connection.close()
    assert call(banner, "GET", BANNER)[0] >= 400
    last = json.loads(call(banner, "GET", f"{BANNER}/log")[1].splitlines()[-1])["hash"]
    assert call(banner, "DELETE", f"{BANNER}?confirm=banner&last={last}")[0] == 200
    assert call(banner, "POST", "/v1/experiments", EXPERIMENT)[0] == 201


def test_a_file_that_is_replaced_under_the_service(banner, storage, tmp_path):
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    path, copy = Path(storage.removeprefix("sqlite:///")), tmp_path / "copy.db"
    with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    copy.replace(path)
    for method, asked, body in (
        ("GET", BANNER, None),
        ("GET", f"{BANNER}/timeline", None),
        ("PUT", f"{BANNER}/slots/1/decision", None),
        ("PUT", f"{BANNER}/slots/0/total", {"total": 1}),
        ("POST", "/v1/experiments", EXPERIMENT | {"name": "other"}),
    ):
        assert call(banner, method, asked, body)[0] == 503


def test_a_storage_that_is_away(postgres):
    url = postgres.url()
    with in_thread(url) as service:
        assert call(service, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
        postgres.stop("immediate")
        for path in ("/healthz", BANNER):
            status, answer, headers = call(service, "GET", path)
            assert (status, headers["Retry-After"]) == (503, "1")
            assert answer["message"].startswith("the storage cannot be reached")
            assert not any(
                word in answer["message"]
                for word in ("postgres", "127.0.0.1", "tests_", str(postgres.port))
            )
        postgres.start()
        assert call(service, "PUT", f"{BANNER}/slots/0/decision")[0] == 201


def test_a_damaged_experiment_is_refused_and_the_others_go_on(service, storage):
    for name in ("banner", "other"):
        call(service, "POST", "/v1/experiments", EXPERIMENT | {"name": name})
        call(service, "PUT", f"/v1/experiments/{name}/slots/0/decision")
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE aftereffect_events SET arm = 2 WHERE experiment = 1")
    connection.close()
    with in_thread(storage) as another:
        status, answer, _ = call(another, "GET", BANNER)
        assert status == 500
        assert "is damaged" in answer["message"]
        assert call(another, "GET", "/v1/experiments/other")[0] == 200
        assert call(another, "GET", f"{BANNER}/verify")[1]["whole"] is False
        with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
            connection.execute("UPDATE aftereffect_events SET slot = 7 WHERE experiment = 2")
        connection.close()
        assert call(another, "GET", "/v1/experiments/other/timeline")[0] == 500
        assert call(another, "GET", "/v1/experiments/other/lag")[0] == 500
        assert call(another, "GET", "/healthz")[0] == 200


@pytest.mark.parametrize("name", ["x'62616e6e6572'", "CAST(x'62616e6e6572ff' AS TEXT)"])
def test_a_damaged_name_does_not_keep_anybody_from_the_others(storage, name):
    for each in ("banner", "other"):
        ae.Experiment.create(
            each, arms=["A", "B"], policy="ars-ucb", reward_range=(0, 1), storage=storage
        ).storage.close()
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.execute(
            f"UPDATE aftereffect_experiments SET name = {name} WHERE name = 'banner'"
        )
    connection.close()
    with in_thread(storage) as service:
        assert call(service, "GET", "/v1/experiments")[:2] == (200, {"experiments": ["other"]})
        assert call(service, "GET", "/v1/experiments/other")[0] == 200
        assert call(service, "GET", "/v1/experiments/banner")[0] == 404
        assert call(service, "GET", "/metrics")[0] == 200
