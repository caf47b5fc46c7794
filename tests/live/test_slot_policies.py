"""Live experiments whose policy looks at every slot: calendar, history, probabilities, late totals."""

import json
import random
import sqlite3
from datetime import datetime

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.delays import ARM, TOTAL
from aftereffect.live import _slotwise_state, chain_start, make_state
from aftereffect.live._slot_clock import SlotClock
from aftereffect.live._snapshots import take_snapshot
from aftereffect.simulation import Task, prepare, run_batch

ARMS = ["A", "B", "C"]
LIFTS = [0, 0.1, 0.3]
#: 30 weeks of hours.
SERIES = [
    100 + 50 * np.sin(2 * np.pi * hour / 24) + 20 * (hour % 168 > 120) + noise
    for hour, noise in enumerate(np.random.default_rng(4).normal(0, 8, 30 * 168))
]
POLICIES = [
    ae.AdaptiveSwitchback(),
    ae.FixedSwitchback(block=12),
    ae.OptimalSwitchback(carryover=6, blocks=20),
]
START = 10 * 168
BANDIT = ae.HistoryBandit(
    SERIES, LIFTS, ae.Interval(0, 5), start=START, weeks_before=4, shuffle=False
)
HISTORY = SERIES[START - 4 * 168 : START]
#: The slots start on a Monday, as those of the bandit.
SHOP = {"arms": ARMS, "slot": "1h", "start": "2026-01-05T00:00", "history": HISTORY}
#: The default policy, but without a comparison of delays.
TOLD = ae.AdaptiveSwitchback(delay=ae.Interval(0, 5))
HORIZON = 24 * 28


def create(storage="memory://", **given):
    usual = {"policy": TOLD, "seed": 3, "storage": storage}
    return ae.Experiment.create("shop", **SHOP | usual | given)


def demand(slot, arm):
    """What a slot brings, at once."""
    return SERIES[START + slot] * (1 + LIFTS[ARMS.index(arm)])


def play(experiment, slots):
    for slot in range(experiment.status().slots, slots):
        experiment.tell(slot, demand(slot, experiment.ask(slot).arm))
    return experiment


def arms_of(experiment):
    return [record.arm for record in experiment.history()]


def snapshot_of(experiment):
    with experiment._log.reading() as (_, state):
        return json.loads(take_snapshot(state.look_ahead()).text)


@pytest.mark.compiled
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_live_decides_as_the_simulation_bit_for_bit(policy):
    informed = policy.with_calendar(BANDIT.calendar)
    task = Task(informed, BANDIT, "slotwise", HORIZON, (HORIZON,), 3, range(1))
    engine = BANDIT.tracer(HORIZON)
    memory = run_batch(task, prepare(task, engine=engine)).memory
    look_up = engine.kernels.feed.look_up
    history = [look_up(memory, engine.world, slot, None) for slot in range(-len(HISTORY), 0)]
    storage = ae.open_storage("memory://")
    experiment = create(storage, policy=policy, horizon=HORIZON, history=history)
    assert experiment.settings.policy == informed
    played = []
    for slot in range(HORIZON):
        played.append(ARMS.index(experiment.ask(slot).arm))
        experiment.tell(slot, memory[TOTAL, slot])
        if slot % 97 == 0:
            experiment = ae.Experiment.open("shop", storage=storage)
    assert played == memory[ARM, :HORIZON].astype(int).tolist()
    assert len(set(played)) > 1
    checked = experiment.verify()
    assert checked.whole
    assert checked.difference is None


@pytest.mark.compiled
def test_a_state_that_grows_or_is_read_from_a_snapshot_is_the_same(tmp_path, monkeypatch):
    compares = ae.AdaptiveSwitchback()
    whole = play(create(policy=compares), 600)
    monkeypatch.setattr(_slotwise_state, "_ROOM", 8)
    monkeypatch.setattr("aftereffect.live._snapshots._SNAPSHOT_EVENTS", 1)
    url = f"sqlite:///{tmp_path}/live.db"
    create(url, policy=compares).close()
    for slots in range(50, 601, 50):
        with ae.Experiment.open("shop", storage=url) as grown:
            play(grown, slots)
    grown = ae.Experiment.open("shop", storage=url)
    assert arms_of(grown) == arms_of(whole)
    assert [r.probability for r in grown.history()] == [r.probability for r in whole.history()]
    assert grown.verify().whole
    with grown._log.reading() as (view, state):
        folded = make_state(grown.settings, chain_start(grown.record))
        assert take_snapshot(folded.fold_all(view.events(0, 10**6))) == take_snapshot(state)
    grown.close()


