"""How long a sweep will take, learned while it runs.

Cells are alike if they have the same kind of policy and the same horizon. What is known of one group serves others until they
are measured: the nearest horizon, of the same policy if there is one, scaled by the square root of the horizon, which is
between what the fastest and the slowest policies cost.
"""

import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from aftereffect.simulation.replications import Task

_Group: TypeAlias = tuple[str, int]


class Estimate:
    """Seconds until the end."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._left: Counter[_Group] = Counter()
        self._measured: Counter[_Group] = Counter()
        self._seconds: Counter[_Group] = Counter()
        self._start = time.monotonic()
        for task in tasks:
            self._left[_group(task)] += len(task.replications)

    def note(self, task: Task, replications: int, seconds: float) -> None:
        """Some replications of a task took so much processor time."""
        group = _group(task)
        self._left[group] -= replications
        self._measured[group] += replications
        self._seconds[group] += seconds  # type: ignore[assignment]  # a Counter of seconds

    def seconds_left(self) -> float | None:
        """None before anything is known."""
        busy = sum(self._seconds.values())
        if not busy:
            return None
        to_do = sum(count * self._each(group) for group, count in self._left.items() if count)
        return to_do * (time.monotonic() - self._start) / busy

    def _each(self, group: _Group) -> float:
        policy, horizon = group
        nearest = min(self._measured, key=lambda known: (known[0] != policy, abs(math.log(known[1] / horizon))))
        return self._seconds[nearest] / self._measured[nearest] * math.sqrt(horizon / nearest[1])


def _group(task: Task) -> _Group:
    return type(task.policy).__name__, task.horizon
