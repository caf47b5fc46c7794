"""What a service says about requests that cannot be: the field, and one line that a person can read."""

import pytest

from services import EXPERIMENT, call

CLOCK = {"slot": "1h", "start": "2026-03-02T00:00"}


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"slot": "1h", "start": "0001-01-01T00:00"}, "start", "from 1900 to 2199"),
        ({"slot": "1h", "start": "tomorrow"}, "start", "such as 2026-03-02T14:00"),
        (CLOCK | {"timezone": "Mars/Olympus"}, "timezone", "such as UTC"),
        (CLOCK | {"timezone": "../../etc/passwd"}, "timezone", "such as UTC"),
        (CLOCK | {"timezone": ""}, "timezone", "such as UTC"),
        (CLOCK | {"timezone": "A" * 5000}, "timezone", "at most 100 characters"),
        ({"slot": "1m"}, "slot", "'15min', '1h', '1d' or '1w'"),
        ({"name": "x y"}, "name", "letters, digits"),
        (CLOCK | {"history": [1e308]}, "history", "to 1e+100, got 1e+308"),
        (CLOCK | {"history": ["a"]}, "history.0", "valid number"),
        (CLOCK | {"history": "/etc/passwd"}, "history", "valid list"),
        (CLOCK | {"history": [1] * 100_001}, "history", "at most 100000 items"),
        (
            CLOCK | {"history": [{"time": "2026-03-01T00:00", "total": "1"}]},
            "history.0.total",
            "valid number",
        ),
        (CLOCK | {"history": [{"time": "9 o'clock", "total": 1}]}, "history.0.time", "a time such"),
        ({"control": "D"}, "control", "one of the arms"),
    ],
)
def test_settings_that_cannot_be(service, given, field, message):
    status, answer, _ = call(service, "POST", "/v1/experiments", EXPERIMENT | given)
    assert (status, answer["field"]) == (422, field)
    assert message in answer["message"]
    assert "\n" not in answer["message"]
    assert len(answer["message"]) < 200
    assert not {"^", "PastTotal", "NewExperiment"} & set(
        answer["message"].replace(":", " ").split()
    )
    assert call(service, "GET", "/v1/experiments")[1] == {"experiments": []}


@pytest.mark.parametrize("total", ["5", None, True])
def test_totals_that_cannot_be(service, total):
    call(service, "POST", "/v1/experiments", EXPERIMENT)
    call(service, "PUT", "/v1/experiments/banner/slots/0/decision")
    path = "/v1/experiments/banner/slots/0/total"
    status, answer, _ = call(service, "PUT", path, {"total": total})
    assert (status, answer["field"]) == (422, "total")
    assert "valid number" in answer["message"]


@pytest.mark.parametrize("slot", ["1e3", "-1", "x", "9" * 20])
def test_slots_that_cannot_be(service, slot):
    call(service, "POST", "/v1/experiments", EXPERIMENT)
    path = f"/v1/experiments/banner/slots/{slot}/decision"
    status, answer, _ = call(service, "PUT", path)
    assert (status, answer["field"]) == (422, "n")
    assert answer["message"].startswith("n: a slot is a number from 0 on")