@pytest.mark.compiled
@pytest.mark.parametrize("order", ["reversed", "shuffled", "one by one"])
def test_the_order_of_a_nightly_feed_does_not_matter(order):
    """All totals of a day come at its end."""
    played = []
    for by in ("in order", order):
        experiment = create()
        for day in range(21):
            slots = range(24 * day, 24 * day + 24)
            rows = [(slot, demand(slot, experiment.ask(slot).arm)) for slot in slots]
            if by == "reversed":
                rows.reverse()
            elif by == "shuffled":
                random.Random(day).shuffle(rows)
            for some in [[row] for row in rows] if by == "one by one" else [rows]:
                experiment.tell_many(some)
        status = experiment.status()
        assert status.received == 21 * 24
        assert status.learned + status.waiting == 21 * 24
        played.append((arms_of(experiment), snapshot_of(experiment)["policy_state"]))
    assert played[0] == played[1]
    assert len(set(played[0][0])) == 3


@pytest.mark.compiled
@pytest.mark.parametrize("late", [1, 3, 6, 24, 72])
def test_totals_that_come_late_are_all_learned(late):
    """Six weeks; every hour the total of some hours before is recorded."""
    hours, experiment = 1_008, create()
    for slot in range(hours):
        arm = experiment.ask(slot).arm
        assert arm in ARMS
        if slot >= late:
            experiment.tell(slot - late, demand(slot - late, experiment.ask(slot - late).arm))
    status = experiment.status()
    assert (status.received, status.learned, status.waiting) == (hours - late, hours - late, 0)
    assert (status.lateness, status.outstanding) == (late, late)
    experiment.tell_many(
        (slot, demand(slot, experiment.ask(slot).arm)) for slot in range(hours - late, hours)
    )
    status, records = experiment.status(), experiment.history()
    assert (status.received, status.learned, status.waiting) == (hours, hours, 0)
    assert all(record.learned for record in records)
    assert len({record.arm for record in records}) > 1
    assert experiment.verify().whole


@pytest.mark.compiled
def test_a_total_that_is_revised_long_after_is_learned():
    """The policy then knows what it would have known, and only later decisions change."""
    right, revised = play(create(), 240), create()
    decisions = arms_of(right)
    for slot in range(240):
        assert revised.ask(slot).arm == decisions[slot] or slot > 40
        revised.tell(slot, demand(slot, decisions[slot]), arm=decisions[slot])
    revised.tell(30, 61, revise=True, confirm=True)
    with pytest.raises(ae.ConflictError, match="give --revise or revise=True to replace it"):
        revised.tell(30, 60)
    with revised._log.reading() as (_, state):
        assert list(state.changed) == [30]
        assert not state.is_learned(30)
    revised.tell(30, demand(30, decisions[30]), revise=True, confirm=True)
    for experiment in (right, revised):
        play(experiment, 241)
        while experiment.status().waiting:  # until the block ends
            play(experiment, experiment.status().slots + 1)
    with right._log.reading() as (_, one), revised._log.reading() as (_, other):
        assert one.totals[:240] == other.totals[:240]
        assert one.policy_state.totals[:900].tolist() == other.policy_state.totals[:900].tolist()
        assert one.policy_state.marks[-1] == pytest.approx(other.policy_state.marks[-1])
    assert revised.history()[30].revisions == 2
    assert revised.verify().whole


@pytest.mark.compiled
def test_another_arm_and_an_outage_count_as_they_were_played():
    experiment = play(create(), 48)
    experiment.skip(48, 60)
    experiment.tell(50, 100, arm="C", confirm=True)
    first = experiment.ask(61)
    experiment.tell(61, 120, arm="B", confirm=True)
    play(experiment, 130)
    records = experiment.history()
    assert [record.played for record in records[48:52]] == [None, None, "C", None]
    assert (records[61].arm, records[61].played) == (first.arm, "B")
    with experiment._log.reading() as (_, state):
        known = state.policy_state.arms[len(HISTORY) : len(HISTORY) + 62].astype(int).tolist()
        assert known[50] == known[60] == 2  # after C was played, it went on
        assert known[48] == known[47]
        assert known[61] == 1
        assert np.isnan(state.policy_state.totals[len(HISTORY) + 52])
    assert experiment.status().skipped == 13
    assert experiment.verify().whole


