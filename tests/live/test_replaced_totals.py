"""Totals that are replaced after a policy has learned them: what was decided stands, what is decided later knows the new ones."""

import json
import random

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.live import _rounds, chain_start
from aftereffect.live._reading import begin_journal
from aftereffect.live._snapshots import restore_state, take_snapshot
from aftereffect.live._state import Draws, ExperimentState
from aftereffect.policies import named_arrays

MEANS = {"A": 3.0, "B": 5.0, "C": 6.0}
POLICIES = [
    "ucb1",
    "ars-ucb",
    "ars-kl-ucb",
    "settle-ucb(hold=20)",
    "exp3",
    "clw(d=3)",
    "ars-clw",
    "ars-exp3",
    "odaaf(mean_lag=2)",
    "mini-batch(size=3)",
    "round-robin",
    "floors(exp3, [0.2, 0, 0.1])",
    "floors(ucb1, [0.2, 0, 0.1])",
]


def create(policy, storage="memory://", **settings):
    settings = {"reward_range": (0, 10), "horizon": 5_000, "seed": 3} | settings
    return ae.Experiment.create(
        "shop", arms=list(MEANS), policy=policy, storage=storage, **settings
    )


def play(experiment, slots, *, seed=1, replaced=0.3):
    """Every total is told at once; some are then replaced, long ago or just now."""
    draw = random.Random(seed)
    begin = experiment.status().slots
    for slot in range(begin, begin + slots):
        arm = experiment.ask(slot).arm
        experiment.tell(slot, MEANS[arm] + draw.random())
        if draw.random() < replaced:
            age = draw.choice([0, 1, 5, 72, slot])
            experiment.tell(max(slot - age, 0), 9 * draw.random(), revise=True)


def state_of(experiment):
    """What the policy knows when the next slot is decided."""
    with experiment._log.reading() as (_, state):
        return state.look_ahead().policy_state


def arrays_of(policy_state):
    return {name: array.tolist() for name, array in named_arrays(policy_state)}


def show_all(experiment):
    """What a policy knows that is shown all rounds that were played, with the totals as they are known now."""
    settings, records = experiment.settings, experiment.history()
    policy = settings.policy
    kernels = policy.kernels()
    params, state = policy.params(len(MEANS), 5_000), policy.initial(len(MEANS))
    draws = Draws(settings.seed)
    windows = {event.slot: event.window for event in log_of(experiment) if event.kind == "decision"}
    for number in range(records[-1].round + 1):
        lines = [line for line in records if line.round == number]
        kernels.decide(state, params, lines[0].slot, draws)
        window = windows[lines[0].slot]
        totals = [line.total / 10 for line in lines][-window:] if window else []
        arm = settings.arms.index(lines[0].arm)
        kernels.absorb(state, params, arm, len(totals), sum(totals))
    kernels.decide(state, params, len(records), draws)
    return state


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_knows_what_it_would_if_all_had_come_right_at_once(policy):
    experiment = create(policy)
    play(experiment, 400)
    for slot in (0, 7, 200, 397):
        experiment.tell(slot, 8.5, revise=True)
        lines = experiment.history()
        assert lines[slot].total == 8.5
        assert lines[slot].learned == (experiment.status().rounds > lines[slot].round)
    while experiment.status().rounds <= experiment.history()[-1].round:
        experiment.tell(experiment.ask().slot, 1)
    known, expected = arrays_of(state_of(experiment)), arrays_of(show_all(experiment))
    assert known.keys() == expected.keys()
    for name, numbers in known.items():
        assert numbers == pytest.approx(expected[name], rel=1e-9, abs=1e-12), name
    assert experiment.verify().whole
    assert experiment.verify().difference is None


def test_a_wrong_total_that_kept_an_arm_away_is_put_right():
    experiment = create("ucb1")
    for slot in range(3):
        experiment.tell(slot, {"A": 3, "B": 3, "C": 0.0}[experiment.ask(slot).arm])
    play(experiment, 40, replaced=0)
    before = [line.arm for line in experiment.history()]
    assert experiment.tell(2, 10, revise=True).change == "revised"
    assert [line.arm for line in experiment.history()] == before  # what was decided stands
    arms = [experiment.ask(slot).arm for slot in range(43, 46)]
    assert arms[0] == before[-1] or arms[0] == "C"
    assert state_of(experiment).average[2] > 0.6
    versions = [event for event in log_of(experiment) if event.slot == 2 and event.kind == "total"]
    assert [(event.total, event.revision) for event in versions] == [(0.0, 0), (10.0, 1)]
    assert versions[0].at <= versions[1].at
    assert experiment.verify().difference is None


def log_of(experiment):
    with experiment.read_log() as view:
        return view.events(0, 10**6)


def test_a_learned_total_turns_out_missing_or_of_another_arm():
    experiment = create("ucb1")
    for slot in range(6):
        experiment.tell(slot, 2 * slot, confirm=True) if experiment.ask(slot) else None
    arms = [line.arm for line in experiment.history()]
    assert arms[:3] == ["A", "B", "C"]
    assert experiment.mark_missing(0, revise=True).change == "revised"
    assert experiment.tell(1, 7, arm="C", revise=True).arm == "C"
    status = experiment.status()
    assert (status.missing, status.received) == (1, 6)
    assert status.learned + status.waiting == 5
    assert experiment.tell(0, 4, revise=True).change == "revised"  # found again
    for _ in range(12):
        experiment.tell(experiment.ask().slot, 1)
    lines = experiment.history()
    learned = [line for line in lines if line.learned]
    known = state_of(experiment)
    for number, arm in enumerate(MEANS):
        of_arm = [line.total / 10 for line in learned if line.played == arm]
        assert known.pulls[number] == len(of_arm)
        assert known.total[number] == pytest.approx(sum(of_arm))
    assert {line.slot for line in learned} >= {1, 2, 3, 4, 5}
    assert experiment.verify().whole


