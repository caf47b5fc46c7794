"""`simulate`: play policies many times in a bandit, and record their regret."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from aftereffect.bandits import Bandit
from aftereffect.policies import Policy
from aftereffect.simulation._engine_choice import EngineRequest
from aftereffect.simulation._plan import DEFAULT_CHECKPOINTS, plan_study
from aftereffect.simulation._progress import print_progress
from aftereffect.simulation._study import Study
from aftereffect.simulation._workers import worker_pool


def simulate(
    policies: Policy | str | Iterable[Policy | str],
    bandit: Bandit | str,
    horizon: int,
    replications: int = 100,
    *,
    seed: int | None = None,
    engine: EngineRequest = "roundwise",
    checkpoints: int | Iterable[int] = DEFAULT_CHECKPOINTS,
    keep: int | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: bool | Callable[[int], None] | None = None,
) -> Study:
    """Play each policy many times in a bandit and record its regret.

    The result depends on the seed and nothing else: not on the number of jobs or on what runs them,
    nor on other policies or further replications of the same call.

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
        ``"roundwise"`` (fast), ``"slotwise"`` (literal), or ``"cuda"``: the roundwise engine on an
        NVIDIA GPU (needs the extra ``gpu``). All have the same law, not the same numbers.
        ``"cuda-single"`` keeps what a replication changes in single precision, which is faster.
        ``"auto"`` plays large studies on a GPU, if there is one, and all others roundwise.
    checkpoints
        At how many slots, evenly spaced in log time, to record the regret; or those slots, the last
        being the horizon.
    keep
        How many replications to keep: the first ones. On a GPU, the others leave only what means,
        standard errors and percentiles of all need, so that millions fit into memory. The
        percentiles are then at most 0.4 % off; all else is exact. All are kept if not given.
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
        Regret curves, pulls and rounds of every replication that is kept.

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
        policies,
        bandit,
        horizon,
        replications,
        seed=seed,
        engine=engine,
        checkpoints=checkpoints,
        keep=keep,
    )
    with worker_pool(jobs, executor) as workers:
        if not isinstance(progress, bool):
            return plan.play(workers, progress)
        if not progress:
            return plan.play(workers)
        with print_progress(len(plan.policies) * plan.replications, "replications") as show:
            return plan.play(workers, show)