@pytest.mark.compiled
def test_when_clocks_change_the_hours_of_the_day_stay():
    """In spring an hour is missing, in autumn one is double: the policy sees the wall clock."""
    for start, missing in (("2026-03-28T00:00", True), ("2026-10-24T00:00", False)):
        experiment = create(start=start, timezone="Europe/Berlin", policy="fixed-switchback(24)")
        for slot in range(72):
            experiment.tell(slot, slot + 1000, arm=experiment.ask(slot).arm, confirm=True)
        experiment.ask()
        records = experiment.history()
        hours = [datetime.fromisoformat(record.time).hour for record in records]
        assert hours[24:30] == ([0, 1, 3, 4, 5, 6] if missing else [0, 1, 2, 2, 3, 4])
        with experiment._log.reading() as (_, state):
            seen = state.policy_state.totals[len(HISTORY) :][:72].tolist()
        if missing:
            assert np.isnan(seen[26])
            assert seen[27] == 1026
        else:
            assert seen[26:28] == [1027, 1028]
        # Blocks end at midnight.
        assert [hours[record.slot] for record in records if record.slot == 0] == [0]
        ends = {record.round: record.slot for record in records}
        assert [hours[last] for last in list(ends.values())[:2]] == [23, 23]
        assert experiment.verify().whole


def test_slots_of_days_and_weeks_have_dates():
    clock = SlotClock("1d", datetime(2026, 3, 28, 6), "Europe/Berlin")
    assert [clock.find_time(slot).isoformat() for slot in range(2)] == [
        "2026-03-28T06:00:00+01:00",
        "2026-03-29T06:00:00+02:00",
    ]
    assert clock.calendar == (1, 5)
    assert SlotClock("1w", datetime(2026, 3, 30), "UTC").calendar == (0, 0)
    assert SlotClock("15min", datetime(2026, 3, 31, 1, 30), "UTC").calendar == (96, 102)
    for slot in range(3000):
        for name in ("1h", "15min", "1d"):
            clock = SlotClock(name, datetime(2026, 3, 28), "America/New_York")
            assert clock.find_slot(clock.find_time(slot)) == slot


@pytest.mark.compiled
def test_slots_are_named_by_their_times():
    experiment = create(timezone="Europe/Berlin")
    assert experiment.ask("2026-01-05T00:00").time == "2026-01-05T00:00:00+01:00"
    assert experiment.ask("2026-01-05T00:00Z").slot == 1
    assert experiment.tell(datetime(2026, 1, 5), 100).slot == 0
    rows = {"2026-01-05T01:00+01:00": 110}
    assert [record.change for record in experiment.tell_many(rows)] == ["recorded"]
    assert experiment.skip("2026-01-05T02:00", "2026-01-05T04:00").slots == 5
    for time, message in (
        ("2026-01-05T00:30", "no slot begins at 2026-01-05T00:30"),
        ("2026-01-04", "slot 0 begins at 2026-01-05T00:00:00"),
        ("Monday", "slot must be a time from 1900"),
    ):
        with pytest.raises(ae.ParameterError, match=message):
            experiment.ask(time)


@pytest.mark.compiled
def test_every_decision_has_its_probabilities(tmp_path):
    experiment = play(create(f"sqlite:///{tmp_path}/live.db"), 100)
    decisions = [experiment.ask(slot) for slot in range(100)]
    for decision, record in zip(decisions, experiment.history(), strict=True):
        assert list(decision.probabilities) == ARMS
        assert sum(decision.probabilities.values()) == pytest.approx(1)
        assert min(decision.probabilities.values()) > 0
        assert record.probability == decision.probabilities[decision.arm]
    assert decisions[0].probabilities != decisions[-1].probabilities
    experiment.export(tmp_path / "history.csv")
    assert "probability" in (tmp_path / "history.csv").read_text().splitlines()[0]
    with sqlite3.connect(tmp_path / "live.db") as connection:
        connection.execute(
            "UPDATE aftereffect_events SET probabilities = replace(probabilities, '0', '1')"
            " WHERE seq = 7"
        )
    connection.close()
    assert "event 7" in experiment.verify().problems[0]
    experiment.close()


