"""Processes that are killed, in short; ``make crash-test`` is the long version."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1] / "support"


def run(program, *arguments):
    done = subprocess.run(
        [sys.executable, TESTS / program, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("storage", ["sqlite", "postgresql"])
def test_killed_between_any_two_statements(storage, tmp_path, request):
    url = (
        f"sqlite:///{tmp_path}/live.db"
        if storage == "sqlite"
        else request.getfixturevalue("postgres").url()
    )
    killed = [
        int(number) for number in re.findall(r"killed at (\d+) points", run("crash_points.py", url))
    ]
    assert len(killed) == 12
    assert min(killed) >= 7


@pytest.mark.parametrize("storage", ["sqlite", "postgresql"])
@pytest.mark.usefixtures("postgres")
def test_services_killed_under_load(storage):
    kills = {"sqlite": "0", "postgresql": "0"} | {storage: "4"}
    said = run(
        "crash_service.py",
        *(argument for name, count in kills.items() for argument in (f"--{name}", count)),
    )
    answered = int(re.search(r"answered (\d+) decisions", said.replace(",", ""))[1])
    assert answered >= 4  # one for each kill: a busy machine answers few
    assert "lost 0, decisions changed 0, doubled 0, experiments damaged 0, errors 0" in said


@pytest.mark.parametrize("storage", ["sqlite", "postgresql"])
@pytest.mark.usefixtures("postgres")
def test_writers_killed_at_random_moments(storage):
    kills = {"sqlite": "0", "postgresql": "0"} | {storage: "20"}
    said = run(
        "crash_writers.py",
        *(argument for name, count in kills.items() for argument in (f"--{name}", count)),
    )
    decisions, totals = re.search(
        r"acknowledged (\d+) decisions and (\d+) totals", said.replace(",", "")
    ).groups()
    assert min(int(decisions), int(totals)) > 50
    assert "lost 0, decisions changed 0, doubled 0, experiments damaged 0, errors 0" in said
