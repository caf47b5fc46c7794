"""What checks of policies and bandits share: specs, compiled runs, and scripted rounds."""

import pickle
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import numpy as np

from aftereffect._core import Matrix, PolicyKernels, Spec, Vector, list_registered, parse
from aftereffect.bandits import ENGINES, Bandit, EngineName
from aftereffect.errors import SpecError
from aftereffect.policies import Policy, named_arrays
from aftereffect.simulation import (
    BatchResult,
    Task,
    compile_driver,
    interpret_driver,
    prepare,
    run_batch,
)


def require(condition: object, message: str) -> None:
    """Raise AssertionError with a message that says what to change; also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def check_spec(thing: Spec) -> None:
    """Check that it is a value: hashable, picklable, frozen, with a spec string that reads back.

    A class that is not registered has no spec string, and one that is defined within a function
    cannot be pickled. Both can be used in this process, so a line is printed and nothing is raised.
    """
    if (
        not type(thing).__dict__.get("__dataclass_params__")
        or not cast(Any, thing).__dataclass_params__.frozen
    ):
        raise AssertionError(
            f"{type(thing).__name__} must be a frozen dataclass: @dataclass(frozen=True)"
        )
    _check_pickles(thing)
    unregistered = [cls.__name__ for cls in _classes(thing) if cls not in list_registered(Spec)]
    if unregistered:
        print(
            f"{unregistered[0]} is not registered: "
            "put @aftereffect.register above it to name it in specs and use it live"
        )
        return
    try:
        again = parse(str(thing))
    except SpecError as error:
        raise AssertionError(f"parse({str(thing)!r}) fails, {error}") from None
    require(again == thing, f"parse({str(thing)!r}) must give back {thing!r}, got {again!r}")


def _check_pickles(thing: Spec) -> None:
    cls = type(thing)
    if "<locals>" in cls.__qualname__:
        print(
            f"{cls.__name__} is defined within a function: "
            "define it at the top of a module to use it in other processes"
        )
        return
    if (
        cls.__module__ == "__main__"
        and getattr(sys.modules["__main__"], cls.__name__, None) is not cls
    ):
        return  # typed into a document or a notebook, which Dask sends as it is
    try:
        again = pickle.loads(pickle.dumps(thing))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(
            f"{thing!r} cannot be pickled ({error}): other processes could not use it"
        ) from None
    require(hash(thing) == hash(again), f"{thing!r} must have the same hash after pickling")
    require(thing == again, f"{thing!r} must be equal to itself after pickling")


def _classes(thing: object) -> Iterator[type[Spec]]:
    """The classes of a spec and of those that it is made of."""
    if isinstance(thing, Spec):
        yield type(thing)
        for field in fields(thing):
            yield from _classes(getattr(thing, field.name))
    elif isinstance(thing, tuple):
        for each in thing:
            yield from _classes(each)


def check_compiled(
    policy: Policy, bandit: Bandit, horizon: int, engines: Iterable[EngineName] = tuple(ENGINES)
) -> None:
    """Check that compiled and plain runs agree to the last bit, in results and final states."""
    for name in engines:
        task = Task(policy, bandit, name, horizon, (horizon // 2, horizon), 11, range(2))
        fast, slow = (
            run_batch(task, prepare(task, compile_driver)),
            run_batch(task, prepare(task, interpret_driver)),
        )
        pairs = zip(_arrays(fast), _arrays(slow), strict=True)
        require(
            all(np.array_equal(a, b, equal_nan=True) for a, b in pairs),
            f"{policy} in {bandit} on the {name} engine differs when compiled: "
            "use math and loops in kernels",
        )


def _arrays(result: BatchResult) -> list[Vector]:
    states = [array for _, array in named_arrays(result.states)]
    return [*cast(Any, result.runs), *states, result.memory]


class ScriptState(NamedTuple):
    """The number of the next round, and the total of each round that was played."""

    next: Vector
    totals: Vector


class ScriptParams(NamedTuple):
    """By round: arm, slots and window."""

    rounds: Matrix


@dataclass(frozen=True)
class Script(Policy):
    """Plays given rounds (arm, slots, window) and records the total of each in its state.

    Examples
    --------
    >>> Script(((0, 30, 30), (1, 7, 7))).slots
    37
    """

    rounds: tuple[tuple[int, int, int], ...]

    @property
    def slots(self) -> int:
        """How long the script is."""
        return sum(slots for _, slots, _ in self.rounds)

    def kernels(self) -> PolicyKernels:
        return PolicyKernels(decide, absorb)

    def initial(self, arms: int) -> ScriptState:
        return ScriptState(np.zeros(1), np.zeros(len(self.rounds)))

    def params(self, arms: int, horizon: int) -> ScriptParams:
        return ScriptParams(np.array(self.rounds, dtype=float))


def decide(
    state: ScriptState, params: ScriptParams, t: int, rng: np.random.Generator
) -> tuple[int, int, int]:
    """The next round of the script."""
    number = int(state.next[0])
    arm, slots, window = (
        params.rounds[number, 0],
        params.rounds[number, 1],
        params.rounds[number, 2],
    )
    return int(arm), int(slots), int(window)


def absorb(state: ScriptState, params: ScriptParams, arm: int, window: int, total: float) -> None:
    """Record the total and go on."""
    state.totals[int(state.next[0])] = total
    state.next[0] += 1
