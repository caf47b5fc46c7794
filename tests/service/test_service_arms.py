"""Arms come and go over HTTP, and the client and the timeline know them."""

import pytest

import aftereffect as ae
from aftereffect.service import create_token
from services import BANNER, call, in_thread

SHOP = {
    "name": "banner",
    "arms": ["A", "B"],
    "policy": "adaptive-switchback(slots_per_day=2, delay=interval(0, 2))",
    "seed": 1,
}

pytestmark = pytest.mark.compiled


def play(experiment, first, last):
    for slot in range(first, last):
        experiment.ask(slot)
        experiment.tell(slot, 100 + slot % 7)


def test_the_client_does_as_the_library(service):
    """All answers are the same here and there, for arms that come, go and come back."""
    with ae.Client(service) as client:
        theirs = client.create(**SHOP)
        ours = ae.Experiment.create(**SHOP, storage="memory://")
        for experiment in (ours, theirs):
            play(experiment, 0, 20)
        changes = ({"add": ["C", "D"], "pause": "B"}, {"resume": ["B"], "retire": "C"})
        for number, change in enumerate(changes, 1):
            assert [arm[-2:] for arm in theirs.change_arms(**change).arms] == [
                arm[-2:] for arm in ours.change_arms(**change).arms
            ]
            for experiment in (ours, theirs):
                play(experiment, 20 * number, 20 * number + 20)
        assert theirs.status()._replace(last_total_at=None) == ours.status()._replace(
            last_total_at=None
        )
        assert theirs.results() == ours.results()
        assert theirs.results().retired == ("C",)
        assert theirs.ask(0) == ours.ask(0)
        assert theirs.ask(59) == ours.ask(59)
        assert theirs.verify().whole
        with pytest.raises(ae.ConflictError, match="arm 'C' is retired for good"):
            theirs.change_arms(resume="C")
        pieces = call(service, "GET", f"{BANNER}/timeline?pieces=6")[1]["pieces"]
        pulls = [arm.pulls for arm in ours.status().arms]
        assert pieces[-1]["pulls"] == pulls
        assert sum(pulls) == 60
        assert len(pieces[0]["pulls"]) == 4


def test_requests_and_answers(service):
    assert call(service, "POST", "/v1/experiments", SHOP)[0] == 201
    path = f"{BANNER}/arms"
    status, answer, _ = call(service, "POST", path, {"add": ["C"], "pause": ["B"]})
    assert status == 200
    assert [(arm["arm"], arm["state"], arm["since"]) for arm in answer["arms"]] == [
        ("A", "active", None),
        ("B", "paused", 0),
        ("C", "active", 0),
    ]
    assert call(service, "POST", path, {"add": ["C"], "pause": ["B"]})[:2] == (200, answer)
    for given, expected in (
        ({}, 422),
        ({"add": "D"}, 422),
        ({"remove": ["B"]}, 422),
        ({"pause": ["F"]}, 422),
        ({"pause": ["A", "C"]}, 409),
        ({"add": ["B"]}, 409),
    ):
        assert call(service, "POST", path, given)[0] == expected, given
    assert call(service, "POST", "/v1/experiments/none/arms", {"add": ["C"]})[0] == 404


@pytest.mark.parametrize(("scope", "expected"), [("read", 403), ("write", 403), ("admin", 200)])
def test_arms_are_changed_by_those_who_create_experiments(storage, scope, expected):
    with ae.open_storage(storage) as place:
        ae.Experiment.create(**SHOP, storage=place)
        token, _ = create_token(place, scope)
    with in_thread(storage) as url:
        answer = call(url, "POST", f"{BANNER}/arms", {"add": ["C"]}, token=token)
    assert answer[0] == expected
