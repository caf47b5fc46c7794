"""The rules of live experiments, one by one; each refusal with its message, and that nothing was recorded."""

import re

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core.kernels import PolicyKernels

SETTINGS = {"arms": ["A", "B", "C"], "policy": "ars-ucb", "reward_range": (0, 200)}


def created(name="banner", storage="memory://", **settings):
    return ae.Experiment.create(name, **(SETTINGS | settings), storage=storage)


def events(experiment):
    with experiment.storage.reading(1) as view:
        return view.events(0, 10**6)


def state(experiment):
    """What the policy knows when the next slot is decided."""
    with experiment._log.reading() as (_, state):
        return state.look_ahead().policy_state


@pytest.fixture
def banner():
    return created()


@pytest.fixture
def third_round():
    """Three arms had a round of one slot; the fourth round is planned for slots 3 to 6, and all of them are decided."""
    experiment = created()
    for slot in range(3):
        experiment.ask()
        experiment.tell(slot, 80 - 40 * slot)
    for slot in range(3, 7):
        assert experiment.ask() == ae.live.Decision(slot, "A", 3, 6, False)
    return experiment


def refused(experiment, error, message, call):
    """It is refused with that message, and the log is as it was."""
    before = events(experiment)
    with pytest.raises(error, match=re.escape(message)):
        call()
    assert events(experiment) == before
    assert experiment.verify().whole


# 1. asking


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


def test_a_policy_that_plays_one_arm_to_the_end_is_refused_before_anything_is_recorded(connect):
    storage = connect()
    message = r"^settle-ucb\(.*hold=120\) plays one arm for all 42 slots of the horizon"
    with pytest.raises(ae.ParameterError, match=message):
        created(policy="settle-ucb", horizon=42, storage=storage)
    with pytest.raises(ae.ParameterError, match="plays one arm for all 100 slots"):
        created(policy="generalized-odaaf(d=9e15)", horizon=100, storage=storage)
    assert storage.names() == []


def test_how_long_one_arm_is_played_alone_is_said_at_once():
    experiment = created(policy="settle-ucb", horizon=200)
    assert experiment.status().notes == (
        "at least the first 120 slots go to one arm (60% of the horizon)",
    )
    assert "note: at least the first 120 slots go to one arm" in str(experiment.status())
    assert created(policy="settle-ucb").status().notes == (
        "at least the first 120 slots go to one arm",
    )
    assert created(policy="ars-ucb").status().notes == ()


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


