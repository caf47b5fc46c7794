"""The service over real connections."""

import http.client
import http.server
import json
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.lag import MAX_ARMS
from aftereffect.service import _access, _cache, create_token, revoke_token, server_for
from aftereffect.service._cache import LagCache, Timeline
from aftereffect.service._monitoring import JsonFormatter
from playing import LATE, played
from services import EXPERIMENT, Lines, Process, call, in_thread, log_of, wait_until

TESTS = Path(__file__).parents[1] / "support"
BANNER = "/v1/experiments/banner"


@pytest.fixture
def banner(service):
    assert call(service, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
    return service


# What it answers


def test_from_create_to_end(service):
    status, answer, headers = call(service, "POST", "/v1/experiments", EXPERIMENT)
    assert (status, answer["name"], headers["Location"]) == (201, "banner", BANNER)
    assert call(service, "GET", "/v1/experiments")[1] == {"experiments": ["banner"]}
    first = {"slot": 0, "arm": "A", "round": 0, "until": 0, "hold": False}
    first |= {"time": None, "probabilities": None}
    assert call(service, "POST", f"{BANNER}/slots", headers={"Idempotency-Key": "monday"})[:2] == (
        201,
        first,
    )
    assert call(service, "PUT", f"{BANNER}/slots/0/decision")[:2] == (200, first)
    outcome = {"slot": 0, "total": 37.0, "change": "recorded", "arm": "A"}
    assert call(service, "PUT", f"{BANNER}/slots/0/total", {"total": 37})[:2] == (201, outcome)
    assert call(service, "PUT", f"{BANNER}/slots/1/decision")[1]["arm"] == "B"
    missing = {"slot": 1, "total": None, "change": "recorded", "arm": "B"}
    assert call(service, "PUT", f"{BANNER}/slots/1/total", {"missing": True})[:2] == (
        201,
        missing,
    )
    experiment = call(service, "GET", BANNER)[1]
    assert (
        experiment["slots"],
        experiment["received"],
        experiment["missing"],
        experiment["next"]["arm"],
    ) == (2, 2, 1, "B")
    history = call(service, "GET", f"{BANNER}/slots?after=0")[1]
    assert ([line["slot"] for line in history["slots"]], history["last"]) == ([1], 1)
    assert call(service, "GET", f"{BANNER}/slots?after=5")[1] == {"slots": [], "last": 5}
    assert call(service, "GET", f"{BANNER}/verify")[1]["whole"] is True
    timeline = call(service, "GET", f"{BANNER}/timeline?pieces=1")[1]
    assert timeline["pieces"] == [
        {
            "first": 0,
            "last": 1,
            "arm": 1,
            "round": 1,
            "mean": 37.0,
            "low": 37.0,
            "high": 37.0,
            "pulls": [1, 1, 0],
        }
    ]
    table, headers = call(service, "GET", f"{BANNER}/export")[1:]
    assert table.startswith("slot,arm,played,round,hold,total,")
    assert headers["Content-Disposition"] == 'attachment; filename="banner.csv"'
    assert call(service, "GET", f"{BANNER}/export?format=parquet")[1].startswith("PAR1")
    assert call(service, "POST", f"{BANNER}/end")[1]["ended"] is True
    assert (
        call(service, "POST", f"{BANNER}/slots", headers={"Idempotency-Key": "tuesday"})[0] == 409
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "problem"),
    [
        (
            "POST",
            "/v1/experiments",
            EXPERIMENT | {"policy": "ucb1"},
            409,
            {"recorded": {"policy": "ars-ucb(alpha=4, growth=power(2))"}},
        ),
        (
            "POST",
            "/v1/experiments",
            EXPERIMENT | {"name": "x", "arms": ["A", "A"]},
            422,
            {"field": "arms"},
        ),
        (
            "POST",
            "/v1/experiments",
            EXPERIMENT | {"name": "x", "policy": "exp3"},
            422,
            {"field": "policy"},
        ),
        (
            "POST",
            "/v1/experiments",
            EXPERIMENT | {"name": "x", "reward_range": [5, 5]},
            422,
            {"field": "reward_range"},
        ),
        (
            "POST",
            "/v1/experiments",
            EXPERIMENT | {"name": "x", "unit": "E\nUR"},
            422,
            {"field": "unit"},
        ),
        (
            "POST",
            "/v1/experiments",
            EXPERIMENT | {"name": "x", "covariates": ["rain"]},  # its policy learns from rounds
            422,
            {"field": "covariates"},
        ),
        (
            "PUT",
            f"{BANNER}/slots/0/total",
            {"total": 1, "covariates": {"rain": 1}},
            422,
            {"field": "covariates"},
        ),
        (
            "PUT",
            f"{BANNER}/slots/0/total",
            {"total": 1, "covariates": {"rain": "wet"}},
            422,
            {},
        ),
        ("POST", "/v1/experiments", EXPERIMENT | {"name": "x y"}, 422, {"field": "name"}),
        ("POST", "/v1/experiments", EXPERIMENT | {"colour": "red"}, 422, {"field": "colour"}),
        ("POST", "/v1/experiments", EXPERIMENT | {"horizon": "100"}, 422, {"field": "horizon"}),
        (
            "PUT",
            f"{BANNER}/slots/9/decision",
            None,
            409,
            {"recorded": {"next": 1}, "given": {"slot": 9}},
        ),
        ("PUT", f"{BANNER}/slots/-1/decision", None, 422, {"field": "n"}),
        ("PUT", f"{BANNER}/slots/one/decision", None, 422, {"field": "n"}),
        (
            "PUT",
            f"{BANNER}/slots/0/total",
            {"total": 38},
            409,
            {"recorded": {"total": 37.0}, "given": {"total": 38.0}},
        ),
        (
            "PUT",
            f"{BANNER}/slots/0/total",
            {"missing": True},
            409,
            {"recorded": {"total": 37.0}, "given": {"total": None}},
        ),
        ("PUT", f"{BANNER}/slots/0/total", {"total": -1}, 422, {"field": "total"}),
        ("PUT", f"{BANNER}/slots/0/total", {"total": "37"}, 422, {}),
        ("PUT", f"{BANNER}/slots/0/total", {}, 422, {}),
        ("PUT", f"{BANNER}/slots/5/total", {"total": 1}, 409, {"recorded": {"next": 1}}),
        (
            "GET",
            "/v1/experiments/nothing",
            None,
            404,
            {"message": "there is no experiment 'nothing': "},
        ),
        ("GET", "/v2/experiments", None, 404, {"message": "Not Found"}),
        ("PATCH", BANNER, None, 405, {"message": "Method Not Allowed"}),
        (
            "POST",
            f"{BANNER}/totals",
            {"totals": [{"slot": 0, "total": 38}]},
            409,
            {"recorded": {"total": 37.0}},
        ),
        (
            "POST",
            f"{BANNER}/totals",
            {"totals": [{"slot": 0, "total": 37}, {"slot": 5, "total": 1}]},
            409,
            {},
        ),
        (
            "POST",
            f"{BANNER}/totals",
            {"totals": [{"slot": 0, "total": 37, "missing": True}]},
            422,
            {},
        ),
        ("POST", f"{BANNER}/totals", {"totals": [{"slot": "0", "total": 37}]}, 422, {}),
        ("POST", f"{BANNER}/totals", {"totals": [{"slot": 0}]}, 422, {}),
        ("POST", f"{BANNER}/totals", [{"slot": 0, "total": 37}], 422, {}),
        (
            "POST",
            f"{BANNER}/totals",
            {"totals": [{"slot": 0, "total": 37}] * 10_001},
            422,
            {"field": "totals"},
        ),
        ("DELETE", BANNER, None, 422, {"field": "confirm"}),
        ("DELETE", f"{BANNER}?confirm=banner", None, 422, {"field": "last"}),
        ("DELETE", f"{BANNER}?confirm=other&last=x", None, 422, {"field": "confirm"}),
        ("DELETE", f"{BANNER}?confirm=banner&last=x", None, 409, {"given": {"last": "x"}}),
        ("DELETE", "/v1/experiments/nothing?confirm=nothing&last=x", None, 404, {}),
        ("GET", f"{BANNER}/slots?limit=0", None, 422, {"field": "limit"}),
        ("GET", f"{BANNER}/export?format=xls", None, 422, {"field": "format"}),
        ("POST", f"{BANNER}/slots", None, 422, {"field": "idempotency-key"}),
    ],
)
def test_refusals_record_nothing(banner, storage, method, path, body, status, problem):
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    call(banner, "PUT", f"{BANNER}/slots/0/total", {"total": 37})
    before = log_of(storage)
    got, answer, _ = call(banner, method, path, body)
    assert got == status, answer
    assert set(answer) == {"message", "field", "recorded", "given"}
    assert answer["message"]
    for name, value in problem.items():
        assert answer[name].startswith(value) if name == "message" else answer[name] == value
    assert log_of(storage) == before
    assert call(banner, "GET", "/v1/experiments")[1] == {"experiments": ["banner"]}


