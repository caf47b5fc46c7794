"""The rules of rounds: totals that are late, unordered or missing."""

import numpy as np
import pytest

import aftereffect as ae
from asking import SETTINGS, created, refused, state


def test_a_round_waits_and_its_arm_is_held(third_round):
    """Slots 7 to 9 are held. What is recorded of them before the next decision counts in the round; the rest waits for its arm."""
    assert third_round.ask() == ae.live.Decision(7, "A", 3, 7, True)
    assert third_round.ask() == ae.live.Decision(8, "A", 3, 8, True)
    assert third_round.ask() == ae.live.Decision(9, "A", 3, 9, True)
    third_round.tell(7, 20)
    for slot in (6, 4, 5):
        third_round.tell(slot, 10)
    assert third_round.status().rounds == 3
    third_round.tell(3, 100)
    third_round.tell(9, 40)  # the round is complete, and open until the next decision
    assert third_round.status().rounds == 4
    assert [
        state(third_round).pulls[0],
        state(third_round).total[0],
        state(third_round).rounds[0],
    ] == pytest.approx([1 + 6, (80 + 190) / 200, 2])
    assert third_round.ask() == ae.live.Decision(10, "B", 4, 13, False)
    refused(
        third_round,
        ae.ConflictError,
        "slot 9 has the total 40, got 41: give --revise",
        lambda: third_round.tell(9, 41),
    )
    assert third_round.tell(8, 76).change == "recorded"
    assert third_round.tell(8, 77, revise=True).change == "revised"
    status = third_round.status()
    assert (status.received, status.learned, status.waiting, status.outstanding) == (10, 9, 1, 1)
    assert [(line.hold, line.learned) for line in third_round.history(after=6, limit=3)] == [
        (True, True),
        (True, False),
        (True, True),
    ]
    while (slot := third_round.ask()).arm != "A":
        third_round.tell_many((number, 0) for number in range(slot.slot - 1, slot.slot + 1))
    for _ in range(slot.until - slot.slot):
        third_round.ask()
    third_round.tell_many((number, 0) for number in range(slot.slot, slot.until + 1))
    planned = slot.until - slot.slot + 1
    assert [
        state(third_round).pulls[0],
        state(third_round).total[0],
        state(third_round).rounds[0],
    ] == pytest.approx([7 + planned + 1, (270 + 77) / 200, 3])
    assert third_round.verify().whole


def test_a_missing_slot_counts_neither_as_reward_nor_as_play(third_round):
    third_round.tell(3, 50)
    third_round.mark_missing(4)
    third_round.mark_missing(5)
    third_round.tell(6, 70)
    assert [
        state(third_round).pulls[0],
        state(third_round).total[0],
        state(third_round).rounds[0],
    ] == pytest.approx([1 + 2, (80 + 120) / 200, 2])
    status = third_round.status()
    assert (status.received, status.missing) == (7, 2)
    assert status.arms[0].mean == pytest.approx((80 + 120) / 3)


def test_a_round_with_nothing_but_missing_slots_is_planned_again(third_round):
    before = np.array(state(third_round))
    for slot in range(3, 7):
        third_round.mark_missing(slot)
    assert np.array_equal(state(third_round), before)
    assert third_round.ask() == ae.live.Decision(7, "A", 4, 10, False)
    assert third_round.status().rounds == 4
    reopened = ae.Experiment.open("banner", storage=third_round.storage)
    assert reopened.ask() == ae.live.Decision(8, "A", 4, 10, False)
    reopened.ask()
    reopened.ask()
    for slot in range(7, 11):
        reopened.tell(slot, 10)
    assert state(reopened).pulls[0] == 1 + 4
    assert reopened.verify().whole


