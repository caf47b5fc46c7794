"""A task is data: which policy, in which environment, which replications. Running it gives arrays."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aftereffect.environments import EngineName, Environment
from aftereffect.kernels import Engine, Matrix, PolicyKernels, Slots, Vector
from aftereffect.policies import Policy
from aftereffect.provenance import made_by
from aftereffect.seeds import POLICY, WORLD, stream
from aftereffect.simulation.contents import own_code
from aftereffect.simulation.driver import BATCH, Replay, bad_decision, batch, driver
from aftereffect.simulation.rehearsal import rehearse

#: Of the recurrence that PCG64 is.
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
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

    @property
    def made_by(self) -> str:
        """Which code plays it here; the same wherever the same code was loaded."""
        return made_by() + own_code(self.policy, self.environment, constants=False)

    def only(self, replications: range) -> "Task":
        """The same for some of the replications."""
        return replace(self, replications=replications)

    def batches(self) -> Iterator["Task"]:
        """The same in pieces that one call of the driver takes."""
        for first in range(0, len(self.replications), BATCH):
            yield self.only(self.replications[first : first + BATCH])


class Outcome(NamedTuple):
    """By replication: regret at each checkpoint, plays of each arm, number of rounds."""

    regret: Matrix
    plays: Matrix
    rounds: Slots


class Streams:
    """The generators of policies and environments, for a batch at a time.

    Those of a replication are the same whatever else runs, wherever, in whatever order. They are made once and then set to
    other replications: making them, and handing new ones to machine code, takes longer than many a run.
    """

    def __init__(self) -> None:
        self._policies: list[np.random.Generator] = []
        self._worlds: list[np.random.Generator] = []

    def of(self, seed: int, replications: range) -> tuple[tuple[np.random.Generator, ...], tuple[np.random.Generator, ...]]:
        """As many as a batch takes, of policies and of environments; the first again and again where there are fewer."""
        for part, generators in ((POLICY, self._policies), (WORLD, self._worlds)):
            for place, replication in enumerate(replications):
                seeds = stream(seed, replication, part)
                if place < len(generators):
                    generators[place].bit_generator.state = _seeded(seeds)
                else:
                    generators.append(np.random.Generator(np.random.PCG64(seeds)))
        return self._padded(self._policies, len(replications)), self._padded(self._worlds, len(replications))

    def _padded(self, generators: list[np.random.Generator], count: int) -> tuple[np.random.Generator, ...]:
        return (*generators[:count], *generators[:1] * (BATCH - count))


def _seeded(seeds: np.random.SeedSequence) -> dict[str, object]:
    """The state in which ``PCG64(seeds)`` begins."""
    high, low, high_step, low_step = map(int, seeds.generate_state(4, np.uint64))
    step = ((high_step << 64 | low_step) << 1 | 1) % 2**128
    state = ((step + (high << 64 | low)) * _MULTIPLIER + step) % 2**128
    return {"bit_generator": "PCG64", "state": {"state": state, "inc": step}, "has_uint32": 0, "uinteger": 0}


class Played(NamedTuple):
    """An outcome with what it left behind: policy states by replication, and the engine's memory after the last one."""

    outcome: Outcome
    arms: Matrix
    own: Matrix
    memory: Matrix


class Ready(NamedTuple):
    """All that the batches of a task share: the driver, the engine, the policy's parameters, and which code plays."""

    replay: Replay
    engine: Engine
    params: Vector
    made_by: str


def ready(task: Task, build: Builder = machine_code, engine: Engine | None = None) -> Ready:
    """Make a task ready to be played, on the engine that it names or on another.

    A policy that is not of this package is rehearsed first: machine code does not check indices.
    """
    if own_code(task.policy):
        rehearse(task.policy, task.environment.arms, task.horizon)
    chosen = engine or task.environment.engine(task.engine, task.horizon)
    params = task.policy.params(task.environment.arms, task.horizon)
    return Ready(build(task.policy.kernels(), chosen), chosen, params, task.made_by)


class Shelf:
    """Tasks made ready, the latest few, by the name of the study they belong to.

    By name and not by what they hold: a name is of one run of `simulate`, so that code which a user edits in between is not
    mistaken for what it was.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._made: dict[str, Future[Ready]] = {}

    def ready(self, name: str, task: Task) -> Ready:
        """As `ready`, but made once however many threads ask for it at a time: tables of rewards may be large."""
        with self._lock:
            first = name not in self._made
            promise = self._made.setdefault(name, Future())
            while len(self._made) > self._size:
                del self._made[next(iter(self._made))]
        if first:
            try:
                promise.set_result(ready(task))
            except BaseException as error:
                promise.set_exception(error)
                with self._lock:  # who tries again may have more luck, say with memory
                    self._made.pop(name, None)
        return promise.result()


class Performed(NamedTuple):
    """What comes back from a worker: an outcome, the processor time it took, and which code played it."""

    outcome: Outcome
    seconds: float
    made_by: str


class _Here(threading.local):
    """What a thread keeps for itself."""

    def __init__(self) -> None:
        self.streams = Streams()


_shelf, _here = Shelf(), _Here()


def perform(name: str, task: Task, shelf: Shelf = _shelf) -> Performed:
    """Play any number of replications of the task of that name, in this thread of whatever process it is.

    Parts of one task that follow each other in a process share what was compiled and tabulated for the first.
    """
    prepared = shelf.ready(name, task)
    start = time.thread_time()
    parts = [play(batch, prepared, _here.streams).outcome for batch in task.batches()]
    outcome = Outcome(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return Performed(outcome, time.thread_time() - start, prepared.made_by)


def run(task: Task, build: Builder = machine_code) -> Outcome:
    """Run a task of at most one batch."""
    return play(task, ready(task, build)).outcome


def play(task: Task, prepared: Ready, streams: Streams | None = None) -> Played:
    """Play the replications of a task, at most a batch, in one call of the driver."""
    replay, engine, params, _ = prepared
    arms, count = task.environment.arms, len(task.replications)
    initial = task.policy.initial(arms)
    played = Played(
        Outcome(np.zeros((count, len(task.checkpoints))), np.zeros((count, arms)), np.zeros(count, dtype=np.int64)),
        np.stack([initial.arms] * count),
        np.stack([initial.own] * count),
        np.zeros(engine.memory),
    )
    replay(
        played.arms,
        played.own,
        params,
        played.memory,
        engine.world,
        task.horizon,
        np.array(task.checkpoints, dtype=np.int64),
        *played.outcome,
        *(streams or Streams()).of(task.seed, task.replications),
    )
    for regret, plays, rounds in zip(*played.outcome, strict=True):
        if rounds < 0:
            decision = tuple(int(each) if each.is_integer() else each for each in map(float, (*plays[:2], regret[0])))
            raise bad_decision(str(task.policy), arms, -1 - int(rounds), decision)
    return played
