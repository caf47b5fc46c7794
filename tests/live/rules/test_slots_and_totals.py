"""The rules of asking and telling: what is answered again, what is a conflict, what a total can be; nothing is recorded of what is refused."""

import numpy as np
import pytest

import aftereffect as ae
from asking import created, events, refused, state


def test_slots_are_decided_one_after_the_other_and_answered_again(banner):
    first = banner.ask()
    assert first == ae.live.Decision(slot=0, arm="A", round=0, until=0, hold=False)
    assert banner.ask(0) == first
    banner.tell(0, 5)
    second = banner.ask(slot=1)
    assert (second.slot, second.arm) == (1, "B")
    assert banner.ask(0) == first
    assert [event.kind for event in events(banner)] == ["decision", "total", "decision"]


def test_a_slot_beyond_the_next_is_not_decided(banner):
    banner.ask()
    refused(
        banner,
        ae.ConflictError,
        "slot 2 cannot be decided yet: the next slot is 1; skip slot 1 if",
        lambda: banner.ask(2),
    )
    why = "slot 9 cannot be decided yet: the next slot is 1; skip slots 1 to 8 if"
    refused(banner, ae.ConflictError, why, lambda: banner.ask(9))


@pytest.mark.parametrize("slot", [2**40, 2**63, 10**30])
def test_a_slot_far_beyond(connect, slot):
    for experiment in (created(storage=connect()), created(storage=connect())):
        with pytest.raises(
            ae.ConflictError, match=f"slot {slot} cannot be decided yet: the next slot is 0"
        ):
            experiment.ask(slot)
        with pytest.raises(ae.ConflictError, match=f"slot {slot} is not decided yet"):
            experiment.tell(slot, 1)
        assert experiment.history(after=slot) == []


@pytest.mark.parametrize(
    ("slot", "message"),
    [
        (-1, "slot must be a whole number of at least 0, got -1"),
        (1.5, "slot must be a whole number of at least 0, got 1.5"),
        (
            "2026-03-02T00:00",
            "the slots of this experiment have numbers and no times, as it was created without "
            "slot: expected a whole number, got 2026-03-02T00:00",
        ),
        (True, "slot must be a whole number of at least 0, got True"),
    ],
)
def test_numbers_of_slots(banner, slot, message):
    banner.ask()
    refused(banner, ae.ParameterError, message, lambda: banner.ask(slot))
    refused(banner, ae.ParameterError, message, lambda: banner.tell(slot, 1))
    refused(banner, ae.ParameterError, message, lambda: banner.mark_missing(slot))


def test_the_same_key_gives_the_same_slot(connect):
    one, two = created(storage=connect()), created(storage=connect())
    first = one.ask(key="monday")
    assert one.ask(key="monday") == two.ask(key="monday") == first
    assert two.ask(key="tuesday").slot == 1
    assert one.ask(0) == first
    assert one.find_or_decide(key="tuesday") == (two.ask(1), False)
    assert one.status().slots == 2
    assert one.verify().whole


@pytest.mark.parametrize("key", ["", "x" * 201, "é", "a\nb", 7])
def test_keys_that_cannot_be(banner, key):
    with pytest.raises(
        ae.ParameterError, match="a key must be 1 to 200 printable ASCII characters, got "
    ):
        banner.ask(key=key)
    refused(
        banner,
        ae.ParameterError,
        "not with both",
        lambda: banner.ask(0, key="a"),
    )


def test_the_same_total_again_changes_nothing(third_round):
    assert third_round.tell(3, 7) == ae.live.TotalRecord(3, 7.0, "recorded", "A")
    before = events(third_round)
    assert third_round.tell(3, 7) == ae.live.TotalRecord(3, 7.0, "unchanged", "A")
    assert third_round.tell(3, np.int64(7)).change == "unchanged"
    assert third_round.tell(0, 80).change == "unchanged"  # of a closed round
    assert events(third_round) == before


def test_another_total_is_a_conflict(third_round):
    third_round.tell(3, 7)
    refused(
        third_round,
        ae.ConflictError,
        "slot 3 has the total 7, got 8.5: give --revise",
        lambda: third_round.tell(3, 8.5),
    )
    refused(
        third_round,
        ae.ConflictError,
        "slot 3 has the total 7, got missing: give --revise",
        lambda: third_round.mark_missing(3),
    )
    third_round.mark_missing(4)
    refused(
        third_round,
        ae.ConflictError,
        "slot 4 is missing, got 0: give --revise",
        lambda: third_round.tell(4, 0),
    )


def test_a_revision_while_the_round_is_open(third_round):
    third_round.tell(3, 7)
    assert third_round.tell(3, 8, revise=True) == ae.live.TotalRecord(3, 8.0, "revised", "A")
    assert third_round.mark_missing(3, revise=True) == ae.live.TotalRecord(3, None, "revised", "A")
    assert third_round.status().missing == 1
    assert third_round.tell(3, 9, revise=True).change == "revised"
    assert third_round.tell(3, 9, revise=True).change == "unchanged"
    assert third_round.tell(4, 1, revise=True).change == "recorded"
    status = third_round.status()
    assert (status.received, status.missing, status.awaited) == (5, 0, (5, 6))
    assert [
        (e.slot, e.revision, e.total)
        for e in events(third_round)
        if e.slot == 3 and e.kind == "total"
    ] == [
        (3, 0, 7.0),
        (3, 1, 8.0),
        (3, 2, None),
        (3, 3, 9.0),
    ]
    for slot in (5, 6):
        third_round.tell(slot, 0)
    assert [array[0] for array in state(third_round)[:3]] == [1 + 4, (80 + 9 + 1) / 200, 2]
    line = third_round.history(after=2, limit=1)[0]
    assert (line.total, line.revisions) == (9.0, 3)
    assert third_round.verify().whole


