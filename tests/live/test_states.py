"""What an experiment does at one moment, in a word; and the unit of its totals."""

from datetime import UTC, datetime, timedelta

import pytest

import aftereffect as ae
from aftereffect.live import status as module

ROUNDS = {"arms": ["A", "B"], "policy": "ars-ucb", "reward_range": (0, 100), "seed": 1}
SLOTS = {"arms": ["A", "B"], "policy": "fixed-switchback(block=2)", "slot": "1h", "seed": 1}


def make(**settings):
    return ae.Experiment.create("banner", storage="memory://", **settings)


def state_of(experiment):
    return experiment.status().state


def play(experiment, slots, *, late=0):
    """Decide so many slots; each total comes after as many further slots were decided."""
    for _ in range(slots):
        slot = experiment.ask().slot
        if slot >= late:
            experiment.tell(slot - late, 10)


@pytest.fixture
def wait(monkeypatch):
    """Lets time pass between the last total and the status."""

    def pass_time(**length):
        later = datetime.now(UTC) + timedelta(**length)
        monkeypatch.setattr(module, "now", lambda: later.isoformat())

    return pass_time


def test_from_not_begun_to_ended():
    experiment = make(**ROUNDS, horizon=6)
    assert state_of(experiment) == "not begun"
    experiment.ask(0)
    assert state_of(experiment) == "running"
    experiment.ask(1)  # the arm stays until a total comes
    assert state_of(experiment) == "waiting for totals"
    experiment.tell_many({0: 1, 1: 2})
    assert state_of(experiment) == "running"
    for slot in range(2, 6):
        experiment.ask(slot)
        experiment.tell(slot, 3)
    assert state_of(experiment) == "complete"
    assert experiment.status().next is None
    assert experiment.end().state == "ended"
    assert state_of(experiment) == "ended"


def test_an_outage_before_the_first_decision_is_no_beginning():
    experiment = make(**ROUNDS)
    experiment.skip(0, 9)
    assert state_of(experiment) == "not begun"


def test_all_decided_and_not_all_told():
    experiment = make(**ROUNDS, horizon=6)
    play(experiment, 6, late=1)
    assert experiment.status().next is None
    assert state_of(experiment) == "waiting for totals"
    experiment.mark_missing(5)
    assert state_of(experiment) == "complete"


@pytest.mark.compiled
def test_a_policy_that_does_not_wait_has_no_totals_yet():
    experiment = make(**SLOTS)
    experiment.ask()
    assert state_of(experiment) == "running"
    experiment.ask()
    assert not experiment.status().next.hold
    assert state_of(experiment) == "waiting for totals"
    experiment.tell(0, 10)
    assert state_of(experiment) == "running"


@pytest.mark.compiled
@pytest.mark.parametrize("late", [0, 4])
def test_silent_by_the_clock(wait, late):
    """After more than 2 (lateness + 1) + 1 slots, here of an hour."""
    experiment = make(**SLOTS)
    play(experiment, 20, late=late)
    assert experiment.status().lateness == late
    limit = 2 * (late + 1) + 1
    wait(hours=limit - 0.1)
    assert state_of(experiment) == "running"
    wait(hours=limit + 0.1)
    status = experiment.status()
    assert status.state == "silent"
    since = f"silent since {status.last_total_at[:10]} {status.last_total_at[11:16]} UTC"
    assert status.describe_state() == since
    assert str(status).startswith(f"banner: {since}; fixed-switchback")
    assert f": {since}; " in status._repr_html_()
    experiment.ask()  # a decision is not a total
    assert state_of(experiment) == "silent"
    assert experiment.end().state == "ended"


@pytest.mark.compiled
def test_a_clock_that_jumps_back_makes_nothing_silent(wait):
    experiment = make(**SLOTS)
    play(experiment, 20)
    wait(days=-30)
    assert state_of(experiment) == "running"


@pytest.mark.parametrize("late", [0, 2])
def test_silent_by_decisions_where_slots_have_no_times(wait, late):
    experiment = make(**ROUNDS)
    play(experiment, 40, late=late)
    wait(days=300)
    assert state_of(experiment) != "silent"
    for _ in range(2 * (late + 1) + 1):
        assert state_of(experiment) != "silent"
        experiment.ask()
    assert state_of(experiment) != "silent"
    experiment.ask()
    assert state_of(experiment) == "silent"
    experiment.tell(experiment.status().awaited[0], 10)
    assert state_of(experiment) != "silent"


def test_a_state_outlives_the_process(tmp_path):
    place = f"sqlite:///{tmp_path}/live.db"
    with ae.Experiment.create("banner", storage=place, **ROUNDS) as experiment:
        play(experiment, 300)
        for _ in range(20):
            experiment.ask()
        before = experiment.status()
    assert before.state == "silent"
    with ae.Experiment.open("banner", storage=place) as experiment:
        assert experiment.status() == before


def test_a_unit_is_part_of_the_settings(tmp_path):
    place = f"sqlite:///{tmp_path}/live.db"
    with ae.Experiment.create("banner", unit="EUR", storage=place, **ROUNDS) as experiment:
        play(experiment, 3)
        assert "mean (EUR)" in str(experiment.status())
    with ae.Experiment.create("banner", unit="EUR", storage=place, **ROUNDS) as experiment:
        assert not experiment.is_new
        assert experiment.status().unit == "EUR"
        assert experiment.verify().whole
    with pytest.raises(ae.ConflictError, match="unit is EUR, got USD"):
        ae.Experiment.create("banner", unit="USD", storage=place, **ROUNDS)
    with pytest.raises(ae.ConflictError, match="unit is EUR, got None"):
        ae.Experiment.create("banner", storage=place, **ROUNDS)


def test_without_a_unit_the_settings_are_as_they_were():
    experiment = make(**ROUNDS)
    assert "unit" not in experiment.settings.to_dict()
    assert experiment.status().unit is None


@pytest.mark.parametrize("unit", ["", " EUR", "E\nUR", "E\x00", "\u202eEUR", "x" * 21, 7, b"EUR"])
def test_a_unit_that_cannot_be_shown_is_refused(unit):
    with pytest.raises(ae.ParameterError, match="unit must be 1 to 20 printable characters"):
        make(**ROUNDS, unit=unit)


def test_a_unit_in_a_notebook_is_only_text():
    status = make(**ROUNDS, unit="<b>&").status()
    assert "mean (&lt;b&gt;&amp;)" in status._repr_html_()


@pytest.mark.compiled
def test_the_status_names_covariates():
    status = make(**SLOTS, covariates=["temperature", "rain"]).status()
    assert status.covariates == ("temperature", "rain")
    assert status.to_dict()["covariates"] == ["temperature", "rain"]
    assert "covariates: temperature, rain" in str(status).splitlines()
