"""Experiments with several units: what is recorded, what is answered again, and what is refused."""

import csv
import json
import math
from itertools import pairwise

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core import POLICY, Calendar, seed_sequence
from aftereffect.live import MemoryStorage, chain_start, export_log, make_state, read_events
from aftereffect.live._snapshots import restore_state, take_snapshot
from aftereffect.live._units import (
    UnitTotal,
    read_chances,
    read_unit_totals,
    write_chances,
    write_totals,
)

UNITS = ("north", "south", "west")
POLICIES = ["fixed-unit-switchback(block=4)", "unit-switchback"]


def create(storage="memory://", **settings):
    given = {"arms": ["A", "B"], "units": UNITS, "policy": POLICIES[0], "seed": 1}
    return ae.Experiment.create("shops", storage=storage, **given | settings)


def draw_totals(slots, units=3):
    rng = np.random.default_rng(3)
    return np.round(rng.uniform(50, 60, units) * rng.uniform(0.9, 1.1, (slots, units)), 3)


def by_unit(row, units=UNITS):
    return dict(zip(units, row.tolist(), strict=True))


def test_asking_gives_an_arm_for_each_unit_and_telling_takes_their_totals():
    experiment = create()
    decision = experiment.ask(0)
    assert decision.arm is None
    assert decision.probabilities is None
    assert list(decision.arms) == list(UNITS)
    assert set(decision.arms.values()) == {"A", "B"}
    assert decision.unit_probabilities == {unit: {"A": 0.5, "B": 0.5} for unit in UNITS}
    assert experiment.ask(0) == decision
    assert experiment.ask(key="k") == experiment.ask(1) == experiment.ask(key="k")
    north, south = experiment.tell(0, {"north": 37, "south": None})
    assert north == (0, 37.0, "recorded", decision.arms["north"], "north")
    assert (south.total, south.change, south.unit) == (None, "recorded", "south")
    assert experiment.tell(0, 37, unit="north").change == "unchanged"
    assert experiment.tell(0, 12, unit="west").change == "recorded"
    with pytest.raises(ae.ConflictError, match=r"slot 0 in north has the total 37, got 38: give "):
        experiment.tell(0, 38, unit="north")
    assert experiment.tell(0, 38, unit="north", revise=True).change == "revised"
    records = {record.unit: record for record in experiment.history(limit=1)}
    assert {unit: record.total for unit, record in records.items()} == {
        "north": 38.0,
        "south": None,
        "west": 12.0,
    }
    assert [records[unit].revisions for unit in UNITS] == [1, 0, 0]
    assert [records[unit].missing for unit in UNITS] == [False, True, False]
    status = experiment.status()
    assert (status.slots, status.received, status.missing, status.outstanding) == (2, 3, 1, 3)
    assert [(unit.received, unit.outstanding) for unit in status.units] == [(1, 1)] * 3
    assert [unit.arm for unit in status.units] == list(status.next.arms.values())
    assert experiment.verify().whole


@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_live_is_a_plain_loop_over_the_kernels_of_the_policy(policy, late):
    totals = draw_totals(80)
    experiment = create(policy=policy, horizon=None)
    asked = []
    for slot in range(len(totals)):
        asked.append([("A", "B").index(arm) for arm in experiment.ask(slot).arms.values()])
        if slot >= late:
            experiment.tell(slot - late, by_unit(totals[slot - late]))
    expected = play_plainly(policy, totals, late)
    assert asked == [arms.tolist() for arms in expected]
    assert len({tuple(arms) for arms in asked}) > 3
    assert experiment.verify().difference is None


def play_plainly(policy, totals, late):
    policy = ae.parse(policy, ae.Policy).with_calendar(Calendar())
    (slots, units), nothing = totals.shape, np.zeros((totals.shape[1], 0))
    rng = np.random.Generator(np.random.PCG64(seed_sequence(1, 0, POLICY)))
    state, params = policy.initial_for_units(2, units, 4_096), policy.params(2, 300_000)
    kernels, played, end, shown = policy.kernels(), [], 0, {}
    for slot in range(slots):
        if slot == end:
            for each in range(slot):
                known = each < slot - late
                if shown.get(each) != known:
                    row = totals[each] if known else np.full(units, np.nan)
                    kernels.observe(state, params, each, played[each], row, nothing)
                    shown[each] = known
            end = slot + kernels.decide(state, params, slot, rng)
            arms = state.choices.astype(np.int64)
        played.append(arms)
    return played


