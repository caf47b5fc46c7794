"""Arms come and go while an experiment runs. Here it runs; tests/live/test_machine.py tries everything in any order."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.inference import Effect
from aftereffect.live import _results, _slotwise_state

#: It is folded quickly.
SMALL = "adaptive-switchback(slots_per_day=2, delay=interval(0, 2))"
#: What arms bring, against the control.
LIFTS = {"A": 1.0, "B": 1.02, "C": 1.3, "D": 1.5}


def create(storage="memory://", **given):
    given = {"arms": ["A", "B"], "policy": SMALL, "seed": 3, "storage": storage} | given
    return ae.Experiment.create("shop", **given)


def play(experiment, slots, seed=1):
    """Play so many further slots; a reward arrives in three slots."""
    rng, first = np.random.default_rng(seed), experiment.status().slots
    lifts = [1.0, 1.0] + [LIFTS[line.arm] for line in experiment.history(max(first - 3, -1))]
    decisions = []
    for slot in range(first, first + slots):
        decisions.append(experiment.ask(slot))
        lifts.append(LIFTS[decisions[-1].arm])
        experiment.tell(slot, 100 * sum(lifts[-3:]) / 3 * float(np.exp(rng.normal(0, 0.02))))
    return decisions


def states(experiment):
    return {arm.arm: (arm.state, arm.since) for arm in experiment.status().arms}


pytestmark = pytest.mark.compiled


def test_an_arm_comes_another_goes_and_nothing_is_forgotten():
    experiment = create()
    play(experiment, 40)
    before = experiment.status()
    status = experiment.change_arms(add="C", pause="B")
    assert states(experiment) == {"A": ("active", None), "B": ("paused", 40), "C": ("active", 40)}
    assert [arm[:5] for arm in status.arms[:2]] == [arm[:5] for arm in before.arms]
    assert (status.received, status.learned) == (40, 40)
    decisions = play(experiment, 60)
    assert {decision.arm for decision in decisions} <= {"A", "C"}
    assert all(decision.probabilities["B"] == 0 for decision in decisions)
    assert decisions[-1].probabilities["C"] > 0.9
    assert "B      " in str(experiment.status())
    assert "paused" in str(experiment.status())
    experiment.change_arms(resume=["B"], retire=["C"])
    decisions = play(experiment, 30, seed=2)
    assert {decision.arm for decision in decisions} <= {"A", "B"}
    assert states(experiment)["C"] == ("retired", 100)
    # Recorded decisions have the arms of their time.
    assert list(experiment.ask(0).probabilities) == ["A", "B"]
    assert list(experiment.ask(99).probabilities) == ["A", "B", "C"]
    found = experiment.verify()
    assert found.whole
    assert found.difference is None


def test_what_is_known_of_an_arm_that_was_paused_counts_when_it_comes_back():
    experiment = create(arms=["A", "B", "C"])
    play(experiment, 60)
    experiment.change_arms(pause="C")
    play(experiment, 40)
    experiment.change_arms(resume="C")
    assert experiment.ask().probabilities["C"] > 0.9


def test_the_same_call_again_changes_nothing():
    experiment = create()
    play(experiment, 4)
    for _ in range(3):
        experiment.change_arms(add=["C", "D"])
    for _ in range(3):
        experiment.change_arms(resume="A", pause=["C", "C"], retire="D")
    with pytest.raises(ae.ConflictError, match="arm 'D' is retired for good: add an arm"):
        experiment.change_arms(add="D")
    with experiment.read_log() as view:
        events = [event for event in view.events(0, 99) if event.kind == "arm"]
    assert [(event.slot, event.arm, event.revision) for event in events] == [
        *((4, 2, 0), (4, 3, 1), (4, 2, 2), (4, 3, 3))
    ]
    assert [json.loads(event.guardrails)["change"] for event in events] == [
        *("add", "add", "pause", "retire")
    ]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, ae.ParameterError, "at least one arm to add"),
        ({"add": 3}, ae.ParameterError, "add must be the name of an arm, or a list of names"),
        ({"add": ["C", None]}, ae.ParameterError, "add must be the name of an arm"),
        ({"add": ["C", " D"]}, ae.ParameterError, "printable characters without spaces around"),
        ({"pause": "b"}, ae.ParameterError, "there is no arm 'b'"),
        ({"add": "P"}, ae.ConflictError, "arm 'P' is paused: resume it instead"),
        ({"resume": "R"}, ae.ConflictError, "arm 'R' is retired for good"),
        ({"pause": "R"}, ae.ConflictError, "arm 'R' is retired for good: leave it as it is"),
        ({"retire": ["A", "B"]}, ae.ConflictError, "at least one arm must stay active"),
        ({"add": "C", "retire": "x"}, ae.ParameterError, "there is no arm 'x'"),
        ({"add": [f"arm {n}" for n in range(61)]}, ae.ParameterError, "at most 64 arms, got 65"),
    ],
)
def test_what_is_refused_leaves_all_as_it_was(changes, error, message):
    experiment = create(arms=["A", "B", "P", "R"])
    experiment.change_arms(pause="P", retire="R")
    before = experiment.status()
    with pytest.raises(error, match=message):
        experiment.change_arms(**changes)
    assert experiment.status() == before


def test_the_control_stays_and_so_does_the_first_arm_where_guardrails_need_it():
    guarded = {"guardrails": ["guardrail(complaints)"]}
    for given in ({"control": "B"}, {"arms": ["B", "A"], **guarded}):
        experiment = create(**given)
        for change in ("pause", "retire"):
            with pytest.raises(ae.ConflictError, match="'B' is the control"):
                experiment.change_arms(**{change: "B"})
        experiment.change_arms(add="C", retire="A")
        assert {decision.arm for decision in play(experiment, 6)} <= {"B", "C"}
    experiment = create()
    experiment.change_arms(retire="A")
    assert {decision.arm for decision in play(experiment, 6)} == {"B"}
    assert experiment.ask().probabilities == {"A": 0.0, "B": 1.0}


@pytest.mark.parametrize(
    "policy", ["fixed-switchback(block=2)", "optimal-switchback(carryover=2)", "ucb1", "exp3"]
)
def test_other_policies_refuse_and_say_what_to_do(policy):
    experiment = create(policy=policy, reward_range=(0, 200), horizon=100)
    with pytest.raises(ae.ConflictError, match="cannot go on with other arms: create experiments"):
        experiment.change_arms(add="C")
    assert experiment.change_arms(add="A", resume="B").slots == 0  # so it is already


def test_an_experiment_that_has_ended_refuses():
    experiment = create()
    experiment.change_arms(add="C")
    experiment.end()
    assert experiment.change_arms(add="C").ended
    with pytest.raises(ae.ConflictError, match="has ended: nothing more is recorded"):
        experiment.change_arms(pause="C")


def test_the_round_of_an_arm_that_goes_ends_at_once_and_others_go_on():
    experiment = create(policy="adaptive-switchback(delay=interval(0, 9))", arms=["A", "B", "C"])
    first = experiment.ask()
    assert first.until > first.slot + 1
    others = [arm for arm in "ABC" if arm != first.arm]
    experiment.change_arms(add="D", pause=others[0])
    assert experiment.ask()[1:4] == first[1:4]  # the same round
    experiment.change_arms(pause=first.arm)
    status = experiment.status()
    assert status.next.round == 1
    assert status.next.arm in (others[1], "D")
    assert experiment.ask() == status.next
    assert experiment.verify().difference is None


def test_late_and_replaced_totals_of_arms_that_went_still_count():
    experiment = create(arms=["A", "B", "C"])
    decisions = [experiment.ask(slot) for slot in range(12)]
    experiment.change_arms(retire="B", pause="C")
    for decision in decisions:
        experiment.tell(decision.slot, 100.0)
    last = next(decision.slot for decision in decisions[::-1] if decision.arm == "B")
    assert experiment.tell(last, 50.0, revise=True).arm == "B"
    assert experiment.tell(0, 70.0, arm="B", revise=True).arm == "B"
    status = experiment.status()
    assert (status.received, status.learned, status.waiting) == (12, 12, 0)
    assert status.arms[1].mean < 100
    assert experiment.verify().whole


def test_two_clients_and_a_new_process_know_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(_slotwise_state, "_ROOM", 8)
    place = f"sqlite:///{tmp_path}/live.db"
    one = create(place)
    two = ae.Experiment.open("shop", storage=place)
    play(two, 20)
    one.change_arms(add=["C", "D"], pause="B")
    play(one, 230)  # more events than a snapshot waits for
    assert {two.ask(slot).arm for slot in range(20, 60)} <= {"A", "C", "D"}
    assert list(two.ask(249).probabilities) == ["A", "B", "C", "D"]
    with one._log.reading() as (_, state):
        assert state.last_snapshot.seq > 40
    three = ae.Experiment.open("shop", storage=place)
    assert three.ask(249) == two.ask(249)
    assert three.status() == two.status()
    assert three.tell(249, 100.0, arm="D", revise=True).arm == "D"
    assert three.ask(250) == one.ask(250)
    assert three.verify().difference is None
    three.export(tmp_path / "out.csv")
    assert ",D," in (tmp_path / "out.csv").read_text()


def test_floors_of_arms_that_go_end_and_those_of_others_stay():
    experiment = create(arms=["A", "B", "C"], control="A", control_share=0.25, floors={"B": 0.25})
    play(experiment, 20)
    experiment.change_arms(add="D", pause="B")
    assert [arm.floor for arm in experiment.status().arms] == [0.25, None, None, None]
    decisions = play(experiment, 40)
    assert sum(decision.arm == "A" for decision in decisions) >= 10
    assert all(decision.probabilities["B"] == 0 for decision in decisions)
    assert {decision.arm for decision in decisions} <= {"A", "C", "D"}
    experiment.change_arms(resume="B")
    decisions = play(experiment, 40)
    assert sum(decision.arm == "B" for decision in decisions) >= 10
    assert experiment.verify().difference is None


def test_results_know_when_arms_came_and_which_are_gone():
    """C brings most and is retired, so the best of the others leads."""
    experiment = create(control_share=0.2, floors={"B": 0.2}, control="A")
    play(experiment, 60)
    experiment.change_arms(add=["C"])
    play(experiment, 240, seed=2)
    before = experiment.results()
    assert before.leader == "C"
    (shown,) = [effect for effect in before.effects if effect.arm == "C"]
    assert 15 < shown.low < 30
    experiment.change_arms(retire="C", pause="B")
    after = experiment.results(stop_when_loss_below=100)
    assert after.leader in "AB"
    assert after.probabilities["C"] == 0
    assert sum(after.probabilities.values()) == pytest.approx(1)
    assert "C" not in [effect.arm for effect in after.leads]
    assert "C" not in [effect.versus for effect in after.leads]
    assert (after.paused, after.retired) == (("B",), ("C",))
    (effect,) = [effect for effect in after.effects if effect.arm == "C"]
    assert (effect.low, effect.high) == (shown.low, shown.high)
    said = " ".join(after.describe())
    assert "C is retired: it is no candidate to ship." in said
    assert "B is paused: it may be resumed." in said
    assert "C (retired)" in str(after)
    play(experiment, 60)
    (later,) = [effect for effect in experiment.results().effects if effect.arm == "C"]
    assert later.low == pytest.approx(shown.low, abs=2)  # only blocks from before settle now


def test_guardrails_compare_arms_that_came_later_and_stop_them(monkeypatch):
    """The one that came later does harm, and is stopped: the others go on."""
    experiment = create(control="A", guardrails=["guardrail(complaints, stops=true)"])
    play(experiment, 30)
    experiment.change_arms(add="C", pause="B")

    def find_harm(trial, names, level):
        assert list(names) == ["A", "B", "C"]
        assert trial.probabilities[:20, 2].tolist() == [0.0] * 20
        effects = [(name, "A", 30.0, low, None, 3.0, None, None) for name, low in harm.items()]
        return SimpleNamespace(
            effects=[Effect(*each) for each in effects], blocks=len(trial.starts), mean=1.0
        )

    harm = {"B": -10.0, "C": 10.0}
    monkeypatch.setattr(_results, "analyse", find_harm)
    experiment.tell(29, experiment.history()[29].total, guardrails={"complaints": 3})
    assert experiment.ask().probabilities == {"A": 1.0, "B": 0.0, "C": 0.0}
    assert "C is stopped" in str(experiment.status())
    experiment.change_arms(resume="B", pause="C")
    assert {decision.arm for decision in play(experiment, 20)} <= {"A", "B"}
    experiment.change_arms(resume="C")  # a stop is not taken back
    assert {decision.arm for decision in play(experiment, 20)} <= {"A", "B"}
    assert experiment.verify().difference is None
