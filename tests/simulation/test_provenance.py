"""Which edits count: those that can change numbers, and no others."""

import ast
from collections import namedtuple
from importlib import import_module

import numpy as np
import pytest

import aftereffect as ae
import samples
from aftereffect._core import (
    PACKAGE,
    Spec,
    describe_code,
    is_numeric,
    list_registered,
    sources_digest,
)
from aftereffect._core.installation import NUMERIC_SOURCES, normalise_source
from aftereffect.bandits import ENGINES
from aftereffect.inference import Guardrail
from aftereffect.policies import make_take_state, ucb1
from aftereffect.simulation import _compiled
from aftereffect.simulation._clones import Clones
from aftereffect.simulation._contents import describe_own_code
from aftereffect.simulation._driver import make_batch_driver, make_driver
from aftereffect.testing import Script

SOURCE = '''"""A module."""

LIMIT = 3  # slots


class Thing:
    """A class."""

    name = "thing"

    def reach(self):
        """A method."""
        return LIMIT + len("text")
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""Another\n\nmodule."""'),
        ('    """A class."""\n\n', ""),
        ('"""A method."""', '"""Returns the reach."""'),
        ("# slots", "# rounds"),
        ("LIMIT = 3", "\n\nLIMIT   =   (3)"),
    ],
)
def test_words_and_layout_do_not_count(old, new):
    assert old in SOURCE
    assert normalise_source(SOURCE.replace(old, new)) == normalise_source(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('"thing"', '"thong"'),
        ('len("text")', 'len("texts")'),
        ("def reach", "def span"),
        ('"""A method."""\n        return', '"""A method."""\n        yield'),
    ],
)
def test_code_counts(old, new):
    assert old in SOURCE
    assert normalise_source(SOURCE.replace(old, new)) != normalise_source(SOURCE)


def test_files_count_with_their_names(tmp_path):
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "one.py").write_text("x = 1")
    (folder / "notes.txt").write_text("first")
    first = sources_digest([folder])
    (folder / "notes.txt").write_text("second")
    assert sources_digest([folder]) == first
    (folder / "inner" / "one.py").rename(folder / "inner" / "two.py")
    renamed = sources_digest([folder])
    (folder / "empty.py").write_text("")
    assert len({first, renamed, sources_digest([folder])}) == 3
    assert sources_digest([folder / "inner"]) != sources_digest([folder])


def test_it_states_what_computes():
    for name in (ae.__version__, f"numpy {np.__version__}", "numba ", "python "):
        assert name in describe_code()


def test_the_numeric_sources_exist_and_commands_are_not_among_them():
    assert all((PACKAGE / source).exists() for source in NUMERIC_SOURCES)
    assert is_numeric("aftereffect.policies.ars_ucb")
    assert is_numeric("aftereffect.growth")
    for other in ("cli", "cli.simulate", "live.rules", "policies_of_others", "simulation._study"):
        assert not is_numeric(f"aftereffect.{other}")


#: Modules that numeric ones use, though they decide no number: messages, files, what is installed,
#: checks before a run, and pictures.
HARMLESS = {
    "aftereffect.errors",
    "aftereffect._core.installation",
    "aftereffect._core.files",
    "aftereffect.simulation._contents",
    "aftereffect.simulation._plot",
    "aftereffect.simulation._rehearsal",
}


def test_numeric_modules_use_numeric_or_harmless_ones_only():
    """A module that is split, or new, is not forgotten."""
    used = set()
    for source in NUMERIC_SOURCES:
        path = PACKAGE / source
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                    "aftereffect"
                ):
                    module = import_module(node.module)
                    for alias in node.names:
                        value = getattr(module, alias.name)
                        used.add(getattr(value, "__module__", None) or node.module)
    ours = {module for module in used if module.startswith("aftereffect")}
    assert {each for each in ours if not is_numeric(each)} - {"aftereffect._core"} <= HARMLESS


def test_results_depend_on_every_spec_and_every_kernel_of_ours():
    """What reaches numbers is covered, so that an edit there is never missed."""
    played = [cls for cls in list_registered(Spec) if not issubclass(cls, Guardrail)]  # live only
    uncovered = {cls.__module__ for cls in played if not is_numeric(cls.__module__)}
    assert {module for module in uncovered if module.startswith("aftereffect")} == set()
    drivers = {
        (policy.kernels(), bandit.engine(engine, 100).kernels): policy.initial(3)
        for policy in (*samples.POLICIES, *samples.SLOT_POLICIES)
        for bandit in (*samples.BANDITS, *samples.ADVERSARIAL, *samples.DEMAND)
        for engine in ENGINES
    }
    drivers |= {
        (policy.kernels(), bandit.attributed(100).kernels): policy.initial(3)
        for policy in samples.ATTRIBUTED_POLICIES
        for bandit in (*samples.BANDITS, *samples.ADVERSARIAL)
        if not bandit.delay.depends_on_play
    }
    modules = {
        function.__module__
        for (policy, bandit), state in drivers.items()
        for function in clone_driver(policy, bandit, state, shared=False)._begun
    }
    assert len(modules) > 10
    assert {module for module in modules if not is_numeric(module)} == set()


def test_a_policy_of_ours_that_is_not_covered_is_read_itself():
    assert describe_own_code(Script(((0, 1, 1),))).startswith(" with own code ")
    assert describe_own_code(ae.Ucb1()) == ""


def clones_of(source):
    """The clones of a driver whose `decide` such a source defines."""
    module = {}
    exec(compile(source, "typed.py", "exec"), module)
    kernels = ae.Ucb1().kernels()._replace(decide=module["decide"])
    bandit = ae.StochasticBandit([0.9, 0.5]).engine("roundwise", 9).kernels
    return clone_driver(kernels, bandit, ae.Ucb1().initial(2))


def clone_driver(policy, bandit, state, **options):
    play = make_driver(policy, bandit)
    return Clones(make_batch_driver(play, make_take_state(state)), play, inline=True, **options)


DECIDE = """
def decide(state, params, t, rng):
    "A docstring."
    return 0, 1, 1  # always the first
"""


def test_machine_code_is_named_by_what_it_does():
    first = clones_of(DECIDE)
    moved = clones_of(
        "# A comment.\n\n" + DECIDE.replace("A docstring", "Edited").replace("#", "##")
    )
    assert moved.root.__qualname__ == first.root.__qualname__
    assert [each.__code__ for each in moved.made] == [each.__code__ for each in first.made]
    other = clones_of(DECIDE.replace("0, 1, 1", "1, 1, 1"))
    assert other.root.__qualname__ != first.root.__qualname__
    assert ucb1.decide_ucb1.__doc__  # the kernels themselves have theirs still


def test_machine_code_depends_on_the_order_of_fields():
    worlds = [
        namedtuple("World", names)(np.zeros(2), np.zeros(2))
        for names in ("means lags", "lags means")
    ]
    assert _compiled._fields(worlds[0]) != _compiled._fields(worlds[1])
    world = f"{__name__}.World(means: ndarray, lags: ndarray)"
    assert _compiled._fields((worlds[0], 1)) == f"builtins.tuple(0: {world}, 1: int)"
