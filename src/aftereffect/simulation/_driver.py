"""The simulation loop: decide, collect, absorb, until the horizon. `_compiled` makes it fast.

Random numbers come from two generators, set to one replication after another (`Streams`). Machine
code is given the generators once per call. Before each run it writes the state in which the run
begins into their memory. New generators for every run would take longer than many runs do, and a
tuple with one for each run of a batch would take long to compile.
"""

import ctypes
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import (
    POLICY,
    WORLD,
    AttributedKernels,
    DecideSlots,
    Feed,
    Matrix,
    Memory,
    Params,
    SlotKernels,
    Slots,
    State,
    UnitKernels,
    Vector,
    World,
    WorldKernels,
    seed_sequence,
    short_repr,
)
from aftereffect.delays import (
    ARM,
    ARRIVED,
    PENDING_ARM,
    PENDING_REWARD,
)
from aftereffect.errors import ParameterError
from aftereffect.policies import Kernels, TakeState

#: Unsigned integers of 64 bits.
Words: TypeAlias = NDArray[np.uint64]

#: The multiplier of the recurrence that PCG64 is.
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_WORD = 2**64


class Register(NamedTuple):
    """The memory of a PCG64: its state and increment in four words, and what is left of a draw."""

    words: Words
    rest: Words


class Arguments(NamedTuple):
    """What a batch driver is given; `begins` holds words by replication and part."""

    begins: Words
    policy_register: Register
    world_register: Register
    policy_rng: np.random.Generator
    world_rng: np.random.Generator


class Streams:
    """The generators of a thread: one for policies, one for bandits.

    The numbers of a replication are the same whatever else runs, wherever, in whatever order.

    Examples
    --------
    >>> arguments = Streams().arguments_for(seed=7, replications=range(5, 8))
    >>> begins, register, _, generator, _ = arguments
    >>> register.words[:] = begins[2, POLICY]
    >>> fresh = np.random.PCG64(np.random.SeedSequence(7, spawn_key=(7, POLICY)))
    >>> generator.random() == np.random.Generator(fresh).random()
    True
    """

    def __init__(self) -> None:
        policy, world = np.random.PCG64(0), np.random.PCG64(0)
        self._registers = find_register(policy), find_register(world)
        self._generators = np.random.Generator(policy), np.random.Generator(world)
        self._order = _order_of_words(policy, self._registers[0])

    def arguments_for(self, seed: int, replications: range) -> Arguments:
        """Return what a driver needs for these replications."""
        begins = [
            [_begin(seed_sequence(seed, replication, part)) for part in (POLICY, WORLD)]
            for replication in replications
        ]
        ordered = np.array(begins, dtype=np.uint64)[:, :, self._order]
        return Arguments(np.ascontiguousarray(ordered), *self._registers, *self._generators)


def find_register(bits: np.random.PCG64) -> Register:
    """Return views of the memory of a PCG64, which live as long as it does."""
    # struct { struct { uint128 state, increment; } *; int has_rest; uint32 rest; }
    address = bits.ctypes.state_address
    inner = ctypes.c_uint64.from_address(address).value
    return Register(_view(inner, 4), _view(address + 8, 1))


def _view(address: int, count: int) -> Words:
    return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(address))


def _order_of_words(bits: np.random.PCG64, register: Register) -> list[int]:
    """Find in which order this machine stores the words of `_begin`: it depends on the compiler."""
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": 0 * _WORD + 1, "inc": 2 * _WORD + 3},
        "has_uint32": 1,
        "uinteger": 5,
    }
    order = [int(word) for word in register.words]
    if sorted(order) != [0, 1, 2, 3] or not register.rest[0]:
        raise RuntimeError(
            f"NumPy {np.__version__} stores the state of PCG64 in a way that this version of "
            "aftereffect does not know: install an older NumPy, or a newer aftereffect"
        )
    return order


def _begin(seeds: np.random.SeedSequence) -> list[int]:
    """Return the state and the increment in which ``PCG64(seeds)`` begins, high words first."""
    high, low, high_step, low_step = map(int, seeds.generate_state(4, np.uint64))
    step = ((high_step * _WORD + low_step) << 1 | 1) % _WORD**2
    state = ((step + high * _WORD + low) * _MULTIPLIER + step) % _WORD**2
    return [*divmod(state, _WORD), *divmod(step, _WORD)]


