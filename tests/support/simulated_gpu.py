"""Plays on the GPU that numba-cuda simulates, which a process must choose before it imports numba; prints what it found."""

import json
import os
from dataclasses import replace
from itertools import pairwise

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numpy as np

import aftereffect as ae
from aftereffect._core import PolicyKernels, parse
from aftereffect.bandits import Bandit
from aftereffect.policies import Policy, map_arrays
from aftereffect.simulation import (
    Runs,
    Task,
    _chunks,
    _cuda,
    _digest,
    plan_study,
    prepare,
    run_tasks,
    worker_pool,
)
from aftereffect.simulation._driver import make_driver
from aftereffect.simulation._philox import Stream, seed_key
from aftereffect.simulation._tasks import give_facts

SEED, COUNT = 11, 4
THREE = "stochastic-bandit([0.9, 0.3, 0.5], {})".format
SEASONAL = (
    'seasonal-bandit([0, 0.1], delay=interval(0, 2), slot="1d", season=trend, weeks_before=1)'
)
LINEAR = "linear-bandit([[0.5, 0.1], [-0.2, 0.6]], [[1], [-2]], [0.3, 0.1], [0.2], [[1], [0.5], [-1]], sigma=0.1)"
#: Policies of every kind of state: flat, of one number, within another, with matrices, and with empty arrays.
CASES = (
    ("ucb1", THREE("interval(3, 8)"), 60),
    ("ars-ucb", THREE("per-arm([uniform-delay(0, 9), geometric(0.8), interval(2, 3)])"), 60),
    ("floors(exp3(form=loss), [0.1, 0, 0.2])", THREE("immediate"), 40),
    ("settle-ucb", THREE("uniform-delay(0, 6), reward_law=beta(2)"), 120),
    ("ucb1", 'adversarial-bandit("drawn-arm([0.5, 0.3, 0.2], seed=1)", hold-back(4))', 60),
    ("fixed-switchback(3)", SEASONAL, 20),
    ("bold(exp3)", THREE("per-arm([uniform-delay(0, 9), interval(2, 3), immediate])"), 60),
    ("adaptive-switchback(delay=interval(0, 2))", SEASONAL, 8),
    ("dyn-lin-ucb", LINEAR, 60),
    ("delayed-kl-ucb", THREE("uniform-delay(0, 4)"), 40),
    ("delayed-kl-ucb", THREE("interval(3, 8)"), 40),
)


