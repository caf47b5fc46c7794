"""Parameters of every size are played or refused: a part of ``make fuzz``, and that the fuzz notices what it should."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.policies._averages import blank_averages
from fuzz_cases import cases, made
from fuzz_play import examined
from fuzz_specs import TEST_LIMIT as LIMIT
from fuzz_specs import run

PROGRAM = Path(__file__).parents[1] / "support" / "fuzz_specs.py"


def case_of(text, arms=2, horizon=1_000):
    return replace(made(1, 0), text=text, made_of=None, arms=arms, horizon=horizon)


@pytest.mark.slow
def test_some_hundred_specs():
    done = subprocess.run(
        [
            sys.executable,
            PROGRAM,
            "--count",
            "400",
            "--compiled",
            "0",
            "--seed",
            "7",
            "--workers",
            "1",
            "--limit",
            str(LIMIT),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 cases of seed 7: 0 bad" in done.stdout


def test_cases_follow_from_the_seed():
    first, again, other = (list(map(str, cases(seed, 200))) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.compiled  # live, policies that look at every slot are compiled
def test_many_of_them_are_accepted_and_many_refused():
    outcomes = [examined(case) for case in cases(5, 120)]
    assert min(outcomes.count("accepted"), outcomes.count("refused")) > 30
    assert len(outcomes) == outcomes.count("accepted") + outcomes.count("refused")


@pytest.mark.slow
def test_it_notices_what_does_not_end():
    def examine(case):
        while case.number == 1:
            pass
        return "accepted"

    found = run(cases(1, 3), limit=0.1, examine=examine)
    assert [each.outcome.partition(" after")[0] for each in found] == [
        "accepted",
        f"killed by signal {signal.SIGXCPU.value}",
        "accepted",
    ]


def test_it_notices_what_is_slow():
    def examine(case):
        begin = time.process_time()
        while case.number == 1 and time.process_time() - begin < 0.4:
            pass
        return "accepted"

    found = run(cases(1, 3), limit=0.2, examine=examine)
    assert [each.bad for each in found] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "spoilt", "outcome"),
    [
        ("params", lambda self, arms, horizon: 1 / 0, "ZeroDivisionError: division by zero"),
        (
            "initial",
            lambda self, arms: blank_averages(arms)._replace(total=np.full(arms, np.nan)),
            "WrongError: state or parameters are not finite",
        ),
    ],
)
def test_it_notices_errors_that_are_not_ours(monkeypatch, name, spoilt, outcome):
    assert examined(case_of("ucb1")) == "accepted"
    monkeypatch.setattr(ae.Ucb1, name, spoilt)
    assert examined(case_of("ucb1")).startswith(outcome)


def test_it_notices_what_is_refused_but_recorded(monkeypatch):
    create = ae.Experiment.create.__func__

    def recorded_too_early(cls, name, **settings):
        create(cls, name, **settings)
        raise ae.ParameterError("too late")

    monkeypatch.setattr(ae.Experiment, "create", classmethod(recorded_too_early))
    assert examined(case_of("ucb1")).startswith("WrongError: refused, but recorded")
