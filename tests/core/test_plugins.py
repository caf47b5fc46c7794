"""Things of one's own: a delay and a policy from a file outside the package, used everywhere."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest

import aftereffect as ae
from aftereffect._core import installation, spec
from aftereffect.testing import Script, check_bandit, script_totals

#: A delay that fits no family: rewards arrive together, on the next payday.
MODULE = '''
from dataclasses import dataclass
from functools import cache

import numpy as np

from aftereffect import ArsUcb, register
from aftereffect.delays import (
    ARRIVALS, LAST, SLOTWISE_ROWS, Delay, DelayFacts, RoundwiseEngine, SlotwiseEngine, take_arrivals
)


@register
@dataclass(frozen=True)
class Payday(Delay):
    """All rewards arrive on the next slot that is a multiple of `every`."""

    every: int

    def check_arms(self, arms):
        pass

    def facts(self, arms):
        return DelayFacts((self.every + 1) / 2, (self.every**2 - 1) / 12, self.every)

    def count_bytes(self, engine, arms, horizon):
        return 8 * (2 * self.every + 3)

    def _table(self, arms):
        return np.zeros(arms, dtype=np.int64), np.array([[float(self.every)]])

    def roundwise(self, arms, rewards, horizon):
        return RoundwiseEngine(collect_paydays(rewards), *self._table(arms), (1, 1))

    def slotwise(self, arms, rewards, horizon):
        memory = len(SLOTWISE_ROWS), self.every + 1
        return SlotwiseEngine(step_to_payday(rewards), *self._table(arms), memory)


@cache
def collect_paydays(rewards):
    many, key_of = rewards.many, rewards.key_of

    def collect(memory, world, t, arm, slots, window, rng):
        every, end, total, slot = int(world.tables[0, 0]), t + slots, 0.0, t
        while slot < end:
            if slot % every == 0:
                if slot >= end - window:
                    total += memory[0, 0]
                memory[0, 0] = 0.0
            stop = min(end, (slot // every + 1) * every)
            memory[0, 0] += many(world.source, key_of(world, arm), slot, stop - slot, rng)
            slot = stop
        return total

    return collect


@cache
def step_to_payday(rewards):
    one, key_of = rewards.one, rewards.key_of

    def step(memory, world, slot, arm, begins, rng):
        every = int(world.tables[0, 0])
        reward = one(world.source, key_of(world, arm), slot, rng)
        memory[ARRIVALS, (slot // every + 1) * every % memory.shape[1]] += reward
        memory[LAST, 0] = reward
        return take_arrivals(memory, slot)

    return step


@register
@dataclass(frozen=True)
class MyUcb(ArsUcb):
    """ARS-UCB under another name, with the delay that its user expects."""

    delay: Delay = Payday(7)
'''
NAME = "my_own_things"


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(spec, "_REGISTRY", dict(spec._REGISTRY))
    monkeypatch.setattr(spec, "_ALIASES", dict(spec._ALIASES))
    yield
    sys.modules.pop(NAME, None)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    return tmp_path


@pytest.fixture
def loaded(folder, monkeypatch):
    """The module, found through the environment as a child process of the command line finds it."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv(installation.VARIABLE, NAME)
    return folder


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "aftereffect", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_DATA_HOME": str(folder)},
    )


@pytest.mark.compiled
def test_a_delay_of_ones_own_plays_in_both_engines(loaded):
    delay = ae.parse("payday(7)", ae.Delay)
    check_bandit(ae.StochasticBandit([0.9, 0.3], delay))
    constant = ae.StochasticBandit([0.5, 0.25], delay, "constant")
    script = Script(((0, 5, 5), (1, 9, 4), (0, 1, 1), (1, 30, 20)))
    roundwise, slotwise = (
        script_totals(script, constant, engine, 2, seed=1) for engine in ("roundwise", "slotwise")
    )
    assert np.array_equal(roundwise, slotwise)
    assert roundwise[0].tolist() == [0.0, 0.0, 1.75, 5.25]


