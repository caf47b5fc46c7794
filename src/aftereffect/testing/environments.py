"""What every environment must hold to."""

import numpy as np

from aftereffect.environments import ENGINES, EngineName, Environment, StochasticBandit
from aftereffect.kernels import Matrix
from aftereffect.simulation.trace import traced
from aftereffect.testing.common import check_compiled, check_spec, require
from aftereffect.testing.script import Script, totals, window_moments

_RUNS = 512
#: A normal deviate passes this once in 15,000 times, and the seeds are fixed: a check that passes once always passes.
_MOST_SIGMAS = 4.0


def check_environment(environment: Environment) -> None:
    """Check an environment's contract; raises AssertionError with what to mend.

    It is a value with a spec string. The same seed gives the same run on each engine; compiled and plain runs are equal to
    the last bit. A trace is the slotwise run of the same seed and never shows more reward than was generated. A window of no
    slots shows nothing, and for stochastic bandits the mean total of windows of many kinds is, on both engines, what the
    spreads' tails say.
    """
    require(
        isinstance(environment, Environment),
        f"check_environment takes an environment, such as StochasticBandit([.9, .1], spread), got {environment!r}",
    )
    check_spec(environment)
    require(environment.arms >= 2, "an environment must have at least two arms")
    last = environment.arms - 1
    script = Script(((0, 30, 30), (last, 7, 7), (0, 1, 1), (last, 40, 5), (0, 3, 0), (last, 60, 25), (0, 5, 2)))
    check_compiled(script, environment, script.slots)
    _check_trace(script, environment)
    for engine in ENGINES:
        seen = totals(script, environment, engine, _RUNS, seed=13)
        again = totals(script, environment, engine, 3, seed=13)
        require(np.array_equal(seen[:3], again), f"the same seed must give the same totals on the {engine} engine")
        require((seen[:, 4] == 0).all(), f"a window of no slots must show nothing on the {engine} engine")
        if isinstance(environment, StochasticBandit):
            _check_means(script, environment, engine, seen)


def _check_trace(script: Script, environment: Environment) -> None:
    trace = traced(script, environment, script.slots, 7, 0)
    ends = np.cumsum([slots for _, slots, _ in script.rounds])
    shown = [trace.observed[end - window : end].sum() for end, (_, _, window) in zip(ends, script.rounds, strict=True)]
    literal = totals(script, environment, "slotwise", 1, seed=7)[0]
    require(np.allclose(shown, literal, rtol=0, atol=1e-9), "a trace must be the slotwise run of the same seed")
    require((trace.generated >= 0).all() and (trace.generated <= 1).all(), "a pull must generate between 0 and 1")
    delivered = np.cumsum(trace.observed) - np.cumsum(trace.generated)
    require(delivered.max() <= 1e-9, "no more may be observed than was generated")


def _check_means(script: Script, environment: StochasticBandit, engine: EngineName, seen: Matrix) -> None:
    expected, variances = window_moments(script, environment)
    error = np.abs(seen.mean(axis=0) - expected)
    allowed = _MOST_SIGMAS * np.sqrt(variances / len(seen)) + 1e-9
    require(
        (error <= allowed).all(),
        f"the mean totals on the {engine} engine must be {expected.round(4)}, got {seen.mean(axis=0).round(4)}",
    )