def test_a_round_that_is_planned_again_is_not_decided_anew():
    """ARS-EXP3 draws and counts its rounds: round k has k slots. The third is lost, with a hold slot, and comes again, once."""
    twins = [
        created(policy="ars-exp3(beta=1)", horizon=500, seed=6, reward_range=(0, 1))
        for _ in range(2)
    ]
    plans = [[], []]
    for which, experiment in enumerate(twins):
        lost = which == 1
        slot = experiment.ask()
        while slot.round < 6:
            for _ in range(slot.until - slot.slot):
                experiment.ask()
            if lost and slot.round == 2:
                assert experiment.ask().hold
                experiment.tell_many(
                    (number, None) for number in (slot.until + 1, *range(slot.slot, slot.until + 1))
                )
                again = experiment.ask()
                assert (again.arm, again.until - again.slot) == (
                    slot.arm,
                    slot.until - slot.slot,
                )
                slot, lost = again, False
                continue
            plans[which].append((slot.arm, slot.until - slot.slot + 1))
            experiment.tell_many((number, 0.5) for number in range(slot.slot, slot.until + 1))
            slot = experiment.ask()
    assert [slots for _, slots in plans[0]] == [1, 2, 3, 4, 5, 6]
    assert plans[1] == plans[0][:5]  # one round of its six was lost


def test_hold_slots_alone_keep_a_round_from_being_empty(third_round):
    third_round.ask()
    third_round.tell(7, 30)
    for slot in range(3, 7):
        third_round.mark_missing(slot)
    assert [state(third_round).pulls[0], state(third_round).total[0]] == pytest.approx(
        [1 + 1, (80 + 30) / 200]
    )


def test_the_last_d_slots_skip_what_is_missing():
    """CLW looks at the last d + 1 = 4 slots that are known, hold slots included, and further back where some are missing."""
    experiment = created(policy="clw(d=3)", horizon=500, seed=8, reward_range=(0, 1))
    first = experiment.ask()
    assert first.until >= 6
    for _ in range(first.until + 1):  # the rest of the round, and a hold slot
        last = experiment.ask().slot
    assert experiment.ask(last).hold
    values = {slot: (slot + 1) / 100 for slot in range(last + 1)}
    gone = [first.until, first.until - 2]
    experiment.tell(last, values[last])
    for slot in range(first.until + 1):
        if slot in gone:
            experiment.mark_missing(slot)
        else:
            experiment.tell(slot, values[slot])
    looked = [last, first.until - 1, first.until - 3, first.until - 4]
    policy = ae.Clw(3)
    expected = policy.initial(3)
    arm = SETTINGS["arms"].index(first.arm)
    policy.kernels().absorb(
        expected, policy.params(3, 500), arm, 4, sum(values[slot] for slot in sorted(looked))
    )
    assert np.array_equal(state(experiment).score, expected.score)


def test_fewer_than_the_last_d_slots_count_by_their_average():
    experiment = created(policy="clw(d=3)", horizon=500, seed=8, reward_range=(0, 1))
    first = experiment.ask()
    for _ in range(first.until):
        experiment.ask()
    experiment.tell_many((slot, 0.25 if slot == 2 else None) for slot in range(first.until + 1))
    policy = ae.Clw(3)
    expected = policy.initial(3)
    policy.kernels().absorb(
        expected, policy.params(3, 500), SETTINGS["arms"].index(first.arm), 4, 4 * 0.25
    )
    assert np.array_equal(state(experiment).score, expected.score)


@pytest.mark.parametrize("late", [1, 7, 50])
@pytest.mark.parametrize(
    "policy", ["ars-ucb", "ucb1", "clw(d=3)", "mini-batch(base=exp3, size=4)", "ars-exp3"]
)
def test_totals_that_always_come_late_close_rounds_all_the_same(late, policy):
    experiment = created(policy=policy, horizon=2_000)
    rounds = []
    for slot in range(1_000):
        experiment.ask(slot)
        if slot >= late:
            experiment.tell(slot - late, 5)
        rounds.append(experiment.status().rounds if slot % 50 == 49 else 0)
    assert all(
        earlier < later for earlier, later in zip(rounds[149::150], rounds[299::150], strict=False)
    )
    assert experiment.verify().whole
