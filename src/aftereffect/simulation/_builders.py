"""Turns kernels into functions that play: in plain Python, or as machine code."""

import subprocess
import sys
import threading
from collections.abc import Callable

from aftereffect._core import DecideSlots, Engine, Params, SlotKernels, State
from aftereffect.policies import Kernels, Policy, make_take_state
from aftereffect.simulation._contents import describe_own_code
from aftereffect.simulation._driver import BatchPlay, make_batch_driver, make_driver
from aftereffect.simulation._rehearsal import rehearse

#: A function that turns kernels into a batch driver.
Builder = Callable[[Kernels, Engine, State, Params], BatchPlay]
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


def interpret_driver(policy: Kernels, engine: Engine, state: State, params: Params) -> BatchPlay:
    """Make the batch driver in plain Python, for tests and for stepping through in a debugger."""
    return make_batch_driver(make_driver(policy, engine.kernels), make_take_state(state))


def compile_driver(policy: Kernels, engine: Engine, state: State, params: Params) -> BatchPlay:
    """Compile the batch driver. Only this imports numba."""
    from aftereffect.simulation._compiled import compile_batch_driver

    return compile_batch_driver(policy, engine, state, params)


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
