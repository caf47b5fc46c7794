"""The engine "cuda" on a real GPU (`make test-gpu`): the law of the CPU's engines, whatever runs beside or together."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aftereffect as ae

if not Path("/dev/nvidiactl").exists():
    pytest.skip("there is no NVIDIA GPU", allow_module_level=True)

from aftereffect._core import PolicyKernels, parse
from aftereffect.policies import Policy
from aftereffect.simulation import Runs, Task, prepare
from aftereffect.simulation._replications import give_facts
from gpu_laws import SLOTS, compare_moments, list_cases, play_on_cpu

pytestmark = pytest.mark.gpu
NINE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
CASES = list_cases()


def make_task(policy, bandit, count, slots, engine="cuda", seed=5):
    checkpoints = (slots // 8, slots // 2, slots)
    return Task(give_facts(policy, bandit), bandit, engine, slots, checkpoints, seed, range(count))


def are_equal(runs, others):
    return all(np.array_equal(*pair) for pair in zip(runs, others, strict=True))


@cache
def find_device(policy, bandit, slots, engine):
    return prepare(make_task(policy, bandit, 1, slots, engine)).device


def play(task, **options):
    runs = Runs.zeros(task)
    device = find_device(task.policy, task.bandit, task.horizon, task.engine)
    device.play(task.seed, task.replications, task.horizon, task.checkpoints, *runs, **options)
    return runs


@pytest.mark.parametrize("case", range(len(CASES)))
def test_law_is_that_of_the_cpu(case):
    policy, bandit, count = CASES[case]
    others = play_on_cpu(make_task(policy, bandit, count, SLOTS, "roundwise"))
    runs = play(make_task(policy, bandit, count, SLOTS))
    differences = compare_moments(runs, others)
    print(f"{policy} in {bandit}: {np.round(differences, 2).tolist()}")
    assert max(map(abs, differences)) < 4.5
    if can_be_single(policy, bandit):
        # Rounding decides between arms that are equally good so far, and it is not the same.
        runs = play(make_task(policy, bandit, count, SLOTS, "cuda-single"))
        expected = others.regret.mean(axis=0)
        assert runs.regret.mean(axis=0) == pytest.approx(expected, rel=0.01, abs=1e-6)


def can_be_single(policy, bandit):
    """Whether it is played in single precision too: all policies of rounds, in one kind of delay."""
    is_of_rounds = isinstance(policy.kernels(), PolicyKernels)
    is_random = isinstance(bandit, ae.StochasticBandit)
    return is_of_rounds and is_random and bandit.delay == ae.Interval(3, 8)


@pytest.mark.parametrize("engine", ["cuda", "cuda-single"])
@pytest.mark.parametrize("delay", ["immediate", "interval(30, 39)", "uniform-delay(3, 9)"])
@pytest.mark.parametrize("policy", ["ucb1", "exp3", "ars-ucb"])
def test_groups_and_launches_do_not_matter(policy, delay, engine, monkeypatch):
    bandit = ae.StochasticBandit(NINE, delay)
    task = make_task(parse(policy, Policy), bandit, 20_000, 1_000, engine)
    whole = play(task)
    for block in (64, 128, 256, 512):
        assert are_equal(whole, play(task, block=block))
    monkeypatch.setattr("aftereffect.simulation._cuda.MAX_LAUNCH", 2_000)
    for block in (64, 128, 256, 512):
        assert are_equal(whole, play(task, block=block))
    few = task.only(range(7_000, 7_100))
    assert are_equal([each[7_000:7_100] for each in whole], play(few))


def test_a_study_is_the_same_with_fewer_replications():
    bandit = ae.StochasticBandit(NINE, "interval(30, 39)")
    many, few = (
        ae.simulate("ucb1", bandit, 500, count, seed=3, engine="cuda")[0]
        for count in (300_000, 1_000)
    )
    assert np.array_equal(many.regret[:1_000], few.regret)
    assert np.array_equal(many.pulls[:1_000], few.pulls)