def test_many_totals_at_once_are_recorded_all_or_none(banner, storage):
    for slot in range(6):
        call(banner, "PUT", f"{BANNER}/slots/{slot}/decision")
    path = f"{BANNER}/totals"
    totals = [{"slot": slot, "total": slot} for slot in (4, 0, 2)] + [{"slot": 1, "missing": True}]
    before = log_of(storage)
    for wrong in ({"slot": 9, "total": 1}, {"slot": 3, "total": -1}, {"slot": 3, "total": 1e6}):
        status, answer, _ = call(banner, "POST", path, {"totals": [*totals, wrong]})
        assert status in (409, 422), answer
    assert log_of(storage) == before
    status, answer, _ = call(banner, "POST", path, {"totals": totals})
    assert status == 201
    assert [(each["slot"], each["total"], each["change"]) for each in answer["totals"]] == [
        (4, 4.0, "recorded"),
        (0, 0.0, "recorded"),
        (2, 2.0, "recorded"),
        (1, None, "recorded"),
    ]
    status, again, _ = call(banner, "POST", path, {"totals": totals})
    assert status == 200
    assert {each["change"] for each in again["totals"]} == {"unchanged"}
    assert call(banner, "POST", path, {"totals": []})[:2] == (200, {"totals": []})
    assert len(log_of(storage)) == len(before) + 4
    assert 'aftereffect_events_total{kind="total"} 4.0' in call(banner, "GET", "/metrics")[1]


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


