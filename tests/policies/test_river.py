"""Policies of this package as policies of river, beside river's own."""

import numpy as np
import pytest
from river import bandit

import aftereffect as ae
import samples
from aftereffect.gym import AftereffectEnv
from aftereffect.policies import round_kernels
from aftereffect.river import RiverPolicy


def test_evaluate_runs_ours_and_theirs_side_by_side():
    env = AftereffectEnv("stochastic-bandit([0.9, 0.1], delay=interval(3, 6))", horizon=400)
    policies = [
        RiverPolicy("settle-ucb(hold=40)", horizon=400, seed=1),
        RiverPolicy("ars-ucb(alpha=1)", horizon=400, seed=1),
        RiverPolicy("round-robin", horizon=400, seed=1),
        bandit.EpsilonGreedy(epsilon=0.1, seed=1),
    ]
    steps = list(bandit.evaluate(policies, env, n_episodes=2, seed=1))
    assert len(steps) == 4 * 2 * 400
    last = [step["reward_stat"] for step in steps if step["step"] == 399]
    by_policy = np.array(last).reshape(2, 4).mean(axis=0)
    # Half of the slots on each arm bring 0.5 per slot, and the last few rewards do not arrive.
    assert abs(by_policy[2] - 0.5 * 400) < 4 * np.sqrt(2 * 0.09 * 400)
    assert by_policy[0] > by_policy[2]


@pytest.mark.parametrize(
    "name", ["ucb1", "ars-ucb", "settle-ucb", "ars-exp3", "exp3", "mini-batch(ucb1, size=7)"]
)
def test_it_plays_what_its_kernels_decide(name):
    """The same totals by the loop of the driver, written out."""
    policy, slots = ae.parse(name, ae.Policy), 300
    totals = np.random.default_rng(2).random((2, slots))
    ours, arms = RiverPolicy(policy, horizon=slots, seed=7), []
    for slot in range(slots):
        arms.append(ours.pull(["A", "B"]))
        ours.update(arms[-1], totals["AB".index(arms[-1]), slot])
    kernels, params, state = round_kernels(policy), policy.params(2, slots), policy.initial(2)
    rng, expected = np.random.default_rng(7), []
    while len(expected) < slots:
        arm, length, window = kernels.decide(state, params, len(expected), rng)
        begin, end = len(expected), len(expected) + length
        expected += [arm] * length
        if end <= slots:
            kernels.absorb(
                state, params, arm, window, float(sum(totals[arm, max(end - window, begin) : end]))
            )
    assert arms == ["AB"[arm] for arm in expected[:slots]]


def test_a_policy_that_looks_at_every_slot_learns():
    policy = RiverPolicy(
        "fixed-switchback(block=12, blocks_per_arm=4, slots_per_day=24)", 300, seed=1
    )
    rng, arms = np.random.default_rng(1), []
    for _ in range(300):
        arms.append(policy.pull([0, 1]))
        policy.update(arms[-1], (100 + 30 * arms[-1]) * np.exp(rng.normal(0, 0.02)))
    assert {0, 1} == set(arms[:96])
    assert set(arms[120:]) == {1}


@pytest.mark.parametrize("policy", samples.POLICIES, ids=str)
def test_every_policy_can_be_cloned_and_pulled(policy):
    known = policy.with_delay_facts(ae.Interval(3, 6).facts(3))
    copy = RiverPolicy(known, horizon=1_000, seed=3).clone()
    assert copy.policy == known
    for _ in range(50):
        arm = copy.pull(range(3))
        copy.update(arm, 0.5)
    assert sum(copy._counts.values()) == 50


def test_pulled_twice_it_is_the_same_slot():
    policy = RiverPolicy("exp3", horizon=100, seed=1)
    assert len({policy.pull([0, 1, 2]) for _ in range(30)}) == 1


def test_misuse_is_refused():
    policy = RiverPolicy("round-robin", horizon=1, seed=1)
    with pytest.raises(ae.ParameterError, match="must follow pull"):
        policy.update(0, 1.0)
    arm = policy.pull([0, 1])
    with pytest.raises(ae.ParameterError, match="with its arm, got 1"):
        policy.update(1, 1.0)
    policy.update(arm, 1.0)
    with pytest.raises(ae.ParameterError, match="horizon of 1 slots is over"):
        policy.pull([0, 1])
    with pytest.raises(ae.ParameterError, match="must stay the same"):
        policy.pull([0, 1, 2])
