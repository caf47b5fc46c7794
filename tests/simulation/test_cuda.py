"""The engine "cuda" without a GPU: on the one that numba-cuda simulates, and what it says where there is none."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect._core import installation
from aftereffect.cli import main
from aftereffect.simulation import ChunkResult, Runs, Task, Workers, run_tasks

SCRIPT = Path(__file__).parents[1] / "support" / "simulated_gpu.py"
BANDIT = ae.StochasticBandit([0.9, 0.5])


@pytest.fixture(scope="module")
def found():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_thread_plays_what_the_driver_plays(found):
    assert len(found["equal"]) == 11
    assert [case for case, equal in found["equal"].items() if not equal] == []


def test_groups_launches_and_memory_do_not_matter(found):
    assert found["blocks"] == [True, True]
    assert found["part"]
    assert found["launches"]
    assert found["shared"]


def test_simulate_plays_there(found):
    engine, final, pulls, reported = found["study"]
    assert engine == "cuda"
    assert final == pytest.approx([10 * (0.6 + 0.4)] * 5)
    assert pulls == [[10.0, 10.0, 10.0]] * 5
    assert reported == 5


def test_more_replications_and_other_policies_do_not_matter(found):
    assert found["first"]


def test_a_digest_says_what_all_replications_say(found):
    digest = found["digest"]
    assert digest["close"] == [True] * 5
    assert digest["kept"] == [True, 23]
    assert "(9, 1, 1) at slot 70" in digest["faulty"]


def test_launches_and_chunks_do_not_matter_to_a_digest(found):
    assert found["digest"]["groups"] == [6, 6, 6]
    assert found["digest"]["equal"] == [True, True]


def test_a_wrong_decision_is_named(found):
    assert "an arm from 0 to 2" in found["faulty"]
    assert "(9, 1, 1) at slot 70" in found["faulty"]


def test_auto_plays_large_studies_of_this_package_there(found):
    small = ["roundwise"] * 2
    assert found["auto"] == ["cuda", *small, "roundwise", "cuda", "roundwise"]


def test_studies_that_differ_in_numbers_share_a_kernel(found):
    assert found["kernels"] == [1, 0, 1]


def test_single_precision_is_kept_where_it_is_asked_for(found):
    assert found["single"] == ["float32", True]


def test_single_precision_is_refused_where_it_would_not_do():
    with pytest.raises(ae.ParameterError, match="at most 1,000,000 slots, got a horizon"):
        ae.simulate("ucb1", BANDIT, 1_000_001, 10, engine="cuda-single")
    for policy in ("fixed-switchback", "delayed-ucb1"):
        with pytest.raises(ae.ParameterError, match=f"got {policy}.*, which looks at each: use"):
            ae.simulate(["ucb1", policy], BANDIT, 100, 10, engine="cuda-single")


def test_threads_share_a_gpu_in_few_large_chunks():
    task = Task(ae.Ucb1(), BANDIT, "cuda", 1_000, (1_000,), 1, range(500_000))
    sizes, begun = [], []

    def play(chunk):
        time.sleep(0.01)
        begun.pop()
        return ChunkResult(Runs.zeros(chunk), 0.01, chunk.made_by)

    def submit(name, chunk):
        sizes.append(len(chunk.replications))
        begun.append(chunk)
        assert len(begun) <= 2
        return pool.submit(play, chunk)

    with ThreadPoolExecutor(1) as pool:
        ((_, result),) = run_tasks([task], Workers(submit, size=8, elsewhere=False))
    assert len(result.runs.rounds) == sum(sizes) == 500_000
    assert sizes[0] == 2**16
    assert len(sizes) < 10


def has_gpu():
    return import_module("numba.cuda").is_available()


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_without_a_gpu_one_line_says_so(capsys):
    with pytest.raises(ae.ParameterError, match="needs an NVIDIA GPU"):
        ae.simulate("ucb1", BANDIT, 100, 10, engine="cuda")
    command = [
        "simulate",
        "--policy",
        "ucb1",
        "--means",
        ".9,.5",
        "--horizon",
        "100",
        "--engine",
        "cuda",
    ]
    assert main(command) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_numba_cuda_one_line_names_the_extra(monkeypatch):
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "aftereffect.simulation._cuda", raising=False)
    with pytest.raises(ae.MissingExtraError, match=r"aftereffect\[gpu\]"):
        ae.simulate("ucb1", BANDIT, 100, 10, engine="cuda")


def test_an_unknown_engine_is_answered_with_those_there_are():
    with pytest.raises(ae.ParameterError, match="cuda"):
        ae.simulate("ucb1", BANDIT, 100, 10, engine="coda")