@pytest.mark.compiled
def test_it_plays_on_the_command_line_and_in_a_sweep(folder):
    options = ["--policy", "my-ucb", "--delay", "payday(7)", "--means", ".9,.5"]
    played = run(
        folder,
        "--import",
        NAME,
        "simulate",
        *options,
        "--horizon",
        "500",
        "--replications",
        "3",
        "--seed",
        "1",
        "--format",
        "json",
    )
    assert played.returncode == 0, played.stderr
    (summary,) = json.loads(played.stdout)
    assert summary["bandit"].startswith("stochastic-bandit([0.9, 0.5], delay=payday(7)")
    (folder / "sweep.toml").write_text(
        '[grid]\npolicy = "my-ucb"\nmeans = [0.9, 0.5]\ndelay = "payday(7)"\nhorizon = 500\nreplications = 3\nseed = 1\n'
    )
    swept = run(folder, "--import", NAME, "sweep", "sweep.toml", "--out", "cells")
    assert swept.returncode == 0, swept.stderr
    assert len(list((folder / "cells").glob("*.parquet"))) == 1
    unknown = run(folder, "simulate", *options, "--horizon", "500")
    assert unknown.returncode == 2
    assert "unknown delay 'payday'" in unknown.stderr


def test_a_module_that_is_not_there_gets_one_line(folder):
    refused = run(folder, "--import", "no_such_module", "list", "policies")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "cannot import no_such_module: there is no module no_such_module" in refused.stderr


def test_a_policy_and_a_delay_of_ones_own_are_played_by_the_service(loaded, service):
    client = ae.Client(service)
    client.create("own", arms=["a", "b"], policy="my-ucb(delay=payday(3))", reward_range=(0, 1))
    experiment = client.experiment("own")
    assert experiment.ask().arm in ("a", "b")
    assert experiment.status().policy == "my-ucb(alpha=4, growth=power(2), delay=payday(3))"
    with pytest.raises(ae.ParameterError, match=r"write payday\(every\)"):
        client.create("other", arms=["a", "b"], policy="my-ucb(delay=payday)", reward_range=(0, 1))


def test_entry_points_are_loaded_when_a_name_is_unknown(loaded, monkeypatch):
    monkeypatch.delenv(installation.VARIABLE)
    sys.modules.pop(NAME, None)
    points = {"aftereffect.delays": [EntryPoint("payday", f"{NAME}:Payday", "aftereffect.delays")]}
    monkeypatch.setattr(installation, "entry_points", lambda group: points.get(group, []))
    monkeypatch.setattr(installation, "_loaded", False)
    assert ae.parse("payday(3)").every == 3


def test_a_broken_entry_point_is_a_warning_and_nothing_more(monkeypatch):
    broken = EntryPoint("broken", "no_such_module:Thing", "aftereffect.policies")
    monkeypatch.setattr(installation, "entry_points", lambda group: [broken])
    monkeypatch.setattr(installation, "_loaded", False)
    with (
        pytest.warns(UserWarning, match=r"cannot load broken \(no_such_module:Thing\)"),
        pytest.raises(ae.SpecError, match="unknown policy"),
    ):
        ae.parse("nothing-of-the-kind", ae.Policy)


def test_old_names_stay_readable():
    @ae.register
    @dataclass(frozen=True)
    class RenamedUcb(ae.ArsUcb):
        """A policy that had another name, and whose alpha was once called width."""

        aliases: ClassVar[tuple[str, ...]] = ("former-ucb",)
        parameter_aliases: ClassVar[dict[str, str]] = {"width": "alpha"}

    assert ae.parse("former-ucb(width=2)", ae.Policy) == RenamedUcb(2)
    assert str(ae.parse("former-ucb(width=2)")) == "renamed-ucb(alpha=2, growth=power(2))"
    with pytest.raises(ae.SpecError, match="the name 'former-ucb' is already that of"):

        @ae.register
        @dataclass(frozen=True)
        class FormerUcb(ae.ArsUcb):
            """Another class of the old name."""
