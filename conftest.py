"""What holds for tests, doctests and examples in documents: their marks and their folders."""

import atexit
import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
#: Programs that build the site, and what they make. The hooks of schemathesis have no examples,
#: and every worker would take a second to import it.
collect_ignore_glob = [
    "docs/*.py",
    "docs/_build",
    "docs/generated",
    "tests/support/schemathesis_hooks.py",
]
#: Marks of all tests in a folder or file; `pyproject.toml` says what the marks mean. Other tests
#: that compile say so by themselves.
MARKS_BY_PATH = {
    "README.md": "compiled",
    "docs": "compiled",
    "src/aftereffect/errors.py": "compiled",
    "src/aftereffect/simulation/_compiled.py": "compiled",
    "src/aftereffect/simulation/_cuda.py": "compiled",
    "src/aftereffect/simulation/_trace.py": "compiled",
    "src/aftereffect/sweeps": "compiled",
    "src/aftereffect/testing/bandits.py": "compiled",
    "src/aftereffect/testing/policies.py": "compiled",
    "tests/bandits/test_agreement.py": "compiled",
    "tests/bandits/test_bandits.py": "compiled",
    "tests/bandits/test_engines.py": "compiled",
    "tests/bandits/test_independent.py": "compiled",
    "tests/bandits/test_linear_bandit.py": "compiled",
    "tests/cli/test_import.py": "compiled",
    "tests/cli/test_simulate.py": "compiled",
    "tests/live/test_covariates.py": "compiled",
    "tests/live/test_crash.py": "slow",
    "tests/live/test_exports.py": "compiled",
    "tests/live/test_guardrails.py": "compiled",
    "tests/live/test_machine.py": "slow",
    "tests/live/test_plans.py": "compiled",
    "tests/live/test_results.py": "compiled",
    "tests/service": "server",
    "tests/simulation": "compiled",
    "tests/support/simulated_gpu.py": "compiled",
    "tests/sweeps": "compiled",
}
#: Marks of the tests in a folder that use a fixture.
MARKS_BY_FIXTURE = {
    ("tests", "browser"): "browser",
    ("tests", "postgres"): "postgres",
    ("tests", "service"): "server",
    ("tests/cli", "weather"): "compiled",  # its policy looks at every slot
    ("tests/reproduction", "folder"): "compiled",  # one that was played
}
#: An example that names one of these compiles.
COMPILING = (
    "simulate(",
    " plan(",
    "ae.plan(",
    "check_policy(",
    "check_bandit(",
    "sweep(",
    ".compare(",
)
#: The files that take longest, which are begun first: else one of them could be left to one core.
LONGEST = (
    "tests/policies/test_policies.py",
    "tests/live/test_machine.py",
    "tests/live/test_crash.py",
    "tests/simulation/test_compiled.py",
    "tests/simulation/test_executors.py",
    "tests/bandits/test_bandits.py",
    "tests/policies/test_adaptive_switchback.py",
    "tests/bandits/test_adversarial_runs.py",
    "tests/service/page/test_following.py",
    "tests/cli/test_site.py",
    "tests/bandits/test_engines.py",
    "tests/lag/test_lag.py",
    "tests/service/page/test_results.py",
    "tests/cli/test_live.py",
    "tests/reproduction/test_paper.py",
    "tests/live/test_failures.py",
    "tests/service/test_service_operations.py",
    "tests/service/page/test_status.py",
    "tests/bandits/test_agreement.py",
    "tests/service/page/test_access.py",
    "tests/live/test_policies.py",
    "tests/service/test_service_connections.py",
    "tests/live/test_damage.py",
    "tests/service/test_service_limits.py",
    "tests/bandits/test_adversarial_bandit.py",
    "tests/inference/test_inference.py",
    "tests/service/test_same_interface.py",
    "tests/live/test_slot_policies.py",
    "tests/core/test_fuzz_specs.py",
    "tests/service/test_service_tokens.py",
    "tests/bandits/test_demand.py",
    "tests/cli/test_import.py",
    "tests/core/test_plugins.py",
    "tests/simulation/test_study.py",
    "tests/sweeps/test_sweep.py",
    "tests/core/test_extreme_parameters.py",
    "tests/bandits/test_independent.py",
    "tests/service/test_service_timeline.py",
    "tests/service/test_service_damage.py",
    "tests/service/test_client.py",
    "tests/live/test_feeds.py",
    "tests/cli/test_feeds.py",
    "tests/policies/test_learners.py",
    "tests/service/test_results.py",
    "tests/simulation/test_own_code.py",
    "tests/cli/test_simulate.py",
    "tests/bandits/test_covariates.py",
    "tests/policies/test_floors.py",
    "tests/live/test_floors.py",
    "tests/service/test_service_running.py",
    "tests/policies/test_odaaf.py",
    "tests/reproduction/test_adversarial_paper.py",
    "tests/reproduction/test_beyond.py",
)

