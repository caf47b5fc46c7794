"""How long a sweep will take, learned while it runs.

Cells are alike if they have the same kind of policy, the same horizon and as many arms. What is known of one group serves
others until they are measured: the nearest, of the same policy if there is one, scaled by the arms and by the square root of
the horizon, which is between what the fastest and the slowest policies cost.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from aftereffect.simulation.replications import Task

#: For about so many seconds workers are taken to be busy all the time, as at first they compile; then what was seen counts.
_TRUST = 10.0


class _Group(NamedTuple):
    policy: str
    horizon: int
    arms: int


class Estimate:
    """Seconds until the end."""

    def __init__(self, tasks: Iterable[Task], workers: int) -> None:
        self._workers = workers
        self._start = time.monotonic()
        self._left: Counter[_Group] = Counter()
        self._measured: Counter[_Group] = Counter()
        self._seconds: defaultdict[_Group, float] = defaultdict(float)
        for task in tasks:
            self._left[_group(task)] += len(task.replications)

    def note(self, task: Task, replications: int, seconds: float) -> None:
        """Some replications of a task took so much processor time."""
        group = _group(task)
        self._left[group] -= replications
        self._measured[group] += replications
        self._seconds[group] += seconds

    def seconds_left(self) -> float | None:
        """None before anything is known."""
        if not self._measured:
            return None
        to_do = sum(count * self._each(group) for group, count in self._left.items() if count)
        passed, busy = time.monotonic() - self._start, sum(self._seconds.values())
        return to_do * (passed + _TRUST) / (busy + _TRUST * self._workers)

    def _each(self, group: _Group) -> float:
        """Processor time of one replication."""
        known = min(self._measured, key=lambda other: _distance(other, group))
        scale = math.sqrt(group.horizon / known.horizon) * group.arms / known.arms
        return self._seconds[known] / self._measured[known] * scale


def _group(task: Task) -> _Group:
    return _Group(type(task.policy).__name__, task.horizon, task.environment.arms)


def _distance(one: _Group, other: _Group) -> tuple[bool, float]:
    return one.policy != other.policy, abs(math.log(one.horizon / other.horizon)) + abs(math.log(one.arms / other.arms))