@pytest.mark.parametrize("policy", POLICIES)
def test_totals_that_come_late_or_are_revised_count_as_if_they_had_come_so(policy):
    """The state of the policy is that of a fresh one that was shown the totals as they are now."""
    experiment, totals = create(policy=policy), draw_totals(40)
    for slot in range(40):
        experiment.ask(slot)
        experiment.tell(slot, by_unit(totals[slot]))
    experiment.tell(3, 57, unit="south", revise=True)
    experiment.mark_missing(5, unit="west", revise=True)
    experiment.tell(7, 51, unit="north", arm="B", revise=True)
    experiment.ask(40)
    totals[3, 1], totals[5, 2], totals[7, 0] = 57, np.nan, 51
    with experiment._log.reading() as (_, state):
        found = state.look_ahead()
    kernels = found.kernels
    played = [[("A", "B").index(each) for each in arms] for arms in list_played(experiment, 40)]
    assert played[7][0] == 1
    fresh = found.policy.initial_for_units(2, 3, 4_096)
    for slot in range(found.shown):
        row = totals[slot] if slot < 40 else np.full(3, np.nan)
        arms = np.array(played[slot] if slot < 40 else found.played[slot])
        kernels.observe(fresh, found.params, slot, arms, row, np.zeros((3, 0)))
    np.testing.assert_array_equal(found.policy_state.slots.totals[:40], fresh.slots.totals[:40])
    np.testing.assert_array_equal(found.policy_state.slots.arms[:40], fresh.slots.arms[:40])
    assert experiment.verify().whole
    assert experiment.verify().difference is None


def list_played(experiment, slots):
    records = experiment.history(limit=slots)
    return [[record.played for record in records[at : at + 3]] for at in range(0, len(records), 3)]


@pytest.mark.parametrize("policy", POLICIES)
def test_snapshots_are_the_state(policy):
    experiment = create(policy=policy, covariates=["rain"])
    totals = draw_totals(30)
    for slot in range(30):
        experiment.ask(slot)
        if slot % 4 == 1:
            experiment.tell(slot, totals[slot, 0], unit="north", covariates={"rain": slot})
            experiment.mark_missing(slot, unit="west")
        elif slot % 4:
            experiment.tell(slot, by_unit(totals[slot]))
    experiment.skip(30, 32)
    experiment.tell(31, 40, unit="south", arm="B")
    experiment.tell(2, 55, unit="south", arm="A", revise=True)
    experiment.change_arms(add="C") if policy == "unit-switchback" else None
    with experiment._log.reading() as (_, state):
        snapshot = take_snapshot(state)
        restored = restore_state(experiment.settings, chain_start(experiment.record), snapshot)
        assert take_snapshot(restored) == snapshot
        for slot in range(34):
            for unit in range(3):
                if slot < state.next_slot:
                    assert restored.find_known(slot, unit) == state.find_known(slot, unit)
                    assert restored.find_decided(slot, unit) == state.find_decided(slot, unit)
        assert restored.look_ahead().decide() == state.look_ahead().decide()
        assert list(restored.count_units()) == list(state.count_units())


def test_one_unit_is_an_experiment_without_units_bit_for_bit():
    """Settings, digest, log and answers, whatever the only unit is called."""
    found = []
    for given in ({}, {"units": ["north"]}, {"units": []}):
        storage = MemoryStorage()
        with ae.Experiment.create(
            "shop",
            arms=["A", "B"],
            policy="ucb1",
            reward_range=(0, 9),
            storage=storage,
            seed=1,
            **given,
        ) as experiment:
            answers = [experiment.ask(0), experiment.tell(0, 4), experiment.ask(1)]
            with experiment.read_log() as view:
                events = [event[:-1][:11] for event in read_events(view, 0)]
            found.append((experiment.settings.to_json(), answers, events))
            with pytest.raises(
                ae.ParameterError, match="slot 1 has an unknown unit 'north': the exp"
            ):
                experiment.tell(1, 4, unit="north")
    assert found[0] == found[1] == found[2]
    assert "units" not in found[0][0]
    assert found[0][1][0].arms is None
    alone = create(units=["north"])
    assert str(alone.settings.policy).startswith("fixed-switchback(block=4")
    default = create(units=["north"], policy=None)
    assert str(default.settings.policy).startswith("adaptive-switchback")


