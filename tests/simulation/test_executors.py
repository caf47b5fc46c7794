"""Whoever does the work, and whatever happens to them, a study is the same bit for bit."""

import os
import pickle
import signal
import sys
from collections import Counter
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType

import distributed
import numpy as np
import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.policies import Ucb1
from aftereffect.simulation import (
    ChunkResult,
    Runs,
    _dask,
    _replications,
    plan_study,
    run_tasks,
    worker_pool,
)
from aftereffect.simulation._replications import run_chunk
from made_up_history import make_history

ENV = ae.StochasticBandit([0.9, 0.6, 0.3], ae.UniformDelay(3, 9))
POLICIES = ["ars-ucb", "ucb1"]
HORIZON = 5_000


def study(**settings):
    return ae.simulate(POLICIES, ENV, HORIZON, 600, seed=7, **settings)


@pytest.fixture(scope="module")
def serial():
    return study(jobs=1)


def assert_equal(first, second):
    assert [runs.label for runs in first] == [runs.label for runs in second]
    for a, b in zip(first, second, strict=True):
        for name in ("regret", "pulls", "rounds"):
            assert np.array_equal(getattr(a, name), getattr(b, name))


class Only(Executor):
    """Has nothing but `submit`, works at once, and counts."""

    def __init__(self, work=run_chunk):
        self.work, self.pieces = work, []

    def submit(self, function, /, name, task):
        assert function is run_chunk
        self.pieces.append((name, task.replications))
        future = Future()
        try:
            future.set_result(self.work(name, task))
        except Exception as error:
            future.set_exception(error)
        return future

    map = shutdown = __enter__ = None


class Waiting(Executor):
    """Hands nothing back until as many pieces are out as can be, then all of them in the wrong order."""

    def __init__(self, most):
        self.most, self.out, self.peak = most, [], 0

    def submit(self, function, *arguments):
        future = Future()
        self.out.append((future, arguments))
        self.peak = max(self.peak, len(self.out))
        if len(self.out) == self.most:
            self.hand_back()
        return future

    def hand_back(self):
        for future, arguments in reversed(self.out):
            future.set_result(run_chunk(*arguments))
        self.out = []


# Who does the work.


def test_two_threads(serial):
    assert_equal(study(jobs=2), serial)


def test_two_processes(serial):
    with ProcessPoolExecutor(2) as pool:
        assert_equal(study(executor=pool, jobs=2), serial)
        assert_equal(study(executor=pool), serial)


def test_anything_with_submit(serial):
    assert_equal(study(executor=Only()), serial)


def test_any_order(serial):
    executor = Waiting(most=6)
    small = ae.simulate(POLICIES, ENV, HORIZON, 3, seed=7, executor=executor, jobs=3)
    assert executor.peak == 6
    for a, b in zip(small, serial, strict=True):
        assert np.array_equal(a.regret, b.regret[:3])


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as three:
        yield three


def test_dask_with_three_workers(serial, cluster):
    with ae.dask_cluster(cluster.scheduler_address) as (executor, jobs):
        assert jobs == 3
        assert_equal(study(executor=executor, jobs=jobs), serial)


def test_dask_after_a_worker_was_killed(cluster):
    """Killed while pieces are with it; kill -9 gives it no time to hand them over."""
    settings = (ae.Ucb1(), ENV, 100_000, 600)
    killed = {}

    def kill(_):
        at_work = {address: tasks for address, tasks in client.processing().items() if tasks}
        if not killed and len(at_work) == 3:
            pids = client.run(os.getpid)
            address = next(iter(at_work))
            os.kill(pids[address], signal.SIGKILL)
            killed[address] = at_work[address]

    with (
        distributed.Client(cluster, set_as_default=False) as client,
        ae.dask_cluster(cluster.scheduler_address) as (executor, jobs),
    ):
        survived = ae.simulate(*settings, seed=7, executor=executor, jobs=jobs, progress=kill)
    assert killed
    assert_equal(survived, ae.simulate(*settings, seed=7, jobs=1))


