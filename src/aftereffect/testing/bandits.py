"""The contract of every bandit, which simulations check."""

import numpy as np

from aftereffect._core import Matrix, Vector
from aftereffect.bandits import (
    ENGINES,
    Bandit,
    DemandBandit,
    EngineName,
    LinearBandit,
    StochasticBandit,
)
from aftereffect.delays import ArmwiseDelay
from aftereffect.simulation import BATCH, Task, prepare, run_batch, trace_run
from aftereffect.testing._common import Script, check_compiled, check_spec, require

_RUNS = 512
#: A normal deviate exceeds this once in 15,000 times. As the seeds are fixed, a check that passes
#: once always passes.
_MAX_SIGMAS = 4.0


def check_bandit(bandit: Bandit) -> None:
    """Check the contract of a bandit.

    It is a value with a spec string. The same seed gives the same run on each engine; compiled and
    plain runs are equal to the last bit. A trace is the slotwise run of the same seed. It never
    shows more than the rewards of its pulls, unless parts of them may be negative. The total of an
    empty window is 0. For stochastic bandits the mean totals of several windows agree with the
    tails of the delays on both engines.

    Raises
    ------
    AssertionError
        If it breaks the contract; the message says what to change.

    Examples
    --------
    >>> from aftereffect import StochasticBandit
    >>> bandit = StochasticBandit([0.9, 0.1])
    >>> check_bandit(bandit)  # all is well
    >>> check_bandit([0.9, 0.1])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    AssertionError: check_bandit needs a bandit, such as StochasticBandit([.9, .1]), got [0.9, 0.1]
    """
    require(
        isinstance(bandit, Bandit),
        f"check_bandit needs a bandit, such as StochasticBandit([.9, .1]), got {bandit!r}",
    )
    check_spec(bandit)
    require(bandit.arms >= 2, f"a bandit must have at least two arms, got {bandit.arms}")
    last = bandit.arms - 1
    script = Script(
        ((0, 30, 30), (last, 7, 7), (0, 1, 1), (last, 40, 5), (0, 3, 0), (last, 60, 25), (0, 5, 2))
    )
    check_compiled(script, bandit, script.slots)
    _check_trace(script, bandit)
    for engine in ENGINES:
        found = script_totals(script, bandit, engine, _RUNS, seed=13)
        again = script_totals(script, bandit, engine, 3, seed=13)
        require(
            np.array_equal(found[:3], again),
            f"the same seed must give the same totals on the {engine} engine",
        )
        require(
            (found[:, 4] == 0).all(),
            f"the total of an empty window must be 0 on the {engine} engine",
        )
        if isinstance(bandit, StochasticBandit) and isinstance(bandit.delay, ArmwiseDelay):
            _check_means(script, bandit, engine, found)


def _check_trace(script: Script, bandit: Bandit) -> None:
    trace = trace_run(script, bandit, script.slots, 7, 0)
    ends = np.cumsum([slots for _, slots, _ in script.rounds])
    windows = [
        trace.totals[end - window : end].sum()
        for end, (_, _, window) in zip(ends, script.rounds, strict=True)
    ]
    slotwise = script_totals(script, bandit, "slotwise", 1, seed=7)[0]
    require(
        np.allclose(windows, slotwise, rtol=0, atol=1e-9),
        "a trace must be the slotwise run of the same seed",
    )
    require(
        (trace.rewards >= 0).all() and (trace.rewards <= 1).all(),
        "the reward of a pull must be from 0 to 1",
    )
    # Pulls before slot 0 bring something, too; and parts that are below 0 may come last.
    if isinstance(bandit, (DemandBandit, LinearBandit)):
        return
    delivered = np.cumsum(trace.totals) - np.cumsum(trace.rewards)
    require(delivered.max() <= 1e-9, "totals must not add up to more than the rewards of the pulls")


def _check_means(
    script: Script, bandit: StochasticBandit, engine: EngineName, found: Matrix
) -> None:
    expected, variances = window_moments(script, bandit)
    error = np.abs(found.mean(axis=0) - expected)
    allowed = _MAX_SIGMAS * np.sqrt(variances / len(found)) + 1e-9
    require(
        (error <= allowed).all(),
        f"the mean totals on the {engine} engine must be {expected.round(4)}, "
        f"got {found.mean(axis=0).round(4)}",
    )


def script_totals(
    script: Script, bandit: Bandit, engine: EngineName, runs: int, seed: int
) -> Matrix:
    """The total of each round of a script, by run and round.

    >>> from aftereffect import StochasticBandit
    >>> script_totals(Script(((0, 10, 10),)), StochasticBandit([1, 0]), "slotwise", 2, seed=1)
    array([[10.],
           [10.]])
    """
    batches = [range(first, min(first + BATCH, runs)) for first in range(0, runs, BATCH)]
    tasks = [
        Task(script, bandit, engine, script.slots, (script.slots,), seed, batch)
        for batch in batches
    ]
    prepared = prepare(tasks[0])
    return np.concatenate([run_batch(task, prepared).states.totals for task in tasks])


def window_moments(script: Script, bandit: StochasticBandit) -> tuple[Vector, Vector]:
    """Mean and variance of each round's total, from the tail of the delay alone.

    The pull in slot s delivers the expected share w = tail(start - 1 - s) - tail(end - s) of its
    reward X in a window start .. end. With fixed shares it contributes w X; with one random lag it
    contributes X with probability w, else 0.

    >>> from aftereffect import StochasticBandit
    >>> means, variances = window_moments(Script(((0, 10, 4),)), StochasticBandit([0.5, 0.1]))
    >>> float(means[0]), float(variances[0])
    (2.0, 1.0)
    """
    means = np.array(bandit.means)
    arms = np.repeat([arm for arm, _, _ in script.rounds], [slots for _, slots, _ in script.rounds])
    mean, variance = means[arms], bandit.reward_law.variance(means)[arms]
    ends = np.cumsum([slots for _, slots, _ in script.rounds]) - 1
    expected, variances = [], []
    for end, (_, _, window) in zip(ends, script.rounds, strict=True):
        age = end - np.arange(end + 1)
        mu, var = mean[: end + 1], variance[: end + 1]
        total_mean = total_variance = 0.0
        for delay in set(bandit.delays):
            of_delay = np.array([each == delay for each in bandit.delays])[arms[: end + 1]]
            share = np.where(of_delay, delay.tail(age - window) - delay.tail(age), 0.0)
            total_mean += (share * mu).sum()
            total_variance += delay.share_variance(share, mu, var).sum()
        expected.append(total_mean)
        variances.append(total_variance)
    return np.array(expected), np.array(variances)
