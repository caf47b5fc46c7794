"""What both batteries share."""

import pickle
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from aftereffect.environments import ENGINES, EngineName, Environment
from aftereffect.errors import SpecError
from aftereffect.policies import Policy
from aftereffect.simulation.replications import Task, machine_code, plain, play, ready
from aftereffect.spec import Spec, parse


def require(condition: object, message: str) -> None:
    """Raise AssertionError with a message that tells the author what to do; unlike ``assert`` also under ``-O``."""
    if not condition:
        raise AssertionError(message)


def check_spec(thing: Spec) -> None:
    """It is a value: hashable, picklable, frozen, and its spec string reads back as itself."""
    if not type(thing).__dict__.get("__dataclass_params__") or not cast(Any, thing).__dataclass_params__.frozen:
        raise AssertionError(f"{type(thing).__name__} must be a frozen dataclass: @dataclass(frozen=True)")
    require(hash(thing) == hash(pickle.loads(pickle.dumps(thing))), f"{thing!r} must keep its hash through pickle")
    require(thing == pickle.loads(pickle.dumps(thing)), f"{thing!r} must survive pickle unchanged")
    try:
        again = parse(str(thing))
    except SpecError as error:
        raise AssertionError(f"parse({str(thing)!r}) fails, {error}; is the class decorated with @register?") from None
    require(again == thing, f"parse({str(thing)!r}) must give back {thing!r}, got {again!r}")


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
