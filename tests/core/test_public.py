"""The public surface: what is exported, what importing costs, what the samples cover."""

import doctest
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import aftereffect as ae
import samples
from aftereffect._core.installation import EXTRAS
from aftereffect._core.spec import list_registered

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAVY = ("numba", "matplotlib", "polars", "scipy")


def test_all_is_sorted_complete_and_true():
    assert ae.__all__ == sorted(ae.__all__)
    public = {
        name
        for name, value in vars(ae).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    families = {"delays", "growth", "rewards", "testing", "theory"}
    assert public - {"import_module", "TYPE_CHECKING", "Any"} == set(ae.__all__) - families - {
        "__version__"
    }
    assert all(hasattr(ae, name) for name in ae.__all__)


@pytest.mark.parametrize(
    "statement", ["import aftereffect", "from aftereffect.cli import main; main(['--help'])"]
)
def test_heavy_modules_are_not_imported_before_use(statement):
    code = f"{statement}\nimport sys\nprint([name for name in {HEAVY} if name in sys.modules])"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("kind", "sample"),
    [
        (ae.Delay, samples.DELAYS),
        (
            ae.Policy,
            (
                *samples.POLICIES,
                *samples.SLOT_POLICIES,
                *samples.ATTRIBUTED_POLICIES,
                *samples.UNIT_POLICIES,
            ),
        ),
        (ae.growth.Growth, samples.GROWTHS),
        (ae.rewards.RewardLaw, samples.REWARDS),
        (ae.Bandit, (*samples.BANDITS, *samples.ADVERSARIAL, *samples.DEMAND, *samples.LINEAR)),
        (ae.Defects, samples.DEFECTS),
        (ae.Guardrail, samples.GUARDRAILS),
        (ae.rewards.Schedule, samples.SCHEDULES),
    ],
)
def test_samples_cover_everything_registered(kind, sample):
    assert {type(each) for each in sample} == set(list_registered(kind))


@pytest.mark.parametrize(
    ("kind", "package"),
    [
        (ae.Delay, ae),
        (ae.Policy, ae),
        (ae.Bandit, ae),
        (ae.Defects, ae),
        (ae.Guardrail, ae),
        (ae.Delay, ae.delays),
        (ae.growth.Growth, ae.growth),
        (ae.rewards.RewardLaw, ae.rewards),
        (ae.rewards.Schedule, ae.rewards),
    ],
)
def test_everything_registered_is_exported_by_its_family(kind, package):
    assert {cls.__name__ for cls in list_registered(kind)} <= set(package.__all__)


def requirements(extra):
    """The names of what an extra installs, with the extras in it."""
    listed = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for each in listed:
        if match := re.fullmatch(r"aftereffect\[(.*)\]", each):
            for inner in match[1].split(","):
                yield from requirements(inner)
        else:
            yield re.match(r"[\w-]+", each)[0].replace("-", "_")


def test_extras_have_what_is_asked_of_them():
    assert list(requirements("")) == ["numpy"]
    assert PROJECT["optional-dependencies"].keys() - EXTRAS.keys() == {"docs", "dev"}
    for extra, modules in EXTRAS.items():
        named = {module.removesuffix("_py") for module in requirements(extra)}
        assert set(modules) <= named
    for extra in ("simulation", "live", "service", "paper", "dask", "gpu"):
        assert set(EXTRAS["cli"]) <= set(requirements(extra))


def test_the_site_lists_all_extras():
    text = (ROOT / "docs" / "index.md").read_text().partition("## Install")[2]
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    listed = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(listed) == sorted(EXTRAS)


def test_nobody_takes_a_growth_for_a_delay():
    assert not {"Exponential", "Power", "Uniform", "Beta"} & set(ae.__all__)


@pytest.mark.parametrize(
    ("leaf", "builtin"),
    [
        (ae.SpecError, ValueError),
        (ae.ParameterError, ValueError),
        (ae.OutputError, OSError),
        (ae.InputError, OSError),
        (ae.MissingExtraError, ImportError),
    ],
)
def test_errors_are_what_a_caller_would_catch(leaf, builtin):
    assert issubclass(leaf, ae.AftereffectError)
    assert issubclass(leaf, builtin)


def exported():
    things = {name: getattr(ae, name) for name in ae.__all__}
    for family in (ae.delays, ae.growth, ae.rewards):
        classes = {name: getattr(family, name) for name in family.__all__}
        things |= {name: cls for name, cls in classes.items() if isinstance(cls, type)}
    return [
        thing
        for thing in things.values()
        if getattr(thing, "__module__", "").startswith("aftereffect")
        and (
            inspect.isfunction(thing)
            or (
                isinstance(thing, type)
                and not inspect.isabstract(thing)
                and not issubclass(thing, (Exception, tuple))
            )
        )
    ]


@pytest.mark.parametrize("thing", exported(), ids=lambda thing: thing.__qualname__)
def test_everything_exported_has_an_example_that_prints_a_number(thing):
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")
    assert any(re.search(r"\d", example.want) for example in examples)
