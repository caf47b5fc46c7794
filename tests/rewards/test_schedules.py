"""Rewards that are fixed beforehand: drawn by their seeds, read as values, refused with reasons, and held compactly."""

import math
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import aftereffect as ae


def test_drawn_arms_pay_by_their_shares():
    shares = [0.372, 0.344, 0.284]
    slots = 200_000
    paying = ae.rewards.DrawnArm(shares, seed=3).rows(slots)
    assert paying.shape == (slots,)
    assert paying.dtype == np.int8
    counts = np.bincount(paying, minlength=3)
    assert stats.chisquare(counts, np.array(shares) * slots).pvalue > 1e-5
    pairs = np.bincount(
        3 * paying[:-1].astype(int) + paying[1:], minlength=9
    )  # and one slot says nothing of the next
    assert stats.chisquare(pairs, np.outer(shares, shares).ravel() * (slots - 1)).pvalue > 1e-5


def test_drawn_rewards_pay_by_their_means_and_independently():
    means = np.array([0.9, 0.5, 0.1, 0, 1])
    slots = 100_000
    rows = ae.rewards.DrawnRewards(means, seed=3).rows(slots)
    assert rows.shape == (slots, 5)
    assert rows.dtype == np.uint8
    assert (rows[:, 3] == 0).all()
    assert (rows[:, 4] == 1).all()
    error = np.sqrt(means * (1 - means) / slots)[:3]
    assert (np.abs(rows.mean(axis=0)[:3] - means[:3]) <= 4 * error).all()
    together = np.corrcoef(rows[:, :3].T)[np.triu_indices(3, 1)]
    following = [np.corrcoef(rows[:-1, arm], rows[1:, arm])[0, 1] for arm in range(3)]
    assert np.abs([*together, *following]).max() <= 4 / math.sqrt(slots)


@pytest.mark.parametrize(
    "schedule",
    [ae.rewards.DrawnArm([0.5, 0.2, 0.3], seed=9), ae.rewards.DrawnRewards([0.4, 0.6], seed=9)],
    ids=str,
)
def test_more_slots_begin_with_the_same(schedule):
    longest = schedule.rows(1_000_050).copy()  # more than are drawn at once
    for slots in (1, 7, 999_999, 1_000_000, 1_000_001):
        assert np.array_equal(schedule.rows(slots), longest[:slots])
    assert not np.array_equal(longest[:50], longest[1_000_000:])
    other = replace(schedule, seed=10)
    assert not np.array_equal(other.rows(1_000), longest[:1_000])
    assert np.array_equal(replace(other, seed=9).rows(1_000), longest[:1_000])


def without_lowest_digit(t):
    """A number without its lowest binary digit that is 1, found in its text."""
    head, _, zeros = f"{t:b}".rpartition("1")
    return int(f"{head}0{zeros}", 2)


def test_a_multi_scale_walk_takes_normal_steps_of_all_scales_and_one_arm_is_better():
    slots, arms, best = 50_000, 3, 1
    schedule = ae.rewards.MultiScaleWalk(slots, arms, best=best, seed=3)
    losses = 1 - schedule.rows(slots)
    assert ((losses > 0) & (losses < 1)).all()  # nothing is cut off
    gap = 3 ** (1 / 3) * slots ** (-1 / 3) / (9 * math.log2(slots))
    others = [arm for arm in range(arms) if arm != best]
    np.testing.assert_allclose(losses[:, others] - losses[:, [best]], gap, rtol=0, atol=1e-15)
    walk = np.append(0, losses[:, 0] - 0.5)
    before = np.array([without_lowest_digit(t) for t in range(1, slots + 1)])
    steps = (walk[1:] - walk[before]) * 9 * math.log2(slots)
    assert stats.kstest(steps, "norm").pvalue > 1e-5
    assert abs(np.corrcoef(steps[:-1], steps[1:])[0, 1]) <= 4 / math.sqrt(slots)
    # The variance after t slots is that of one step times the number of its digits that are 1.
    last = [
        ae.rewards.MultiScaleWalk(255, best=0, seed=seed).rows(255)[:, 1] for seed in range(500)
    ]
    variances = np.var(0.5 - np.array(last), axis=0) * (9 * math.log2(255)) ** 2
    for t in (1, 3, 128, 254, 255):
        assert variances[t - 1] == pytest.approx(f"{t:b}".count("1"), rel=4 * math.sqrt(2 / 500))
    drawn = [
        np.argmax(ae.rewards.MultiScaleWalk(9, 3, seed=seed).rows(1)[0]) for seed in range(900)
    ]
    assert stats.chisquare(np.bincount(drawn, minlength=3)).pvalue > 1e-5


