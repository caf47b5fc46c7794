"""Test on every Python that is here, with the newest and the lowest dependencies: `make matrix`.

Each row gets an environment of its own in ``build/matrix``, with the wheel of ``make dist``. The
table of what was tested on what is written between two marks of a document.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: What is tested in each environment: no compiler cache, server or browser is needed.
TESTS = (
    *("tests/core/test_spec.py", "tests/delays", "tests/rewards", "tests/theory"),
    *("tests/live/rules", "tests/live/test_exports.py"),
)
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "scipy")
EXTRAS = "plot,data,service"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
MARK = "matrix"
#: Shows that what is installed works, and names versions for the table.
CHECK = """
import sys
from importlib.metadata import version
import aftereffect as ae
study = ae.simulate("ars-ucb", ae.StochasticBandit([0.9, 0.5], ae.Interval(3, 9)), 1_000, 20, seed=1)
assert 0 < study[0].final.mean() < 200
with ae.Experiment.create("a", arms=["A", "B"], seed=1, storage="sqlite:///check.db") as shop:
    shop.tell(shop.ask().slot, 37)
    assert shop.verify().whole
names = ("numpy", "numba", "cyclopts", "sqlalchemy", "fastapi", "polars", "matplotlib")
print(" ".join(f"{name} {version(name)}" for name in names))
"""


def find_python(version: str) -> str | None:
    """The interpreter of a version: on the path, or of pyenv."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return found
    homes = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return str(homes[-1]) if homes else None


def list_lowest() -> list[str]:
    """The lowest versions that ``pyproject.toml`` allows, as constraints."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given, extras = list(project["dependencies"]), EXTRAS.split(",")
    while extras:
        for each in project["optional-dependencies"][extras.pop()]:
            inner = re.fullmatch(r"aftereffect\[(.*)\]", each)  # an extra may contain others
            extras += inner[1].split(",") if inner else []
            given.append(each)
    found = [re.fullmatch(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", each) for each in given]
    return sorted({f"{match[1]}=={match[2]}" for match in found if match})


def test_row(python: str, wheel: Path, folder: Path, constraints: list[str]) -> tuple[str, str]:
    """The versions in a new environment, and what its tests say."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    here = folder / "bin" / "python"
    (folder / "constraints.txt").write_text("".join(f"{each}\n" for each in constraints))
    install = [here, "-m", "pip", "install", "--quiet", "--constraint", folder / "constraints.txt"]
    subprocess.run([*install, f"{wheel}[{EXTRAS}]", *TOOLS], check=True)
    run = subprocess.run([here, "-c", CHECK], capture_output=True, text=True, cwd=folder)
    if run.returncode != 0:
        return "", f"fails: {run.stderr.strip().splitlines()[-1]}"
    # Not the sources of the repository, but the wheel.
    command = [here, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, "-k", "not postgresql"]
    tests = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    print(tests.stdout[-2_000:] if tests.returncode else tests.stdout.splitlines()[-1], flush=True)
    return run.stdout.strip(), tests.stdout.strip().splitlines()[-1].strip("= ")


def main() -> int:
    """Test all rows, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document", type=Path)
    document = parser.parse_args().document
    (wheel,) = sorted((ROOT / "dist").glob("*.whl"))
    folder = ROOT / "build" / "matrix"
    rows = [(version, "newest", []) for version in VERSIONS]
    rows.insert(0, (VERSIONS[0], "lowest", list_lowest()))
    lines, failed = [], False
    for version, kind, constraints in rows:
        python = find_python(version)
        if python is None:
            lines.append(f"| {version} | {kind} | | not here, so not tested |")
            continue
        print(f"python {version}, {kind}", flush=True)
        try:
            versions, outcome = test_row(python, wheel, folder / f"{version}-{kind}", constraints)
        except subprocess.CalledProcessError as error:
            versions, outcome = "", f"cannot be installed: {error}"
        failed |= " failed" in outcome or " passed" not in outcome
        lines.append(f"| {version} | {kind} | {versions} | {re.sub(r' in [0-9].*', '', outcome)} |")
    table = "\n".join(["| Python | dependencies | versions | tests |", "|---|---|---|---|", *lines])
    text = document.read_text()
    start, end = f"<!-- {MARK}: written by make matrix -->", f"<!-- /{MARK} -->"
    before, _, rest = text.partition(start)
    document.write_text(f"{before}{start}\n\n{table}\n\n{end}{rest.partition(end)[2]}")
    print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
