"""What every environment must hold to."""

import numpy as np

from aftereffect.environments import ENGINES, Environment, StochasticBandit
from aftereffect.policies import ArsUcb, Ucb1
from aftereffect.simulation.replications import Task, run
from aftereffect.simulation.trace import traced
from aftereffect.testing.common import check_compiled, check_spec, require
from aftereffect.testing.script import Script, totals, window_moments

_HORIZON = 400
_RUNS = 512
#: A normal deviate passes this once in 15,000 times, and the seeds are fixed: a check that passes once always passes.
_MOST_SIGMAS = 4.0


def check_environment(environment: Environment) -> None:
    """Check an environment's contract; raises AssertionError with what to mend.

    It is a value with a spec string. The same seed gives the same run on each engine; compiled and plain runs are equal to
    the last bit. A trace is the slotwise run of the same seed and never shows more reward than was generated. For stochastic
    bandits a window of no slots shows nothing, and the mean total of windows of many kinds is, on both engines, what the
    spread's tail says.
    """
    check_spec(environment)
    require(environment.arms >= 2, "an environment must have at least two arms")
    _check_seeds(environment)
    for policy in (ArsUcb(), Ucb1()):
        check_compiled(policy, environment, _HORIZON)
    _check_trace(environment)
    if isinstance(environment, StochasticBandit):
        _check_means(environment)


def _check_seeds(environment: Environment) -> None:
    for engine in ENGINES:
        task = Task(Ucb1(), environment, engine, _HORIZON, (_HORIZON,), 7, range(3))
        same = all(np.array_equal(a, b) for a, b in zip(run(task), run(task), strict=True))
        require(same, f"the same seed must give the same run on the {engine} engine")


def _check_trace(environment: Environment) -> None:
    policy = ArsUcb()
    trace = traced(policy, environment, _HORIZON, 7, 0)
    outcome = run(Task(policy, environment, "slotwise", _HORIZON, (_HORIZON,), 7, range(1)))
    plays = np.bincount(trace.arm, minlength=environment.arms)
    require(np.array_equal(plays, outcome.plays[0]), "a trace must be the slotwise run of the same seed")
    require((trace.generated >= 0).all() and (trace.generated <= 1).all(), "a pull must generate between 0 and 1")
    delivered = np.cumsum(trace.observed) - np.cumsum(trace.generated)
    require(delivered.max() <= 1e-9, "no more may be observed than was generated")


def _check_means(environment: StochasticBandit) -> None:
    last = environment.arms - 1
    script = Script(((0, 30, 30), (last, 7, 7), (0, 1, 1), (last, 40, 5), (0, 3, 0), (last, 60, 25), (0, 5, 2)))
    expected, variances = window_moments(script, environment)
    for engine in ENGINES:
        seen = totals(script, environment, engine, _RUNS, seed=13)
        require((seen[:, 4] == 0).all(), f"a window of no slots must show nothing on the {engine} engine")
        error = np.abs(seen.mean(axis=0) - expected)
        allowed = _MOST_SIGMAS * np.sqrt(variances / _RUNS) + 1e-9
        require(
            (error <= allowed).all(),
            f"the mean totals on the {engine} engine must be {expected.round(4)}, got {seen.mean(axis=0).round(4)}",
        )
