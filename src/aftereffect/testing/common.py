"""What both batteries share."""

import pickle
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any, cast

import numpy as np

from aftereffect.environments import ENGINES, EngineName, Environment
from aftereffect.errors import SpecError
from aftereffect.policies import Policy
from aftereffect.simulation.replications import Task, machine_code, plain, play, ready
from aftereffect.spec import Spec, parse, registered


def require(condition: object, message: str) -> None:
    """Raise AssertionError with a message that tells the author what to do; unlike ``assert`` also under ``-O``."""
    if not condition:
        raise AssertionError(message)


def check_spec(thing: Spec) -> None:
    """It is a value: hashable, picklable, frozen, and its spec string reads back as itself.

    What is not registered has no spec string, and what is defined within a function cannot be pickled; both serve simulations
    in this process, so that they are told and not refused.
    """
    if not type(thing).__dict__.get("__dataclass_params__") or not cast(Any, thing).__dataclass_params__.frozen:
        raise AssertionError(f"{type(thing).__name__} must be a frozen dataclass: @dataclass(frozen=True)")
    _check_pickles(thing)
    unregistered = [cls.__name__ for cls in _classes(thing) if cls not in registered(Spec)]
    if unregistered:
        print(
            f"{unregistered[0]} is not registered: put @aftereffect.spec.register above it to name it in specs and use it live"
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
        print(f"{cls.__name__} is defined within a function: define it at the top of a module to play it in other processes")
        return
    if cls.__module__ == "__main__" and getattr(sys.modules["__main__"], cls.__name__, None) is not cls:
        return  # typed into a document or a notebook, which Dask sends as it is
    try:
        again = pickle.loads(pickle.dumps(thing))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(f"{thing!r} cannot be pickled ({error}): other processes could not play it") from None
    require(hash(thing) == hash(again), f"{thing!r} must keep its hash through pickle")
    require(thing == again, f"{thing!r} must survive pickle unchanged")


def _classes(thing: object) -> Iterator[type[Spec]]:
    """The classes of a spec and of those that it is made of."""
    if isinstance(thing, Spec):
        yield type(thing)
        for field in fields(cast(Any, thing)):
            yield from _classes(getattr(thing, field.name))
    elif isinstance(thing, tuple):
        for each in thing:
            yield from _classes(each)


def check_compiled(
    policy: Policy, environment: Environment, horizon: int, engines: Iterable[EngineName] = tuple(ENGINES)
) -> None:
    """Compiled and plain runs agree to the last bit, in what is reported and in the state left behind."""
    for name in engines:
        task = Task(policy, environment, name, horizon, (horizon // 2, horizon), 11, range(2))
        fast, slow = play(task, ready(task, machine_code)), play(task, ready(task, plain))
        pairs = zip((*fast.outcome, *fast[1:]), (*slow.outcome, *slow[1:]), strict=True)
        require(
            all(np.array_equal(a, b) for a, b in pairs),
            f"{policy} in {environment} on the {name} engine differs when compiled: use math and loops in kernels",
        )
