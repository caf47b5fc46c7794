"""The cache of machine code: it notices edits, survives other processes, and is not needed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aftereffect

PLAY = """
import sys
import aftereffect as ae
for policy in sys.argv[1:]:
    runs = ae.simulate(policy, ae.StochasticBandit([.9, .5, .1]), 400, 8, seed=5)[0]
    print(policy, runs.final.tolist())
"""


@pytest.fixture
def play(tmp_path):
    """Simulate in a process of its own, with a cache of its own and a copy of the package that can be edited."""
    shutil.copytree(Path(aftereffect.__file__).parent, tmp_path / "aftereffect")

    def run(*policies, home=tmp_path / "cache"):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(home), "NUMBA_CACHE_DIR": ""}
        done = subprocess.run(
            [sys.executable, "-c", PLAY, *policies], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def cached(folder):
    return sorted(path.name for path in folder.rglob("*.nbc"))


def test_an_edited_helper_changes_the_result(play, tmp_path):
    before = play("ucb1")
    assert cached(tmp_path / "cache")
    assert play("ucb1") == before
    helper = tmp_path / "aftereffect" / "policies" / "averages.py"
    source = helper.read_text()
    edited = source.replace("math.sqrt(alpha * log_t / plays)", "math.sqrt(alpha * log_t / plays) * 5.0")
    assert edited != source
    helper.write_text(edited)
    assert play("ucb1") != before
    helper.write_text(source)
    assert play("ucb1") == before


def test_the_second_process_compiles_nothing(play, tmp_path):
    play("ucb1")
    before = cached(tmp_path / "cache")
    play("ucb1")
    assert cached(tmp_path / "cache") == before


def test_drivers_compiled_in_different_processes_live_together(play):
    """numba alone gives closures compiled in different processes the same symbol, and links the wrong one."""
    policies = ["round-robin", "ars-ucb(growth=exponential)", "ars-ucb"]
    apart = [line for policy in policies for line in play(policy)]
    assert play(*policies) == apart
    assert play(*reversed(policies)) == apart[::-1]


def test_without_a_writable_cache_it_still_works(play, tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    assert play("ucb1", home=blocked) == play("ucb1")


def test_drivers_unused_for_a_month_are_forgotten(play, tmp_path):
    play("ucb1")
    (old,) = (tmp_path / "cache" / "aftereffect").iterdir()
    os.utime(old, (0, 0))
    play("round-robin")
    assert not old.exists()