def test_a_token_that_was_changed_opens_nothing(storage, tokens):
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE aftereffect_tokens SET scope = 'admin' WHERE scope = 'read'")
    connection.close()
    with in_thread(storage) as service:
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 500
        assert call(service, "POST", "/v1/experiments", EXPERIMENT, token=tokens["read"])[0] == 500
        assert call(service, "POST", "/v1/experiments", EXPERIMENT, token=tokens["admin"])[0] == 201
        (problem,) = call(service, "GET", f"{BANNER}/verify", token=tokens["write"])[1]["problems"]
        assert problem.startswith("token 1 is not what was recorded")
        with ae.open_storage(storage) as place:
            revoke_token(place, 1)
            assert [record.revoked_at is None for record in place.tokens()] == [False, True, True]
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 401
        assert call(service, "GET", f"{BANNER}/verify", token=tokens["write"])[1]["whole"] is True


def test_the_lag(service, storage):
    with ae.open_storage(storage) as place:
        late = played(place, "late", ["A", "B", "C"], 300, late=2, shares=LATE)
        played(
            place, "crowd", [f"arm {number}" for number in range(MAX_ARMS + 1)], 200, shares=LATE
        )
        expected = ae.estimate_lag(late.history())
    status, answer, _ = call(service, "GET", "/v1/experiments/late/lag")
    assert (status, answer) == (200, expected.to_dict())
    assert answer["conclusive"]
    assert answer["mean"] == pytest.approx(7.5, abs=0.2)
    assert answer["slots"] == 298
    call(service, "POST", "/v1/experiments", EXPERIMENT)
    new = call(service, "GET", f"{BANNER}/lag")[1]
    assert new["reason"] == "0 slots with totals are too few, at least 100 are needed"
    assert (new["conclusive"], new["mean"], new["high"], new["lags"]) == (False, None, None, [])
    assert new["p90"] == {"value": None, "low": 0.0, "high": None}
    crowd = call(service, "GET", "/v1/experiments/crowd/lag")[1]
    assert (crowd["conclusive"], crowd["reason"].partition(",")[0]) == (
        False,
        f"{MAX_ARMS + 1} arms are too many",
    )
    status, answer, _ = call(service, "GET", "/v1/experiments/nothing/lag")
    assert (status, answer["message"].startswith("there is no experiment 'nothing': ")) == (
        404,
        True,
    )


