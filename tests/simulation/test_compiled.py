"""The cache of machine code: it notices edits, survives other processes, and is not needed."""

import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import aftereffect
import aftereffect as ae
from aftereffect._core.kernels import PolicyKernels
from aftereffect.policies import ucb1
from aftereffect.simulation import Task, _compiled, load_decide, prepare, run_batch
from aftereffect.simulation._driver import Streams

PLAY = """
import sys
import aftereffect as ae
bandit = ae.StochasticBandit([.9, .5, .1], reward_law="constant")  # compiles in less time
for policy in sys.argv[1:]:
    print(policy, ae.simulate(policy, bandit, 400, 8, seed=5)[0].final.tolist())
"""

OWN = """
import sys
from dataclasses import dataclass
import numpy as np
import aftereffect as ae
import settings
from settings import Kind


@dataclass(frozen=True)
class Fixed(ae.RoundRobin):
    arm: int = 0
    how: str = "by_default"

    def kernels(self):
        table = np.full(2_000, self.arm)

        def by_module(state, params, t, rng):
            return settings.ARM, 1, 1

        def by_enum(state, params, t, rng):
            return Kind.ONE.value, 1, 1

        def by_array(state, params, t, rng):
            return table[1_000], 1, 1

        def by_default(state, params, t, rng, arm=self.arm):
            return arm, 1, 1

        return ae.RoundRobin().kernels()._replace(decide=locals()[self.how])


bandit = ae.StochasticBandit([.9, .5, .1], reward_law="constant")
for how, arm in (each.split("=") for each in sys.argv[1:]):
    print(int(ae.simulate(Fixed(int(arm), how), bandit, 9, 1, seed=5)[0].pulls[0].argmax()))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that tests share: what one has compiled, others load."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def play(tmp_path, cache):
    """Simulate in a process of its own, with a copy of the package that can be edited."""
    shutil.copytree(Path(aftereffect.__file__).parent, tmp_path / "aftereffect")

    def run(*arguments, program=PLAY, home=cache):
        bandit = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",  # files are edited twice in a second
            "PYTHONPATH": str(tmp_path),
            "XDG_CACHE_HOME": str(home),
            "NUMBA_CACHE_DIR": "",
        }
        (tmp_path / "program.py").write_text(program)
        command = [sys.executable, tmp_path / "program.py", *arguments]
        done = subprocess.run(command, env=bandit, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def cached(folder):
    """The machine code in a cache, and when each piece was written."""
    return sorted((path.name, path.stat().st_mtime_ns) for path in folder.rglob("*.nbc"))


SWEEP = (
    PLAY
    + """
