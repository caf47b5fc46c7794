"""Results of the slow simulators that the tests compare with, stored in files beside this one.

The simulators are plain Python, their seeds are fixed, and so their results never change. What is
stored of each case is the mean and the variance of all runs, the first few runs, and a digest of
the simulator's source and of its arguments. A test run recomputes the first runs and compares them.
Where the digest or a run differs the test fails until `make oracles` has computed all runs again.
"""

import ast
import hashlib
import inspect
import json
import os
from pathlib import Path
from statistics import fmean, variance
from typing import NamedTuple

FOLDER = Path(__file__).parent
#: `make oracles` sets it.
REWRITE = "AFTEREFFECT_REWRITE_ORACLES"
#: Runs of each case that every test run computes again.
RECOMPUTED = 2


class Oracle(NamedTuple):
    """What is known of a case: the number of runs, and the mean and variance of their results."""

    runs: int
    mean: float
    variance: float

    @property
    def squared_error(self):
        """The square of the standard error of the mean."""
        return self.variance / self.runs


def look_up(module, case, arguments, simulate, seeds):
    """The oracle of a case: of `simulate(seed)` for all these seeds.

    `case` names it within the file of this module; `arguments` are all that the results depend on
    besides the module's source, as something that JSON can hold.
    """
    path = FOLDER / f"{module.__name__}.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    digest = _digest(module, [case, arguments, [seeds[0], seeds[-1], len(seeds)]])
    if os.environ.get(REWRITE):
        results = [simulate(seed) for seed in seeds]
        stored[case] = {
            "digest": digest,
            "first": results[:RECOMPUTED],
            "mean": fmean(results),
            "variance": variance(results),
        }
        path.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")
    entry = stored.get(case)
    assert entry is not None, f"{path.name} holds nothing of {case}: run `make oracles`"
    assert entry["digest"] == digest, (
        f"{module.__name__} or the arguments of {case} changed: run `make oracles` and commit {path.name}"
    )
    first = [simulate(seed) for seed in seeds[:RECOMPUTED]]
    assert first == entry["first"], (
        f"{case} gives {first}, stored are {entry['first']}: run `make oracles` and see what changed"
    )
    return Oracle(len(seeds), entry["mean"], entry["variance"])


def _digest(module, arguments):
    """Of a module's code, without its comments and docstrings, and of arguments."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    content = ast.unparse(tree) + json.dumps(arguments)
    return hashlib.sha256(content.encode()).hexdigest()[:16]