def test_a_lag_estimate_is_made_once_and_renewed_in_the_background(
    monkeypatch,
):
    made, go = [], threading.Event()

    def slow(_, totals):
        go.wait(30)
        made.append(sum(total == total for total in totals))
        return made[-1]  # stands for the estimate from so many totals

    monkeypatch.setattr(_cache, "estimate_lag", slow)
    monkeypatch.setattr(_cache, "MAX_WAIT", 0.1)
    with ae.open_storage("memory://") as place:
        experiment = played(place, "late", ["A", "B", "C"], 100, shares=LATE)
        lag = LagCache(Timeline(experiment))
        with ThreadPoolExecutor(8) as eight:
            first = [eight.submit(lag.estimate) for _ in range(8)]
            go.set()
            assert [each.result(30) for each in first] == [100] * 8
        for told in range(101, 112):
            go.clear()
            experiment.tell(experiment.ask().slot, told % 7)
            assert (
                lag.estimate() == lag.estimate() == made[-1]
            )  # though the next one cannot be made yet
            go.set()
            wait_until(
                lambda told=told: made[-1] == (100 if told < 105 else 105 if told < 111 else 111)
            )
            wait_until(lambda: not lag._renewing.locked())
        assert lag.estimate() == 111
    assert made == [100, 105, 111]


def test_every_request_twice_and_eight_at_once_has_one_effect(service, storage):
    steps = [
        ("POST", "/v1/experiments", EXPERIMENT, None),
        ("POST", f"{BANNER}/slots", None, {"Idempotency-Key": "first"}),
        ("PUT", f"{BANNER}/slots/0/total", {"total": 37}, None),
        ("PUT", f"{BANNER}/slots/1/decision", None, None),
        ("PUT", f"{BANNER}/slots/1/total", {"missing": True}, None),
        ("POST", f"{BANNER}/slots", None, {"Idempotency-Key": "second"}),
        ("PUT", f"{BANNER}/slots/2/total", {"total": 3}, None),
        ("PUT", f"{BANNER}/slots/3/decision", None, None),
        ("POST", f"{BANNER}/end", None, None),
    ]
    with ThreadPoolExecutor(8) as eight:
        for method, path, body, headers in steps:
            sent = partial(call, service, method, path, body, headers=headers)
            answers = [answer[:2] for answer in eight.map(lambda _, sent=sent: sent(), range(8))]
            again = call(service, method, path, body, headers=headers)[:2]
            assert [status for status, _ in answers].count(201) == (
                0 if path.endswith("end") else 1
            )
            assert {status for status, _ in answers} <= {200, 201}
            assert again[0] == 200
            without_change = [
                {k: v for k, v in answer.items() if k != "change"}
                for _, answer in (*answers, again)
            ]
            assert all(answer == without_change[0] for answer in without_change)
    kinds = [(event.kind, event.slot) for event in log_of(storage)]
    assert len(kinds) == len(set(kinds)) == 8


def test_the_openapi_document_has_no_examples_of_python(service):
    status, document, _ = call(service, "GET", "/openapi.json")
    assert status == 200
    text = json.dumps(document)
    assert ">>>" not in text
    assert "--------" not in text.replace("Attributes\\n----------", "")


