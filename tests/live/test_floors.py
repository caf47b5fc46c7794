"""Live, arms keep their floors: by name, with recorded probabilities, in every group of rounds."""

import json
from collections import Counter

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.delays import ARM, TOTAL
from aftereffect.live import _slot_state, _slotwise_state
from aftereffect.simulation import Task, prepare, run_batch
from services import in_thread

ARMS = ["A", "B", "C"]
ROUNDS = {"policy": "ars-ucb", "reward_range": (0, 1)}
BLOCKS = {"policy": "fixed-switchback(block=3)"}


def create(name="shop", storage="memory://", **given):
    given = {"arms": ARMS, "seed": 3, "storage": storage} | given
    return ae.Experiment.create(name, **given)


def play(experiment, slots):
    """Decisions of so many slots; B brings most."""
    decisions = []
    for slot in range(slots):
        decisions.append(experiment.ask(slot))
        experiment.tell(slot, 0.3 + 0.4 * (decisions[-1].arm == "B") + 0.01 * (slot % 7))
    return decisions


@pytest.mark.compiled
@pytest.mark.parametrize("given", [ROUNDS, BLOCKS], ids=["rounds", "blocks"])
def test_the_control_and_other_arms_have_floors(given):
    experiment = create(**given, control="C", control_share=0.1, floors={"B": 0.05})
    assert experiment.settings.arms == ("C", "A", "B")
    assert experiment.settings.floors == {"C": 0.1, "B": 0.05}
    assert experiment.settings.policy.shares == (0.1, 0, 0.05)
    assert str(experiment.settings.policy.base).startswith(given["policy"].partition("(")[0])
    status = experiment.status()
    assert [(arm.arm, arm.floor) for arm in status.arms] == [("C", 0.1), ("A", None), ("B", 0.05)]
    assert status.control == "C"
    decisions = play(experiment, 400)
    firsts = {decision.round: decision for decision in reversed(decisions)}
    rounds = [firsts[number] for number in sorted(firsts)]
    for decision in rounds:
        assert list(decision.probabilities) == ["C", "A", "B"]
        assert sum(decision.probabilities.values()) == pytest.approx(1)
        assert decision.probabilities[decision.arm] > 0
    for first in range(0, len(rounds) - 19, 20):
        played = Counter(decision.arm for decision in rounds[first : first + 20])
        assert played["C"] >= 2
        assert played["B"] >= 1
    assert len(rounds) >= 20
    assert [record.probability for record in experiment.history()] == [
        decision.probabilities[decision.arm] for decision in decisions
    ]
    found = experiment.verify()
    assert found.whole
    assert found.difference is None


def test_a_status_shows_floors_only_where_there_are_any():
    with_floors = create(**ROUNDS, floors={"B": 0.05}).status()
    header, *_, b, c = str(with_floors).splitlines()[1:5]
    assert header.split() == ["arm", "pulls", "share", "rounds", "mean", "floor", "probability"]
    assert b.split()[-2] == "5.0%"
    assert c.split()[-2] == "-"
    assert "<th>floor</th>" in with_floors._repr_html_()
    assert "floor" not in str(create(**ROUNDS).status())


def test_without_floors_nothing_changes():
    plain = create(**ROUNDS)
    for floors in (None, {}, {"B": 0}):
        assert create(**ROUNDS, floors=floors).settings == plain.settings
    assert create(**ROUNDS, control="A", control_share=0).settings.policy == plain.settings.policy
    assert plain.ask(0).probabilities is None


@pytest.mark.compiled
@pytest.mark.parametrize(
    "policy",
    [
        ae.Floors(ae.AdaptiveSwitchback(delay=ae.Interval(0, 5)), [0.1, 0, 0.05]),
        ae.Floors("fixed-switchback(block=12)", [0.1, 0, 0.05]),
    ],
    ids=str,
)
def test_live_decides_as_the_simulation_bit_for_bit(policy, monkeypatch):
    """Rounds are compared in `test_policies`; this is for policies that look at every slot."""
    horizon = 24 * 21
    series = (100 + 20 * np.sin(np.arange(24 * 7 * 9) / 24)).tolist()
    bandit = ae.HistoryBandit(
        series, [0, 0.1, 0.3], ae.Interval(0, 5), start=4 * 168, weeks_before=4, shuffle=False
    )
    informed = policy.with_calendar(bandit.calendar)
    task = Task(informed, bandit, "slotwise", horizon, (horizon,), 3, range(1))
    engine = bandit.tracer(horizon)
    memory = run_batch(task, prepare(task, engine=engine)).memory
    look_up = engine.kernels.feed.look_up
    history = [look_up(memory, engine.world, slot, None) for slot in range(-4 * 168, 0)]
    monkeypatch.setattr(_slotwise_state, "_ROOM", 50)
    storage = ae.open_storage("memory://")
    experiment = create(
        storage=storage, policy=policy, horizon=horizon, history=history, slot="1h",
        start="2026-01-05T00:00",
    )  # fmt: skip
    assert experiment.settings.policy == informed
    played = []
    for slot in range(horizon):
        played.append(ARMS.index(experiment.ask(slot).arm))
        experiment.tell(slot, memory[TOTAL, slot])
        if slot % 97 == 0:
            experiment = ae.Experiment.open("shop", storage=storage)
    assert played == memory[ARM, :horizon].astype(int).tolist()
    assert set(played) == {0, 1, 2}
    found = experiment.verify()
    assert found.whole
    assert found.difference is None


