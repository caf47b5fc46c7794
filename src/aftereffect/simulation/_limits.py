"""What a study may ask for: its checkpoints, and the memory that its results need."""

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np

from aftereffect._core import check_int, check_sequence
from aftereffect.errors import ParameterError

DEFAULT_CHECKPOINTS, MAX_CHECKPOINTS = 50, 10_000
#: The file in which Linux states how much memory a container may use.
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_GIB = 2**30


def choose_checkpoints(horizon: int, wanted: int | Iterable[int]) -> tuple[int, ...]:
    """Return increasing numbers of slots, the last of them the horizon.

    A number asks for that many, evenly spaced in log time (fewer where rounding makes some equal);
    a sequence is taken as it is. Regret is recorded at these slots only, so that memory and files
    do not grow with the horizon.
    """
    if isinstance(wanted, Iterable):
        given = tuple(
            check_int("a checkpoint", slot, at_least=1, at_most=horizon)
            for slot in check_sequence("checkpoints", wanted)
        )
        if not given or given[-1] != horizon or any(a >= b for a, b in pairwise(given)):
            raise ParameterError(
                f"checkpoints must increase and end with the horizon {horizon}, got {list(given)}"
            )
        return given
    count = check_int("checkpoints", wanted, at_least=1, at_most=MAX_CHECKPOINTS)
    if count >= horizon:
        return tuple(range(1, horizon + 1))
    return log_spaced(1, horizon, count)


def log_spaced(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return so many slots, evenly spaced in log time, always with the last.

    There are fewer where rounding makes some equal.

    >>> log_spaced(1, 1_000, 4)
    (1, 10, 100, 1000)
    """
    return tuple(sorted({round(slot) for slot in np.geomspace(last, first, count)}))


def check_memory(needed: int, lower: str) -> None:
    """Refuse what needs more bytes than this machine has; `lower` says what would need less."""
    available = _available_memory()
    if available is not None and needed > available:
        raise ParameterError(
            f"the results need {needed / _GIB:,.1f} GiB of memory, but only "
            f"{available / _GIB:,.1f} GiB are available: ask for fewer {lower}"
        )


def _available_memory() -> int | None:
    """Return how many bytes this process can have at most; None where the system does not say."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # Windows, or an unusual system
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # no such file, or no limit: "max"
        found.append(int(_CONTAINER_LIMIT.read_text()))
    return min(found, default=None)
