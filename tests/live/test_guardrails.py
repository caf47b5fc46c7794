"""Guardrails: totals in which arms may do harm are recorded, compared, and may stop arms."""

import json
import math
import sqlite3
from collections import Counter
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import aftereffect as ae
from aftereffect.inference import GuardedArm, GuardrailResults, analyse, find_level
from aftereffect.inference.guardrails import lay_out_guardrails
from aftereffect.live import _results, _state, chain_start, make_state
from aftereffect.live._snapshots import restore_state, take_snapshot
from worlds import SHOP

ARMS = ["A", "B", "C"]
COMPLAINTS = "guardrail(complaints, tolerated=3, stops=true)"
REFUNDS = ae.Guardrail("refunds", harm="less")
#: A policy that looks at every slot and draws its arms evenly.
BLOCKS = SHOP | {
    "arms": ARMS,
    "policy": "fixed-switchback(block=3)",
    "control_share": 0.3,
    "floors": {"B": 0.3, "C": 0.3},
    "guardrails": [COMPLAINTS, REFUNDS],
}
ROUNDS = {
    "arms": ARMS,
    "policy": "ucb1",
    "reward_range": (0, 10),
    "control": "A",
    "control_share": 0.4,
    "seed": 2,
}


def create(storage="memory://", **given):
    return ae.Experiment.create("shop", storage=storage, **BLOCKS | given)


def play(experiment, slots, harm=0.25):
    """So many slots more; C brings more complaints."""
    rng = np.random.default_rng(4)
    first = experiment.status().slots
    for slot in range(first, first + slots):
        arm = experiment.ask(slot).arm
        complaints = rng.poisson(200 * (1 + harm * (arm == "C")))
        experiment.tell(slot, 100, guardrails={"complaints": complaints})
    return experiment


