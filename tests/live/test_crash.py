"""Processes that are killed, in short; ``make crash-test`` is the long version."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import crash_service

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
    assert len(killed) == 18
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


def test_a_client_that_hangs_is_an_error(monkeypatch):
    """Nothing listens there: clients retry, and whoever waits for their answers says which had none."""
    monkeypatch.setattr(crash_service, "PATIENCE", 0.1)
    monkeypatch.setattr(crash_service, "RETRY_FOR", 3.0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        clients = crash_service.Clients([f"http://127.0.0.1:{nobody.getsockname()[1]}"])
        clients.wait_for_any()
        assert clients.errors == [
            "no answer within 0.1 s: "
            + ", ".join(
                f"client {number} of {name}" for name in ("rounds", "slots") for number in range(3)
            )
        ]
        monkeypatch.setattr(crash_service, "PATIENCE", 30)
        clients.end()
    assert len(clients.errors) == 7  # each client gave up by itself


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