def test_the_log_of_today_has_the_hashes_of_yesterday():
    """A chain that was recorded before events had units."""
    from aftereffect.live import Event
    from aftereffect.live.events import hash_event

    fields = (
        1,
        "total",
        3,
        0,
        None,
        1,
        None,
        None,
        3.5,
        None,
        "0.2.0",
        "2026-11-19T21:51:59+00:00",
    )
    event = Event(*fields, None, None, None, None, b"")
    assert hash_event(b"x", event).hex()[:16] == HASHES[0]
    assert hash_event(b"x", event._replace(probabilities="[1.0]")).hex()[:16] == HASHES[1]
    assert hash_event(b"x", event._replace(guardrails="[3.0]")).hex()[:16] == HASHES[2]
    assert hash_event(b"x", event._replace(units="[]")).hex()[:16] not in HASHES


HASHES = ("649b4bb8773b02ce", "59d6bae9b55c5d55", "4b3ce098c7798b15")


def test_a_history_by_unit_is_what_the_policy_begins_with(tmp_path):
    past = draw_totals(24 * 15).round(2)
    hours = [f"2026-03-{1 + hour // 24:02}T{hour % 24:02}:00" for hour in range(len(past))]
    path = tmp_path / "past.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["unit", "time", "total", "rain"])
        writer.writerows(
            (unit, hour, total, at)
            for at, (hour, row) in enumerate(zip(hours, past.tolist(), strict=True))
            for unit, total in zip(UNITS, row, strict=True)
        )
    rows = {
        unit: [
            (hour, total, {"rain": at})
            for at, (hour, total) in enumerate(zip(hours, past[:, number].tolist(), strict=True))
        ]
        for number, unit in enumerate(UNITS)
    }
    settings = [
        create(slot="1h", covariates=["rain"], history=given).settings for given in (path, rows)
    ]
    assert settings[0] == settings[1]
    assert settings[0].start == "2026-03-16T00:00:00"
    np.testing.assert_array_equal(np.array(settings[0].history), past)
    assert settings[0].history_covariates[7] == ((7.0,), (7.0,), (7.0,))
    bare = create(history={"north": [1, 2], "west": [3]}).settings
    assert bare.history == ((1.0, None, None), (2.0, None, 3.0))
    experiment = create(slot="1h", covariates=["rain"], history=path)
    with experiment._log.reading() as (_, state):
        np.testing.assert_array_equal(state.policy_state.slots.totals[: len(past)], past)
    assert experiment.status().history == len(past)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([1, 2], "history of several units must be a file with the column unit, or a mapping"),
        ({"nort": [1]}, "history has an unknown unit 'nort': .*north"),
        ({"north": "gone.csv"}, "cannot read gone.csv"),
        ({"north": [(1, 2)]}, "expected a time"),
    ],
)
def test_other_histories_are_refused(history, message):
    with pytest.raises((ae.ParameterError, ae.InputError), match=message):
        create(slot="1h", history=history)