def test_a_walk_is_cut_off_at_losses_of_0_and_it_ends():
    walks = [ae.rewards.MultiScaleWalk(2, best=0, seed=seed) for seed in range(9_000)]
    rewards = np.concatenate([walk.rows(2) for walk in walks])
    cut = rewards[:, 0] == 1
    assert cut.sum() > 0
    assert rewards.max() == 1
    np.testing.assert_allclose((rewards[:, 0] - rewards[:, 1])[~cut], walks[0].gap)
    assert ((rewards[:, 0] - rewards[:, 1])[cut] < walks[0].gap).all()
    with pytest.raises(ae.ParameterError, match="at most the 50 slots of multi-scale-walk"):
        ae.simulate("ucb1", ae.AdversarialBandit("multi-scale-walk(50)"), 51)


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (ae.rewards.DrawnArm([0.5, 0.3, 0.2]), "drawn-arm([0.5, 0.3, 0.2], seed=0)"),
        (ae.rewards.DrawnRewards([0.5, 1], 7), "drawn-rewards([0.5, 1], seed=7)"),
        (
            ae.rewards.MultiScaleWalk(1e3, best=1),
            "multi-scale-walk(1000, arms=2, best=1, seed=0)",
        ),
        (ae.HoldBack(10), "hold-back(10, reset_on_round=false)"),
        (ae.HoldBack(10, True), "hold-back(10, reset_on_round=true)"),
        (
            ae.AdversarialBandit(ae.rewards.DrawnArm([0.5, 0.5], 3), ae.HoldBack(4)),
            "adversarial-bandit(drawn-arm([0.5, 0.5], seed=3), delay=hold-back(4, reset_on_round=false))",
        ),
        (
            ae.AdversarialBandit("drawn-rewards([.5, .5])", "uniform-delay(5, 10)"),
            "adversarial-bandit(drawn-rewards([0.5, 0.5], seed=0), delay=uniform-delay(5, 10))",
        ),
    ],
)
def test_spec_strings_and_pickles(thing, text):
    assert str(thing) == text
    assert ae.parse(text) == thing
    again = pickle.loads(pickle.dumps(thing))
    assert again == thing
    assert hash(again) == hash(thing)


def test_recorded_rewards_are_values():
    """A copy of what was given, equal and hashed by content whatever the type of numbers, and picklable."""
    table = np.array([[0.0, 1.0], [0.25, 0.5], [1.0, 0.0]])
    recorded = ae.rewards.Recorded(table)
    label = str(recorded)
    same = ae.rewards.Recorded(table.tolist())
    table[:] = 0
    assert recorded.values.tolist() == [[0, 1], [0.25, 0.5], [1, 0]]
    assert recorded == same
    assert hash(recorded) == hash(same)
    assert recorded != ae.rewards.Recorded(table)
    assert label.startswith("recorded(3 slots of 2 arms, ")
    assert (recorded.arms, recorded.length) == (2, 3)
    assert recorded.rows(2).tolist() == [[0, 1], [0.25, 0.5]]
    for thing in (
        recorded,
        ae.rewards.Recorded([1, 0, 1]),
        ae.AdversarialBandit(recorded, ae.HoldBack(2)),
    ):
        again = pickle.loads(pickle.dumps(thing))
        assert again == thing
        assert hash(again) == hash(thing)
        assert str(again) == str(thing)
    kinds = (bool, np.uint8, np.int64, np.float32, float)
    assert len({ae.rewards.Recorded(np.array([[0, 1], [1, 0]], dtype=kind)) for kind in kinds}) == 1
    assert ae.rewards.Recorded([0, 1, 1]) == ae.rewards.Recorded(
        np.array([0, 1, 1], dtype=np.int16), paying_arms=2
    )
    assert ae.rewards.Recorded([0, 1, 1]) != ae.rewards.Recorded([0, 1, 1], paying_arms=3)
    assert ae.rewards.Recorded([0, 1, 1, 0]) != ae.rewards.Recorded([[0, 1], [1, 0]])
    assert ae.rewards.Recorded([0, 0, 0]).arms == 2
    assert ae.rewards.Recorded([0, 0], paying_arms=5).arms == 5