# 2. telling


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
        "slot 3 has the total 7, got 8.5: pass revise",
        lambda: third_round.tell(3, 8.5),
    )
    refused(
        third_round,
        ae.ConflictError,
        "slot 3 has the total 7, got missing: pass revise",
        lambda: third_round.mark_missing(3),
    )
    third_round.mark_missing(4)
    refused(
        third_round,
        ae.ConflictError,
        "slot 4 is missing, got 0: pass revise",
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
        message = f"slot 0 has the total 7, got {got}: pass revise to replace it"
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


def test_an_interrupt_while_looking_ahead_leaves_nothing_behind(monkeypatch):
    experiment = created(policy="exp3", horizon=1_000, seed=1)
    for slot in range(5):
        experiment.ask()
        experiment.tell(slot, slot)
    with experiment._log.reading() as (_, state):
        kernels = state.kernels

    def interrupted(*given):
        kernels.decide(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(state, "kernels", kernels._replace(decide=interrupted))
        with pytest.raises(KeyboardInterrupt):
            experiment.status()
    for slot in range(5, 20):
        experiment.ask()
        experiment.tell(slot, slot)
    checked = experiment.verify()
    assert checked.whole
    assert checked.difference is None


def test_none_is_no_total(third_round):
    message = "tell needs a number for slot 3, got None: if the total is lost, call mark_missing(3)"
    refused(third_round, ae.ParameterError, message, lambda: third_round.tell(3, None))


# 3. late, unordered, missing


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
        "slot 9 has the total 40, got 41: pass revise",
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


# 4. what a total can be


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


# 6. randomness: see test_live_policies


# 7. one policy, one list of arms, one range, one horizon, for life


def test_created_again_with_the_same_settings_it_is_opened(connect):
    first = created(storage=connect(), seed=4)
    first.ask()
    for again in (created(storage=connect(), seed=4), created(storage=connect())):
        assert again.ask(0) == first.ask(0)
        assert again.settings == first.settings
    assert connect().names() == ["banner"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"arms": ["A", "B"]}, "arms is ('A', 'B', 'C'), got ('A', 'B')"),
        ({"policy": "ucb1"}, "policy is ars-ucb(alpha=4, growth=power(2)), got ucb1"),
        ({"reward_range": (0, 100)}, "reward_range is (0.0, 200.0), got (0.0, 100.0)"),
        ({"horizon": 10}, "horizon is None, got 10"),
        ({"seed": 5}, "seed is 4, got 5"),
        (
            {"max_total": 500, "horizon": 9},
            "max_total is None, got 500.0; horizon is None, got 9",
        ),
    ],
)
def test_created_again_with_other_settings_it_is_a_conflict(other, message):
    storage = ae.open_storage("memory://")
    first = created(storage=storage, seed=4)
    refused(
        first,
        ae.ConflictError,
        f"experiment 'banner' already exists with other settings ({message})",
        lambda: created(storage=storage, **other),
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"name": ""},
            "an experiment's name must be 1 to 100 letters, digits, '-', '_' or '.', got ''",
        ),
        (
            {"name": "a b"},
            "an experiment's name must be 1 to 100 letters, digits, '-', '_' or '.', got 'a b'",
        ),
        (
            {"name": "x" * 101},
            "an experiment's name must be 1 to 100 letters, digits, '-', '_' or '.', got ",
        ),
        (
            {"name": "é"},
            "an experiment's name must be 1 to 100 letters, digits, '-', '_' or '.', got 'é'",
        ),
        (
            {"name": 3},
            "an experiment's name must be 1 to 100 letters, digits, '-', '_' or '.', got 3",
        ),
        (
            {"name": "a\n"},
            "an experiment's name must be 1 to 100 letters, digits, '-', '_' or '.', got 'a\\n'",
        ),
        ({"arms": ["A"]}, "arms must be 2 to 10,000 names, got 1"),
        ({"arms": "AB"}, "arms must be a list, got 'AB'"),
        ({"arms": ["A", "A"]}, "arms must have different names, got 'A' twice"),
        ({"arms": ["\u00e9", "e\u0301"]}, "arms must have different names, got '\u00e9' twice"),
        ({"name": "."}, "an experiment cannot be named '.': add a letter"),
        ({"name": ".."}, "an experiment cannot be named '..': add a letter"),
        (
            {"arms": ["A", ""]},
            "an arm's name must be 1 to 100 printable characters without spaces around them, got ''",
        ),
        (
            {"arms": ["A", " B"]},
            "an arm's name must be 1 to 100 printable characters without spaces around them, got ' B'",
        ),
        (
            {"arms": ["A", 2]},
            "an arm's name must be 1 to 100 printable characters without spaces around them, got 2",
        ),
        (
            {"reward_range": (0,)},
            "reward_range must be two numbers, the least and the most that one pull can bring, got 1",
        ),
        (
            {"reward_range": (5, 5)},
            "the upper end of reward_range must be a number above 5 and of at most 1e+100, got 5",
        ),
        (
            {"reward_range": (0, float("inf"))},
            "the upper end of reward_range must be a number above 0 and of at most 1e+100, got inf",
        ),
        (
            {"reward_range": (-1e308, 1e308)},
            "the lower end of reward_range must be a number from -1e+100 to 1e+100, got -1e+308",
        ),
        (
            {"reward_range": (0, 5e-324)},
            "the ends of reward_range must be at least 1e-100 apart, got 0.0 and 5e-324",
        ),
        ({"max_total": 0}, "max_total must be a number above 0, got 0"),
        ({"horizon": 2}, "horizon must be a whole number from 3 to 1,099,511,627,776, got 2"),
        ({"seed": -1}, "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got -1"),
        ({"policy": "ars-ucp"}, "unknown policy 'ars-ucp': did you mean 'ars-ucb'?"),
        (
            {"policy": "exp3"},
            "exp3(form=gain) needs to know the number of slots in advance: pass horizon=",
        ),
        (
            {"policy": "clw", "horizon": 9},
            "clw needs d",
        ),
        (
            {"policy": "odaaf", "horizon": 9},
            "odaaf(variant=mean) needs mean_lag",
        ),
        (
            {"policy": ae.ArsUcb(growth=lambda k: k)},
            "growth=callable:<lambda>) cannot be used live",
        ),
    ],
)
def test_settings_that_cannot_be(settings, message):
    storage = ae.open_storage("memory://")
    with pytest.raises(ae.AftereffectError) as caught:
        created(**({"storage": storage} | settings))
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert storage.names() == []