results = ae.Sweep.read(sys.path[0] + "/sweep.toml").play(sys.path[0] + "/results")
print("reused", results.reused)
"""
)

#: Edits that decide no number: words anywhere, and code of commands, tables and pictures.
WORDS = [
    ("cli/*simulate.py", '"""', '"""Edited.\n\n'),
    ("cli/*simulate.py", "\n\n\ndef ", "\n\nEXTRA = 1\n\n\ndef "),
    ("policies/ucb1.py", '"""', '"""Edited.\n\n'),
    ("policies/ucb1.py", "\ndef decide", "\n# A comment.\n\n\ndef decide"),
    ("simulation/_driver.py", '"""The simulation', '"""The one\n\n'),
    ("simulation/_study.py", 'f"<Study of', 'f"<A study of'),
    ("_core/files.py", "), 160", "), 170"),
]
#: Code and where it stands: each gives other numbers.
CODE = [
    ("policies/*averages.py", "math.sqrt(alpha * math.log", "math.sqrt(5.0 * alpha * math.log"),
    ("simulation/_driver.py", "lost = 0.0", "lost = 1.0"),
]


@pytest.fixture
def edit(tmp_path):
    """Edit the copy of the package."""

    def change(name, old, new):
        (path,) = (tmp_path / "aftereffect").glob(name)
        source = path.read_text()
        assert old in source
        path.write_text(source.replace(old, new, 1))

    (tmp_path / "sweep.toml").write_text(
        '[grid]\npolicy = "ucb1"\nmeans = [0.9, 0.5, 0.1]\nreward_law = "constant"\n'
        "horizon = 400\nreplications = 8\n"
    )
    return change


def test_edited_words_compile_and_replay_nothing_and_edited_code_does(play, edit, cache):
    before = play("ucb1", program=SWEEP)
    assert before[-1] == "reused 0"
    compiled = cached(cache)
    assert compiled
    for name, old, new in WORDS:
        edit(name, old, new)
    assert play("ucb1", program=SWEEP) == [*before[:-1], "reused 1"]
    assert cached(cache) == compiled
    for name, old, new in CODE:
        edit(name, old, new)
        after = play("ucb1", program=SWEEP)
        assert after[0] != before[0]
        assert after[-1] == "reused 0"
        assert len(cached(cache)) > len(compiled)
        compiled = cached(cache)
        edit(name, new, old)
    assert play("ucb1") == before[:1]
    assert cached(cache) == compiled


def test_drivers_compiled_in_different_processes_live_together(play, cache):
    """numba alone gives closures compiled in different processes the same symbol, and links the wrong one."""
    policies = ["ars-ucb(growth=exponential)", "ars-ucb"]  # closures of the same name
    apart = [line for policy in policies for line in play(policy)]
    compiled = cached(cache)
    assert play(*policies) == apart
    assert play(*reversed(policies)) == apart[::-1]
    assert cached(cache) == compiled  # in each order the second finds functions that the first made


def test_without_a_writable_cache_it_still_works(play, tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    bandit = ae.StochasticBandit([0.9, 0.5, 0.1], reward_law="constant")
    expected = ae.simulate("ucb1", bandit, 400, 8, seed=5)[0].final.tolist()
    assert play("ucb1", home=blocked) == [f"ucb1 {expected}"]


def test_drivers_unused_for_a_month_are_forgotten(play, tmp_path, cache):
    play("ucb1")
    old, home = next(iter((cache / "aftereffect").iterdir())), tmp_path / "own"
    copy = shutil.copytree(old, home / "aftereffect" / old.name)
    os.utime(copy, (0, 0))
    (tmp_path / "settings.py").write_text("Kind = ARM = 0\n")
    play("by_default=0", program=OWN, home=home)
    assert not copy.exists()
    assert cached(home)


def test_an_edited_constant_in_another_module_is_seen(play, tmp_path):
    for arm in (1, 2):
        settings = f"import enum\nARM = {arm}\n\nclass Kind(enum.IntEnum):\n    ONE = {arm}\n"
        (tmp_path / "settings.py").write_text(settings)
        assert play("by_module=0", "by_enum=0", program=OWN) == [str(arm)] * 2


EDITED_MEANWHILE = """
import sys
from pathlib import Path
import aftereffect as ae
import settings
if len(sys.argv) > 1:
    Path(settings.__file__).write_text("ARM = 2  # edited")


def decide(state, params, t, rng):
    return settings.ARM, 1, 1


class Fixed(ae.RoundRobin):
    def kernels(self):
        return ae.RoundRobin().kernels()._replace(decide=decide)


