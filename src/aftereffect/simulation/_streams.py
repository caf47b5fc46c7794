"""The random numbers of replications: two generators, set to one replication after another.

Machine code is given the generators once per call. Before each run it writes the state in which the
run begins into their memory. New generators for every run would take longer than many runs do, and
a tuple with one for each run of a batch would take long to compile.
"""

import ctypes
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aftereffect._core import POLICY, WORLD, seed_sequence

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
