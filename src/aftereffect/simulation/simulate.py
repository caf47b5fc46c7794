"""`simulate`: many replications of some policies in one environment, on all cores or on many machines."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from aftereffect.environments import EngineName, Environment
from aftereffect.policies import Policy
from aftereffect.simulation.checkpoints import DEFAULT_COUNT
from aftereffect.simulation.crew import hired
from aftereffect.simulation.plan import planned
from aftereffect.simulation.study import Study


def simulate(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment | str,
    horizon: int,
    replications: int = 100,
    *,
    seed: int | None = None,
    engine: EngineName = "roundwise",
    checkpoints: int | Iterable[int] = DEFAULT_COUNT,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> Study:
    """Play each policy many times in an environment and note its regret.

    The result depends on the seed and nothing else: not on the number of jobs or on who does them, nor on which other
    policies or how many further replications run along.

    Parameters
    ----------
    policies
        One policy or several, as objects or spec strings. A policy that must be told something about the delay, and is not,
        is told the truth; its label says what that is.
    environment
        The world they play in, as an object or a spec string.
    horizon
        Slots per replication; at least the number of arms.
    replications
        Independent runs of each policy.
    seed
        Any whole number from 0 on; drawn and reported in the study if not given.
    engine
        ``"roundwise"`` (fast) or ``"slotwise"`` (literal); both have the same law, not the same numbers.
    checkpoints
        How many slots, evenly spaced in log time, to note the regret at; or those slots, the last being the horizon.
    jobs
        Threads to use; all cores by default. With an executor, how many workers it has.
    executor
        Anything that takes work as a ``concurrent.futures.Executor`` does, by its ``submit``: processes, Dask, MPI. Its
        workers need this package and what the policies are made of; it is not shut down.
    progress
        Called now and then with the number of replications finished since the last call.

    Returns
    -------
    Study
        Regret curves, plays and rounds of every replication.

    Examples
    --------
    >>> import aftereffect as ae
    >>> env = ae.StochasticBandit(means=[.9, .5, .1], spread=ae.Interval(3, 8))
    >>> study = ae.simulate(["ars-ucb", "round-robin"], env, horizon=3_000, replications=20, seed=7)
    >>> bool(study["ars-ucb"].final.mean() < study["round-robin"].final.mean())
    True
    """
    plan = planned(policies, environment, horizon, replications, seed=seed, engine=engine, checkpoints=checkpoints)
    with hired(jobs, executor) as crew:
        return plan.play(crew, progress)
