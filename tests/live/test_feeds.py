"""Feeds as they come: a night's rows at once, in any order, hours late, with outages and arms that were played by hand."""

import random

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.live import chain_start
from aftereffect.live._state import ExperimentState
from aftereffect.live.events import Link
from aftereffect.policies import named_arrays

MEANS = {"A": 0.3, "B": 0.5, "C": 0.4, "D": 0.6}
HOURS = 1_008
POLICIES = ["settle-ucb", "ars-ucb", "ars-kl-ucb", "ucb1"]
NIGHTS = {
    "in order": lambda experiment, rows: [experiment.tell(*row) for row in rows],
    "in reverse": lambda experiment, rows: [experiment.tell(*row) for row in reversed(rows)],
    "shuffled": lambda experiment, rows: [
        experiment.tell(*row) for row in random.Random(len(rows)).sample(rows, len(rows))
    ],
    "at once": lambda experiment, rows: experiment.tell_many(rows),
}


def created(policy, arms="ABCD", **settings):
    settings = {"reward_range": (0, 1), "seed": 1, "storage": "memory://"} | settings
    return ae.Experiment.create("shop", arms=list(arms), policy=policy, **settings)


def totals_of(seed=1):
    """Each slot's total, if an arm is played in it: the same whoever asks."""
    noise = np.random.default_rng(seed).normal(0, 0.1, HOURS)
    return lambda slot, arm: float(np.clip(MEANS[arm] + noise[slot], 0, 1))


