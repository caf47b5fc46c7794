"""The slots at which regret is noted: memory and files do not grow with the horizon."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from aftereffect.checks import sequence, whole
from aftereffect.errors import ParameterError

DEFAULT_COUNT, MOST_COUNT = 50, 10_000


def checkpoints_for(horizon: int, wanted: int | Iterable[int]) -> tuple[int, ...]:
    """Increasing numbers of slots, the last of them the horizon.

    A number asks for that many, evenly spaced in log time (fewer where rounding makes some equal); a sequence is taken as
    it is.
    """
    if isinstance(wanted, Iterable):
        given = tuple(whole("a checkpoint", slot, at_least=1, at_most=horizon) for slot in sequence("checkpoints", wanted))
        if not given or given[-1] != horizon or any(a >= b for a, b in pairwise(given)):
            raise ParameterError(f"checkpoints must increase and end with the horizon {horizon}, got {list(given)}")
        return given
    count = whole("checkpoints", wanted, at_least=1, at_most=MOST_COUNT)
    if count >= horizon:
        return tuple(range(1, horizon + 1))
    return log_spaced(1, horizon, count)


def log_spaced(first: int, last: int, count: int) -> tuple[int, ...]:
    """That many slots, evenly spaced in log time; fewer where rounding makes some equal. The last is always there."""
    return tuple(sorted({round(slot) for slot in np.geomspace(last, first, count)}))