@pytest.mark.compiled
def test_nothing_more_is_compiled_for_floors(monkeypatch):
    """The first use of a policy on a machine may take long: that of its floors must not."""
    base = _slot_state.prepare_decide(ae.AdaptiveSwitchback(slots_per_day=0))
    monkeypatch.setattr("aftereffect.simulation.load_decide", lambda _: pytest.fail("compiled"))
    for arms in (2, 3):
        floors = ae.Floors(ae.AdaptiveSwitchback(slots_per_day=0), [0.1] + [0] * (arms - 1))
        assert _slot_state.prepare_decide(floors) is not base


def test_a_round_that_is_repeated_is_certain():
    """All its totals were missing: the arm was drawn before, and is not drawn again."""
    experiment = create(**ROUNDS, floors={"C": 0.5})
    first = experiment.ask(0)
    assert first.probabilities == {"A": 0.5, "B": 0, "C": 0.5}
    experiment.mark_missing(0)
    again = experiment.ask(1)
    assert (again.arm, again.round) == (first.arm, 1)
    assert again.probabilities == {arm: float(arm == first.arm) for arm in ARMS}
    assert experiment.verify().difference is None


def test_a_log_with_other_probabilities_is_followed():
    """Another version may have drawn with others; what it recorded stays."""
    experiment = create(**ROUNDS, floors={"C": 0.5})
    play(experiment, 20)
    with experiment._log.reading() as (_, state):
        ahead = state.look_ahead()
        expected = ahead.decide()
        recorded = expected._replace(probabilities=json.dumps([0.2, 0.3, 0.5]))
        for wanted in (recorded, recorded._replace(arm=(expected.arm + 1) % 3)):
            ahead._follow_record(wanted, expected)
            assert ahead.decide().probabilities == recorded.probabilities
            assert ahead.round.arm == wanted.arm


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"control_share": 0.1}, "control_share is the least share of the control: name that arm"),
        ({"control": "A", "control_share": 1}, "control_share must be a number from 0 to 0.9"),
        ({"control": "A", "control_share": "10%"}, "control_share must be a number from 0 to 0.9"),
        ({"control": "A", "control_share": 1e-5}, "a share must be 0, for none, or at least 0.001"),
        ({"control": "Z", "control_share": 0.1}, "control must be one of the arms, got 'Z'"),
        ({"floors": {"Z": 0.1}}, "a floor must be that of one of the arms, got 'Z'"),
        ({"floors": {"A": -1}}, "the floor of A must be a number from 0 to 0.9, got -1"),
        ({"floors": [0.1, 0, 0]}, "floors must be shares by the names of arms"),
        ({"floors": {"A": 0.5, "B": 0.5}}, "shares must sum to at most 0.9, got 1"),
        (
            {"control": "A", "control_share": 0.1, "floors": {"A": 0.1}},
            "the control 'A' has a control_share and a floor: give one",
        ),
        (
            {"policy": "floors(ucb1, [0.1, 0, 0])", "floors": {"B": 0.1}},
            "the policy has floors already",
        ),
        ({"policy": "floors(ucb1, [0.1, 0])"}, "floors has the shares of 2 arms, but there are 3"),
        ({"policy": "floors(exp3, [0.1, 0, 0])"}, "needs to know the number of slots in advance"),
    ],
)
def test_refusals(given, message):
    storage = ae.open_storage("memory://")
    with pytest.raises(ae.ParameterError) as caught:
        create(storage=storage, **ROUNDS | given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(storage.names()) == []


def test_a_service_takes_floors(tmp_path):
    storage = f"sqlite:///{tmp_path}/live.db"
    with in_thread(storage) as address, ae.Client(address) as client:
        given = {"arms": ARMS, "seed": 3, "control": "B", **ROUNDS}
        shop = client.create("shop", **given, control_share=0.1, floors={"C": 0.05})
        assert shop.is_new
        local = create(**ROUNDS, control="B", control_share=0.1, floors={"C": 0.05})
        assert shop.status() == local.status()
        assert shop.status().arms[0].floor == 0.1
        assert shop.ask(0) == local.ask(0)
        assert not client.create("shop", **given, control_share=0.1, floors={"C": 0.05}).is_new
        with pytest.raises(ae.ConflictError, match="policy is floors"):
            client.create("shop", **given)
        for wrong, message in (
            ({"control_share": 2}, "control_share"),
            ({"floors": {"Z": 0.1}}, "a floor must be that of one of the arms"),
            ({"control": None, "control_share": 0.1}, "name that arm as control"),
        ):
            with pytest.raises(ae.ParameterError, match=message):
                client.create("other", **given | wrong)
        assert client.experiments() == ["shop"]