@pytest.mark.parametrize("policy", ["ucb1", "exp3", "settle-ucb(hold=20)"])
def test_all_clients_and_all_openings_agree(connect, policy):
    first = create(policy, storage=connect())
    second = ae.Experiment.open("shop", storage=connect())
    play(first, 150)
    for seed in (2, 3):
        play(second, 30, seed=seed)
        play(first, 30, seed=seed)
    opened = ae.Experiment.open("shop", storage=connect())
    snapshots = []
    for experiment in (first, second, opened):
        with experiment._log.reading() as (_, state):
            snapshots.append(take_snapshot(state))
    assert snapshots[1:] == snapshots[:1] * 2
    assert opened.verify().whole
    assert opened.verify().difference is None


def test_new_and_replaced_totals_at_once(connect):
    """A night's rows, in one transaction that begins the journal."""
    experiment, plain = create("ucb1", storage=connect()), create("ucb1")
    for one in (experiment, plain):
        play(one, 60, replaced=0)
        for _ in range(3):
            one.ask()
    rows = [(62, 4), (61, 5), (10, 1), (60, 6), (11, None), (12, 8, "B"), (10, 2)]
    changes = [record.change for record in experiment.tell_many(rows, revise=True)]
    assert changes == ["recorded"] * 2 + ["revised", "recorded"] + ["revised"] * 3
    for row in rows:
        plain.tell_many([row], revise=True)
    for one in (experiment, plain):
        play(one, 20, replaced=0)
    assert [line.arm for line in experiment.history()] == [line.arm for line in plain.history()]
    assert arrays_of(state_of(experiment)) == arrays_of(state_of(plain))
    with pytest.raises(ae.ConflictError):  # nothing of it is recorded, nor remembered
        experiment.tell_many([(3, 9), (999, 1)], revise=True)
    assert arrays_of(state_of(experiment)) == arrays_of(state_of(plain))
    assert experiment.verify().difference is None


def test_who_replaces_nothing_pays_nothing():
    experiment = create("ucb1")
    play(experiment, 300, replaced=0)
    experiment.mark_missing(experiment.ask().slot)
    experiment.ask()
    experiment.tell(300, 4, revise=True)  # of a missing one nothing was learned
    with experiment._log.reading() as (_, state):
        assert state.journal is None
        assert "journal" not in json.loads(take_snapshot(state).text)
    assert all(event.until is None for event in log_of(experiment) if event.kind == "total")


def test_the_cost_grows_with_the_age_of_the_total_and_not_with_the_log(monkeypatch):
    experiment = create("ucb1")
    play(experiment, 3_000, replaced=0)
    experiment.tell(0, 1, revise=True)
    experiment.tell(experiment.ask().slot, 1)
    taken = []
    take = ExperimentState._take
    monkeypatch.setattr(
        ExperimentState, "_take", lambda self, *given: taken.append(0) or take(self, *given)
    )
    for age in (1, 10, 100, 500, 1_000):
        slot = experiment.status().slots - age
        experiment.tell(slot, 1.5, revise=True)
        taken.clear()
        experiment.ask()
        # Two steps per round.
        assert 2 * age - 2 <= len(taken) <= 6 * age + _rounds._STEPS + 4
        experiment.tell(experiment.status().slots - 1, 1)


def test_an_experiment_with_replaced_totals_opens_from_a_snapshot(monkeypatch):
    storage = ae.open_storage("memory://")
    experiment = create("ucb1", storage=storage)
    play(experiment, 3_000, replaced=0)
    experiment.tell(17, 1, revise=True)
    play(experiment, 400, replaced=0.1)
    experiment.tell(18, 1, revise=True)  # the policy has not been shown that yet
    before, folded = experiment.status(), []
    fold = ExperimentState.fold
    monkeypatch.setattr(
        ExperimentState, "fold", lambda self, event: folded.append(event) or fold(self, event)
    )
    again = ae.Experiment.open("shop", storage=storage)
    assert again.status() == before
    assert len(folded) <= 201
    assert arrays_of(state_of(again)) == arrays_of(state_of(experiment))


def test_a_snapshot_holds_all_that_the_journal_does():
    experiment = create("floors(exp3, [0.2, 0, 0.1])")
    play(experiment, 500)
    with experiment._log.reading() as (_, state):
        snapshot = take_snapshot(state)
        restored = restore_state(experiment.settings, chain_start(experiment.record), snapshot)
        assert take_snapshot(restored) == snapshot
        assert restored.journal.steps == state.journal.steps
        assert restored.journal.places == state.journal.places
        assert list(restored.journal.states) == list(state.journal.states)


def test_a_journal_that_is_derived_from_the_log_is_the_one_that_was_kept():
    experiment = create("clw(d=2)")
    play(experiment, 300)
    with experiment._log.reading() as (view, state):
        kept = state.journal
        begin_journal(state, experiment.record, view)
        assert state.journal.steps == kept.steps
        assert state.journal.places == kept.places


def test_states_are_kept_ever_more_seldom_the_older_they_are():
    journal = _rounds.Journal()
    for step in range(64 * 1_000 + 1):
        journal.keep_state(np.zeros(1), step)
        if step % 6_400 == 0 and step:
            assert len(journal.states) <= 2 * np.log2(step / 64) + 2
            for age in (1, 64, 1_000, 6_000):
                at = max((kept for kept in journal.states if kept <= step - age), default=0)
                assert step - at <= 3 * age + 64
