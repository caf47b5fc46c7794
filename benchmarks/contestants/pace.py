"""How fast pairs of ask and tell are. Standard library only, for every contestant's environment."""

import time
from collections.abc import Callable
from dataclasses import dataclass

WARM_UP_PAIRS = 10


@dataclass(frozen=True)
class Pace:
    """Seconds per pair: by the clock, and of this process's CPU."""

    wall: float
    cpu: float


def paced(pair: Callable[[], object], pairs: int) -> Pace:
    """Seconds per pair on average, with connections and statements prepared beforehand."""
    for _ in range(WARM_UP_PAIRS):
        pair()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(pairs):
        pair()
    return Pace((time.perf_counter() - wall) / pairs, (time.process_time() - cpu) / pairs)