def make_task(policy, bandit, horizon):
    world = parse(bandit, Bandit)
    return Task(
        give_facts(parse(policy, Policy), world),
        world,
        "cuda",
        horizon,
        (horizon // 2, horizon),
        SEED,
        range(COUNT),
    )


def play_plainly(task):
    """The same runs, one after another, with the driver as it stands."""
    world = task.bandit_engine()
    params = task.policy.params(task.bandit.arms, task.horizon)
    play, runs = make_driver(task.policy.kernels(), world.kernels), Runs.zeros(task)
    for r in task.replications:
        rngs = [
            Stream(np.array([seed_key(SEED), r, part, 0, 0], dtype=np.uint64)) for part in (0, 1)
        ]
        state = map_arrays(np.copy, task.initial_state())
        given = (world.world, world.covariates, task.horizon, np.array(task.checkpoints))
        runs.rounds[r] = play(
            state, params, np.zeros(world.memory), *given, runs.regret[r], runs.pulls[r], *rngs
        )
    return runs


def play_here(task, **options):
    runs = Runs.zeros(task)
    prepare(task).device.play(
        SEED, task.replications, task.horizon, task.checkpoints, *runs, **options
    )
    return runs


def are_equal(runs, others):
    return all(np.array_equal(*pair) for pair in zip(runs, others, strict=True))


def count_kernels():
    """How many kernels studies make that differ in numbers, in the horizon, and in the arms."""
    counts = [len(_cuda._kernels)]
    for policy, bandit, horizon in (
        ("ars-ucb(alpha=3)", THREE("interval(3, 5)"), 40),
        ("ars-ucb(alpha=4)", "stochastic-bandit([0.1, 0.3, 0.2], interval(3, 5))", 50),
        ("ars-ucb(alpha=4)", "stochastic-bandit([0.1, 0.3], interval(3, 5))", 40),
    ):
        play_here(make_task(policy, bandit, horizon))
        counts.append(len(_cuda._kernels))
    return [after - before for before, after in pairwise(counts)]


def digest_few():
    """What a digest says of 23 replications, of which 5 are kept, beside what all of them say."""
    for module in (_digest, _cuda, _chunks):
        module.GROUP = 4
    _cuda.MAX_LAUNCH = 2**24
    given = "ucb1", THREE("interval(3, 8)"), 40, 23
    settings = {"seed": SEED, "engine": "cuda", "checkpoints": 4}
    whole, few = (ae.simulate(*given, **settings, **keep)[0] for keep in ({}, {"keep": 5}))
    plan = plan_study(*given, **settings, keep=5)
    digests = []
    for launch, results in ((2**24, 2**28), (6, 2**28), (2**24, 1)):
        _cuda.MAX_LAUNCH, _chunks._MAX_RESULTS = launch, results
        with worker_pool(1) as workers:
            digests += [result.digest for _, result in run_tasks(plan.tasks, workers)]
    try:
        ae.simulate(Faulty(), THREE("immediate"), 100, 9, seed=SEED, engine="cuda", keep=2)
    except ae.ParameterError as error:
        faulty = str(error)
    return {
        "close": [
            np.allclose(whole.mean, few.mean, rtol=1e-13),
            np.allclose(whole.sem, few.sem, rtol=1e-11),
            np.allclose(whole.p95, few.p95, rtol=0.004),
            np.allclose(whole.mean_pulls, few.mean_pulls, rtol=1e-13),
            whole.mean_rounds == few.mean_rounds,
        ],
        "kept": [np.array_equal(whole.regret[:5], few.regret), few.replications],
        "equal": [are_equal(digests[0], each) for each in digests[1:]],
        "groups": [len(each.rounds) for each in digests],
        "faulty": faulty,
    }


def main():
    found = {"equal": {}}
    for case in CASES:
        task = make_task(*case)
        found["equal"][" in ".join(case[:2])] = are_equal(play_plainly(task), play_here(task))
    task = make_task(*CASES[1])
    whole = play_here(task)
    found["blocks"] = [are_equal(whole, play_here(task, block=block)) for block in (1, 3)]
    part = play_here(task.only(range(1, 3)))
    found["part"] = are_equal(Runs(*(each[1:3] for each in whole)), part)
    _cuda.MAX_LAUNCH = 3
    found["launches"] = are_equal(whole, play_here(task))
    own, _cuda.LOCAL_BYTES = _cuda.LOCAL_BYTES, 0  # nothing in a thread's own memory
    found["shared"] = are_equal(whole, play_here(task))
    single = replace(task, engine="cuda-single")
    device = prepare(single).device
    runs = Runs.zeros(single)
    device.play(SEED, single.replications, single.horizon, single.checkpoints, *runs)
    found["single"] = [
        *{str(each.dtype) for each in device._shared},
        np.allclose(whole.regret, runs.regret),
    ]
    _cuda.LOCAL_BYTES = own
    found["kernels"] = count_kernels()
    reports = []
    study = ae.simulate(
        "round-robin", THREE("immediate"), 30, 5, seed=SEED, engine="cuda", progress=reports.append
    )
    found["study"] = [study.engine, study[0].final.tolist(), study[0].pulls.tolist(), sum(reports)]
    again = ae.simulate(
        ["ucb1", "round-robin"], THREE("immediate"), 30, 3, seed=SEED, engine="cuda"
    )
    more = ae.simulate("ucb1", THREE("immediate"), 30, 5, seed=SEED, engine="cuda")
    found["first"] = are_equal([again["ucb1"].regret], [more[0].regret[:3]])
    sizes = (
        ("ucb1", 10**5, 10**4),
        ("ucb1", 10**5, 10**3),
        ("ucb1", 10**3, 10**4),
        (Faulty(), 10**5, 10**4),
        ("fixed-switchback(3)", 10**5, 10**4),
        ("adaptive-switchback", 10**5, 10**4),
    )
    asked = [
        plan_study(policy, THREE("immediate"), slots, count, engine="auto")
        for policy, slots, count in sizes
    ]
    found["auto"] = [plan.engine for plan in asked]
    try:
        ae.simulate(Faulty(), THREE("immediate"), 100, 5, seed=SEED, engine="cuda")
    except ae.ParameterError as error:
        found["faulty"] = str(error)
    found["digest"] = digest_few()
    print(json.dumps(found))


class Faulty(ae.RoundRobin):
    """Plays an arm that does not exist at slot 70, which is after a rehearsal."""

    def kernels(self):
        return PolicyKernels(decide_wrongly, super().kernels().absorb)


def decide_wrongly(state, params, t, rng):
    return (9 if t == 70 else 0), 1, 1


if __name__ == "__main__":
    main()