@pytest.mark.compiled
def test_the_history_is_under_the_chain_of_hashes(tmp_path):
    url = f"sqlite:///{tmp_path}/live.db"
    create(url, history=[100.0, 50.5, None, 75.0]).close()
    with sqlite3.connect(tmp_path / "live.db") as connection:
        connection.execute(
            "UPDATE aftereffect_experiments SET settings = replace(settings, '50.5', '50.6')"
        )
    connection.close()
    with pytest.raises(ae.CorruptionError, match="its settings are not what was recorded"):
        ae.Experiment.open("shop", storage=url)


@pytest.mark.compiled
def test_created_again_it_is_the_same_and_other_histories_are_refused():
    storage = ae.open_storage("memory://")
    first = create(storage, start=None, seed=None)
    again = create(storage, start=None, seed=None)
    assert (first.is_new, again.is_new) == (True, False)
    for other, message in (
        ({"history": [1, 2, 3]}, "history is"),
        ({"control": "B"}, r"arms is \('A', 'B', 'C'\), got \('B', 'A', 'C'\)"),
        ({"slot": "1d"}, "slot is 1h, got 1d"),
        ({"timezone": "Europe/Berlin"}, "timezone is UTC, got Europe/Berlin"),
    ):
        with pytest.raises(ae.ConflictError, match=message) as caught:
            create(storage, start=None, seed=None, **other)
        assert len(str(caught.value)) < 1_000


@pytest.mark.compiled
def test_the_control_is_the_first_arm():
    experiment = create(control="C")
    assert experiment.settings.arms == ("C", "A", "B")
    assert experiment.status().control == "C"


@pytest.mark.compiled
def test_a_total_far_from_the_history_must_be_confirmed():
    experiment = create()
    experiment.ask(0)
    with pytest.raises(ae.UnlikelyTotalError, match="the 672 totals so far were"):
        experiment.tell(0, 10_000)


@pytest.mark.compiled
def test_a_policy_without_times_plays_too():
    experiment = ae.Experiment.create("shop", arms=["A", "B"], seed=1, storage="memory://")
    for slot in range(60):
        experiment.tell(slot, 10 + slot % 3 + 5 * (experiment.ask(slot).arm == "B"))
    assert experiment.settings.slot is None
    assert experiment.status().arms[1].pulls > 30


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slot": "2h"}, "unknown slot '2h'"),
        ({"timezone": "Mars/Olympus"}, "a name such as UTC or Europe/Berlin"),
        ({"timezone": "../../etc/passwd"}, "a name such as UTC or Europe/Berlin"),
        ({"start": "soon"}, "start must be a time from 1900"),
        ({"start": "9999-12-31T23:00"}, "start must be a time from 1900"),
        ({"slot": None}, "a start or a time zone needs the length of a slot"),
        ({"slot": None, "start": None, "history": [("2026-01-01", 3)]}, "a history with times"),
        (
            {"history": [("2026-01-05T00:00", 3)]},
            "line 1: 2026-01-05T00:00:00 is not before the start",
        ),
        ({"history": [("2026-01-04T00:30", 3)]}, "line 1: no slot begins at"),
        (
            {"history": [("2026-01-04", 3), ("2026-01-04", 4)]},
            "line 2: .* has the total 4, but 3 in",
        ),
        ({"history": [("2026-01-04", -3)]}, "line 1: expected a time such as"),
        ({"history": [("2010-01-04", 3)]}, "at most 100,000 slots before the start"),
        ({"history": [1.0] * 100_001}, "at most 100,000 slots before the start"),
        ({"history": 7}, "history must be a path, or a list"),
        ({"history": ["many"]}, "a total of the history must be a number"),
        ({"history": "no/such/file.csv"}, "cannot read no/such/file.csv"),
        ({"control": "D"}, "control must be one of the arms, got 'D'"),
        ({"policy": "ucb1"}, "needs a reward_range"),
        (
            {"policy": "mini-batch(base=fixed-switchback)", "horizon": 100, "reward_range": (0, 1)},
            "a policy must learn from rounds",
        ),
        ({"arms": [str(arm) for arm in range(65)]}, "at most 64 arms"),
        ({"horizon": 300_001}, "at most 300,000"),
    ],
)
def test_settings_that_cannot_be_are_refused_and_nothing_is_recorded(given, message):
    storage = ae.open_storage("memory://")
    with pytest.raises((ae.ParameterError, ae.InputError), match=message) as caught:
        create(storage, **given)
    assert "\n" not in str(caught.value)
    assert storage.names() == []