def test_a_policy_that_is_not_registered_cannot_play_live():
    class Mine(ae.Policy):
        def kernels(self):
            return PolicyKernels(None, None)

        def initial(self, arms):
            return ae.RoundRobin().initial(arms)

        def __str__(self):
            return "mine"

    with pytest.raises(ae.ParameterError, match="mine cannot be used live"):
        created(policy=Mine())


def test_there_is_no_such_experiment():
    storage = ae.open_storage("memory://")
    created("banner", storage=storage)
    with pytest.raises(
        ae.NotFoundError,
        match=r"^there is no experiment 'baner' in memory://: did you mean 'banner'\?$",
    ):
        ae.Experiment.open("baner", storage=storage)
    with pytest.raises(ae.ParameterError, match="an experiment's name must be"):
        ae.Experiment.open("not a name", storage=storage)
    with pytest.raises(ae.NotFoundError, match=r"in memory://: known: none$"):
        ae.Experiment.open("banner", storage="memory://")


def test_nothing_happens_after_the_end(third_round):
    third_round.tell(3, 1)
    final = third_round.end()
    assert final.ended
    assert final.next is None
    assert third_round.end() == final
    refused(
        third_round,
        ae.ConflictError,
        "experiment 'banner' has ended: no more slots are decided",
        third_round.ask,
    )
    refused(
        third_round,
        ae.ConflictError,
        "experiment 'banner' has ended: nothing more is recorded",
        lambda: third_round.tell(4, 1),
    )
    refused(
        third_round,
        ae.ConflictError,
        "experiment 'banner' has ended: nothing more is recorded",
        lambda: third_round.mark_missing(4),
    )
    refused(
        third_round,
        ae.ConflictError,
        "experiment 'banner' has ended: nothing more is recorded",
        lambda: third_round.tell(3, 2, revise=True),
    )
    assert third_round.tell(3, 1).change == "unchanged"
    assert third_round.ask(3).arm == "A"
    assert ae.Experiment.open("banner", storage=third_round.storage).status() == final


def test_a_horizon_ends_it():
    """Rounds of one slot for each arm, and then one of four that the horizon cuts after two."""
    experiment = created(horizon=5)
    for slot in range(5):
        assert experiment.ask().until == (slot if slot < 3 else 4)
        experiment.tell(slot, 1)
    message = "experiment 'banner' has decided all 5 slots of its horizon: end it"
    refused(experiment, ae.ConflictError, message, experiment.ask)
    refused(experiment, ae.ConflictError, message, lambda: experiment.ask(5))
    assert experiment.status().next is None
    assert "all 5 slots are decided: end it" in str(experiment.status())


# the rest


def test_two_who_hold_the_same_experiment_see_each_other(connect):
    one, two = created(storage=connect()), created(storage=connect())
    assert one.ask().slot == 0
    assert two.ask(0) == one.ask(0)
    two.tell(0, 5)
    assert one.ask().slot == 1
    assert two.ask().slot == 2
    assert one.tell(0, 5).change == "unchanged"
    with pytest.raises(ae.ConflictError):
        one.tell(0, 6)
    assert one.status() == two.status()
    one.tell_many([(1, 1), (2, 1)])
    assert two.status().slots == one.status().slots == 3
    assert one.ask(3) == two.ask(3)  # the second knew nothing of it when it asked
    assert two.status().slots == 4