bandit = ae.StochasticBandit([.9, .5, .1], reward_law="constant")
print(int(ae.simulate(Fixed(), bandit, 9, 1, seed=5)[0].pulls[0].argmax()))
"""


def test_an_edit_after_the_import_is_not_mistaken_for_what_was_imported(play, tmp_path):
    (tmp_path / "settings.py").write_text("ARM = 1")
    assert play("edit", program=EDITED_MEANWHILE) == ["1"]
    assert play(program=EDITED_MEANWHILE) == ["2"]


def test_kernels_that_differ_in_what_they_hold_only_are_not_mixed_up(play, tmp_path):
    (tmp_path / "settings.py").write_text("Kind = ARM = 0\n")
    for arm in "12":  # apart
        assert play(f"by_array={arm}", f"by_default={arm}", program=OWN) == [arm] * 2
    together = [f"{how}={arm}" for how in ("by_array", "by_default") for arm in "21"]
    assert play(*together, program=OWN) == list("2121")


def test_a_helper_redefined_in_a_notebook_is_seen_and_kernels_stay_as_they_were():
    cell = {"__name__": "notebook"}
    exec(
        "def choice():\n    return 0\ndef decide(state, params, t, rng):\n    return choice(), 1, 1",
        cell,
    )

    class Chosen(aftereffect.RoundRobin):
        def kernels(self):
            return aftereffect.RoundRobin().kernels()._replace(decide=cell["decide"])

    def pulls():
        return (
            aftereffect.simulate(Chosen(), aftereffect.StochasticBandit([0.9, 0.1]), 4, 1, seed=1)[
                0
            ]
            .pulls[0]
            .tolist()
        )

    assert pulls() == [4, 0]
    exec("def choice():\n    return 1", cell)
    assert pulls() == [0, 4]
    assert pickle.loads(pickle.dumps(ucb1.decide_ucb1)) is ucb1.decide_ucb1


def rounded_up(n):
    return n + 1


@pytest.mark.usefixtures("counting_allowed")
def test_helpers_may_stand_in_comprehensions():
    def decide(state, params, t, rng):
        return max([rounded_up(k) for k in range(2)]), 1, 1

    class Comprehending(aftereffect.RoundRobin):
        def kernels(self):
            return aftereffect.RoundRobin().kernels()._replace(decide=decide)

    runs = aftereffect.simulate(
        Comprehending(), aftereffect.StochasticBandit([0.9, 0.5, 0.1]), 6, 1, seed=1
    )[0]
    assert runs.pulls[0].tolist() == [0, 0, 6]


def read_a_file(t):
    return len(open(str(t)).read())


def late(state, params, t, rng):
    return (read_a_file(t) if t > 10**9 else 0), 1, 1


def text(state, params, t, rng):
    return ("a" if t > 10**9 else 0), 1, 1


def context(state, params, t, rng):
    if t > 10**9:
        with open("a") as file:
            file.read()
    return 0, 1, 1


@pytest.mark.usefixtures("counting_allowed")
@pytest.mark.parametrize(
    ("decide", "function", "line", "reason"),
    [
        (
            late,
            "read_a_file",
            read_a_file.__code__.co_firstlineno + 1,
            "Untyped global name 'open'",
        ),
        (text, "text", text.__code__.co_firstlineno + 1, "Cannot unify Literal"),
        (
            context,
            "context",
            context.__code__.co_firstlineno,
            "The 'with (context manager) as (variable):' construct",
        ),
        (
            lambda state, params, t, rng: (state.arm.foo(1) if t > 10**9 else 0, 1, 1),
            "<lambda>",
            None,
            "Unknown attribute 'foo' of type array(float64, 1d, C)",
        ),
    ],
)
def test_a_kernel_that_cannot_be_compiled_is_refused_in_one_line(decide, function, line, reason):
    class Uncompilable(aftereffect.RoundRobin):
        def kernels(self):
            return aftereffect.RoundRobin().kernels()._replace(decide=decide)

    with pytest.raises(aftereffect.ParameterError) as caught:
        aftereffect.simulate(Uncompilable(), aftereffect.StochasticBandit([0.9, 0.1]), 6, 1, seed=1)
    message = str(caught.value)
    place = decide.__code__.co_firstlineno if line is None else line
    assert message.startswith(
        f"a kernel cannot be compiled, {function} (test_compiled.py, line {place}): {reason}"
    )
    assert message.endswith(
        "; kernels use numbers, arrays, math, loops, rng.random() and functions named directly"
    )
    assert "\n" not in message
    assert (
        caught.value.__suppress_context__
    )  # the hundreds of lines that numba says are not shown beneath


class Scores(NamedTuple):
    """By arm."""

    scores: np.ndarray


@pytest.mark.usefixtures("counting_allowed")
def test_a_kernel_that_makes_arrays_of_its_own_is_compiled_all_the_same():
    def decide(state, params, t, rng):
        return int(np.argmax(state.scores * 1.0)), 1, 1

    def absorb(state, params, arm, window, total):
        state.scores[:] = state.scores + np.arange(state.scores.shape[0])

    @dataclass(frozen=True)
    class Allocating(ae.Policy):
        def kernels(self):
            return PolicyKernels(decide, absorb)

        def initial(self, arms):
            return Scores(np.zeros(arms))

    study = ae.simulate(Allocating(), ae.StochasticBandit([0.9, 0.5, 0.1]), 10, 2, seed=1)
    assert study[0].pulls.tolist() == [[1, 0, 9]] * 2


def test_generators_are_let_go():
    """Machine code that does not count must not be given Python's objects: they would never be freed."""
    task = Task(ae.Ucb1(), ae.StochasticBandit([0.9, 0.5]), "roundwise", 10, (10,), 1, range(1))
    prepared, streams = prepare(task), Streams()
    run_batch(task, prepared, streams)
    _, *given = streams.arguments_for(1, range(1))
    before = [sys.getrefcount(each) for each in given]
    for _ in range(5):
        run_batch(task, prepared, streams)
    assert [sys.getrefcount(each) for each in given] == before