NO_REWARDS = "rewards must be a table with a row per slot and a column per arm, or the paying arm of each slot, got "


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ae.rewards.Recorded([]), NO_REWARDS + "[]"),
        (lambda: ae.rewards.Recorded([[], []]), NO_REWARDS + "[[], []]"),
        (lambda: ae.rewards.Recorded([[0, 1], [1]]), NO_REWARDS + "[[0, 1], [1]]"),
        (lambda: ae.rewards.Recorded([[[0, 1]]]), NO_REWARDS + "[[[0, 1]]]"),
        (lambda: ae.rewards.Recorded(1), NO_REWARDS + "1"),
        (lambda: ae.rewards.Recorded(None), NO_REWARDS + "None"),
        (lambda: ae.rewards.Recorded([["0", "1"]]), NO_REWARDS + "[['0', '1']]"),
        (lambda: ae.rewards.Recorded(["a", "b"]), NO_REWARDS + "['a', 'b']"),
        (lambda: ae.rewards.Recorded([[1j, 0]]), NO_REWARDS + "[[1j, 0]]"),
        (lambda: ae.rewards.Recorded([[0, math.nan]]), "rewards must be numbers from 0 to 1, got nan"),
        (lambda: ae.rewards.Recorded([[0, 1], [math.inf, 1]]), "rewards must be numbers from 0 to 1, got inf"),
        (lambda: ae.rewards.Recorded([[0.5, -0.1]]), "rewards must be numbers from 0 to 1, got -0.1"),
        (lambda: ae.rewards.Recorded([[0.5, 1.25]]), "rewards must be numbers from 0 to 1, got 1.25"),
        (lambda: ae.rewards.Recorded([[0, 2]]), "rewards must be numbers from 0 to 1, got 2"),
        (lambda: ae.rewards.Recorded([[0], [1]]), "a table of rewards must have at least two columns, one per arm, got 1"),
        (lambda: ae.rewards.Recorded([0.0, 1.0]), "paying arms must be whole numbers from 0 on, got [0.0, 1.0]"),
        (lambda: ae.rewards.Recorded([0, -1]), "paying arms must be whole numbers from 0 on, got [0, -1]"),
        (lambda: ae.rewards.Recorded([0, 1, 2], paying_arms=2), "paying arms must be numbers from 0 to 1, got 2"),
        (lambda: ae.rewards.Recorded([0, 0], paying_arms=1), "paying_arms must be a whole number of at least 2, got 1"),
        (lambda: ae.rewards.Recorded([0, 0], paying_arms=2.5), "paying_arms must be a whole number of at least 2, got 2.5"),
        (lambda: ae.rewards.Recorded([[0, 1]], paying_arms=2),
         "paying_arms can be given only with a list of paying arms, got a table of rewards"),
        (lambda: ae.AdversarialBandit([[0, 7]]), "rewards must be numbers from 0 to 1, got 7"),
        (lambda: ae.rewards.DrawnArm([1]), "shares must be at least two numbers, one per arm, got [1]"),
        (lambda: ae.rewards.DrawnArm([0.5, 0.4]), "shares must sum to 1, got a sum of 0.9: divide each by it"),
        (lambda: ae.rewards.DrawnArm([1.5, -0.5]), "shares[1] must be a number of at least 0, got -0.5"),
        (lambda: ae.rewards.DrawnArm(0.5), "shares must be a list, got 0.5"),
        (lambda: ae.rewards.DrawnArm([0.5, 0.5], seed=-1), "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got -1"),
        (lambda: ae.rewards.MultiScaleWalk(1), "slots must be a whole number from 2 to 62,500,000, got 1"),
        (lambda: ae.rewards.MultiScaleWalk(1e9), "slots must be a whole number from 2 to 62,500,000, got 1000000000"),
        (lambda: ae.rewards.MultiScaleWalk(9, 1), "arms must be a whole number from 2 to 32,767, got 1"),
        (lambda: ae.rewards.MultiScaleWalk(9, best=2), "best must be a whole number from 0 to 1, got 2"),
        (lambda: ae.rewards.DrawnRewards([0.5]), "means must be at least two numbers, one per arm, got 1"),
        (lambda: ae.rewards.DrawnRewards([0.5, 1.5]), "the mean of arm 1 must be a number from 0 to 1, got 1.5"),
        (lambda: ae.rewards.DrawnRewards([0.5, 0.5], 0.5), "seed must be a whole number from 0 to 9,223,372,036,854,775,807, got 0.5"),
        (lambda: ae.HoldBack(0), "d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.HoldBack(-2), "d must be a whole number from 1 to 10,000,000, got -2"),
        (lambda: ae.HoldBack(2.5), "d must be a whole number from 1 to 10,000,000, got 2.5"),
        (lambda: ae.HoldBack("2"), "d must be a whole number from 1 to 10,000,000, got '2'"),
        (lambda: ae.HoldBack(10**8), "d must be a whole number from 1 to 10,000,000, got 100000000"),
        (lambda: ae.parse("hold-back(0)"), "hold-back: d must be a whole number from 1 to 10,000,000, got 0"),
        (lambda: ae.AdversarialBandit([[0, 1]], ae.PerArm(["immediate"] * 3)),
         "per-arm needs a delay for each of the 2 arms, got 3"),
        (lambda: ae.simulate("exp3", ae.AdversarialBandit([[0, 1]] * 1_500, ae.HoldBack(2)), 1_501, 1),
         "horizon must be at most the 1,500 slots of recorded(1500 slots of 2 arms, bb03ab0223db), got 1,501"),
        (lambda: ae.StochasticBandit([0.5, 0.4], ae.HoldBack(3)),
         "hold-back(3, reset_on_round=false) depends on the play: use it with an AdversarialBandit"),
        (lambda: ae.simulate("exp3", ae.AdversarialBandit([0, 2, 1]), 2, 1),
         "horizon must be at least the number of arms, 3, got 2"),
    ],
)  # fmt: skip
def test_bad_rewards_and_delays(make, message):
    with pytest.raises(ae.ParameterError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ae.AdversarialBandit([[0, 1]], "hold-bak(3)"),
            "unknown delay 'hold-bak': did you mean 'hold-back'?",
        ),
        (
            lambda: ae.AdversarialBandit("drawn-arms([.5, .5])"),
            "unknown schedule 'drawn-arms': did you mean 'drawn-arm'?",
        ),
        (
            lambda: ae.AdversarialBandit([[0, 1]], "exp3"),
            "expected a delay, got the policy 'exp3'",
        ),
        (lambda: ae.AdversarialBandit([[0, 1]], 3), "expected a delay, got 3"),
        (
            lambda: ae.PerArm([ae.HoldBack(3), ae.Immediate()]),
            "the delay 'hold-back' cannot be used here",
        ),
        (lambda: ae.parse("recorded([0, 1])"), "unknown name 'recorded'"),
    ],
)
def test_other_things_in_place_of_rewards_and_delays(make, message):
    with pytest.raises(ae.SpecError) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def held_bytes(thing):
    """The bytes of all arrays in a tuple of tuples."""
    if isinstance(thing, np.ndarray):
        return (thing if thing.base is None else thing.base).nbytes
    return sum(map(held_bytes, thing)) if isinstance(thing, tuple) else 0


def test_ten_million_slots_of_twelve_arms_are_held_compactly():
    schedule = ae.rewards.DrawnArm(np.full(12, 1 / 12), seed=2)
    tracemalloc.start()
    engine = ae.AdversarialBandit(schedule, ae.HoldBack(20)).engine("roundwise", 10_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 10_000_000 <= held_bytes(engine.world) < 30_000_000
    assert peak < 150_000_000
    assert math.prod(engine.memory) < 100


@pytest.mark.parametrize("rewards", [np.zeros((2, 2, 2)), np.full(100, 0.5)], ids=["deep", "long"])
def test_refusals_of_arrays_are_one_line(rewards):
    with pytest.raises(ae.ParameterError) as refusal:
        ae.rewards.Recorded(rewards)
    assert "\n" not in str(refusal.value)


def test_schedules_cannot_be_changed_through_what_they_give():
    for rows in (
        ae.rewards.DrawnArm([0.5, 0.3, 0.2], 1).paying(8),
        ae.rewards.DrawnRewards([0.5, 0.3]).rows(8),
        ae.rewards.Recorded([[0, 1]]).values,
    ):
        with pytest.raises(ValueError, match="read-only"):
            rows[:] = 0
