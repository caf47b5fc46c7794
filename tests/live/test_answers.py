"""What an experiment answers: as dictionaries, in notebooks, and how long effects last."""

import json
from html.parser import HTMLParser

import pytest

import aftereffect as ae
from aftereffect.live import MemoryStorage, SlotRecord
from playing import LATE, played


@pytest.fixture
def banner():
    arms = ["<b>A</b>", 'B & "C"']
    return ae.Experiment.create(
        "banner", arms=arms, policy="ars-ucb", reward_range=(0, 200), storage="memory://"
    )


class Cells(HTMLParser):
    """The tags and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_a_status_is_a_table_in_notebooks(banner):
    banner.ask(0)
    banner.tell(0, 37)
    cells = Cells(banner.status()._repr_html_())
    assert cells.tags.count("tr") == 3
    assert cells.tags.count("td") == 10
    assert {"<b>A</b>", 'B & "C"', "37"} <= set(cells.texts)
    assert cells.tags.count("b") == 1, "only the name of the experiment is bold"
    assert "next: slot 1 plays" in cells.texts[-1]


def test_one_thing_is_not_many(banner):
    banner.ask(0)
    assert str(banner.verify()).startswith("banner: whole, 1 event, 1 slot, 0 rounds, ")


def test_every_answer_is_a_dictionary_that_json_can_write(banner):
    decision, record = banner.ask(0), banner.tell(0, 37)
    assert decision.to_dict() == {
        "slot": 0,
        "arm": "<b>A</b>",
        "round": 0,
        "until": 0,
        "hold": False,
        "time": None,
        "probabilities": None,
        "arms": None,
        "unit_probabilities": None,
    }
    assert record.to_dict() == {
        "slot": 0,
        "total": 37.0,
        "change": "recorded",
        "arm": "<b>A</b>",
        "unit": None,
    }
    (line,) = banner.history()
    assert list(line.to_dict()) == list(SlotRecord._fields)
    status = banner.status()
    assert status.to_dict()["next"] == status.next.to_dict()
    assert status.to_dict()["arms"] == [arm.to_dict() for arm in status.arms]
    for answer in (decision, record, line, status, status.arms[0], banner.verify()):
        assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()


def test_the_next_decision_is_the_one_that_ask_gives(banner):
    for slot in range(4):
        expected = banner.status().next
        assert banner.ask(slot) == expected
        banner.tell(slot, slot)


def test_lag_is_the_estimate_from_the_history():
    experiment = played(MemoryStorage(), "shop", ["A", "B"], 400, shares=LATE)
    estimate = experiment.lag(level=0.8)
    assert estimate.to_dict() == ae.estimate_lag(experiment.history(), level=0.8).to_dict()
    assert estimate.slots == 400
    assert experiment.lag().level == 0.9