def test_the_openapi_document_is_true(storage):
    """schemathesis, all phases: every generated request is answered as the document says."""
    with ae.open_storage(storage) as opened:
        token, _ = create_token(opened, "admin")
        # The one that the hooks let it end: it must exist from the start.
        ae.Experiment.create(**EXPERIMENT | {"name": "experiment-0"}, storage=opened)
    with in_thread(storage) as service:
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "schemathesis.cli",
                    "--config-file",
                    TESTS / "schemathesis.toml",
                ),
                *("run", f"{service}/openapi.json", "-H", f"Authorization: Bearer {token}"),
                *("--max-examples", "25", "--seed", "1", "--no-color"),
            ],
            capture_output=True,
            text=True,
            env=os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(TESTS)},
        )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert re.search(rf"✅\s+{phase}", done.stdout), done.stdout
    assert int(re.search(r"API Links:\s+(\d+) covered", done.stdout)[1]) > 5


# Who may do what


OPERATIONS = [
    ("read", "GET", "/v1/experiments", None),
    ("read", "GET", BANNER, None),
    ("read", "GET", f"{BANNER}/slots", None),
    ("read", "GET", f"{BANNER}/timeline", None),
    ("read", "GET", f"{BANNER}/lag", None),
    ("read", "GET", f"{BANNER}/results", None),
    ("read", "GET", f"{BANNER}/verify", None),
    ("read", "GET", f"{BANNER}/export", None),
    ("read", "GET", "/metrics", None),
    ("write", "POST", f"{BANNER}/totals", {"totals": [{"slot": 0, "total": 1}]}),
    ("admin", "GET", f"{BANNER}/log", None),
    ("admin", "DELETE", f"{BANNER}?confirm=banner&last=x", None),
    ("write", "POST", f"{BANNER}/slots", None),
    ("write", "PUT", f"{BANNER}/slots/0/decision", None),
    ("write", "PUT", f"{BANNER}/slots/0/total", {"total": 1}),
    ("admin", "POST", "/v1/experiments", EXPERIMENT),
    ("admin", "POST", f"{BANNER}/end", None),
]


@pytest.mark.parametrize(("needed", "method", "path", "body"), OPERATIONS)
def test_scopes(storage, tokens, needed, method, path, body):
    order = ["read", "write", "admin"]
    with ae.open_storage(storage) as place:
        ae.Experiment.create(**EXPERIMENT, storage=place)
        revoked, record = create_token(place, "admin")
        revoke_token(place, record.id)
    before = log_of(storage)
    with in_thread(storage) as service:
        headers = {"Idempotency-Key": "k"}
        for wrong in (
            None,
            "",
            "ae_wrong",
            revoked,
            tokens["admin"][:-1],
            tokens["admin"] + "x",
            "é",
        ):
            status, answer, got = call(
                service,
                method,
                path,
                body,
                headers=headers,
                token=wrong and wrong.encode().decode("latin-1"),
            )
            assert (status, got["WWW-Authenticate"]) == (401, "Bearer")
            assert answer == {
                "message": "a valid token is needed: send Authorization: Bearer TOKEN",
                "field": None,
                "recorded": None,
                "given": None,
            }
        for scope in order[: order.index(needed)]:
            status, answer, _ = call(
                service, method, path, body, headers=headers, token=tokens[scope]
            )
            assert (status, answer["message"]) == (
                403,
                f"this needs the scope {needed}, the token has {scope}",
            )
        assert log_of(storage) == before
        for scope in order[order.index(needed) :]:
            assert call(service, method, path, body, headers=headers, token=tokens[scope])[0] in (
                200,
                201,
                409,
            )


def test_what_exists_is_not_told_to_strangers(storage, tokens):
    with in_thread(storage) as service:
        answers = {
            json.dumps(call(service, "GET", f"/v1/experiments/{name}")[:2])
            for name in ("banner", "other")
        }
        assert len(answers) == 1
        assert call(service, "GET", "/healthz")[0] == 200


