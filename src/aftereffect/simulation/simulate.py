"""`simulate`: many replications of some policies in one environment, on all cores."""

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from aftereffect.checks import MOST_SLOTS, whole
from aftereffect.environments import ENGINES, EngineName, Environment
from aftereffect.errors import ParameterError
from aftereffect.knowledge import Knowledge
from aftereffect.policies import Policy
from aftereffect.provenance import made_by
from aftereffect.simulation.checkpoints import DEFAULT_COUNT, checkpoints_for
from aftereffect.simulation.driver import BATCH
from aftereffect.simulation.replications import Outcome, Task, play, ready
from aftereffect.simulation.study import PolicyRuns, Study
from aftereffect.spec import as_spec, nearest

#: Small enough for any integer column and for JSON readers that keep numbers as doubles.
_DRAWN_SEED_BITS = 53
LARGEST_SEED = 2**63 - 1
#: A curve is kept of each.
MOST_REPLICATIONS = 10_000_000
MOST_JOBS = 1_024


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
    progress: Callable[[int], None] | None = None,
) -> Study:
    """Play each policy many times in an environment and note its regret.

    The result depends on the seed and nothing else: not on the number of jobs, nor on which other policies or how many
    further replications run along.

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
        Threads to use; all cores by default.
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
    world = as_spec(environment, Environment)
    players = _players(policies, world.knowledge)
    if engine not in ENGINES:
        raise ParameterError(f"unknown engine {engine!r}: {nearest(str(engine), ENGINES)}")
    slots = whole("horizon", horizon, at_least=1, at_most=MOST_SLOTS)
    if slots < world.arms:
        raise ParameterError(f"horizon must be at least the number of arms, {world.arms}, got {slots}")
    count = whole("replications", replications, at_least=1, at_most=MOST_REPLICATIONS)
    entropy = secrets.randbits(_DRAWN_SEED_BITS) if seed is None else whole("seed", seed, at_most=LARGEST_SEED)
    threads = check_jobs(jobs)
    marks = checkpoints_for(slots, checkpoints)
    for player in players.values():
        player.params(world.arms, slots)  # refuses what cannot run, before anything runs

    pool = ThreadPoolExecutor(min(threads, count))
    try:
        runs = tuple(
            _runs(label, Task(player, world, engine, slots, marks, entropy, range(count)), pool, threads, progress)
            for label, player in players.items()
        )
    finally:  # without waiting: after an interrupt, batches under way end by themselves
        pool.shutdown(wait=False, cancel_futures=True)
    return Study(world, engine, slots, marks, entropy, made_by(), runs)


def _players(policies: Policy | str | Iterable[Policy | str], knowledge: Knowledge) -> dict[str, Policy]:
    """Policies, told what they must know, by label; different ones that look alike (two lambdas) are numbered."""
    several = policies if isinstance(policies, Iterable) and not isinstance(policies, str) else [policies]
    players: dict[str, Policy] = {}
    for policy in (as_spec(each, Policy).told(knowledge) for each in several):
        if policy in players.values():
            raise ParameterError(f"each policy must be given once, but {policy} is given again")
        alike = sum(str(policy) == str(other) for other in players.values())
        players[f"{policy} #{alike + 1}" if alike else str(policy)] = policy
    if not players:
        raise ParameterError("at least one policy is needed, got none")
    return players


def _runs(label: str, task: Task, pool: ThreadPoolExecutor, threads: int, progress: Callable[[int], None] | None) -> PolicyRuns:
    prepared = ready(task)
    start = time.perf_counter()
    parts: list[Outcome] = []
    for part in pool.map(lambda batch: play(batch, prepared).outcome, _batches(task, threads)):
        parts.append(part)
        if progress is not None:
            progress(len(part.rounds))
    outcome = Outcome(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return PolicyRuns(label, task.policy, outcome, time.perf_counter() - start)


def _batches(task: Task, threads: int) -> Iterator[Task]:
    """Batches as large as a call takes, but small enough to keep every thread busy."""
    count = len(task.replications)
    size = max(1, min(BATCH, count // (2 * threads)))
    for first in range(0, count, size):
        yield replace(task, replications=task.replications[first : first + size])


def check_jobs(jobs: int | None) -> int:
    """How many threads to use."""
    return _cores() if jobs is None else whole("jobs", jobs, at_least=1, at_most=MOST_JOBS)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
