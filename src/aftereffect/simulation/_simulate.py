"""`simulate`: many replications of some policies in one bandit, and progress while they run."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from aftereffect.bandits import Bandit, EngineName
from aftereffect.policies import Policy
from aftereffect.simulation._plan import plan_study
from aftereffect.simulation._runs import DEFAULT_CHECKPOINTS
from aftereffect.simulation._study import Study
from aftereffect.simulation._workers import worker_pool

_BAR = 30
#: Seconds between two updates of a bar, and between two lines.
_BAR_PAUSE, _LINE_PAUSE = 0.2, 10.0


def simulate(
    policies: Policy | str | Iterable[Policy | str],
    bandit: Bandit | str,
    horizon: int,
    replications: int = 100,
    *,
    seed: int | None = None,
    engine: EngineName = "roundwise",
    checkpoints: int | Iterable[int] = DEFAULT_CHECKPOINTS,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: bool | Callable[[int], None] | None = None,
) -> Study:
    """Play each policy many times in a bandit and record its regret.

    The result depends on the seed and nothing else: not on the number of jobs or on who does them,
    nor on which other policies or how many further replications run along.

    Parameters
    ----------
    policies
        One policy or several, as objects or spec strings. A policy that needs to know something
        about the delay gets the true value unless it is given another; its label shows the value.
    bandit
        The bandit that they play, as an object or a spec string.
    horizon
        Slots per replication; at least the number of arms.
    replications
        Independent runs of each policy.
    seed
        Any whole number from 0 on; drawn if not given. The study reports it.
    engine
        ``"roundwise"`` (fast) or ``"slotwise"`` (literal); both have the same law, not the same
        numbers.
    checkpoints
        At how many slots, evenly spaced in log time, to record the regret; or those slots, the last
        being the horizon.
    jobs
        Threads to use; all cores by default, and for -1. With an executor, how many workers it has.
    executor
        Anything with the ``submit`` of a ``concurrent.futures.Executor``: processes, Dask, MPI. Its
        workers need this package and the modules of the policies; it is not shut down.
    progress
        True prints progress to standard error. A function is called now and then with the number
        of replications finished since its last call.

    Returns
    -------
    Study
        Regret curves, pulls and rounds of every replication.

    Examples
    --------
    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit(means=[.9, .5, .1], delay=ae.Interval(3, 7))
    >>> study = ae.simulate(["ars-ucb", "round-robin"], bandit, 3_000, replications=20, seed=7)
    >>> study["round-robin"].final.mean().round().item()
    1200.0
    >>> bool(study["ars-ucb"].final.mean() < 600)
    True
    """
    plan = plan_study(
        policies, bandit, horizon, replications, seed=seed, engine=engine, checkpoints=checkpoints
    )
    with worker_pool(jobs, executor) as workers:
        if not isinstance(progress, bool):
            return plan.play(workers, progress)
        if not progress:
            return plan.play(workers)
        with print_progress(len(plan.policies) * plan.replications, "replications") as show:
            return plan.play(workers, show)


@contextmanager
def print_progress(total: int, unit: str) -> Iterator[Callable[..., None]]:
    """Yield a function to call with the number of steps just finished, and perhaps a remark.

    Elsewhere than on a terminal nothing is printed before the first ten seconds, so that short runs
    stay silent but for one last line.
    """
    is_terminal = sys.stderr.isatty()
    pause = _BAR_PAUSE if is_terminal else _LINE_PAUSE
    done, printed = 0, time.monotonic()

    def show(finished: int, remark: str = "") -> None:
        nonlocal done, printed
        done += finished
        if time.monotonic() - printed >= pause and done < total:
            printed = time.monotonic()
            _print(done, total, unit, remark, is_terminal=is_terminal)

    try:
        yield show
        _print(done, total, unit, "", is_terminal=is_terminal)
    finally:
        if is_terminal:
            print(file=sys.stderr)


def _print(done: int, total: int, unit: str, remark: str, *, is_terminal: bool) -> None:
    text = f"{done:,} of {total:,} {unit}{f', {remark}' if remark else ''}"
    if is_terminal:
        filled = _BAR * done // max(total, 1)
        bar = "#" * filled + "-" * (_BAR - filled)
        print(f"\r[{bar}] {text}\x1b[K", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)
