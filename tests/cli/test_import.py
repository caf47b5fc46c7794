"""Modules of the user's own on the command line, by the example in docs/extend.md."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect.cli import _move_imports_first

SOURCES = Path(ae.__file__).parents[1]
GUIDE = (Path(__file__).parents[2] / "docs" / "extend.md").read_text()


@pytest.fixture
def run(tmp_path):
    """Run a command where the files of the guide are; here, what they register would stay."""
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE, re.DOTALL):
        (tmp_path / name).write_text(text)
    program = f"{sys.executable} -m"
    paths = os.pathsep.join([str(SOURCES), str(tmp_path)])

    def run(command, **variables):
        return subprocess.run(
            f"{program} {command}",
            shell=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.compiled
def test_the_simulation_of_the_guide(run):
    ((command, printed),) = re.findall("```sh\n(.*?)```\n\n```\n(.*?)```", GUIDE, re.DOTALL)
    done = run(command)
    assert (done.stdout, done.stderr) == (printed, "")


@pytest.mark.compiled
def test_the_tests_of_the_guide(run):
    done = run("pytest -q -p no:cacheprovider test_mine.py")
    assert "2 passed" in done.stdout, done.stdout


def test_the_environment_names_modules_too(run):
    for command, variables in (
        ("aftereffect list delays --import mine", {}),
        ("aftereffect --import=mine list delays", {}),
        ("aftereffect list delays", {"AFTEREFFECT_IMPORT": "mine"}),
    ):
        assert "two-steps(first, last)" in run(command, **variables).stdout
    assert "two-steps" not in run("aftereffect list delays").stdout


@pytest.mark.parametrize(
    ("given", "moved"),
    [
        ("list delays --import a", "--import a list delays"),
        ("tell x 0 --import a -5", "--import a tell x 0 -5"),
        ("--import a list --import=b", "--import a --import=b list"),
        ("tell x 0 -- --import", "tell x 0 -- --import"),
        ("list --import", "list --import"),
    ],
)
def test_imports_come_before_the_command(given, moved):
    assert _move_imports_first(given.split()) == moved.split()
