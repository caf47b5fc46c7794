"""Code of one's own: its results are played again after an edit, wherever the edit was."""

import operator
import os
import subprocess
import sys
import threading
from functools import partial
from types import ModuleType

import pytest

import aftereffect as ae
import samples
from aftereffect.simulation._contents import describe_own_code

HELPERS = """
import enum

WEIGHT = 2.0
TABLE = [1, 2, 3]

class Kind(enum.Enum):
    FIRST = 1

def helped(x):
    return x + 1
"""

POLICY = """
from dataclasses import dataclass
from functools import cache
import numpy as np
import aftereffect as ae
from aftereffect._core.kernels import PolicyKernels
from typing import NamedTuple
from aftereffect.policies import Policy
from aftereffect._core.spec import register
import helpers
from helpers import TABLE, Kind

CHOSEN = 0

class Steps(NamedTuple):
    steps: np.ndarray

class Read(NamedTuple):
    first: float
    others: np.ndarray

def made(step):
    def absorb(state, params, arm, window, total):
        state.steps[0] += step
    return absorb

absorb = cache(made)(1.0)

def decide(state, params, t, rng):
    return int(params.first) + CHOSEN, 10, 10

class Base(Policy):
    share = 0.5

    @property
    def needs_horizon(self):
        return False

@register
@dataclass(frozen=True)
class Mine(Base):
    def kernels(self):
        return PolicyKernels(decide, absorb)

    def initial(self, arms):
        return Steps(np.zeros(1))

    def params(self, arms, horizon):
        first = helpers.helped(-1)  # 0
        return Read(first, np.array([helpers.WEIGHT, TABLE[0], Kind.FIRST.value]))
"""

#: What is edited where; none of it stands in the label of the policy.
EDITS = [
    (POLICY, "CHOSEN = 0", "CHOSEN = 1"),
    (POLICY, "10, 10", "20, 10"),
    (POLICY, "steps[0] += step", "steps[0] -= step"),
    (POLICY, "(made)(1.0)", "(made)(2.0)"),
    (POLICY, "share = 0.5", "share = 0.6"),
    (POLICY, "return False", "return True"),
    (POLICY, "np.zeros(1))", "np.ones(1))"),
    (HELPERS, "x + 1", "x + 2"),
    (HELPERS, "WEIGHT = 2.0", "WEIGHT = 3.0"),
    (HELPERS, "[1, 2, 3]", "[2, 2, 3]"),
    (HELPERS, "FIRST = 1", "FIRST = 2"),
]


def loaded(monkeypatch, policy=POLICY, helpers=HELPERS):
    """The policy that such modules define."""
    for name, source in (("helpers", helpers), ("mine", policy.replace("@register\n", ""))):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, f"{name}.py", "exec"), vars(module))
    return module.Mine()


def test_code_of_this_package_goes_without_saying():
    assert {
        describe_own_code(each)
        for each in (
            *samples.POLICIES,
            *samples.SLOT_POLICIES,
            *samples.ATTRIBUTED_POLICIES,
            *samples.BANDITS,
            *samples.ADVERSARIAL,
            *samples.DEMAND,
        )
    } == {""}


@pytest.mark.parametrize(("source", "old", "new"), EDITS, ids=[new for _, _, new in EDITS])
def test_every_edit_is_seen(monkeypatch, source, old, new):
    assert source.count(old) == 1
    before = describe_own_code(loaded(monkeypatch))
    assert describe_own_code(loaded(monkeypatch)) == before
    edited = source.replace(old, new)
    after = describe_own_code(
        loaded(monkeypatch, **({"policy": edited} if source is POLICY else {"helpers": edited}))
    )
    assert before.startswith(" with own code ")
    assert after != before


def test_what_changes_nothing_is_the_same_code(monkeypatch):
    commented = POLICY.replace("# 0", "# nought").replace("CHOSEN = 0\n", "CHOSEN = 0\n\n\n")
    unused = f"{HELPERS}\ndef unused():\n    return 5\n"
    assert describe_own_code(loaded(monkeypatch, commented, unused)) == describe_own_code(
        loaded(monkeypatch)
    )
    documented = [
        POLICY.replace("t, rng):\n", f't, rng):\n    """{text}"""\n') for text in ("One.", "Two.\n")
    ]
    assert documented[0] != documented[1]
    assert len({describe_own_code(loaded(monkeypatch, each)) for each in documented}) == 1


def test_what_our_classes_are_made_of_counts():
    def linear(k):
        return k

    def slower(k):
        return k + 1

    assert (
        describe_own_code(ae.ArsUcb(growth=linear))
        != describe_own_code(ae.ArsUcb(growth=slower))
        != ""
    )
    added = [
        describe_own_code(ae.ArsUcb(growth=partial(operator.add, number))) for number in (1, 2, 1)
    ]
    assert added[0] == added[2] != added[1]
    nested = [
        describe_own_code(ae.MiniBatch(ae.ArsUcb(growth=growth))) for growth in (linear, slower)
    ]
    assert nested[0] != nested[1]


def test_what_cannot_be_compared_is_never_the_same():
    lock = threading.Lock()

    def waiting(k):
        with lock:
            return k

    first, second = (describe_own_code(ae.ArsUcb(growth=waiting)) for _ in range(2))
    assert "that cannot be compared" in first
    assert first != second
    apart = [describe_own_code(ae.ArsUcb(growth=waiting), constants=False) for _ in range(2)]
    assert apart[0] == apart[1] != ""


PLAY = """
import mine
import aftereffect as ae
results = ae.Sweep.read("sweep.toml").play("results")
(_, study), = results
print(results.reused, study[0].final.mean().round(3), study.made_by.rpartition(" ")[2])
"""


def test_a_sweep_after_an_edit_is_played_again(tmp_path):
    """809.0 was printed from the file of the code before the edit, and 160.0 was true."""
    (tmp_path / "sweep.toml").write_text(
        '[grid]\npolicy = "mine"\nmeans = [0.9, 0.1]\nreward_law = "constant"\n'
        "horizon = 1000\nreplications = 2\n"
    )
    (tmp_path / "play.py").write_text(PLAY)
    found = []
    for policy, helpers in (
        (POLICY, HELPERS),
        (POLICY, HELPERS),
        (POLICY.replace("CHOSEN = 0", "CHOSEN = 1"), HELPERS),
        (POLICY, HELPERS.replace("x + 1", "x + 2")),
        (POLICY, HELPERS.replace("x + 1", "x + 1  # another comment")),
    ):
        (tmp_path / "mine.py").write_text(policy)
        (tmp_path / "helpers.py").write_text(helpers)
        done = subprocess.run(
            [sys.executable, "play.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(tuple(done.stdout.split()))
    first, again, edited, helped, commented = found
    assert again == ("1", *first[1:])
    assert (first[1], edited[:2], helped[:2]) == ("0.0", ("0", "800.0"), ("0", "800.0"))
    assert len({first[2], edited[2], helped[2]}) == 3
    assert commented[:2] == ("0", "0.0")  # as the edit before it was played meanwhile
    assert commented[2] == first[2]