# No test writes into the data folder of who runs it. Another one is named before the package is
# imported.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="aftereffect-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_DATA_HOME"], ignore_errors=True)
os.environ.pop("AFTEREFFECT_STORAGE", None)


class _NoCompiler(MetaPathFinder):
    """Refuses to import numba, which only compiling needs."""

    def find_spec(self, fullname, path, target=None):
        if fullname == "numba":
            raise AssertionError("this compiles: mark it `compiled`, or use interpret_driver")


def pytest_addoption(parser):
    """``--no-compiler`` and ``--machine-examples``."""
    parser.addoption(
        "--machine-examples",
        type=int,
        default=1,
        metavar="TIMES",
        help="run the state machine of units with so many times as many examples",
    )
    parser.addoption(
        "--no-compiler", action="store_true", help="fail tests that compile, to find unmarked ones"
    )


def pytest_xdist_auto_num_workers(config):
    """One worker more than cores: many tests wait for servers, browsers and disks."""
    if config.getoption("--no-compiler"):
        return None  # these only compute
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


def pytest_configure(config):
    """Refuse to compile if asked to."""
    if config.getoption("--no-compiler"):
        sys.meta_path.insert(0, _NoCompiler())


def pytest_collectstart():
    """Import the package as its users do.

    If pytest came first to one of its modules, it would execute that a second time, and classes of
    errors would not be those that others raise.
    """
    import_module("aftereffect")


def pytest_ignore_collect(collection_path, config):
    """Without a compiler, do not even import files whose tests all compile."""
    if config.getoption("--no-compiler") and "compiled" in _marks_of(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests, before `-m` selects among them; and put the longest files first."""
    for item in items:
        for name in _marks(item):
            item.add_marker(name)
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(_relative(item.path), len(order)))


def pytest_collection_finish():
    """Tests and modules stay to the end: do not look through them for garbage again and again."""
    gc.collect()
    gc.freeze()


@cache  # these are asked for each test, and there are thousands
def _relative(path):
    return path.relative_to(ROOT).as_posix()


@cache
def _is_in(path, start):
    """Say whether a path is this file, or in this folder."""
    return f"{_relative(path)}/".startswith(f"{start}/")


def _marks_of(path):
    """The marks of all tests in a file."""
    return [mark for start, mark in MARKS_BY_PATH.items() if _is_in(path, start)]


def _marks(item):
    yield from _marks_of(item.path)
    if isinstance(item, pytest.DoctestItem):
        examples = "".join(example.source for example in item.dtest.examples)
        if any(name in examples for name in COMPILING):
            yield "compiled"
        return
    for (start, fixture), name in MARKS_BY_FIXTURE.items():
        if fixture in item.fixturenames and _is_in(item.path, start):
            yield name
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if any(isinstance(value, str) and value == "postgresql" for value in values):
        yield "postgres"


@pytest.fixture(autouse=True, scope="session")
def _nothing_is_left() -> Iterator[None]:
    """No test and no example writes into the folder in which it runs; caches begin with a dot."""
    before = set(os.listdir())
    yield
    ignored = (ROOT / ".gitignore").read_text().replace("/", "").splitlines()
    left = {name for name in set(os.listdir()) - before.union(ignored) if name[0] != "."}
    assert not left, f"tests left {', '.join(sorted(left))} in {os.getcwd()}"


@pytest.fixture(autouse=True)
def _in_own_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Examples in documents run in a folder of their own: the files that they make go with it.

    So do the modules that a document shows, and the policies that these register.
    """
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    folder, patch = request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch")
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    patch.chdir(folder)
    if request.path.suffix == ".md" and (names := save_named_blocks(request.path, folder)):
        from aftereffect._core import spec  # here: not before its folders are named

        patch.syspath_prepend(folder)
        patch.setattr(spec, "_REGISTRY", dict(spec._REGISTRY))
        yield
        for name in names:
            sys.modules.pop(name.removesuffix(".py"), None)
        return
    yield


def save_named_blocks(document: Path, folder: Path) -> list[str]:
    """Save the files that a document shows: blocks that begin with a comment with a name."""
    pattern = r"^```\w+\n(# (\w+\.\w+)\n.*?)^```"
    blocks = re.findall(pattern, document.read_text(), re.DOTALL | re.MULTILINE)
    for block, name in blocks:
        (folder / name).write_text(block)
    return [name for _, name in blocks]
