"""Feeds that say when their totals are final: until then a total may be told again with another number."""

import pytest

import aftereffect as ae
from aftereffect.live import _telling, status

DAY = "2026-03-02T00:00"


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock, in UTC."""

    def turn(time):
        for module in (_telling, status):
            monkeypatch.setattr(module, "now", lambda: f"{time}:00.000000+00:00")

    turn(DAY)
    return turn


def create(policy="ucb1", **settings):
    settings = {"slot": "1h", "start": DAY, "final_after": "72h", "seed": 1} | settings
    return ae.Experiment.create(
        "ads",
        arms=["A", "B"],
        policy=policy,
        reward_range=(0, 100),
        storage="memory://",
        **settings,
    )


def test_a_provisional_total_may_be_told_again_and_a_final_one_not(clock):
    experiment = create()
    for slot in range(6):
        experiment.ask(slot)
        experiment.tell(slot, 10)
    clock("2026-03-02T06:00")
    assert experiment.status().provisional == 6
    assert experiment.tell(1, 12).change == "revised"
    assert experiment.mark_missing(2).change == "revised"
    assert experiment.tell(2, 14).change == "revised"
    clock("2026-03-05T00:59")  # 72 hours after the end of slot 0 are over at 01:00
    assert experiment.status().provisional == 6
    assert experiment.tell(0, 11).change == "revised"
    clock("2026-03-05T01:00")
    assert experiment.status().provisional == 5
    with pytest.raises(ae.ConflictError, match="slot 0 has the total 11, got 12: give --revise"):
        experiment.tell(0, 12)
    assert experiment.tell(0, 11).change == "unchanged"
    assert experiment.tell(0, 12, revise=True).change == "revised"
    assert experiment.tell(1, 13).change == "revised"
    clock("2026-03-06T00:00")
    assert experiment.status().provisional == 0
    assert experiment.verify().whole
    assert experiment.verify().difference is None


def test_the_status_counts_decided_slots_with_a_total(clock):
    experiment = create(final_after="2h")
    for slot in range(4):
        experiment.ask(slot)
    experiment.tell(1, 10)
    experiment.mark_missing(3)
    experiment.skip(4, 6)
    for slot in range(7, 9):
        experiment.ask(slot)
    experiment.tell(8, 10)
    for time, count in (("2026-03-02T03:59", 3), ("2026-03-02T04:00", 2), ("2026-03-02T10:59", 1)):
        clock(time)
        assert experiment.status().provisional == count
        assert f"{count} provisional" in str(experiment.status())
    clock("2026-03-02T11:00")
    assert experiment.status().provisional == 0
    assert "provisional" not in str(experiment.status())


def test_days_are_counted_by_the_clock_on_the_wall(clock):
    """A day of 23 hours, on which clocks change, is over when it is."""
    experiment = create(slot="1d", start="2026-03-28", timezone="Europe/Berlin", final_after="1d")
    for slot in range(2):
        experiment.ask(slot)
        experiment.tell(slot, 10)
    clock("2026-03-30T21:59")  # one minute to midnight in Berlin, on the day after slot 1
    assert experiment.status().provisional == 1
    clock("2026-03-30T22:00")
    assert experiment.status().provisional == 0


@pytest.mark.compiled
def test_covariates_and_guardrails_are_provisional_too(clock):
    experiment = ae.Experiment.create(
        "cafe",
        arms=["A", "B"],
        policy="fixed-switchback(block=2)",
        slot="1h",
        start=DAY,
        covariates=["rain"],
        guardrails=["guardrail(refunds)"],
        final_after="1d",
        storage="memory://",
    )
    experiment.ask(0)
    experiment.tell(0, 10, covariates={"rain": 1}, guardrails={"refunds": 2})
    given = {"covariates": {"rain": 3}, "guardrails": {"refunds": 4}}
    assert experiment.tell(0, 10, **given).change == "revised"
    clock("2026-03-03T01:00")
    with pytest.raises(ae.ConflictError, match="slot 0 has the rain 3, got 5"):
        experiment.tell(0, 10, covariates={"rain": 5})


def test_without_it_nothing_changes(clock):
    plain = create(final_after=None)
    assert "final_after" not in plain.settings.to_json()
    assert (plain.status().final_after, plain.status().provisional) == (None, None)
    plain.ask(0)
    plain.tell(0, 10)
    with pytest.raises(ae.ConflictError, match="to replace it"):
        plain.tell(0, 11)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"final_after": "72"}, "final_after must be a time of at most ten years, such as 90min"),
        ({"final_after": 72}, "final_after must be a time"),
        ({"final_after": "0h"}, "final_after must be a time"),
        ({"final_after": "9999w"}, "final_after must be a time of at most ten years"),
        ({"slot": None, "start": None}, "final_after needs slots with times: give the length"),
    ],
)
def test_what_is_no_such_time(given, message):
    with pytest.raises(ae.ParameterError, match=message) as caught:
        create(**given)
    assert caught.value.field == "final_after"


def test_it_is_a_setting(clock):
    storage = ae.open_storage("memory://")
    arms = {
        "arms": ["A", "B"],
        "policy": "ucb1",
        "reward_range": (0, 1),
        "slot": "1h",
        "start": DAY,
    }
    ae.Experiment.create("ads", **arms, final_after="72h", storage=storage)
    assert ae.Experiment.open("ads", storage=storage).settings.final_after == "72h"
    with pytest.raises(ae.ConflictError, match="final_after is 72h, got 3d"):
        ae.Experiment.create("ads", **arms, final_after="3d", storage=storage)