def test_a_token_that_is_revoked_is_so_at_once(storage, tokens):
    with in_thread(storage) as service, ae.open_storage(storage) as place:
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 200
        revoke_token(place, 1)
        assert call(service, "GET", "/v1/experiments", token=tokens["read"])[0] == 401
        for number in (2, 3):
            revoke_token(place, number)
        assert (
            call(service, "GET", "/v1/experiments")[0] == 401
        )  # no token is left, but it does not become open


def test_tokens_are_kept_as_digests_and_in_no_log(storage, tokens, tmp_path):
    notes = Lines(JsonFormatter())
    logger = logging.getLogger("aftereffect.service")
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    try:
        with in_thread(storage) as service:
            call(service, "GET", f"/v1/experiments?token={tokens['read']}", token=tokens["admin"])
            call(service, "POST", "/v1/experiments", EXPERIMENT, token=tokens["write"])
    finally:
        logger.removeHandler(notes)
    assert [(json.loads(line)["path"], json.loads(line)["status"]) for line in notes.lines] == [
        ("/v1/experiments", 200),
        ("/v1/experiments", 403),
    ]
    everything = "".join(notes.lines).encode() + b"".join(
        file.read_bytes() for file in tmp_path.iterdir()
    )
    for token in tokens.values():
        assert token.encode() not in everything


def test_beyond_this_machine_only_with_a_token(storage, capsys):
    assert main(["serve", "--host", "0.0.0.0", "--storage", storage]) == 2
    assert "other machines can reach 0.0.0.0" in capsys.readouterr().err
    with ae.open_storage(storage) as place:
        _, record = create_token(place, "admin")
        revoke_token(place, record.id)
    assert main(["serve", "--host", "0.0.0.0", "--storage", storage]) == 2
    with ae.open_storage(storage) as place:
        create_token(place, "read")
    with in_thread(storage, host="0.0.0.0") as service:
        assert call(service, "GET", "/v1/experiments")[0] == 401


def test_a_page_of_another_origin_changes_nothing(banner, storage):
    before = log_of(storage)
    host = urlsplit(banner).netloc
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://evil.example:{urlsplit(banner).port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},  # a name that was made to lead here
    ):
        for method, path, body in (
            ("POST", f"{BANNER}/end", None),
            ("PUT", f"{BANNER}/slots/0/decision", None),
            ("POST", "/v1/experiments", EXPERIMENT | {"name": "other"}),
        ):
            status, answer, got = call(banner, method, path, body, headers=headers)
            assert status == 403, answer
            assert "Access-Control-Allow-Origin" not in got
    assert (
        call(banner, "POST", f"{BANNER}/end", raw=b"x=1", headers={"Content-Type": "text/plain"})[0]
        == 415
    )
    assert (
        call(banner, "OPTIONS", f"{BANNER}/end", headers={"Origin": "https://evil.example"})[0]
        == 405
    )
    assert log_of(storage) == before
    assert (
        call(
            banner,
            "PUT",
            f"{BANNER}/slots/0/decision",
            headers={"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"},
        )[0]
        == 201
    )


# Bodies, connections, paths


def test_bodies_that_are_too_large_or_something_else(banner):
    big = b'{"total": ' + b"1" * _access.MAX_BODY + b"}"
    status, answer, _ = call(
        banner,
        "PUT",
        f"{BANNER}/slots/0/total",
        raw=big,
        headers={"Content-Type": "application/json"},
    )
    assert (status, answer["message"]) == (
        413,
        f"a body may have 1,048,576 bytes at most, got {len(big):,}",
    )
    place = urlsplit(banner)
    with closing(http.client.HTTPConnection(place.hostname, place.port, timeout=30)) as connection:
        chunks = (b"x" * 65_536 for _ in range(40))
        connection.request(
            "PUT",
            f"{BANNER}/slots/0/total",
            chunks,
            {"Content-Type": "application/json"},
            encode_chunked=True,
        )
        assert connection.getresponse().status == 413
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/xml",
        "",
    ):
        assert (
            call(
                banner,
                "PUT",
                f"{BANNER}/slots/0/total",
                raw=b"value=1",
                headers={"Content-Type": kind},
            )[0]
            == 415
        )
    for raw in (
        b"{",
        b"\xff\xfe",
        b"[1]",
        b"null",
        b'{"total": NaN}',
        b'{"total": 1e999}',
        b"[" * 100_000,
    ):
        status, _, _ = call(
            banner,
            "PUT",
            f"{BANNER}/slots/0/total",
            raw=raw,
            headers={"Content-Type": "application/json"},
        )
        assert status in (400, 422)
    assert call(banner, "GET", BANNER)[1]["slots"] == 0