def test_a_history_without_units_is_refused(tmp_path):
    path = tmp_path / "past.csv"
    path.write_text("time,total\n2026-03-01,3\n")
    with pytest.raises(
        ae.InputError, match="must name the columns time and total and unit, once each"
    ):
        create(slot="1d", history=path)
    path.write_text("time,total,unit\n2026-03-01,3,north\n2026-03-01,3,\n")
    with pytest.raises(ae.InputError, match="line 3: the column unit is empty"):
        create(slot="1d", history=path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": ["north", "north"]}, "units must have different names, got 'north' twice"),
        ({"units": ["north", ""]}, "a unit's name must be 1 to 100 printable characters"),
        (
            {"units": [f"u{n}" for n in range(10_000)]},
            "units must be at most 1,000 names, got 10,000",
        ),
        ({"units": "north"}, "units must be a list"),
        ({"policy": "ucb1"}, "ucb1 plays one unit, but here are several: use unit-switchback"),
        ({"units": ()}, "plays several units at once, but here is one"),
        ({"control": "A", "control_share": 0.1}, "leave out control_share and floors"),
        ({"floors": {"B": 0.1}}, "leave out control_share and floors"),
        ({"guardrails": ["guardrail(refunds)"]}, "guardrails are for experiments with one unit"),
        ({"covariates": ["unit"]}, "unit"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(settings, message):
    with pytest.raises(ae.ParameterError, match=message) as refused:
        create(**settings)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("tell", "message"),
    [
        (
            lambda e: e.tell(0, 3),
            "the total of slot 0 is for no unit, and the experiment has 3: give ",
        ),
        (lambda e: e.mark_missing(0), "is for no unit"),
        (
            lambda e: e.tell(0, 3, unit="nort"),
            "slot 0 has an unknown unit 'nort': did you mean 'north'",
        ),
        (lambda e: e.tell(0, {"north": 3, "east": 2}), "unknown unit 'east'"),
        (lambda e: e.tell(0, {"north": 3}, arm="B"), "give a row for each unit"),
        (lambda e: e.tell(0, {"north": 3}, unit="north"), "give a row for each unit"),
        (lambda e: e.tell(0, {"north": math.nan}), "the total of slot 0 in north must be"),
        (
            lambda e: e.tell(0, 3, unit="north", arm="Z"),
            "slot 0 in north was played with an unknown arm",
        ),
        (
            lambda e: e.tell(0, 3, unit="north", covariates={"x": 1}),
            "slot 0 in north has an unknown covariate",
        ),
        (lambda e: e.tell(0, 3, unit="north", guardrails={"x": 1}), "has an unknown guardrail"),
        (lambda e: e.tell_many([(0, 3, None, None, None, "north", 1)]), "each row must be a slot"),
        (lambda e: e.lag(), "the lag is estimated from the totals of one unit"),
    ],
)
def test_totals_that_cannot_be_are_refused_and_nothing_is_recorded(tell, message):
    experiment = create()
    experiment.ask(0)
    with pytest.raises((ae.ParameterError, ae.ConflictError), match=message) as refused:
        tell(experiment)
    assert "\n" not in str(refused.value)
    assert experiment.verify().events == 1


def test_all_totals_of_a_call_are_recorded_or_none():
    experiment = create()
    experiment.ask(0), experiment.ask(1)
    with pytest.raises(ae.ParameterError, match="east"):
        experiment.tell_many([(0, {"north": 1}), (1, {"south": 2}), (1, {"east": 2})])
    assert experiment.status().received == 0
    rows = [
        (0, 1, None, None, None, "north"),
        (0, {"south": 2}),
        (1, {"north": 3}),
        (0, 4, None, None, None, "west"),
    ]
    assert len(experiment.tell_many(rows, key="monday")) == 4
    assert experiment.tell_many(rows, key="monday") == []
    with experiment.read_log() as view:
        told = [event for event in read_events(view, 0) if event.kind == "total"]
    assert [(event.slot, event.revision) for event in told] == [(0, 0), (1, 0), (0, 1)]
    assert read_unit_totals(told[0].units) == [
        UnitTotal(0, *arm_and(experiment, 0, 0), 1.0),
        UnitTotal(1, *arm_and(experiment, 0, 1), 2.0),
    ]


def arm_and(experiment, slot, unit):
    return (("A", "B").index(list(experiment.ask(slot).arms.values())[unit]),)


def test_a_total_is_likely_by_the_totals_of_its_own_unit():
    experiment = create()
    for slot in range(25):
        experiment.ask(slot)
        experiment.tell(slot, {"north": 10 + slot % 3, "south": 1000 + slot % 5})
    experiment.ask(25)
    with pytest.raises(
        ae.UnlikelyTotalError, match="the total of slot 25 in north is unlikely: got 1000"
    ):
        experiment.tell(25, 1000, unit="north")
    assert experiment.tell(25, 1000, unit="south").change == "recorded"
    assert experiment.tell(25, 1000, unit="west").change == "recorded"
    assert experiment.tell(25, 1000, unit="north", confirm=True).change == "recorded"


def test_skipped_slots_and_arms_that_were_played_all_the_same():
    experiment = create()
    experiment.ask(0)
    experiment.skip(1, 2)
    with pytest.raises(
        ae.ConflictError, match="slot 1 in north was skipped: say which arm was played"
    ):
        experiment.tell(1, 3, unit="north")
    experiment.tell(1, 3, unit="north", arm="B")
    records = experiment.history(after=0)
    assert [(each.slot, each.unit, each.arm, each.played, each.total) for each in records[:3]] == [
        (1, "north", None, "B", 3.0),
        (1, "south", None, None, None),
        (1, "west", None, None, None),
    ]
    status = experiment.status()
    assert (status.skipped, status.outstanding, status.received) == (2, 3, 1)
    assert experiment.verify().whole


@pytest.mark.parametrize("policy", POLICIES)
def test_arms_come_and_go_if_the_policy_bears_it(policy):
    experiment = create(policy=policy)
    experiment.ask(0)
    if not experiment.settings.policy.allows_new_arms:
        with pytest.raises(ae.ConflictError, match="cannot go on with other arms"):
            experiment.change_arms(add="C")
        return
    experiment.change_arms(add="C", pause="B")
    arms = [experiment.ask(slot).arms for slot in range(1, 40)]
    assert "B" not in {arm for each in arms for arm in each.values()}
    assert experiment.ask(39).unit_probabilities["west"]["B"] == 0.0
    experiment.change_arms(retire="C", resume="B")
    assert "C" not in experiment.ask(40).arms.values()
    assert experiment.verify().difference is None


def test_provisional_totals_are_counted_by_unit_and_slot(monkeypatch):
    experiment = create(slot="1h", start="2020-01-01", final_after="3600d")
    for slot in range(5):
        experiment.ask(slot)
    experiment.tell(1, {"north": 1, "west": None})
    experiment.tell(4, 2, unit="south")
    assert experiment.status().provisional == 3
    assert experiment.tell(1, 5, unit="north").change == "revised"  # without revise


def test_exports_have_a_column_of_units(tmp_path):
    experiment = create(slot="1h", start="2026-03-02", covariates=["rain"])
    for slot in range(9):
        experiment.ask(slot)
        experiment.tell(slot, by_unit(draw_totals(9)[slot]))
    experiment.tell(8, 5, unit="west", covariates={"rain": 2}, revise=True, confirm=True)
    rows = {}
    for form in ("slots", "mmm", "clusters"):
        experiment.export(tmp_path / f"{form}.csv", form=form)
        with (tmp_path / f"{form}.csv").open() as file:
            rows[form] = list(csv.DictReader(file))
        assert [row["unit"] for row in rows[form]] == [*UNITS] * 9
    assert rows["slots"][-1]["rain"] == rows["mmm"][-1]["rain"] == "2.0"
    for record, row in zip(experiment.history(), rows["mmm"], strict=True):
        assert row[f"arm_{record.played}"] == "1"
        assert float(row["total"]) == record.total
    clusters = [(row["unit"], row["cluster"]) for row in rows["clusters"]]
    assert len({cluster for _, cluster in clusters}) == 3 * 3
    assert len(set(clusters)) == 9
    experiment.export(tmp_path / "all.parquet")
    import polars as pl

    frame = pl.read_parquet(tmp_path / "all.parquet")
    assert frame.columns[:3] == ["slot", "unit", "arm"]
    assert len(frame) == 27


def test_files_and_feeds_name_the_unit(tmp_path):
    experiment = create()
    for slot in range(3):
        experiment.ask(slot)
    form = ae.live.find_form(experiment, {"unit": "Filiale"})
    path = tmp_path / "monday.csv"
    path.write_text("Filiale;slot;total;arm\nnorth;0;1,5;B\nsouth;0;;\nwest;2;7,5;\n")
    rows = ae.live.read_totals_file(path, form)
    changes = [(each.slot, each.unit, each.total) for each in experiment.tell_many(rows)]
    assert changes == [(0, "north", 1.5), (0, "south", None), (2, "west", 7.5)]
    assert experiment.history(limit=1)[0].played == "B"
    path.write_text("slot,total\n1,3\n")
    with pytest.raises(
        ae.InputError, match="must name the columns slot and Filiale and total, once each"
    ):
        ae.live.read_totals_file(path, form)
    path.write_text("slot,Filiale,total\n1,,3\n")
    with pytest.raises(
        ae.InputError, match="line 2: the column Filiale must name a unit, got an empty"
    ):
        ae.live.read_totals_file(path, form)


def test_a_double_hour_is_one_of_each_unit(tmp_path):
    path = tmp_path / "october.csv"
    hours = ["2026-10-25T01:00", "2026-10-25T02:00", "2026-10-25T02:00", "2026-10-25T03:00"]
    lines = [f"{hour},{unit},{at}" for unit in UNITS for at, hour in enumerate(hours)]
    path.write_text("\n".join(["time,unit,total", *lines]) + "\n")
    experiment = create(slot="1h", start="2026-10-25", timezone="Europe/Berlin")
    for slot in range(5):
        experiment.ask(slot)
    experiment.tell_many(ae.live.read_totals_file(path, ae.live.find_form(experiment)))
    found = {(each.unit, each.slot): each.total for each in experiment.history()}
    assert all(found[unit, slot + 1] == slot for unit in UNITS for slot in range(4))


def test_hooks_say_the_arms_by_unit():
    experiment = create()
    delivered = []
    hook = type("Hook", (), {"name": "list", "deliver": staticmethod(delivered.append)})()
    notifier = ae.live.Notifier(experiment, hook)
    for slot in range(12):
        experiment.ask(slot)
        list(notifier.deliver_new())
    arms = [experiment.ask(slot).arms for slot in range(12)]
    changes = [slot for slot, (before, now) in enumerate(pairwise(arms), 1) if before != now]
    assert [notice.slot for notice in delivered] == [0, *changes]
    last = delivered[-1]
    assert (last.arm, last.arms, last.arms_before) == (None, arms[last.slot], arms[last.slot - 1])
    unit = next(unit for unit in UNITS if last.arms[unit] != last.arms_before[unit])
    assert f"{unit} plays {last.arms[unit]} instead of {last.arms_before[unit]}" in str(last)
    assert json.loads(json.dumps(last.to_dict()))["data"]["arms"] == last.arms


def test_results_rest_on_the_deals_of_all_units():
    """The trials say what was drawn and observed; the analysis is that of `inference`."""
    from aftereffect.live._results import read_unit_trials

    experiment, totals = (
        create(policy="fixed-unit-switchback(block=3, blocks_per_arm=8)"),
        draw_totals(60),
    )
    for slot in range(60):
        lift = {"A": 1.0, "B": 1.3}
        arms = experiment.ask(slot).arms
        experiment.tell(
            slot,
            {
                unit: totals[slot, at] * lift[arms[unit]]
                for at, unit in enumerate(UNITS)
                if (slot, at) != (59, 1)
            },
        )
    with experiment._log.reading() as (view, state):
        first, trials = read_unit_trials(view, experiment.record, state)
    assert (first, len(trials)) == (0, 3)
    for at, trial in enumerate(trials):
        records = [record for record in experiment.history() if record.unit == UNITS[at]]
        np.testing.assert_array_equal(
            trial.totals, [np.nan if r.total is None else r.total for r in records]
        )
        assert trial.played.tolist() == [("A", "B").index(r.played) for r in records]
        assert trial.starts.tolist() == list(range(0, 48, 3)) + [
            s for s in trial.starts.tolist() if s >= 48
        ]
    results = experiment.results()
    assert 48 <= results.slots <= 60
    assert results.leader == "B"
    assert results == ae.inference.analyse(ae.inference.UnitTrial(trials), ["A", "B"])._replace(
        slot_length=None, decided=60, unit=None
    )


def test_texts_of_events():
    chances = np.array([[0.25, 0.75], [0.25, 0.75], [0.25, 0.75]])
    assert read_chances(write_chances(chances), 3) == chances.tolist()
    chances[1] = 0.5
    assert read_chances(write_chances(chances), 3) == chances.tolist()
    given = [UnitTotal(2, None, None), UnitTotal(0, 1, 3.5, (1.0, None))]
    assert read_unit_totals(write_totals(given)) == given


def test_the_log_can_be_exported_and_says_what_units_did(tmp_path):
    storage = MemoryStorage()
    experiment = create(storage)
    experiment.ask(0)
    experiment.tell(0, {"north": 1, "south": 2})
    assert export_log(storage, "shops", tmp_path / "log.jsonl") == 2
    _, decision, total = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert len(json.loads(decision["units"])) == 3
    assert decision["arm"] is None
    assert [row[2] for row in json.loads(total["units"])] == [1.0, 2.0]
    state = make_state(experiment.settings, chain_start(experiment.record))
    with experiment.read_log() as view:
        state.fold_all(read_events(view, 0))
    assert state.head.seq == 2
