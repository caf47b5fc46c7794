"""The engine "cuda" on a real GPU (`make test-gpu`): the law of the CPU's engines, whatever runs beside or together.

Processes that test at the same time take turns with the GPU, because a launch takes most of its memory.
"""

import fcntl
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import aftereffect as ae

if not Path("/dev/nvidiactl").exists():
    pytest.skip("there is no NVIDIA GPU", allow_module_level=True)

from aftereffect._core import PolicyKernels, parse
from aftereffect.policies import Policy
from aftereffect.simulation import Digest, Runs, Task, prepare
from aftereffect.simulation._digest import BINS, find_bin
from aftereffect.simulation._tasks import give_facts
from gpu_laws import compare_moments, count_slots, list_cases, play_on_cpu

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


@contextmanager
def turn(device):
    with (Path(tempfile.gettempdir()) / "aftereffect-gpu-turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            device.release()


def play(task, **options):
    runs = Runs.zeros(task)
    device = find_device(task.policy, task.bandit, task.horizon, task.engine)
    with turn(device):
        device.play(task.seed, task.replications, task.horizon, task.checkpoints, *runs, **options)
    return runs


@pytest.mark.parametrize("case", range(len(CASES)))
def test_law_is_that_of_the_cpu(case):
    policy, bandit, count = CASES[case]
    slots = count_slots(policy)
    others = play_on_cpu(make_task(policy, bandit, count, slots, "roundwise"))
    runs = play(make_task(policy, bandit, count, slots))
    differences = compare_moments(runs, others)
    print(f"{policy} in {bandit}: {np.round(differences, 2).tolist()}")
    assert max(map(abs, differences)) < 4.5
    if can_be_single(policy, bandit):
        # Rounding decides between arms that are equally good so far, and it is not the same.
        runs = play(make_task(policy, bandit, count, slots, "cuda-single"))
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


def digest(task, **options):
    """The digest of a task, and the runs that it keeps."""
    device = find_device(task.policy, task.bandit, task.horizon, task.engine)
    runs, found = Runs.zeros(task), Digest.zeros(len(task.replications), 3, task.bandit.arms)
    settings = task.seed, task.replications, task.horizon, task.checkpoints
    with turn(device):
        assert device.digest(*settings, *runs, found, **options)[1] is None
    return found, runs


@pytest.mark.parametrize("delay", ["immediate", "interval(30, 39)"])
def test_a_digest_says_what_all_replications_say(delay, monkeypatch):
    task = make_task(ae.Ucb1(), ae.StochasticBandit(NINE, delay), 1_000_100, 1_000)
    whole, count = play(task), 1_000_100
    found, runs = digest(replace(task, keep=1_500))
    assert are_equal([each[:1_500] for each in whole], runs)
    of_all = found.summarise(count)
    assert of_all.mean == pytest.approx(whole.regret.mean(axis=0), rel=1e-12)
    sem = whole.regret.std(axis=0, ddof=1) / count**0.5
    assert of_all.sem == pytest.approx(sem, rel=1e-10)
    assert of_all.p95 == pytest.approx(np.quantile(whole.regret, 0.95, axis=0), rel=0.004)
    assert of_all.mean_pulls == pytest.approx(whole.pulls.mean(axis=0), rel=1e-12)
    assert of_all.mean_rounds == whole.rounds.mean()
    bins = [find_bin(each) for each in whole.regret[:20_000, 2]]
    few, _ = digest(task.only(range(20_000)))
    assert np.array_equal(few.counts[2], np.bincount(bins, minlength=BINS))
    for launch, block in ((2**24, 64), (100_000, 512)):
        monkeypatch.setattr("aftereffect.simulation._cuda.MAX_LAUNCH", launch)
        again, _ = digest(replace(task, keep=1), block=block)
        assert are_equal(found, again)


def test_a_study_that_keeps_few_is_bit_for_bit_the_same_again():
    bandit = ae.StochasticBandit(NINE, "interval(30, 39)")
    one, other = (
        ae.simulate("ucb1", bandit, 1_000, 2_000_000, seed=3, engine="cuda", keep=keep)[0]
        for keep in (1_000, 10)
    )
    assert all(np.array_equal(*pair) for pair in zip(one.of_all, other.of_all, strict=True))
    assert np.array_equal(one.regret[:10], other.regret)