def played_nightly(policy, tell):
    """Six weeks; every night the 24 totals of the day are recorded."""
    experiment, total = created(policy), totals_of()
    for day in range(HOURS // 24):
        slots = [experiment.ask(slot) for slot in range(24 * day, 24 * day + 24)]
        tell(experiment, [(slot.slot, total(slot.slot, slot.arm)) for slot in slots])
    return experiment


def played_late(policy, late):
    """Six weeks; every hour the total of some hours before is recorded."""
    experiment, total, arms = created(policy), totals_of(), []
    for slot in range(HOURS):
        arms.append(experiment.ask(slot).arm)
        if slot >= late:
            experiment.tell(slot - late, total(slot - late, arms[slot - late]))
    experiment.tell_many((slot, total(slot, arms[slot])) for slot in range(HOURS - late, HOURS))
    return experiment


def arrays_of(policy_state):
    return {name: array.tolist() for name, array in named_arrays(policy_state)}


def state(experiment):
    with experiment._log.reading() as (_, state):
        return state.look_ahead().policy_state


def check_nothing_is_ignored(experiment):
    status = experiment.status()
    lines = experiment.history()
    assert status.received == HOURS
    assert status.learned + status.waiting == HOURS
    waiting = [line for line in lines if not line.learned]
    assert len(waiting) == status.waiting
    assert {line.arm for line in lines} == set(MEANS)
    assert experiment.verify().whole
    return status


@pytest.mark.parametrize("policy", POLICIES)
def test_a_nightly_feed_counts_whole_in_whatever_order(policy):
    feeds = [played_nightly(policy, tell) for tell in NIGHTS.values()]
    for experiment in feeds:
        check_nothing_is_ignored(experiment)
    arms = [[line.arm for line in experiment.history()] for experiment in feeds]
    assert arms[1:] == arms[:1] * 3
    states = [arrays_of(state(experiment)) for experiment in feeds]
    assert states[1:] == states[:1] * 3


@pytest.mark.parametrize("late", [1, 3, 6, 24, 72])
@pytest.mark.parametrize("policy", POLICIES)
def test_late_totals_count_or_wait(policy, late):
    status = check_nothing_is_ignored(played_late(policy, late))
    assert status.lateness == late
    if policy != "settle-ucb":  # what waits is of the open round, or held at the end of rounds
        assert status.waiting <= 5 * late + 250


def test_a_late_feed_teaches_settle_ucb_slot_by_slot():
    """While one arm is held its totals come one by one, however late they are: the climb is seen as if they were not."""
    settled = []
    for late in (0, 1, 6, 24):
        experiment, total = created("settle-ucb"), totals_of()
        for slot in range(100 + late):
            assert experiment.ask(slot).arm == "A"
            if slot >= late:
                experiment.tell(slot - late, total(slot - late, "A"))
        settling = state(experiment).settling
        settled.append([array.tolist() for array in settling])
    assert settled[1:] == settled[:1] * 3


def test_a_policy_whose_rounds_are_too_short_says_so_at_once():
    experiment = created("ucb1")
    for slot in range(25):
        experiment.ask(slot)
        assert experiment.status().notes == ()
    experiment.tell(0, 0.5)
    (note,) = experiment.status().notes
    assert note == (
        "totals come 24 slots late, and 96% of the slots only waited for them: "
        "the rounds of this policy are too short for totals that come so late"
    )
    assert f"note: {note}" in str(experiment.status())


def test_what_comes_after_a_round_has_closed_is_learned_with_the_next_of_its_arm():
    experiment = created("ucb1", arms="AB", reward_range=(0, 100))
    for slot in range(3):
        experiment.ask(slot)  # slots 1 and 2 are held
    experiment.tell(0, 10)
    assert experiment.ask(3).arm == "B"
    experiment.tell_many([(2, 30), (1, 20), (3, 1)])
    assert experiment.status().waiting == 2
    assert [line.learned for line in experiment.history()] == [True, False, False, True]
    assert experiment.ask(4).arm == "A"
    experiment.tell(4, 40)
    assert experiment.status().waiting == 0
    assert [
        state(experiment).pulls[0],
        state(experiment).total[0],
        state(experiment).rounds[0],
    ] == pytest.approx([4, 1.0, 2])
    assert experiment.verify().whole


def test_held_slots_are_the_first_of_the_next_round_where_the_arm_stays():
    """ARS-UCB is forced to stay with A, as B pays nothing; its round of 9 slots needs only those that no total is known of."""
    experiment = created("ars-ucb(alpha=0.01)", arms="AB")
    experiment.ask(0)
    experiment.tell(0, 1)
    experiment.ask(1)
    experiment.tell(1, 0)
    first = [experiment.ask(slot) for slot in range(2, 9)]
    assert [(slot.arm, slot.hold) for slot in first] == [("A", False)] * 4 + [("A", True)] * 3
    experiment.tell_many((slot, 1) for slot in (2, 3, 4, 5, 7))
    again = experiment.ask(9)
    assert (again.arm, again.round, again.until) == ("A", 3, 15)  # 6, 8 and seven more make nine
    assert experiment.verify().whole


# What was really played


def test_the_policy_learns_from_what_was_played():
    experiment = created("ucb1", arms="ABC", reward_range=(0, 100))
    assert experiment.ask(0).arm == "A"
    assert experiment.tell(0, 50, arm="C") == ae.live.TotalRecord(0, 50.0, "recorded", "C")
    assert experiment.ask(1).arm == "A"  # nothing is known of A, and its round is planned again
    experiment.tell(1, 10)
    assert experiment.ask(2).arm == "B"
    experiment.tell(2, 20)
    assert experiment.ask(3).arm == "C"
    experiment.tell(3, 30)
    assert [state(experiment).pulls[2], state(experiment).total[2]] == pytest.approx([2, 0.8])
    line = experiment.history()[0]
    assert (line.arm, line.played, line.learned) == ("A", "C", True)
    assert [arm.mean for arm in experiment.status().arms] == [10, 20, 40]
    with pytest.raises(
        ae.ParameterError, match="slot 3 was played with an unknown arm 'E': known: A, B, C"
    ) as caught:
        experiment.tell(3, 30, arm="E")
    assert caught.value.field == "arm"
    assert experiment.verify().whole


def test_the_same_total_with_another_arm_is_a_conflict():
    experiment = created("ucb1", reward_range=(0, 100))
    experiment.ask(0)
    experiment.tell(0, 7, arm="B")
    assert experiment.tell(0, 7, arm="B").change == "unchanged"
    with pytest.raises(
        ae.ConflictError,
        match=r"^slot 0 has the total 7 with B, got 7 with A: give --revise or revise=True to replace it$",
    ):
        experiment.tell(0, 7)
    assert experiment.tell(0, 7, revise=True).arm == "A"
    assert [arm.mean for arm in experiment.status().arms] == [7, None, None, None]


def test_an_outage_is_skipped_and_the_round_goes_on_after_it():
    experiment = created("ars-ucb", arms="AB", reward_range=(0, 100))
    for slot in range(2):
        experiment.ask(slot)
        experiment.tell(slot, 10)
    assert experiment.ask(2) == ae.live.Decision(2, "A", 2, 5, False)
    experiment.tell(2, 10)
    status = experiment.skip(3, 7)
    assert (status.slots, status.outstanding, status.next) == (
        8,
        0,
        ae.live.Decision(8, "A", 2, 10, False),
    )
    assert experiment.skip(3, 7) == status  # again: nothing changes
    for slot in range(8, 11):
        assert experiment.ask(slot).arm == "A"
        experiment.tell(slot, 10)
    assert [state(experiment).pulls[0], state(experiment).rounds[0]] == [5, 2]
    lines = experiment.history()
    assert [line.slot for line in lines if line.arm is None] == [3, 4, 5, 6, 7]
    assert lines[4] == ae.live.SlotRecord(
        4, None, None, None, False, None, False, False, 0, None, None, None, None, None, None
    )
    with pytest.raises(
        ae.ConflictError, match="slot 4 was skipped, and skipped slots are not decided"
    ):
        experiment.ask(4)
    with pytest.raises(
        ae.ConflictError, match="slot 4 was skipped: say which arm was played in it"
    ):
        experiment.tell(4, 10)
    experiment.tell(4, 70, arm="B")
    assert experiment.history()[4].played == "B"
    assert experiment.verify().whole


def test_gaps_that_cannot_be():
    experiment = created("ars-ucb", horizon=100)
    experiment.ask(0)
    with pytest.raises(
        ae.ConflictError, match=r"the first slot to skip must be the next slot, 1, got 0"
    ):
        experiment.skip(0, 3)
    with pytest.raises(
        ae.ParameterError, match="the last slot to skip must be from 1 to 100000, got 0"
    ):
        experiment.skip(1, 0)
    with pytest.raises(
        ae.ParameterError,
        match="the last slot to skip must be at most 99, where the experiment ends, got 100",
    ):
        experiment.skip(1, 100)
    experiment.skip(1)
    assert experiment.ask().slot == 2
    experiment.end()
    with pytest.raises(ae.ConflictError, match="has ended"):
        experiment.skip(3)


def test_a_missing_total_that_is_found_is_learned():
    experiment = created("ucb1", arms="AB", reward_range=(0, 100))
    experiment.ask(0)
    experiment.ask(1)
    experiment.mark_missing(1)
    experiment.tell(0, 10)
    experiment.ask(2)
    with pytest.raises(
        ae.ConflictError,
        match="slot 1 is missing, got 5: give --revise or revise=True to replace it",
    ):
        experiment.tell(1, 5)
    assert experiment.tell(1, 5, revise=True).change == "revised"
    status = experiment.status()
    assert (status.received, status.missing, status.waiting) == (2, 0, 1)
    assert experiment.verify().whole


# Typing errors


@pytest.mark.parametrize(("slots", "total"), [(25, 20), (150, 100), (2_598, 1_000)])
def test_a_total_far_from_all_before_it_must_be_confirmed(slots, total):
    experiment = created("ucb1")
    rng = np.random.default_rng(1)
    for slot in range(slots):
        experiment.ask(slot)
        experiment.tell(slot, float(rng.uniform(0.2, 0.8)))
    experiment.ask(slots)
    with pytest.raises(
        ae.UnlikelyTotalError,
        match=f"^the total of slot {slots} is unlikely: got {total}",
    ) as caught:
        experiment.tell(slots, total)
    assert caught.value.field == "total"
    assert experiment.status().received == slots
    assert experiment.tell(slots, total, confirm=True).change == "recorded"
    assert experiment.tell(slots, total).change == "unchanged"


@pytest.mark.parametrize(
    "delay",
    [ae.UniformDelay(0, 60), ae.Geometric(0.9), ae.Interval(0, 29), ae.UniformDelay(100, 101)],
)
@pytest.mark.parametrize("mean", [0.02, 0.5, 0.95])
def test_totals_as_they_are_need_no_confirmation(delay, mean):
    """Whole rewards at random lags clump, and come after long silence: none of that is taken for a typing error."""
    rng = np.random.default_rng(int(1_000 * mean))
    slots = 1_500
    totals = np.zeros(slots + 400)
    lags = np.arange(400)
    shares = np.asarray(delay.share(lags))
    for slot in range(slots):
        totals[slot + rng.choice(lags, p=shares / shares.sum())] += rng.random() < mean
    experiment = created("ucb1", arms="AB")
    for slot in range(slots):
        experiment.ask(slot)
        experiment.tell(slot, float(totals[slot]))


# Rows that cannot be


@pytest.mark.parametrize("rows", [[(0,)], ["ab"], [0], [(0, 1, "A", {}, {}, None, 2)], [None]])
def test_rows_that_are_no_totals(rows):
    experiment = created("ucb1")
    experiment.ask(0)
    with pytest.raises(ae.ParameterError, match=r"each row must be a slot and its total, .* got "):
        experiment.tell_many(rows)
    with pytest.raises(ae.ParameterError, match="guardrails of slot 0 must be numbers by name"):
        experiment.tell_many([(0, 1, "A", {}, 2)])
    with pytest.raises(ae.ParameterError, match="totals must be a list, got 'ab'"):
        experiment.tell_many("ab")
    assert experiment.tell_many({0: 1})[0].change == "recorded"


# Snapshots


def test_a_round_that_is_held_for_long_opens_from_a_snapshot(monkeypatch):
    storage = ae.open_storage("memory://")
    experiment = created("ucb1", storage=storage)
    for slot in range(5_000):
        experiment.ask(slot)
        if slot % 2:
            experiment.tell(slot, 0.5)
    before = experiment.status()
    folded = []
    fold = ExperimentState.fold
    monkeypatch.setattr(
        ExperimentState, "fold", lambda self, event: folded.append(event) or fold(self, event)
    )
    assert ae.Experiment.open("shop", storage=storage).status() == before
    assert len(folded) <= 200 + 5_000 // 10
    assert experiment.verify().whole


def test_totals_of_version_0_1_0_name_no_arm():
    """Their arm is the one that was advised."""
    experiment = created("ucb1", arms="AB", reward_range=(0, 100))
    for slot in range(4):
        experiment.ask(slot)
        experiment.tell(slot, 10 * slot)
    with experiment.read_log() as view:
        events = view.events(0, 100)
    head, old = chain_start(experiment.record), []
    for event in events:
        given = {
            name: getattr(event, name)
            for name in ("revision", "round", "arm", "until", "window", "total", "key")
        }
        old.append(
            head.next(
                event.kind, event.slot, **given | ({"arm": None} if event.kind == "total" else {})
            )
        )
        head = Link(old[-1].seq, old[-1].hash)
    folded = ExperimentState(experiment.settings, chain_start(experiment.record)).fold_all(old)
    assert arrays_of(folded.look_ahead().policy_state) == arrays_of(state(experiment))
    assert folded.missing == 0
