"""A task is data: which policy, in which bandit, which replications. Running it gives arrays."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from aftereffect._core import (
    AttributedKernels,
    DecideSlots,
    Engine,
    Matrix,
    Params,
    PolicyKernels,
    SlotKernels,
    Slots,
    State,
    describe_code,
)
from aftereffect.bandits import Bandit, EngineName
from aftereffect.delays import ARM, REWARD, TOTAL
from aftereffect.errors import ParameterError
from aftereffect.policies import (
    AttributedPolicy,
    Kernels,
    Policy,
    check_anonymous,
    check_one_unit,
    make_take_state,
    stack_states,
)
from aftereffect.simulation._contents import describe_own_code
from aftereffect.simulation._driver import (
    BATCH,
    BatchPlay,
    Streams,
    bad_decision,
    make_batch_driver,
    make_driver,
)
from aftereffect.simulation._rehearsal import rehearse
from aftereffect.simulation._runs import Digest, Trace, check_memory

if TYPE_CHECKING:
    from aftereffect.simulation._cuda import DeviceDriver

#: The engines of bandits, and the roundwise one on a GPU, in double and in single precision.
EngineChoice: TypeAlias = Literal["roundwise", "slotwise", "cuda", "cuda-single"]
ENGINE_CHOICES: tuple[EngineChoice, ...] = get_args(EngineChoice)
#: What a user may ask for: one of them, or whichever fits.
EngineRequest: TypeAlias = Literal["roundwise", "slotwise", "cuda", "cuda-single", "auto"]
#: With `auto` a GPU plays studies of at least so many replications, and slots of all of them.
AUTO_REPLICATIONS, AUTO_SLOTS = 10_000, 10**9
#: And only if a state, without what it remembers of slots, has at most so many bytes: a GPU plays
#: tens of thousands of replications at a time, and its caches hold little of larger ones.
AUTO_STATE = 2**18
#: The most slots in single precision, which keeps sums of so many rewards to a sixteenth of one.
#: Sums of a hundred times as many would not change with the next.
MAX_SINGLE_SLOTS = 10**6

#: A function that turns kernels into a batch driver.
Builder = Callable[[Kernels, Engine, State, Params], BatchPlay]


def interpret_driver(policy: Kernels, engine: Engine, state: State, params: Params) -> BatchPlay:
    """Make the batch driver in plain Python, for tests and for stepping through in a debugger."""
    return make_batch_driver(make_driver(policy, engine.kernels), make_take_state(state))


def compile_driver(policy: Kernels, engine: Engine, state: State, params: Params) -> BatchPlay:
    """Compile the batch driver. Only this imports numba."""
    from aftereffect.simulation._compiled import compile_batch_driver

    return compile_batch_driver(policy, engine, state, params)


def recipe_of(engine: EngineChoice) -> EngineName:
    """Return how bandits are simulated on an engine.

    >>> recipe_of("cuda")
    'roundwise'
    """
    return "slotwise" if engine == "slotwise" else "roundwise"


def is_for_gpu(engine: EngineChoice) -> bool:
    """Tell whether an engine plays on a GPU.

    >>> is_for_gpu("cuda-single"), is_for_gpu("slotwise")
    (True, False)
    """
    return engine in ("cuda", "cuda-single")


def choose_engine(
    request: EngineRequest,
    policies: Collection[Policy],
    arms: int,
    slots: int,
    count: int,
    own: str,
) -> EngineChoice:
    """Return the engine for a study of so many replications, of so many slots each.

    With `auto`, a GPU plays large studies, if there is one; but not ones with code from outside of
    this package (`own` describes it), which may not compile for it, nor policies with large states.

    >>> choose_engine("auto", [], 2, 1_000, 20, own="")
    'roundwise'
    """
    seeing = next(
        (each for each in policies if not isinstance(each.kernels(), PolicyKernels)), None
    )
    if request == "cuda-single" and (slots > MAX_SINGLE_SLOTS or seeing is not None):
        given = f"a horizon of {slots:,}" if seeing is None else f"{seeing}, which looks at each"
        raise ParameterError(
            f"the engine 'cuda-single' plays policies of rounds, for at most {MAX_SINGLE_SLOTS:,} "
            f"slots, got {given}: use the engine 'cuda'"
        )
    if request != "auto":
        return request
    is_small = count < AUTO_REPLICATIONS or slots * count < AUTO_SLOTS
    if is_small or own or find_spec("numba_cuda") is None:
        return "roundwise"
    if any(_count_bytes(policy.initial_for(arms, 1)) > AUTO_STATE for policy in policies):
        return "roundwise"
    from aftereffect.simulation._cuda import has_device

    return "cuda" if has_device() else "roundwise"


def _count_bytes(state: State) -> int:
    """How much memory the arrays of a state take."""
    return sum(
        part.nbytes if isinstance(part, np.ndarray) else _count_bytes(part) for part in state
    )


def load_decide(policy: Policy) -> DecideSlots:
    """Compile `decide` of a policy that looks at every slot, for use outside of simulations.

    Policies of this package are compiled in another process, if their machine code is not stored
    yet but can be: the threads of a service go on meanwhile. Threads that need the same wait for
    that process, and start none of their own. Other policies are rehearsed first.
    """
    from aftereffect.simulation._compiled import compile_decide, is_storable

    kernels = policy.kernels()
    if not isinstance(kernels, SlotKernels):
        raise TypeError(f"{policy} does not look at every slot")
    # Machine code depends on the types of a state and of parameters, not on their sizes.
    given = kernels, policy.initial_for(_ARMS, _SLOTS), policy.params(_ARMS, _SLOTS)
    if describe_own_code(policy):
        rehearse(policy, _ARMS, _SLOTS)
    else:
        with _compiling:
            if is_storable(*given):
                # If it fails, the policy is compiled below.
                subprocess.run([sys.executable, "-c", _COMPILE, str(policy)], check=False)
    return compile_decide(*given)


#: The sizes of examples for the compiler, and of rehearsals.
_ARMS, _SLOTS = 3, 200
#: Held while another process compiles.
_compiling = threading.Lock()
#: Compiles `decide` of a policy, given its spec string.
_COMPILE = """
import sys
from aftereffect._core import parse
from aftereffect.policies import Policy
from aftereffect.simulation._compiled import compile_decide
policy = parse(sys.argv[1], Policy)
compile_decide(policy.kernels(), policy.initial_for(2, 8), policy.params(2, 8))
"""


def describe_data(bandit: Bandit) -> str:
    """Describe the files that a bandit reads; nothing if it reads none.

    >>> import aftereffect as ae
    >>> describe_data(ae.StochasticBandit([0.9, 0.5]))
    ''
    """
    return f" with data {bandit.data_digest}" if bandit.data_digest else ""


def give_facts(policy: Policy, bandit: Bandit) -> Policy:
    """Return a policy that knows the facts about a bandit that it needs.

    >>> import aftereffect as ae
    >>> print(give_facts(ae.Clw(), ae.StochasticBandit([0.9, 0.5], ae.Interval(3, 7))))
    clw(d=8, variant=jmlr, base=tsallis)
    """
    check_one_unit(policy)
    known = policy.with_delay_facts(bandit.delay_facts).with_calendar(bandit.calendar)
    if isinstance(known, AttributedPolicy):
        bandit.count_pending()  # refuses bandits that have totals only
        return known.with_delay(bandit.delay, bandit.arms)
    return known


@dataclass(frozen=True)
class Task:
    """Some replications of one policy in one bandit.

    Of those from number `keep` on, a GPU leaves a digest only.

    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5])
    >>> task = Task(ae.RoundRobin(), bandit, "roundwise", 10, (10,), 1, range(200))
    >>> [len(batch.replications) for batch in task.batches()]
    [64, 64, 64, 8]
    """

    policy: Policy
    bandit: Bandit
    engine: EngineChoice
    horizon: int
    checkpoints: tuple[int, ...]
    seed: int
    replications: range
    keep: int | None = None

    def count_whole(self) -> int:
        """How many of its replications are kept, which are the first."""
        count = len(self.replications)
        if self.keep is None:
            return count
        return min(max(self.keep - self.replications.start, 0), count)

    @property
    def made_by(self) -> str:
        """What plays it here: the same wherever the same code and data are loaded."""
        code = describe_code() + describe_own_code(self.policy, self.bandit, constants=False)
        return code + describe_data(self.bandit)

    def initial_state(self) -> State:
        """A fresh state of the policy for one run."""
        if isinstance(self.policy, AttributedPolicy):
            return self.policy.initial_within(self.bandit.arms, self.bandit.count_pending())
        slots = self.horizon + self.bandit.history_slots
        return self.policy.initial_for(self.bandit.arms, slots, self.bandit.covariate_count)

    def bandit_engine(self) -> Engine:
        """The bandit, prepared for the policy."""
        if isinstance(self.policy, AttributedPolicy):
            return self.bandit.attributed(self.horizon)
        return self.bandit.engine(recipe_of(self.engine), self.horizon)

    def only(self, replications: range) -> "Task":
        """Return the same task for some of the replications."""
        return replace(self, replications=replications)

    def batches(self) -> Iterator["Task"]:
        """Split it into parts that one call of the driver takes."""
        for first in range(0, len(self.replications), BATCH):
            yield self.only(self.replications[first : first + BATCH])


class Runs(NamedTuple):
    """By replication: regret at each checkpoint, pulls of each arm, number of rounds."""

    regret: Matrix
    pulls: Matrix
    rounds: Slots

    @classmethod
    def zeros(cls, task: Task) -> "Runs":
        """Return arrays for the replications of a task that are kept."""
        count = task.count_whole()
        return cls(
            regret=np.zeros((count, len(task.checkpoints))),
            pulls=np.zeros((count, task.bandit.arms)),
            rounds=np.zeros(count, dtype=np.int64),
        )


class Prepared(NamedTuple):
    """What the batches of a task share: driver, engine, policy parameters, and which code plays.

    Tasks for a GPU have a driver there instead of one that plays batches.
    """

    play_batch: BatchPlay | None
    engine: Engine
    params: Params
    made_by: str
    device: "DeviceDriver | None" = None


def prepare(task: Task, build: Builder = compile_driver, engine: Engine | None = None) -> Prepared:
    """Prepare a task to be played, on the engine that it names or on another.

    A policy from outside this package is rehearsed first: machine code does not check indices.
    """
    if describe_own_code(task.policy):
        rehearse(task.policy, task.bandit.arms, task.horizon)
    chosen = engine or task.bandit_engine()
    params = task.policy.params(task.bandit.arms, task.horizon)
    state = task.initial_state()
    if is_for_gpu(task.engine):
        from aftereffect.simulation._cuda import DeviceDriver

        real = np.float32 if task.engine == "cuda-single" else np.float64
        device = DeviceDriver(
            task.policy.kernels(), chosen, state, params, task.bandit.arms, real=real
        )
        return Prepared(None, chosen, params, task.made_by, device)
    play_batch = build(task.policy.kernels(), chosen, state, params)
    return Prepared(play_batch, chosen, params, task.made_by)


class PreparedTasks:
    """A small cache of prepared tasks, by the name that `run_tasks` gave them.

    By name and not by content: a name belongs to one call of `simulate`, so that code which a user
    edits between two calls is not mistaken for what it was.
    """

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._prepared: dict[str, Future[Prepared]] = {}

    def get(self, name: str, task: Task) -> Prepared:
        """Prepare a task, once however many threads ask at a time: reward tables may be large."""
        with self._lock:
            first = name not in self._prepared
            promise = self._prepared.setdefault(name, Future())
            while len(self._prepared) > self._size:
                del self._prepared[next(iter(self._prepared))]
        if first:
            try:
                promise.set_result(prepare(task))
            except BaseException as error:
                promise.set_exception(error)
                with self._lock:  # a second attempt may succeed, say with more free memory
                    self._prepared.pop(name, None)
        return promise.result()


class ChunkResult(NamedTuple):
    """Replications of a task, the time they took a processor, and which code played them.

    If only some are kept, there is a digest of all.
    """

    runs: Runs
    seconds: float
    made_by: str
    digest: Digest | None = None


class _ThreadStreams(threading.local):
    """Generators that each thread has for itself."""

    def __init__(self) -> None:
        self.streams = Streams()


_prepared_here, _of_this_thread = PreparedTasks(), _ThreadStreams()


def run_chunk(name: str, task: Task, prepared: PreparedTasks = _prepared_here) -> ChunkResult:
    """Play any number of replications of the task of that name, in this thread of any process.

    Chunks of one task that follow each other in a process share what was compiled and tabulated
    for the first.
    """
    ready = prepared.get(name, task)
    if ready.device is not None:
        return _run_on_device(task, ready.device, ready.made_by)
    start = time.thread_time()
    parts = [run_batch(batch, ready, _of_this_thread.streams).runs for batch in task.batches()]
    runs = Runs(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return ChunkResult(runs, time.thread_time() - start, ready.made_by)


def _run_on_device(task: Task, device: "DeviceDriver", made_by: str) -> ChunkResult:
    runs, digest = Runs.zeros(task), None
    settings = task.seed, task.replications, task.horizon, task.checkpoints
    if task.keep is None:
        seconds = device.play(*settings, *runs)
    else:
        digest = Digest.zeros(len(task.replications), len(task.checkpoints), task.bandit.arms)
        seconds, ended = device.digest(*settings, *runs, digest)
        if ended is not None:  # by an invalid decision: say which
            alone = replace(task, replications=range(ended, ended + 1), keep=None)
            _run_on_device(alone, device, made_by)
    _check_decisions(task, runs)
    return ChunkResult(runs, seconds, made_by, digest)


class BatchResult(NamedTuple):
    """What one call of the driver leaves.

    Besides the runs: the states of the policy by replication, and the memory of the engine after
    the last one.
    """

    runs: Runs
    states: State
    memory: Matrix


def run_batch(task: Task, prepared: Prepared, streams: Streams | None = None) -> BatchResult:
    """Play the replications of a task, at most a batch, in one call of the driver.

    >>> import aftereffect as ae
    >>> bandit = ae.StochasticBandit([0.9, 0.5])
    >>> task = Task(ae.RoundRobin(), bandit, "roundwise", 10, (10,), 1, range(2))
    >>> run_batch(task, prepare(task, interpret_driver)).runs.pulls.tolist()
    [[5.0, 5.0], [5.0, 5.0]]
    """
    if prepared.play_batch is None:
        raise TypeError("a task for a GPU is not played in batches")
    result = BatchResult(
        runs=Runs.zeros(task),
        states=stack_states(task.initial_state(), len(task.replications)),
        memory=np.zeros(prepared.engine.memory),
    )
    arguments = (streams or Streams()).arguments_for(task.seed, task.replications)
    prepared.play_batch(
        result.states,
        prepared.params,
        result.memory,
        prepared.engine.world,
        prepared.engine.covariates,
        task.horizon,
        np.array(task.checkpoints, dtype=np.int64),
        result.runs.regret,
        result.runs.pulls,
        result.runs.rounds,
        *arguments,
    )
    _check_decisions(task, result.runs)
    return result


def _check_decisions(task: Task, runs: Runs) -> None:
    """Raise an error if a run ended with an invalid decision."""
    ended = np.flatnonzero(runs.rounds < 0)
    if len(ended) == 0:
        return
    regret, pulls, rounds = (each[ended[0]] for each in runs)
    kernels = task.policy.kernels()
    fields = [float(each) for each in (*pulls[:2], regret[0])]
    decision = tuple(int(each) if each.is_integer() else each for each in fields)
    shown: object = decision
    if isinstance(kernels, AttributedKernels):
        shown = decision[0]
    elif isinstance(kernels, SlotKernels):
        shown = decision[:2]
    raise bad_decision(str(task.policy), kernels, task.bandit.arms, -1 - int(rounds), shown)


MAX_TRACE_SLOTS = 100_000_000
#: Memory that each slot takes while a trace is made.
_BYTES_PER_SLOT = 40


def trace_run(policy: Policy, bandit: Bandit, horizon: int, seed: int, replication: int) -> Trace:
    """Play one replication on the slotwise engine and record every slot.

    >>> import aftereffect as ae
    >>> trace_run(ae.RoundRobin(), ae.StochasticBandit([1.0, 0.0]), 4, seed=1, replication=0).totals
    array([1., 0., 1., 0.])
    """
    if horizon > MAX_TRACE_SLOTS:
        raise ParameterError(
            f"a trace can have at most {MAX_TRACE_SLOTS:,} slots, got a horizon of {horizon:,}"
        )
    check_memory(_BYTES_PER_SLOT * horizon, "slots")
    check_anonymous(policy)
    task = Task(
        policy=policy,
        bandit=bandit,
        engine="slotwise",
        horizon=horizon,
        checkpoints=(horizon,),
        seed=seed,
        replications=range(replication, replication + 1),
    )
    memory = run_batch(task, prepare(task, engine=bandit.tracer(horizon))).memory
    return Trace(
        arms=memory[ARM, :horizon].astype(np.int64),
        totals=memory[TOTAL, :horizon].copy(),
        rewards=memory[REWARD, :horizon].copy(),
    )
