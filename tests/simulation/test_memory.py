"""Memory is checked before it is asked for."""

import tracemalloc
from concurrent.futures import Future

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.simulation import (
    ChunkResult,
    Digest,
    PolicyRuns,
    Runs,
    Task,
    Workers,
    _chunks,
    _runs,
    plan_study,
    run_tasks,
    trace_run,
)

ENV = ae.StochasticBandit([0.9, 0.1])
POLICIES = ["ucb1", "round-robin"]


@pytest.fixture(autouse=True)
def limit(monkeypatch, tmp_path):
    """A container that may use a GiB."""
    path = tmp_path / "memory.max"
    path.write_text(f"{2**30}\n")
    monkeypatch.setattr(_runs, "_CONTAINER_LIMIT", path)
    # What is not refused would run for long.
    for place in ("_plan.Plan.play", "_replications.run_batch"):
        monkeypatch.setattr(
            f"aftereffect.simulation.{place}", lambda *_, **__: pytest.fail("it ran")
        )
    return path


def test_what_is_too_large_is_refused_with_what_it_needs():
    checkpoints = list(range(1, 101))
    number = 2**30 // (
        2 * 8 * (100 + 2 + 1)
    )  # of both policies: regret at each checkpoint, pulls of each arm, rounds
    plan_study(POLICIES, ENV, 100, number, seed=1, checkpoints=checkpoints)
    message = r"need 3.0 GiB .* only 1.0 GiB .*: ask for fewer replications, checkpoints or arms"
    with pytest.raises(ae.ParameterError, match=message):
        ae.simulate(POLICIES, ENV, 100, 3 * number, seed=1, checkpoints=checkpoints)
    with pytest.raises(ae.ParameterError, match="GiB are available"):
        plan_study(POLICIES, ENV, 100, number + 1, seed=1, checkpoints=checkpoints)


def test_a_gpu_needs_little_for_replications_that_it_does_not_keep():
    plan = plan_study(POLICIES, ENV, 1_000, 10**7, seed=1, engine="cuda", keep=10_000)
    assert (plan.keep, plan.replications, len(plan.checkpoints)) == (10_000, 10**7, 42)
    with pytest.raises(ae.ParameterError, match="GiB are available"):
        plan_study(POLICIES, ENV, 1_000, 10**7, seed=1, engine="cuda", keep=10**6 * 3)
    digest = Digest.zeros(10**7, 42, 2)
    assert Digest.count_bytes(10**7, 42, 2) == sum(part.nbytes for part in digest) < 2**25


def test_a_trace_is_checked_too():
    with pytest.raises(ae.ParameterError, match=r"need 1.1 GiB .*: ask for fewer slots"):
        trace_run(ae.Ucb1(), ENV, 30_000_000, 1, 0)


@pytest.mark.parametrize("text", ["max\n", ""])
def test_without_a_limit_the_machine_is_one(limit, text):
    limit.write_text(text)
    plan_study("ucb1", ENV, 100, 10**6, seed=1)
    with pytest.raises(ae.ParameterError, match="GiB are available"):
        plan_study("ucb1", ENV, 10**6, 10**7, seed=1, checkpoints=10**4)


def test_standard_errors_and_percentiles_need_no_second_table(monkeypatch):
    monkeypatch.setattr(_runs, "_PART", 2**21)
    rng = np.random.default_rng(3)
    table, few = rng.random((100_000, 50)), np.zeros((100_000, 2))
    runs = PolicyRuns(
        label="", policy=None, regret=table, pulls=few, rounds=np.zeros(100_000), seconds=0.0
    )
    expected = table.std(axis=0, ddof=1) / np.sqrt(100_000), np.quantile(table, 0.95, axis=0)
    tracemalloc.start()
    found = runs.sem, runs.p95
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < table.nbytes / 8
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("engine", ["roundwise", "cuda"])
def test_results_on_their_way_are_few(engine, monkeypatch):
    sizes = []

    def submit(name, chunk):
        sizes.append(sum(each.nbytes for each in Runs.zeros(chunk)))
        done = Future()
        done.set_result(ChunkResult(Runs.zeros(chunk), 1e-6, chunk.made_by))
        return done

    monkeypatch.setattr(_chunks, "_MAX_RESULTS", 10_000)
    task = Task(ae.Ucb1(), ENV, engine, 100, tuple(range(1, 101)), 1, range(2_000))
    ((_, result),) = run_tasks([task], Workers(submit, size=2, elsewhere=False))
    assert len(result.runs.rounds) == 2_000
    assert max(sizes) <= 10_000
    assert sum(sizes) == sum(each.nbytes for each in result.runs)
