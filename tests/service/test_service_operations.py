"""What the service answers to each operation, and that its OpenAPI document is true."""

import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect.lag import MAX_ARMS
from aftereffect.service import _cache, create_token
from aftereffect.service._cache import LagCache
from aftereffect.service._timeline import Timeline
from playing import LATE, played
from services import BANNER, EXPERIMENT, call, in_thread, log_of, wait_until

TESTS = Path(__file__).parents[1] / "support"


def test_from_create_to_end(service):
    status, answer, headers = call(service, "POST", "/v1/experiments", EXPERIMENT)
    assert (status, answer["name"], headers["Location"]) == (201, "banner", BANNER)
    assert call(service, "GET", "/v1/experiments")[1] == {"experiments": ["banner"]}
    first = {"slot": 0, "arm": "A", "round": 0, "until": 0, "hold": False}
    first |= dict.fromkeys(("time", "probabilities", "arms", "unit_probabilities"))
    assert call(service, "POST", f"{BANNER}/slots", headers={"Idempotency-Key": "monday"})[:2] == (
        201,
        first,
    )
    assert call(service, "PUT", f"{BANNER}/slots/0/decision")[:2] == (200, first)
    outcome = {"slot": 0, "total": 37.0, "change": "recorded", "arm": "A", "unit": None}
    assert call(service, "PUT", f"{BANNER}/slots/0/total", {"total": 37})[:2] == (201, outcome)
    assert call(service, "PUT", f"{BANNER}/slots/1/decision")[1]["arm"] == "B"
    missing = {"slot": 1, "total": None, "change": "recorded", "arm": "B", "unit": None}
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
