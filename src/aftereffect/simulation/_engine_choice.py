"""Which engine plays a study: the one that is asked for, or whichever fits."""

from collections.abc import Collection
from importlib.util import find_spec
from typing import Literal, TypeAlias, get_args

import numpy as np

from aftereffect._core import PolicyKernels, State
from aftereffect.bandits import EngineName
from aftereffect.errors import ParameterError
from aftereffect.policies import Policy

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