def test_dask_from_the_command_line(cluster, capsys, tmp_path):
    options = "--policy ucb1 --means .9,.5 --delay interval(3,4) --horizon 500 --replications 20 --seed 7 --format csv"
    assert main(["simulate", *options.split()]) == 0
    here = capsys.readouterr().out
    for address in (cluster.scheduler_address, "local"):
        assert main(["simulate", *options.split(), "--dask", address, "--jobs", "2"]) == 0
        assert capsys.readouterr().out == here
    (tmp_path / "sweep.toml").write_text(
        '[grid]\npolicy = "ucb1"\narms = [2, 3]\nhorizon = 100\nseed = [1, 2, 3]'
    )
    assert main(["sweep", str(tmp_path / "sweep.toml"), "--dask", cluster.scheduler_address]) == 0
    assert "6 cells" in capsys.readouterr().err
    assert len(list((tmp_path / "sweep").glob("*.parquet"))) == 6


# What they are given.


def test_plans_with_dask_from_the_command_line(cluster, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = np.datetime64("2026-03-02") + np.arange(84)
    rows = [f"{time},{total:.2f}" for time, total in zip(times, make_history(12), strict=True)]
    (tmp_path / "history.csv").write_text("\n".join(["time,total", *rows]))
    design = "fixed-switchback(block=7, blocks_per_arm=3)"
    options = ("--slot", "1d", "--weeks", "12", "--runs", "12", "--seed", "1", "--design", design)
    printed = []
    for workers in (("--jobs", "1"), ("--dask", cluster.scheduler_address)):
        assert main(["plan", "history.csv", *options, *workers]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_pieces_cover_every_replication_once_and_begin_small():
    executor = Only()
    ae.simulate(POLICIES, ENV, 200, 5_000, seed=7, executor=executor, jobs=2)
    by_policy = {}
    for name, piece in executor.pieces:
        by_policy.setdefault(name, []).append(piece)
    assert len(by_policy) == 2
    for pieces in by_policy.values():
        assert [number for piece in pieces for number in piece] == list(range(5_000))
        assert [len(piece) for piece in pieces[:4]] == [1] * 4
        assert max(map(len, pieces)) > 1_000  # each takes microseconds


@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 0.05, 0.5, 3.0])
def test_pieces_take_from_a_fifth_of_a_second_to_two(seconds):
    def pretend(name, task):
        return ChunkResult(Runs.zeros(task), seconds * len(task.replications), task.made_by)

    executor = Only(pretend)
    ae.simulate("ucb1", ENV, 200, 100_000 if seconds < 0.01 else 1_000, executor=executor, jobs=2)
    lengths = [len(piece) * seconds for _, piece in executor.pieces]
    assert max(lengths) <= max(2, seconds)
    # but for the pilots, and the last one
    usual = [length for length in lengths if length > 17 * 16 * seconds]
    assert all(length >= min(0.2, seconds) for length in usual[:-1])


def test_small_tasks_profit_from_what_is_known_of_others_alike():
    """Those of the later tasks are long from the start, as the first has shown what they cost."""
    tasks = [
        task for seed in range(5) for task in plan_study("ucb1", ENV, 200, 200, seed=seed).tasks
    ]
    executor = Only()
    with worker_pool(8, executor) as eight:
        done = [task for task, _ in run_tasks(tasks, eight)]
    assert sorted(task.seed for task in done) == list(range(5))
    pieces = {}
    for name, piece in executor.pieces:
        pieces.setdefault(name, []).append(len(piece))
    first, *others = pieces.values()
    assert first[:16] == [1] * 16
    assert all(len(each) <= 3 for each in others)


def test_a_bounded_number_is_under_way():
    executor = Waiting(most=8)
    ae.simulate("ucb1", ENV, 200, 8, executor=executor, jobs=4)
    assert executor.peak == 8


def test_tasks_and_results_are_small_whatever_the_horizon():
    sent = []

    def noting(name, task):
        result = run_chunk(name, task)
        sent.append((len(pickle.dumps(task)), len(pickle.dumps(result)) / len(task.replications)))
        return result

    ae.simulate("ars-ucb", ENV, 10**9, 40, seed=7, executor=Only(noting), jobs=1)
    assert max(task for task, _ in sent) < 2_000
    assert max(back for _, back in sent) < 3_000