Play: TypeAlias = Callable[
    [
        State,
        Params,
        Matrix,
        World,
        Matrix,
        int,
        Slots,
        Vector,
        Vector,
        np.random.Generator,
        np.random.Generator,
    ],
    int,
]
BatchPlay: TypeAlias = Callable[
    [
        State,
        Params,
        Matrix,
        World,
        Matrix,
        int,
        Slots,
        Matrix,
        Matrix,
        Slots,
        Words,
        Register,
        Register,
        np.random.Generator,
        np.random.Generator,
    ],
    None,
]

#: The most runs per call.
BATCH = 64


def make_driver(policy: Kernels, bandit: WorldKernels) -> Play:
    """Make the function that plays one run to the horizon.

    It writes the regret at the checkpoints and the pulls of each arm, and returns the number of
    rounds. An invalid decision at slot t ends the run: it then returns -1 - t, with the arm and the
    slots of that decision in ``pulls`` and the window in ``regret``. Compiled code cannot format a
    message; `bad_decision` does.
    """
    if isinstance(policy, SlotKernels):
        return _make_slot_driver(policy, bandit)
    if isinstance(policy, AttributedKernels):
        return _make_attributed_driver(policy, bandit)
    assert not isinstance(policy, UnitKernels)  # `give_facts` refuses it
    decide, absorb = policy
    collect, count_regret, *_ = bandit

    def play(
        state: State,
        params: Params,
        memory: Matrix,
        world: World,
        covariates: Matrix,
        horizon: int,
        checkpoints: Slots,
        regret: Vector,
        pulls: Vector,
        policy_rng: np.random.Generator,
        world_rng: np.random.Generator,
    ) -> int:
        t = rounds = reached = 0
        lost = 0.0
        while t < horizon:
            arm, wanted, window = decide(state, params, t, policy_rng)
            if not (0 <= arm < pulls.shape[0] and wanted >= 1 and 0 <= window <= wanted):
                # Compiled code does not check indices: a faulty kernel would write into other
                # memory, and nobody would notice.
                pulls[0], pulls[1], regret[0] = arm, wanted, window
                return -1 - t
            slots = min(wanted, horizon - t)
            whole = slots == wanted
            total = collect(memory, world, t, arm, slots, window if whole else 0, world_rng)
            while reached < checkpoints.shape[0] and checkpoints[reached] <= t + slots:
                regret[reached] = lost + count_regret(
                    memory, world, t, arm, checkpoints[reached] - t
                )
                reached += 1
            lost += count_regret(memory, world, t, arm, slots)
            pulls[arm] += slots
            if whole:
                absorb(state, params, arm, window, total)
            t += slots
            rounds += 1
        return rounds

    return play


def _make_slot_driver(policy: SlotKernels, bandit: WorldKernels) -> Play:
    """Make the function that plays one run of a policy that looks at every slot."""
    decide, observe = policy
    collect, count_regret, feed, _ = bandit
    count_history, count_late, look_up, find_row = feed or _AT_ONCE
    has_feed = feed is not None

    def play(
        state: State,
        params: Params,
        memory: Matrix,
        world: World,
        covariates: Matrix,
        horizon: int,
        checkpoints: Slots,
        regret: Vector,
        pulls: Vector,
        policy_rng: np.random.Generator,
        world_rng: np.random.Generator,
    ) -> int:
        for t in range(-count_history(world), 0):
            total = look_up(memory, world, t, world_rng)
            observe(state, params, t, 0, total, covariates[find_row(memory, world, t)])
        late = count_late(world)
        t = rounds = reached = 0
        lost = 0.0
        while t < horizon:
            arm, slots = decide(state, params, t, policy_rng)
            if not (0 <= arm < pulls.shape[0] and slots >= 1):
                pulls[0], pulls[1] = arm, slots
                return -1 - t
            for _ in range(min(slots, horizon - t)):
                total = collect(memory, world, t, arm, 1, 1, world_rng)
                if has_feed:  # which knows whether it is missing
                    total = look_up(memory, world, t, world_rng)
                row = covariates[find_row(memory, world, t)]
                observe(state, params, t, arm, math.nan if late > 0 else total, row)
                if 0 < late <= t:
                    before = t - late
                    played = int(memory[ARM, before])
                    total = look_up(memory, world, before, world_rng)
                    row = covariates[find_row(memory, world, before)]
                    observe(state, params, before, played, total, row)
                lost += count_regret(memory, world, t, arm, 1)
                pulls[arm] += 1
                t += 1
                if reached < checkpoints.shape[0] and checkpoints[reached] == t:
                    regret[reached] = lost
                    reached += 1
            rounds += 1
        return rounds

    return play