def events_of(experiment, *kinds):
    with experiment.read_log() as view:
        return [event for event in view.events(0, 10**6) if event.kind in kinds]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """An experiment in which C was stopped, in a SQLite file."""
    storage = ae.open_storage(f"sqlite:///{tmp_path_factory.mktemp('stopped')}/live.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_state, "_JUDGED_AGAIN", 0.2)
        yield play(create(storage), 480, harm=0.35)
    storage.close()


def test_an_arm_that_does_harm_is_stopped(stopped):
    (stop,) = events_of(stopped, "stop")
    status = stopped.status()
    marks = {arm.arm: arm.stopped for arm in status.arms}
    assert marks["A"] is marks["B"] is None
    assert marks["C"].endswith("% more complaints than A")
    assert json.loads(stop.guardrails) == {"guardrail": "complaints", "reason": marks["C"]}
    assert (stop.arm, stop.revision) == (2, 2)
    assert 40 < stop.slot < 470
    assert status.guardrails == (COMPLAINTS.replace("tol", "harm=more, tol"), str(REFUNDS))
    assert f"C is stopped: {marks['C']}" in str(status)
    assert "stopped" in status._repr_html_()
    before, after = Counter(), Counter()
    for record in stopped.history():
        (before if record.slot < stop.slot else after)[record.arm] += 1
    assert before["C"] > 10
    assert set(after) == {"A", "B"}
    assert status.next.probabilities["C"] == 0


def test_results_say_what_guardrails_show(stopped):
    results = stopped.results()
    complaints, refunds = results.guardrails
    assert (complaints.level, complaints.problem) == (0.99, None)
    b, c = complaints.arms
    assert (b.verdict, c.verdict) == ("not shown", "harm shown")
    assert 3 < c.low < 35 < (c.high or math.inf)
    assert c.amount == pytest.approx(c.percent / 100 * complaints.mean)
    assert [arm.verdict for arm in refunds.arms] == ["not shown"] * 2
    assert results.stopped == ("C",)
    text = str(results)
    assert f"Harm: C brings more than 3 % more complaints than A ({c.describe_span()} %)." in text
    assert "Not yet: whether an arm brings less refunds than A." in text
    assert "C (stopped)" in text
    assert "C is stopped: it showed harm" in text
    written = json.loads(json.dumps(results.to_dict(), allow_nan=False))
    assert written["guardrails"][0]["arms"][1]["verdict"] == "harm shown"
    assert written["stopped"] == ["C"]


def test_a_rule_never_says_to_ship_a_stopped_arm(stopped):
    results = stopped.results(stop_when_loss_below=1e6)
    known = tuple(effect._replace(low=1.0) for effect in results.leads)
    for leader, stops in (("A", True), ("C", False)):
        assert results._replace(leader=leader, leads=known).stops is stops
    (sentence,) = results._replace(leader="C", leads=known).describe_rule()
    assert sentence == "The rule says go on: C leads, but is stopped."


def test_stops_are_facts_of_the_log(stopped, monkeypatch):
    """Neither a new reading nor a verification analyses anything."""
    monkeypatch.setattr(_results, "analyse", lambda *_: pytest.fail("analysed"))
    again = ae.Experiment.open("shop", storage=stopped.storage)
    assert again.status() == stopped.status()
    found = again.verify()
    assert (found.whole, found.difference) == (True, None)
    with again._log.reading() as (view, state):
        start = chain_start(again.record)
        folded = make_state(again.settings, start).fold_all(view.events(0, 10**6))
        snapshot = take_snapshot(state)
        assert take_snapshot(folded) == snapshot
        assert take_snapshot(restore_state(again.settings, start, snapshot)) == snapshot
        assert folded.stopped


@pytest.mark.parametrize("kind", ["stop", "guardrails"])
def test_changed_events_are_found(kind, tmp_path):
    path = tmp_path / "live.db"
    with create(f"sqlite:///{path}") as experiment:
        play(experiment, 3)
        with experiment._log.writing() as (log, state):
            text = json.dumps({"guardrail": "complaints", "reason": "harm"})
            log.append(event := state.head.next("stop", 3, revision=2, arm=2, guardrails=text))
            state.fold(event)
    with sqlite3.connect(path) as connection:
        changed = connection.execute(
            "UPDATE aftereffect_events SET guardrails = replace(replace(guardrails, 'harm', 'luck'), '.0', '.5') WHERE kind = ?",
            (kind,),
        )
        assert changed.rowcount > 0
    connection.close()
    with pytest.raises(ae.CorruptionError, match="is not what was recorded"):
        ae.Experiment.open("shop", storage=f"sqlite:///{path}")


@pytest.mark.parametrize("given", [BLOCKS, ROUNDS], ids=["blocks", "rounds"])
def test_what_stopped_arms_would_get_goes_to_the_others_in_proportion(given):
    given = given | {"guardrails": [COMPLAINTS]}
    experiment = ae.Experiment.create("shop", storage="memory://", **given)
    with experiment._log.reading() as (_, state):
        state.decide()
        state.policy_state.probabilities[:] = 0.2, 0.3, 0.5
        state.stopped = {2: _state.Stop("complaints", "harm")}
        counts = Counter()
        for drawn in (0, 1, *[2] * 4_000):
            arm, text = state._pass_over_stopped(drawn)
            assert json.loads(text) == pytest.approx([0.4, 0.6, 0])
            counts[drawn, arm] += 1
        assert (counts[0, 0], counts[1, 1]) == (1, 1)  # drawn as they were
        assert abs(counts[2, 0] / 4_000 - 0.4) < 4 * math.sqrt(0.24 / 4_000)
        assert counts[2, 0] + counts[2, 1] == 4_000
        # A round that is repeated, or a policy that has made up its mind: the control is played.
        assert state._pass_over_stopped(2, is_certain=True) == (0, "[1.0, 0.0, 0.0]")
        state.stopped[1] = _state.Stop("complaints", "harm")
        for drawn in range(3):
            assert state._pass_over_stopped(drawn) == (0, "[1.0, 0.0, 0.0]")


def test_all_other_arms_may_be_stopped_but_never_the_control(monkeypatch):
    monkeypatch.setattr(_state, "_JUDGED_AGAIN", 0.5)
    monkeypatch.setattr(
        _results,
        "compare_guarded",
        lambda names, guardrails, *_: [
            _found(guardrail, [(arm, "harm shown") for arm in names]) for guardrail in guardrails
        ],
    )
    experiment = play(create(), 12, harm=0)
    assert [event.arm for event in events_of(experiment, "stop")] == [1, 2]
    later = [record.arm for record in experiment.history()[3:]]
    assert set(later) == {"A"}
    assert experiment.status().next.probabilities == {"A": 1, "B": 0, "C": 0}
    assert experiment.verify().difference is None


def _found(guardrail, verdicts):
    arms = tuple(
        GuardedArm(arm, "A", 9.0, 5.0, None, 1.0, 0.5, None, verdict) for arm, verdict in verdicts
    )
    about = (guardrail.name, guardrail.harm, guardrail.tolerated, guardrail.stops)
    return GuardrailResults(*about, 0.99, 9, 200.0, arms)


def test_guardrails_are_judged_when_enough_numbers_came_and_a_round_begins(monkeypatch):
    judged = []

    def compare(names, guardrails, trials, level):
        (trial,) = trials
        judged.append((len(trial.totals), [guardrail.name for guardrail in guardrails]))
        return [_found(each, []) for each in guardrails]

    monkeypatch.setattr(_results, "compare_guarded", compare)
    monkeypatch.setattr(_state, "_JUDGED_AGAIN", 0.5)
    experiment = play(create(), 40)
    counts = [count for count, _ in judged]
    assert counts[0] == 3  # the second block
    assert all(later >= 1.5 * count for count, later in pairwise(counts))
    assert {tuple(names) for _, names in judged} == {("complaints",)}  # the one that stops
    before = len(judged)
    for slot in range(40, 60):  # no numbers come
        experiment.ask(slot)
        experiment.tell(slot, 100)
    assert len(judged) <= before + 1
    assert events_of(experiment, "stop", "judgement") == []


def test_a_failing_analysis_makes_no_decision_fail(monkeypatch):
    monkeypatch.setattr(_state, "_JUDGED_AGAIN", 0.1)
    experiment = play(create(), 6)

    def fail(*_):
        raise ZeroDivisionError("division by zero.")

    with monkeypatch.context() as broken:
        broken.setattr(_results, "analyse", fail)
        play(experiment, 6)
        problem = "complaints: division by zero"
        assert experiment.status().guardrail_problem == problem
        assert f"guardrails cannot be judged: {problem}" in str(experiment.status())
    with monkeypatch.context() as broken:
        broken.setattr(_results, "read_trials", fail)
        play(experiment, 6)
        assert experiment.status().guardrail_problem == "division by zero"
    play(experiment, 12)
    assert experiment.status().guardrail_problem is None
    problems = [
        json.loads(event.guardrails)["problem"] for event in events_of(experiment, "judgement")
    ]
    assert problems == ["complaints: division by zero", "division by zero", None]
    found = experiment.verify()
    assert (found.whole, found.difference) == (True, None)


def test_results_hold_where_a_guardrail_cannot_be_judged(stopped, monkeypatch):
    calls = []

    def fail_after_the_totals(*given):
        calls.append(given)
        if len(calls) > 1:
            raise ValueError
        return analyse(*given)

    monkeypatch.setattr(_results, "analyse", fail_after_the_totals)
    results = stopped.results()
    assert [found.problem for found in results.guardrails] == ["ValueError"] * 2
    assert str(results).endswith("refunds cannot be judged: ValueError.")


@pytest.mark.parametrize("mean", [0, 0.02, 0.5])
def test_counts_with_many_zeros(mean, monkeypatch):
    monkeypatch.setattr(_state, "_JUDGED_AGAIN", 0.3)
    rng = np.random.default_rng(6)
    experiment = create()
    for slot in range(200):
        experiment.ask(slot)
        count = None if slot % 11 == 5 else rng.poisson(mean)
        experiment.tell(slot, 100, guardrails={"complaints": count})
    results = experiment.results()
    assert [found.problem for found in results.guardrails] == [None, None]
    assert {arm.verdict for found in results.guardrails for arm in found.arms} == {"not shown"}
    assert experiment.status().guardrail_problem is None
    assert events_of(experiment, "stop", "judgement") == []


@pytest.mark.parametrize(
    ("harm", "low", "high", "verdict"),
    [
        ("more", 5.1, 9, "harm shown"),
        ("more", 5.1, None, "harm shown"),
        ("more", 5, 9, "not shown"),
        ("more", -9, 5, "tolerated"),
        ("more", None, 4, "tolerated"),
        ("more", None, None, "not shown"),
        ("less", -9, -5.1, "harm shown"),
        ("less", None, -5.1, "harm shown"),
        ("less", -5, 9, "tolerated"),
        ("less", -6, None, "not shown"),
    ],
)
def test_verdicts(harm, low, high, verdict):
    assert ae.Guardrail("x", harm=harm, tolerated=5).judge(low, high) == verdict


def test_the_table_has_no_numbers_of_which_nothing_is_known():
    known = GuardedArm("B", "A", 12.34, 5.0, None, 0.4, 0.2, None, "harm shown")
    unknown = GuardedArm("C", "A", -18.8, None, None, -0.6, None, None, "not shown")
    found = GuardrailResults("refunds", "less", 0.0, False, 0.95, 9, 3.0, (known, unknown))
    _, first, second, *_ = lay_out_guardrails([found]).splitlines()
    assert " ".join(first.split()) == "refunds B A +12.3 % +5.0 % - 0 % harm shown"
    assert " ".join(second.split()) == "refunds C A - - - 0 % not shown"


def test_all_guardrails_hold_together():
    for count in range(1, 6):
        assert count * (1 - find_level(count)) <= 0.05 + 1e-12


def test_numbers_are_recorded_added_and_revised():
    experiment = create()
    for slot in range(3):
        experiment.ask(slot)
    assert experiment.tell(0, 10, guardrails={"complaints": 3}).change == "recorded"
    assert experiment.tell(0, 10, guardrails={"complaints": 3}).change == "unchanged"
    assert experiment.tell(0, 10).change == "unchanged"
    with pytest.raises(
        ae.ConflictError, match=r"slot 0 has the complaints 3, got 4: give --revise"
    ) as caught:
        experiment.tell(0, 10, guardrails={"complaints": 4})
    assert caught.value.recorded == {"guardrails": {"complaints": 3}}
    assert experiment.tell(0, 10, guardrails={"refunds": 1.5}).change == "revised"  # added
    assert experiment.tell(0, 10, guardrails={"complaints": 4}, revise=True).change == "revised"
    assert experiment.mark_missing(1, guardrails={"refunds": 2}).change == "recorded"
    assert [record.guardrails for record in experiment.history()] == [
        {"complaints": 4.0, "refunds": 1.5},
        {"complaints": None, "refunds": 2.0},
        None,
    ]
    assert [event.revision for event in events_of(experiment, "guardrails")] == [0, 1, 2, 0]
    assert [event.slot for event in events_of(experiment, "total")] == [0, 1]
    rows = [(2, 5, None, None, {"refunds": 1}), (1, 7, None, None, {"refunds": "many"})]
    with pytest.raises(ae.ParameterError, match="refunds of slot 1 must be a number") as refused:
        experiment.tell_many(rows)
    assert refused.value.field == "guardrails"
    assert experiment.history()[2].total is None
    with pytest.raises(ae.ParameterError, match="unknown guardrail 'complaint': did you mean"):
        experiment.tell(2, 5, guardrails={"complaint": 1})
    experiment.end()
    with pytest.raises(ae.ConflictError, match="has ended"):
        experiment.tell(0, 10, guardrails={"complaints": 9}, revise=True)
    assert experiment.verify().whole


def test_a_total_that_was_learned_is_not_learned_again():
    """Its guardrails may still come, and change nothing else."""
    experiment = ae.Experiment.create(
        "shop", storage="memory://", guardrails=[REFUNDS], **ROUNDS | {"policy": "ars-ucb"}
    )
    for slot in range(6):
        experiment.ask(slot)
        experiment.tell(slot, 5)
    before = experiment.status()
    assert experiment.tell(0, 5, guardrails={"refunds": 2}).change == "revised"
    assert experiment.tell(0, 5, guardrails={"refunds": 3}, revise=True).change == "revised"
    assert experiment.status()._replace(last_total_at="") == before._replace(last_total_at="")
    assert experiment.history()[0].guardrails == {"refunds": 3.0}
    assert experiment.verify().difference is None


def test_exports_have_a_column_for_each(tmp_path):
    experiment = play(create(covariates=["rain"]), 3)
    for suffix, read in ((".csv", pl.read_csv), (".parquet", pl.read_parquet)):
        experiment.export(tmp_path / f"history{suffix}")
        frame = read(tmp_path / f"history{suffix}")
        assert frame.columns[-4:] == ["probability", "rain", "complaints", "refunds"]
        assert frame["complaints"].to_list() == [
            record.guardrails["complaints"] for record in experiment.history()
        ]
        assert frame["refunds"].to_list() == [None] * 3


def test_guardrails_are_settings():
    storage = ae.open_storage("memory://")
    experiment = create(storage)
    assert experiment.settings.guardrails == (ae.parse(COMPLAINTS), REFUNDS)
    assert not create(storage).is_new
    with pytest.raises(ae.ConflictError, match="guardrails is"):
        create(storage, guardrails=[COMPLAINTS])
    plain = ae.Experiment.create("plain", storage=storage, **BLOCKS | {"guardrails": []})
    assert "guardrails" not in plain.settings.to_json()
    plain.ask(0)
    with pytest.raises(ae.ParameterError, match="the experiment has none; they are named when it"):
        plain.tell(0, 1, guardrails={"complaints": 1})


def test_a_warning_needs_no_probabilities():
    """The policy does not say them, so nothing can be judged; but the numbers are recorded."""
    plain = {"arms": ARMS, "policy": "ars-ucb", "reward_range": (0, 9), "storage": "memory://"}
    experiment = ae.Experiment.create("plain", guardrails=["guardrail(complaints)"], **plain)
    experiment.ask(0)
    experiment.tell(0, 1, guardrails={"complaints": 1})
    experiment.ask(1)
    assert experiment.status().guardrail_problem == experiment.status().no_results


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["guardrail(complaints, tolerated=21)"], "tolerated must be a number from 0 to 20"),
        (["guardrail(complaints, harm=worse)"], "unknown harm 'worse'"),
        (["guardrail(complaints, stops=1)"], "stops must be true or false"),
        (["complaints"], "unknown guardrail 'complaints'"),
        (["ucb1"], "expected a guardrail, got the policy 'ucb1'"),
        ("guardrail(complaints)", "guardrails must be a list"),
        ([f"guardrail(x{n})" for n in range(6)], "at most 5, .* got 6"),
        (["guardrail(refunds)", "guardrail(refunds)"], "different names, got 'refunds' twice"),
        (["guardrail(refunds)", "guardrail(Refunds)"], "differ by more than capitals"),
        (["guardrail(total)"], "name of another column, got 'total'"),
        (["guardrail(Rain)"], "name of another column, got 'Rain'"),
        ([3], "expected a guardrail, got 3"),
    ],
)
def test_guardrails_that_are_refused(given, message):
    storage = ae.open_storage("memory://")
    with pytest.raises(ae.AftereffectError, match=message) as caught:
        create(storage, guardrails=given, covariates=["rain"])
    assert caught.value.field == "guardrails"
    assert "\n" not in str(caught.value)
    assert storage.names() == []


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"policy": "ucb1"}, "no guardrail can stop an arm: results need the probabilities"),
        (
            {"policy": "exp3", "horizon": 500, "control": "A", "control_share": 0.1},
            r"no guardrail can stop an arm: floors\(exp3.* cannot learn from another arm",
        ),
    ],
)
def test_policies_whose_arms_cannot_be_stopped(policy, message):
    given = {"arms": ARMS, "reward_range": (0, 1), "storage": "memory://", **policy}
    with pytest.raises(ae.ParameterError, match=message) as caught:
        ae.Experiment.create("shop", guardrails=[COMPLAINTS], **given)
    assert caught.value.field == "guardrails"
    assert ae.Experiment.create("shop", guardrails=[REFUNDS], **given).is_new