def test_threads_that_need_the_same_decisions_start_one_compiler(monkeypatch):
    """Several at once would be in each other's way for as long as each of them takes."""
    stored, started = threading.Event(), []

    def run(command, **_):
        started.append(command)
        time.sleep(0.2)
        stored.set()

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(_compiled, "is_storable", lambda *_: not stored.is_set())
    monkeypatch.setattr(_compiled, "compile_decide", lambda *_: stored.is_set())
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(load_decide, [ae.FixedSwitchback()] * 3)) == [True] * 3
    assert len(started) == 1


def test_a_type_that_has_moved_is_compiled_again(tmp_path, monkeypatch):
    """Numba stores the module of a named tuple with its machine code, and cannot load it without."""
    from aftereffect.simulation import _compiled

    monkeypatch.setattr(_compiled._config, "CACHE_DIR", str(tmp_path))
    folders = []
    for module in ("first_home", "second_home"):
        moved = namedtuple("Moved", ["means"])
        moved.__module__ = module
        folders.append(_compiled._cache_folder("driver", moved(np.zeros(2))))
    assert None not in folders
    assert folders[0] != folders[1]


MOVED = """
import sys
from importlib import import_module
import aftereffect as ae


class Fixed(ae.RoundRobin):
    def kernels(self):
        return ae.RoundRobin().kernels()._replace(decide=import_module(sys.argv[1]).decide)


bandit = ae.StochasticBandit([.9, .5, .1], reward_law="constant")
print(int(ae.simulate(Fixed(), bandit, 9, 1, seed=5)[0].pulls[0].argmax()))
"""


def test_kernels_that_have_moved_need_no_compiling(play, tmp_path, cache):
    """Numba stores the modules of functions with their machine code, and imports them again."""
    here, there = tmp_path / "here.py", tmp_path / "there.py"
    here.write_text("def decide(state, params, t, rng):\n    return 2, 1, 1\n")
    assert play("here", program=MOVED) == ["2"]
    compiled = cached(cache)
    here.rename(there)
    assert play("there", program=MOVED) == ["2"]
    assert cached(cache) == compiled


def double(number):
    return 2 * number


@numba.njit
def count_down(number):
    if number < -5:
        raise ValueError("too far")
    return number - 1


def deep(state, params, t, rng):
    return double(count_down(1)), 1, 1


def test_only_programs_become_machine_code(monkeypatch):
    """A callee is in the machine code of its caller. One that somebody else compiled has its own."""
    codegen = numba.core.registry.cpu_target.target_context.codegen()
    made, add = [], codegen._add_module

    def added(module):
        made.append([each.name for each in module.functions if not each.is_declaration])
        return add(module)

    monkeypatch.setattr(codegen, "_add_module", added)
    policy = type(
        "Deep",
        (ae.RoundRobin,),
        {"kernels": lambda self: ae.RoundRobin().kernels()._replace(decide=deep)},
    )()
    assert ae.simulate(policy, ae.StochasticBandit([0.9, 0.1]), 10, 1)[0].pulls.tolist() == [
        [10, 0]
    ]
    assert [names for names in made if any("double" in name for name in names)] == []
    programs = [names for names in made if any("play_batch" in name for name in names)]
    assert len(programs) == 1
    assert not any("play" in name for names in made if names not in programs for name in names)
    assert count_down(3) == 2  # compiled for a kernel, and called from Python
    with pytest.raises(ValueError, match="too far"):
        count_down(-6)
