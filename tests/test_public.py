"""The public surface: what is exported, what importing costs, what the samples cover."""

import subprocess
import sys

import pytest
import samples

import aftereffect as ae
from aftereffect.spec import registered

HEAVY = ("numba", "matplotlib", "polars", "scipy")


def test_all_is_sorted_complete_and_true():
    assert ae.__all__ == sorted(ae.__all__)
    public = {name for name, value in vars(ae).items() if not name.startswith("_") and not isinstance(value, type(sys))}
    assert public == set(ae.__all__)


@pytest.mark.parametrize("statement", ["import aftereffect", "from aftereffect.cli import main; main(['--help'])"])
def test_heavy_modules_are_not_imported_before_use(statement):
    code = f"{statement}\nimport sys\nprint([name for name in {HEAVY} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("kind", "sample"),
    [
        (ae.Delaying, samples.DELAYS),
        (ae.Policy, samples.POLICIES),
        (ae.Growth, samples.GROWTHS),
        (ae.Reward, samples.REWARDS),
        (ae.Environment, (*samples.ENVIRONMENTS, *samples.ADVERSARIAL)),
        (ae.Schedule, samples.SCHEDULES),
    ],
)
def test_samples_cover_everything_registered(kind, sample):
    assert {type(each) for each in sample} == set(registered(kind))


@pytest.mark.parametrize("kind", [ae.Spreading, ae.Policy, ae.Growth, ae.Reward, ae.Environment])
def test_everything_registered_is_exported(kind):
    assert {cls.__name__ for cls in registered(kind)} <= set(ae.__all__)


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
