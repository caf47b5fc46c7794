"""A task is data: which policy, in which environment, which replications. Running it gives arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aftereffect.environments import EngineName, Environment
from aftereffect.kernels import Engine, Matrix, PolicyKernels, Slots, Vector
from aftereffect.policies import Policy
from aftereffect.simulation.driver import BATCH, Replay, batch, driver

#: What turns kernels into a batch driver.
Builder = Callable[[PolicyKernels, Engine], Replay]


def plain(policy: PolicyKernels, engine: Engine) -> Replay:
    """The driver as it is written, for tests and for reading along in a debugger."""
    return batch(driver(policy, engine.kernels))


def machine_code(policy: PolicyKernels, engine: Engine) -> Replay:
    """The driver compiled. numba is imported here and not before."""
    from aftereffect.simulation.compiled import compiled

    return compiled(policy, engine)


@dataclass(frozen=True)
class Task:
    """Some replications of one policy in one environment."""

    policy: Policy
    environment: Environment
    engine: EngineName
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    replications: range


class Outcome(NamedTuple):
    """By replication: regret at each checkpoint, plays of each arm, number of rounds."""

    regret: Matrix
    plays: Matrix
    rounds: Slots


def streams(seed: int, replication: int) -> tuple[np.random.Generator, np.random.Generator]:
    """The generators of policy and environment: the same whatever else runs, wherever, in whatever order."""
    policy, world = (
        np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(replication, part)))) for part in (0, 1)
    )
    return policy, world


class Played(NamedTuple):
    """An outcome with what it left behind: policy states by replication, and the engine's memory after the last one."""

    outcome: Outcome
    arms: Matrix
    own: Matrix
    memory: Matrix


class Ready(NamedTuple):
    """All that the batches of a task share: the driver, the engine, and the policy's parameters."""

    replay: Replay
    engine: Engine
    params: Vector


def ready(task: Task, build: Builder = machine_code, engine: Engine | None = None) -> Ready:
    """Make a task ready to be played, on the engine that it names or on another."""
    chosen = engine or task.environment.engine(task.engine, task.horizon)
    params = task.policy.params(task.environment.arms, task.horizon)
    return Ready(build(task.policy.kernels(), chosen), chosen, params)


def run(task: Task, build: Builder = machine_code) -> Outcome:
    """Run a task of at most one batch."""
    return play(task, ready(task, build)).outcome


def play(task: Task, prepared: Ready) -> Played:
    """Play the replications of a task, at most a batch, in one call of the driver."""
    replay, engine, params = prepared
    arms, count = task.environment.arms, len(task.replications)
    initial = task.policy.initial(arms)
    played = Played(
        Outcome(np.zeros((count, len(task.checkpoints))), np.zeros((count, arms)), np.zeros(count, dtype=np.int64)),
        np.stack([initial.arms] * count),
        np.stack([initial.own] * count),
        np.zeros(engine.memory),
    )
    policy_rngs, world_rngs = zip(*(streams(task.seed, r) for r in task.replications), strict=True)
    replay(
        played.arms,
        played.own,
        params,
        played.memory,
        engine.world,
        task.horizon,
        np.array(task.checkpoints, dtype=np.int64),
        *played.outcome,
        _padded(policy_rngs),
        _padded(world_rngs),
    )
    return played


def _padded(rngs: tuple[np.random.Generator, ...]) -> tuple[np.random.Generator, ...]:
    return rngs + rngs[:1] * (BATCH - len(rngs))