def test_a_decision_stands_though_its_total_is_replaced(banner):
    banner.ask()
    banner.tell(0, 6)
    assert (
        banner.tell(0, 7, revise=True).change == "revised"
    )  # its round is complete, but nothing was decided since
    decided = banner.ask()
    for got, call in (
        ("8", lambda: banner.tell(0, 8)),
        ("missing", lambda: banner.mark_missing(0)),
    ):
        message = f"slot 0 has the total 7, got {got}: give --revise or revise=True to replace it"
        refused(banner, ae.ConflictError, message, call)
    assert banner.tell(0, 8, revise=True) == ae.live.TotalRecord(0, 8.0, "revised", "A")
    assert banner.ask(1) == decided
    versions = [e for e in events(banner) if e.slot == 0 and e.kind == "total"]
    assert [(e.revision, e.total, e.until) for e in versions] == [
        (0, 6, None),
        (1, 7, None),
        (2, 8, 0),
    ]
    assert all(e.at for e in versions)
    assert banner.status().learned == 1
    assert banner.verify().whole


def test_many_at_once_are_all_recorded_or_none(third_round):
    before = events(third_round)
    with pytest.raises(ae.ConflictError, match="slot 9 is not decided yet"):
        third_round.tell_many([(3, 1), (4, None), (9, 2)])
    assert events(third_round) == before
    assert third_round.status().awaited == (3, 4, 5, 6)
    answers = third_round.tell_many([(6, 4), (4, None), (3, 1), (5, 3)])
    assert [answer.change for answer in answers] == ["recorded"] * 4
    assert third_round.status().rounds == 4
    assert third_round.tell_many([]) == []


def test_totals_may_come_from_something_that_looks_at_the_experiment():
    """Exp3 draws when it looks ahead; nothing of that may get into what is recorded."""
    experiment = created(policy="exp3", horizon=1_000, seed=1)
    experiment.ask()

    def slowly():
        yield 0, 5
        experiment.status()

    experiment.tell_many(slowly())
    assert experiment.verify().whole


def test_none_is_no_total(third_round):
    message = "tell needs a number for slot 3, got None: if the total is lost, call mark_missing(3)"
    refused(third_round, ae.ParameterError, message, lambda: third_round.tell(3, None))


@pytest.mark.parametrize(
    ("total", "message"),
    [
        (float("nan"), "the total of slot 3 must be a number, got nan"),
        (float("inf"), "the total of slot 3 must be a number, got inf"),
        (-float("inf"), "the total of slot 3 must be a number, got -inf"),
        ("37", "the total of slot 3 must be a number, got '37'"),
        (True, "the total of slot 3 must be a number, got True"),
        (1j, "the total of slot 3 must be a number, got 1j"),
        (
            -0.5,
            "the total of slot 3 must be at least 0, the lower end of the reward range, got -0.5",
        ),
        (
            800.5,
            "the total of slot 3 must be at most 800, the largest reward of the 4 pulls so far, got 800.5",
        ),
    ],
)
def test_a_total_that_cannot_be(third_round, total, message):
    refused(third_round, ae.ParameterError, message, lambda: third_round.tell(3, total))
    refused(
        third_round, ae.ParameterError, message, lambda: third_round.tell(3, total, revise=True)
    )


def test_several_plays_may_land_in_one_slot(third_round):
    assert third_round.tell(3, 800).total == 800
    assert third_round.tell(4, 0).total == 0
    assert third_round.tell(5, -0.0).total == 0


def test_a_total_above_max_total():
    experiment = created(max_total=300)
    for slot in range(3):
        experiment.ask()
        if slot < 2:
            experiment.tell(slot, 1)
    message = "the total of slot 2 must be at most 300, the max_total, got 301"
    refused(experiment, ae.ParameterError, message, lambda: experiment.tell(2, 301))
    assert experiment.tell(2, 300).change == "recorded"


def test_a_slot_that_was_never_asked_for(banner):
    banner.ask()
    message = "slot 1 is not decided yet: the next slot is 1"
    refused(banner, ae.ConflictError, message, lambda: banner.tell(1, 5))
    refused(banner, ae.ConflictError, message, lambda: banner.mark_missing(1))


def test_a_range_that_begins_below_zero():
    experiment = created(reward_range=(-100, 100))
    experiment.ask()
    experiment.tell(0, -100)
    assert state(experiment).total[0] == 0
    experiment.ask()
    experiment.tell(1, 100)
    assert state(experiment).total[1] == 1
    assert experiment.status().arms[0].mean == -100


def test_a_range_of_losses():
    experiment = created(reward_range=(-10, 0))
    experiment.ask()
    refused(
        experiment,
        ae.ParameterError,
        "the total of slot 0 must be at most 0, the largest reward of one pull, got 1",
        lambda: experiment.tell(0, 1),
    )
    assert experiment.tell(0, -3).change == "recorded"
    always = created(reward_range=(-10, -5))
    always.ask()
    assert always.tell(0, -1).change == "recorded"  # of a play that brings less than -5, a part


def test_zero_has_no_sign(connect):
    experiment = created(storage=connect())
    experiment.ask()
    assert experiment.tell(0, -0.0).change == "recorded"
    assert experiment.tell(0, 0).change == "unchanged"
    assert created(storage=connect()).verify().whole
