"""One policy, one list of arms, one range and one horizon for life: settings, refusals of them, and the end."""

import pytest

import aftereffect as ae
from aftereffect._core.kernels import PolicyKernels
from asking import created, refused


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
            "exp3(form=gain) needs to know the number of slots in advance: give horizon",
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
