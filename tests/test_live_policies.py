"""Live, every policy decides as in a simulation."""

import subprocess
import sys

import numpy as np
import pytest
import samples

import aftereffect as ae
from aftereffect.environments import ARM, OBSERVED
from aftereffect.live.randomness import Draws
from aftereffect.policies import Policy
from aftereffect.seeds import POLICY, stream
from aftereffect.simulation.replications import Task, plain, play, ready
from aftereffect.spec import registered

HORIZON = 1_200
SEED = 20
ENVIRONMENTS = [
    ae.StochasticBandit([0.3, 0.8, 0.5], ae.Interval(2, 6)),
    ae.StochasticBandit([0.3, 0.8, 0.5, 0.4], ae.UniformDelay(0, 9), ae.Uniform()),
]


def traced(policy, environment):
    """Arms and totals of replication 0 on the slotwise engine, slot by slot; not compiled."""
    task = Task(policy, environment, "slotwise", HORIZON, (HORIZON,), SEED, range(1))
    memory = play(task, ready(task, plain, environment.tracer(HORIZON))).memory
    return memory[ARM, :HORIZON].astype(int).tolist(), memory[OBSERVED, :HORIZON].tolist()


def test_every_registered_policy_is_among_the_samples():
    assert {type(policy) for policy in samples.POLICIES} == set(registered(Policy))


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
@pytest.mark.parametrize("policy", samples.POLICIES, ids=str)
def test_live_decides_as_the_slotwise_simulation(policy, environment):
    told = policy.told(environment.knowledge)
    arms, totals = traced(told, environment)
    names = [f"arm {number}" for number in range(environment.arms)]
    storage = ae.open_storage("memory://")
    experiment = ae.Experiment.create(
        "live", arms=names, policy=told, reward_range=(0, 1), horizon=HORIZON, seed=SEED, storage=storage
    )
    played = []
    for slot in range(HORIZON):
        played.append(names.index(experiment.ask(slot).arm))
        experiment.tell(slot, totals[slot])
        if slot % 97 == 0:  # a snapshot, or the log, brings it back
            experiment = ae.Experiment.open("live", storage=storage)
    assert played == arms
    assert experiment.verify().whole
    with pytest.raises(ae.ConflictError, match=r"has decided all 1,200 slots of its horizon: close it"):
        experiment.ask()


@pytest.mark.parametrize("policy", [p for p in samples.POLICIES if not p.needs_horizon], ids=str)
def test_a_policy_that_needs_no_horizon_plays_the_same_without_one(policy):
    told = policy.told(ENVIRONMENTS[0].knowledge)
    totals = np.random.default_rng(1).random(2_500)
    played = []
    for horizon in (2_500, None):
        experiment = ae.Experiment.create(
            "live", arms=["a", "b"], policy=told, reward_range=(0, 1), horizon=horizon, seed=3, storage="memory://"
        )
        played.append([])
        for slot, total in enumerate(totals):
            played[-1].append(experiment.ask())
            experiment.tell(slot, total)
    assert [(slot.arm, slot.round) for slot in played[0]] == [(slot.arm, slot.round) for slot in played[1]]


def test_the_random_numbers_are_those_of_numpy_from_any_place_on():
    numbers = np.random.Generator(np.random.PCG64(stream(7, 0, POLICY))).random(1_000).tolist()
    draws = Draws(7)
    assert [draws.random() for _ in range(1_000)] == numbers
    assert draws.drawn == 1_000
    later = Draws(7, drawn=500)
    assert [later.random() for _ in range(500)] == numbers[500:]


def test_no_compiler_on_the_live_path(tmp_path):
    program = f"""
import sys
import aftereffect as ae
for number, policy in enumerate(["ars-ucb", "clw(3)", "mini-batch(base=exp3)"]):
    live = ae.Experiment.create(
        f"e{{number}}", arms=["a", "b"], policy=policy, reward_range=(0, 1), horizon=50, storage="sqlite:///{tmp_path}/live.db"
    )
    for slot in range(20):
        live.tell(live.ask().number, 0.5)
    live.status(), live.verify(), live.history()
print([name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite", "polars", "matplotlib")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