def test_a_client_that_is_too_slow(banner, monkeypatch):
    monkeypatch.setattr(_access, "BODY_SECONDS", 0.3)
    place = urlsplit(banner)
    with closing(socket.create_connection((place.hostname, place.port), timeout=30)) as slow:
        kind = "Content-Type: application/json\r\nContent-Length: 50"
        head = f"PUT {BANNER}/slots/0/total HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}\r\n\r\n"
        slow.sendall(head.encode() + b'{"val')
        assert call(banner, "GET", "/healthz")[0] == 200  # others do not wait for it
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/experiments/..%2f..%2fetc%2fpasswd",
        "/v1/experiments/%00",
        "/v1/experiments/a%20b",
        "/v1/experiments/%F0%9F%98%80",
        "/v1/experiments/%ff%fe",
        "/v1/experiments/" + "x" * 5_000,
        "/v1/experiments/<script>",
        "/v1/experiments/'; DROP TABLE aftereffect_events; --".replace(" ", "%20"),
        "/v1/experiments//slots",
        "//v1/experiments",
        "/page/../../app.py",
        "/%2e%2e/app.py",
        f"/v1/experiments/banner/slots/{10**40}/decision",
    ],
)
def test_odd_paths(banner, path):
    status, answer, _ = call(banner, "GET", path)
    assert status in (404, 405, 422), answer
    assert answer["message"]
    assert call(banner, "GET", BANNER)[0] == 200


def test_a_thousand_open_connections(banner):
    place = urlsplit(banner)
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)) if hard > 0 else 4_096, hard)
    )
    idle = []
    try:
        for number in range(1_000):
            idle.append(socket.create_connection((place.hostname, place.port), timeout=30))
            if number % 2:
                idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")  # and no end
        start = time.monotonic()
        for slot in range(20):
            assert call(banner, "PUT", f"{BANNER}/slots/{slot}/decision")[0] == 201
        assert time.monotonic() - start < 20
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert call(banner, "GET", "/healthz")[0] == 200


def test_health_and_metrics(banner, storage):
    assert call(banner, "GET", "/healthz")[:2] == (200, {"status": "ok", "version": ae.__version__})
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    call(banner, "PUT", f"{BANNER}/slots/0/decision")
    call(banner, "GET", "/somewhere/else")
    status, text, headers = call(banner, "GET", "/metrics")
    assert (status, headers.get_content_type()) == (200, "text/plain")
    assert (
        'aftereffect_requests_total{method="PUT",route="/v1/experiments/{name}/slots/{n}/decision",status="201"} 1.0'
        in text
    )
    assert 'aftereffect_events_total{kind="decision"} 1.0' in text
    assert 'route="other"' in text
    assert 'aftereffect_slots_outstanding{experiment="banner"} 1.0' in text
    assert "aftereffect_last_total_seconds{" not in text  # nothing was told yet


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


def test_a_port_that_is_taken(service, storage, capsys):
    port = urlsplit(service).port
    assert main(["serve", "--port", str(port), "--storage", storage]) == 2
    assert (
        capsys.readouterr().err
        == f"aftereffect: cannot listen on 127.0.0.1 port {port}: Address already in use: "
        "choose another port\n"
    )