def _make_attributed_driver(policy: AttributedKernels, bandit: WorldKernels) -> Play:
    """Make the function that plays one run of an oracle."""
    decide, arrive = policy
    collect, count_regret, _, parts = bandit
    if parts is None:
        raise TypeError("a bandit has parts for oracles: prepare it with Bandit.attributed")
    find_next, take = parts

    def play(
        state: State,
        params: Params,
        memory: Matrix,
        world: World,
        covariates: Matrix,
        horizon: int,
        checkpoints: Slots,
        regret: Vector,
        pulls: Vector,
        policy_rng: np.random.Generator,
        world_rng: np.random.Generator,
    ) -> int:
        columns = memory.shape[1]
        here = reached = 0
        lost = 0.0
        for t in range(horizon):
            arm = decide(state, params, t, policy_rng)
            if not 0 <= arm < pulls.shape[0]:
                pulls[0] = arm
                return -1 - t
            memory[PENDING_REWARD, here] = collect(memory, world, t, arm, 1, 1, world_rng)
            memory[PENDING_ARM, here] = arm
            memory[ARRIVED, here] = 0.0
            lag = find_next(memory, world, here, min(columns, t + 1))
            while lag >= 0:
                pull = here - lag if lag <= here else here - lag + columns
                pulled_arm = int(memory[PENDING_ARM, pull])
                share, is_last = take(memory, world, pulled_arm, pull, lag)
                amount = memory[PENDING_REWARD, pull] * share
                arrived = memory[ARRIVED, pull] + amount
                memory[ARRIVED, pull] = arrived
                reward = arrived if is_last else math.nan
                arrive(state, params, t, t - lag, pulled_arm, amount, reward)
                lag = find_next(memory, world, here, lag)
            here = here + 1 if here + 1 < columns else 0
            lost += count_regret(memory, world, t, arm, 1)
            pulls[arm] += 1
            if reached < checkpoints.shape[0] and checkpoints[reached] == t + 1:
                regret[reached] = lost
                reached += 1
        return horizon

    return play


def _count_none(world: World) -> int:
    return 0


def _look_up_nothing(memory: Memory, world: World, t: int, rng: np.random.Generator) -> float:
    return math.nan


def _find_empty_row(memory: Memory, world: World, t: int) -> int:
    return 0


#: The feed of bandits that have none.
_AT_ONCE = Feed(_count_none, _count_none, _look_up_nothing, _find_empty_row)


def bad_decision(
    policy: str, kernels: Kernels, arms: int, t: int, decision: object
) -> ParameterError:
    """Return the error to raise for an invalid decision of a policy with these kernels."""
    arm = f"an arm from 0 to {arms - 1}"
    if isinstance(kernels, AttributedKernels):
        wanted = f"{arm}, as a whole number"
    elif isinstance(kernels, SlotKernels):
        wanted = f"(arm, slots): {arm}, at least one slot, as whole numbers"
    else:
        wanted = (
            f"(arm, slots, window): {arm}, at least one slot, a window within the slots, "
            "as whole numbers"
        )
    return ParameterError(
        f"decide of {policy} must return {wanted}, got {short_repr(decision)} at slot {t}"
    )


def make_decision(decide: DecideSlots) -> DecideSlots:
    """Make the function around a kernel that Python calls, so that only it counts references."""

    def decide_now(
        state: State, params: Params, t: int, rng: np.random.Generator
    ) -> tuple[int, int]:
        return decide(state, params, t, rng)

    return decide_now


def make_batch_driver(play: Play, take_state: TakeState) -> BatchPlay:
    """Make the function that plays several runs in one call.

    A run may last microseconds, and threads only scale if they rarely take the interpreter's lock.
    ``begins`` holds the words in which the generators of each run begin.
    """

    def play_batch(
        states: State,
        params: Params,
        memory: Matrix,
        world: World,
        covariates: Matrix,
        horizon: int,
        checkpoints: Slots,
        regret: Matrix,
        pulls: Matrix,
        rounds: Slots,
        begins: Words,
        policy_register: Register,
        world_register: Register,
        policy_rng: np.random.Generator,
        world_rng: np.random.Generator,
    ) -> None:
        for r in range(rounds.shape[0]):
            memory[:] = 0.0
            for word in range(begins.shape[2]):  # to copy an array compiles for seconds
                policy_register.words[word] = begins[r, 0, word]
                world_register.words[word] = begins[r, 1, word]
            policy_register.rest[0] = world_register.rest[0] = 0
            rounds[r] = play(
                take_state(states, r),
                params,
                memory,
                world,
                covariates,
                horizon,
                checkpoints,
                regret[r],
                pulls[r],
                policy_rng,
                world_rng,
            )

    return play_batch