def test_a_worker_makes_a_task_ready_once(monkeypatch):
    made = Counter()

    def counting(task):
        made[str(task.policy)] += 1
        return original(task)

    original = _replications.prepare
    monkeypatch.setattr(_replications, "prepare", counting)
    study(jobs=3)
    study(executor=Only())
    assert set(made.values()) == {2}


# What goes wrong.


def test_a_worker_with_other_code_is_refused():
    def other(name, task):
        return run_chunk(name, task)._replace(made_by="aftereffect 0.0.1")

    with pytest.raises(
        ae.WorkerError,
        match=r"a worker runs aftereffect 0\.0\.1, but this process runs .*: install the same",
    ):
        study(executor=Only(other))


def test_a_policy_that_cannot_be_sent_is_reported():
    policy = ae.ArsUcb(growth=lambda k: k)
    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(ae.WorkerError, match="cannot be sent to other processes"),
    ):
        ae.simulate(policy, ENV, 200, 2, executor=pool)


def test_a_class_within_a_function_is_reported():
    @dataclass(frozen=True)
    class Local(Ucb1):
        """Nobody else can import it."""

    with (
        ProcessPoolExecutor(1) as pool,
        pytest.raises(ae.WorkerError, match="cannot be sent to other processes") as caught,
    ):
        ae.simulate(Local(), ENV, 200, 2, executor=pool)
    assert str(caught.value).endswith("at the top of a module that they can import")
    assert "\n" not in str(caught.value)


