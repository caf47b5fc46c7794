"""Live, every policy decides as in a simulation."""

import subprocess
import sys

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect._core import POLICY, seed_sequence
from aftereffect._core.spec import list_registered
from aftereffect.delays import ARM, TOTAL
from aftereffect.live._state import Draws
from aftereffect.policies import Policy
from aftereffect.simulation import Task, interpret_driver, prepare, run_batch

HORIZON = 1_200
SEED = 20
BANDITS = [
    ae.StochasticBandit([0.3, 0.8, 0.5], ae.Interval(2, 5)),
    ae.StochasticBandit([0.3, 0.8, 0.5, 0.4], ae.UniformDelay(0, 9), ae.rewards.Uniform()),
]


def trace_run(policy, bandit):
    """Arms and totals of replication 0 on the slotwise engine, slot by slot; not compiled."""
    task = Task(policy, bandit, "slotwise", HORIZON, (HORIZON,), SEED, range(1))
    memory = run_batch(task, prepare(task, interpret_driver, bandit.tracer(HORIZON))).memory
    return memory[ARM, :HORIZON].astype(int).tolist(), memory[TOTAL, :HORIZON].tolist()


def test_every_registered_policy_is_among_the_samples():
    every = (
        *samples.POLICIES,
        *samples.SLOT_POLICIES,
        *samples.UNIT_POLICIES,
        *samples.ATTRIBUTED_POLICIES,
    )
    assert {type(policy) for policy in every} == set(list_registered(Policy))


@pytest.mark.parametrize("bandit", BANDITS, ids=str)
@pytest.mark.parametrize("policy", samples.POLICIES, ids=str)
def test_live_decides_as_the_slotwise_simulation(policy, bandit):
    informed = samples.fit_arms(policy, bandit.arms).with_delay_facts(bandit.delay_facts)
    arms, totals = trace_run(informed, bandit)
    names = [f"arm {number}" for number in range(bandit.arms)]
    storage = ae.open_storage("memory://")
    experiment = ae.Experiment.create(
        "live",
        arms=names,
        policy=informed,
        reward_range=(0, 1),
        horizon=HORIZON,
        seed=SEED,
        storage=storage,
    )
    played = []
    for slot in range(HORIZON):
        played.append(names.index(experiment.ask(slot).arm))
        experiment.tell(slot, totals[slot])
        if slot % 97 == 0:  # a snapshot, or the log, brings it back
            experiment = ae.Experiment.open("live", storage=storage)
    assert played == arms
    assert experiment.verify().whole
    with pytest.raises(
        ae.ConflictError, match=r"has decided all 1,200 slots of its horizon: end it"
    ):
        experiment.ask()


@pytest.mark.parametrize("policy", [p for p in samples.POLICIES if not p.needs_horizon], ids=str)
def test_a_policy_that_needs_no_horizon_plays_the_same_without_one(policy):
    informed = samples.fit_arms(policy, 2).with_delay_facts(BANDITS[0].delay_facts)
    totals = np.random.default_rng(1).random(2_500)
    played = []
    for horizon in (2_500, None):
        experiment = ae.Experiment.create(
            "live",
            arms=["a", "b"],
            policy=informed,
            reward_range=(0, 1),
            horizon=horizon,
            seed=3,
            storage="memory://",
        )
        played.append([])
        for slot, total in enumerate(totals):
            played[-1].append(experiment.ask())
            experiment.tell(slot, total)
    assert [(slot.arm, slot.round) for slot in played[0]] == [
        (slot.arm, slot.round) for slot in played[1]
    ]


def test_the_random_numbers_are_those_of_numpy_from_any_position_on():
    numbers = (
        np.random.Generator(np.random.PCG64(seed_sequence(7, 0, POLICY))).random(1_000).tolist()
    )
    draws = Draws(7)
    assert [draws.random() for _ in range(1_000)] == numbers
    draws = Draws(7)
    assert [draws.random() for _ in range(500)] == numbers[:500]
    later = Draws(7, draws.position)
    assert [later.random() for _ in range(500)] == numbers[500:]
    assert [draws.generator.random() for _ in range(500)] == numbers[500:]


def test_no_compiler_on_the_live_path(tmp_path):
    program = f"""
import sys
import aftereffect as ae
for number, policy in enumerate(["ars-ucb", "clw(3)", "mini-batch(base=exp3)"]):
    live = ae.Experiment.create(
        f"e{{number}}", arms=["a", "b"], policy=policy, reward_range=(0, 1), horizon=50, storage="sqlite:///{tmp_path}/live.db"
    )
    for slot in range(20):
        live.tell(live.ask().slot, 0.5)
    live.status(), live.verify(), live.history()
print([name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite", "polars", "matplotlib")])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
