"""Memory is asked for when it is known to be there."""

import os
from contextlib import suppress
from pathlib import Path

from aftereffect.errors import ParameterError

#: Where Linux says how much a container may use.
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_GIB = 2**30


def check_memory(needed: int, lower: str) -> None:
    """Refuse what needs more bytes than this machine has; `lower` says what would make it less."""
    there = _memory()
    if there is not None and needed > there:
        raise ParameterError(
            f"this needs {needed / _GIB:,.1f} GiB of memory for its results, and {there / _GIB:,.1f} GiB are here: "
            f"ask for fewer {lower}"
        )


def _memory() -> int | None:
    """The bytes that this process can have at most; None where the system does not say."""
    found = []
    with suppress(AttributeError, ValueError, OSError):  # Windows, or a system that does not know these names
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # none there, or "max"
        found.append(int(_LIMIT.read_text()))
    return min(found, default=None)