def test_a_module_that_workers_lack_is_reported(cluster, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text(
        "from dataclasses import dataclass\nfrom aftereffect.policies import Ucb1\n\n\n"
        "@dataclass(frozen=True)\nclass Mine(Ucb1):\n    ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    policy = import_module("only_here").Mine()
    message = "the workers lack the module 'only_here': install it, or put its file on their PYTHONPATH, on every worker"
    with (
        ae.dask_cluster(cluster.scheduler_address) as (executor, jobs),
        pytest.raises(ae.WorkerError, match=f"^{message}$"),
    ):
        ae.simulate(policy, ENV, 200, 2, executor=executor, jobs=jobs)


TYPED_IN = """
import random
from dataclasses import dataclass
import numpy as np
import aftereffect as ae
from aftereffect._core.kernels import PolicyKernels

LIMIT = 3

def decide(state, params, t, rng):
    return int(rng.random() * LIMIT), 1, 1

@dataclass(frozen=True)
class Typed(ae.RoundRobin):
    p: float = 0.5

    def kernels(self):
        return PolicyKernels(decide, ae.RoundRobin().kernels().absorb)
"""


def test_what_is_typed_into_a_notebook_is_the_same_code_on_workers(cluster, monkeypatch):
    """Dask sends it as it is, without globals that it does not name."""
    notebook = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    exec(TYPED_IN, vars(notebook))
    monkeypatch.delitem(sys.modules, "notebook")
    policy = notebook.Typed()
    here = ae.simulate(policy, ENV, 200, 4, seed=1)
    with ae.dask_cluster(cluster.scheduler_address) as (executor, jobs):
        assert_equal(ae.simulate(policy, ENV, 200, 4, seed=1, executor=executor, jobs=jobs), here)


def test_a_worker_that_loaded_other_code_of_ones_own_is_refused():
    def version(turns):
        @dataclass(frozen=True)
        class Mine(Ucb1):
            def params(self, arms, horizon):
                return (float(turns),)

        return Mine()

    def other(name, task):
        return run_chunk(name, replace(task, policy=version(2)))

    assert_equal(
        *(
            ae.simulate(version(1), ENV, 200, 2, seed=1, executor=executor)
            for executor in (None, Only())
        )
    )
    message = r"a worker runs .* with own code (\w+), but this process runs .* with own code (?!\1)\w+: .* and restart workers"
    with pytest.raises(ae.WorkerError, match=message):
        ae.simulate(version(1), ENV, 200, 2, seed=1, executor=Only(other))


class Gone(Only):
    """Cancels all that it is given, or cannot take it."""

    def __init__(self, refuses):
        super().__init__()
        self.refuses = refuses

    def submit(self, *_):
        if self.refuses:
            raise BrokenExecutor("gone")
        future = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


@pytest.mark.parametrize("refuses", [False, True])
def test_an_executor_that_gives_up(refuses):
    with pytest.raises(ae.WorkerError, match="the executor failed"):
        study(executor=Gone(refuses))


def test_a_pool_whose_process_dies():
    with ProcessPoolExecutor(1) as pool, pytest.raises(ae.WorkerError, match="BrokenProcessPool"):
        ae.simulate(Deadly(), ENV, 200, 2, executor=pool)


@dataclass(frozen=True)
class Deadly(Ucb1):
    """Kills the process that makes it ready to play; not the one that asks for it."""

    asked_by: int = os.getpid()

    def kernels(self):
        if os.getpid() != self.asked_by:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().kernels()


def test_an_error_in_a_piece_ends_the_study_and_cancels_the_rest():
    out = []

    class Failing(Only):
        def submit(self, function, name, task):
            out.append(Future())
            if len(out) == 4:
                out[0].set_exception(ZeroDivisionError("in a kernel"))
            return out[-1]

    with pytest.raises(ZeroDivisionError):
        study(executor=Failing(), jobs=2)
    assert [future.cancelled() for future in out] == [False, True, True, True]


def test_no_executor():
    with pytest.raises(
        ae.ParameterError, match=r"executor must be a concurrent\.futures\.Executor, got 3"
    ):
        study(executor=3)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
        ("nonsense://127.0.0.1:9", "no Dask scheduler answers at nonsense://127.0.0.1:9"),
        ("127.0.0.1", "must be 'local' or an address such as"),
        ("tcp://127.0.0.1", "must be 'local' or an address such as"),
    ],
)
def test_no_scheduler(address, message, capsys, monkeypatch):
    monkeypatch.setattr(_dask, "_ANSWER", 1)
    assert (
        main(
            [
                "simulate",
                "--policy",
                "ucb1",
                "--means",
                ".9,.5",
                "--horizon",
                "10",
                "--dask",
                address,
            ]
        )
        == 2
    )
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_scheduler_without_workers(monkeypatch):
    monkeypatch.setattr(_dask, "_JOIN", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(ae.WorkerError, match="has no workers: start some with dask worker tcp://"),
        ae.dask_cluster(empty.scheduler_address),
    ):
        pass


def test_workers_without_this_package(cluster, monkeypatch):
    def lacking():  # here, so that it is sent by value: workers cannot import this file
        raise ModuleNotFoundError("No module named 'aftereffect'")

    monkeypatch.setattr(_dask, "describe_code", lacking)
    with (
        pytest.raises(ae.WorkerError, match=r"lack this package .*: install it there"),
        ae.dask_cluster(cluster.scheduler_address),
    ):
        pass


def test_a_scheduler_that_has_lost_all_workers(monkeypatch):
    monkeypatch.setattr(_dask, "_JOIN", 3)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as lonely,
        pytest.raises(ae.WorkerError, match="workers died or lost their scheduler"),
        ae.dask_cluster(lonely.scheduler_address) as (executor, jobs),
    ):
        ae.simulate(
            POLICIES,
            ENV,
            100_000,
            10_000,
            executor=executor,
            jobs=jobs,
            progress=lambda _: lonely.scale(0),
        )


def test_dask_is_an_extra(monkeypatch, capsys):
    monkeypatch.setattr("aftereffect._core.installation.find_spec", lambda module: None)
    assert (
        main(
            [
                "simulate",
                "--policy",
                "ucb1",
                "--means",
                ".9,.5",
                "--horizon",
                "10",
                "--dask",
                "local",
            ]
        )
        == 2
    )
    assert 'this needs distributed: pip install "aftereffect[dask]"' in capsys.readouterr().err