def test_stopping_lets_requests_end(storage):
    service = Process(storage)
    assert call(service.address, "POST", "/v1/experiments", EXPERIMENT)[0] == 201
    answers, stopping = [], threading.Event()

    def asking():
        experiment = ae.Client(service.address, retry_for=0).experiment("banner")
        try:
            while True:
                answers.append(experiment.ask().slot)
        except ae.ServiceError:
            stopping.set()

    threads = [threading.Thread(target=asking) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) > 20)
    assert service.end() in (0, -signal.SIGTERM)
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == list(range(len(answers)))
    assert len([event for event in log_of(storage) if event.kind == "decision"]) == len(answers)
    requests = [json.loads(line) for line in service.lines if '"message": "request"' in line]
    assert {line["method"] for line in requests} == {"POST"}
    assert all(
        set(line) == {"time", "level", "message", "method", "path", "status", "ms", "client"}
        for line in requests
    )


# Tokens on the command line


def test_tokens_on_the_command_line(storage, capsys):
    assert main(["token", "create", "--scope", "write", "--label", "ci", "--storage", storage]) == 0
    printed = capsys.readouterr()
    token = printed.out.strip()
    assert re.fullmatch(r"ae_[\w-]{43}", token)
    assert printed.err.startswith("token 1, scope write: ")
    assert main(["token", "list", "--storage", storage, "--format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["label"], listed["scope"], listed["revoked_at"]) == (
        1,
        "ci",
        "write",
        None,
    )
    assert main(["token", "revoke", "1", "--storage", storage]) == 0
    assert capsys.readouterr().out.startswith("token 1 ")
    assert main(["token", "list", "--storage", storage]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [
        "id",
        "label",
        "scope",
        "created_at",
        "revoked_at",
    ]
    assert main(["token", "revoke", "7", "--storage", storage]) == 2
    assert "there is no token 7" in capsys.readouterr().err
    assert main(["token", "create", "--scope", "all", "--storage", storage]) == 2
    assert "read" in capsys.readouterr().err


# Several processes, sudden ends


def test_several_processes_on_one_postgresql(postgres):
    url = postgres.url()
    services = [Process(url) for _ in range(2)]
    try:
        ae.Client(services[0].address).create(**EXPERIMENT)

        def pairs(number):
            experiment = ae.Client(services[number % 2].address).experiment("banner")
            numbers = []
            for _ in range(15):
                slot = experiment.ask().slot
                experiment.tell(slot, 1)
                numbers.append(slot)
            return numbers

        with ThreadPoolExecutor(4) as four:
            numbers = [number for part in four.map(pairs, range(4)) for number in part]
        assert sorted(numbers) == list(range(60))
        one, two = (ae.Client(each.address).experiment("banner").status() for each in services)
        assert one == two
        assert call(services[0].address, "GET", f"{BANNER}/verify")[1]["whole"] is True
    finally:
        for each in services:
            each.end()


def test_a_demo_moves_within_ten_seconds():
    start = time.monotonic()
    demo = subprocess.Popen(
        [sys.executable, "-m", "aftereffect", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = re.search(r"http://\S+", demo.stdout.readline())[0].rstrip("/")
        wait_until(lambda: len(call(address, "GET", "/v1/experiments")[1]["experiments"]) == 4)

        def slots():
            return call(address, "GET", "/v1/experiments/checkout-banner")[1]["slots"]

        wait_until(lambda: slots() > 100)
        before = slots()
        wait_until(lambda: slots() > before)
        assert time.monotonic() - start < 10
        assert call(address, "GET", "/")[0] == 200
    finally:
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=30)
    assert "Traceback" not in err


def test_server_for_refuses_before_it_listens(storage):
    with pytest.raises(ae.ParameterError, match="65,535, got 70000"):
        server_for(storage, "127.0.0.1", 70_000)
    with ae.open_storage(storage) as place:
        create_token(place, "read")
    with pytest.raises(ae.OutputError, match=r"cannot listen on 256\.256\.256\.256 port 0"):
        server_for(storage, "256.256.256.256", 0)


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