def test_long_logs_are_read_in_pieces(monkeypatch):
    from aftereffect.live import _reading as reading

    experiment = created()
    for slot in range(40):
        experiment.ask()
        experiment.tell(slot, slot)
    status, history = experiment.status(), experiment.history()
    monkeypatch.setattr(reading, "_PIECE", 7)
    monkeypatch.setattr(reading, "_SLOTS", 3)
    experiment.storage._find(1).visible = 80, None
    again = ae.Experiment.open("banner", storage=experiment.storage)
    assert again.status() == status
    assert again.history() == history
    assert [line.slot for line in again.history(after=4, limit=5)] == [5, 6, 7, 8, 9]
    assert again.history(after=38, limit=5) == history[39:]
    assert again.verify()[:4] == ("banner", 80, 40, status.rounds)


def test_zero_has_no_sign(connect):
    experiment = created(storage=connect())
    experiment.ask()
    assert experiment.tell(0, -0.0).change == "recorded"
    assert experiment.tell(0, 0).change == "unchanged"
    assert created(storage=connect()).verify().whole


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    from aftereffect.live import events as log

    times = iter([f"20{year}-01-01T00:00:00+00:00" for year in (30, 20, 99, 10) * 20])
    monkeypatch.setattr(log, "now", lambda: next(times))
    experiment = created(seed=1)
    for slot in range(10):
        experiment.ask()
        experiment.tell(slot, slot)
    assert experiment.verify().whole
    monkeypatch.undo()
    other = created(seed=1)
    for slot in range(10):
        assert other.ask() == experiment.ask(slot)
        other.tell(slot, slot)


def test_a_snapshot_only_saves_time():
    """Taken by another version, or not there, the log alone gives the same."""
    storage = ae.open_storage("memory://")
    experiment = created(storage=storage, seed=3)
    for slot in range(40):
        experiment.ask()
        experiment.tell(slot, slot % 7)
    status = experiment.status()
    stored = storage._find(1)
    count, saved = stored.visible
    strange = saved._replace(text=saved.text.replace('"missing": ', '"missing": 9'))
    for snapshot in (saved, None, of_version(saved, "0.0.9"), of_version(strange, "0.0.9")):
        stored.visible = count, snapshot
        assert ae.Experiment.open("banner", storage=storage).status() == status
        assert experiment.verify().whole


def of_version(snapshot, version):
    from aftereffect.live.events import fingerprint

    text = snapshot.text.replace(f'"version": "{ae.__version__}"', f'"version": "{version}"')
    assert text != snapshot.text
    return type(snapshot)(text, fingerprint(text))


def test_decisions_of_another_version_are_not_damage(monkeypatch):
    """Where today's code would decide otherwise, what was decided stands, and verify says from where on."""
    from aftereffect.live import events as log

    storage = ae.open_storage("memory://")
    with monkeypatch.context() as patch:
        patch.setattr(log, "__version__", "0.0.7")
        patch.setattr(ae.ArsUcb, "kernels", lambda self: ae.Ucb1().kernels())
        patch.setattr(ae.ArsUcb, "initial", lambda self, arms: ae.Ucb1().initial(arms))
        old = created(storage=storage)
        for slot in range(12):
            old.ask()
            old.tell(slot, slot)
        storage._find(1).visible = 24, None
    experiment = ae.Experiment.open("banner", storage=storage)
    checked = experiment.verify()
    assert checked.whole
    assert checked.difference == (3, "0.0.7")
    assert str(checked) == (
        "banner: whole, 24 events, 12 slots, 12 rounds; version 0.0.7 decided, "
        f"and this version, {ae.__version__}, would differ from slot 3 on"
    )
    assert [line.round for line in experiment.history()] == list(range(12))
    assert [line.arm for line in experiment.history()] == [
        decided.arm for decided in map(old.ask, range(12))
    ]
    assert experiment.ask().slot == 12
    assert experiment.tell(12, 1).change == "recorded"


def test_threads_may_share_an_experiment(connect):
    from concurrent.futures import ThreadPoolExecutor

    experiment = created(storage=connect())

    def pairs(_):
        numbers = []
        for _ in range(10):
            slot = experiment.ask()
            experiment.tell(slot.slot, 1)
            numbers.append(slot.slot)
        return numbers

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for part in pool.map(pairs, range(4)) for number in part]
    assert sorted(numbers) == list(range(40))
    assert experiment.status().received == 40
    assert experiment.verify().whole
