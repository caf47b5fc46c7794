"""How long a sweep will take, learned while it runs.

Cells of which nothing is known yet are taken to cost as much as others of the same policy, or else of all: per arm, and per
square root of the horizon, which is between what the fastest and the slowest policies take.
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

    @property
    def size(self) -> float:
        return math.sqrt(self.horizon) * self.arms


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
        busy = sum(self._seconds.values())
        overall = busy / sum(count * group.size for group, count in self._measured.items())
        by_policy = {policy: self._rate(policy) for policy in {group.policy for group in self._measured}}
        to_do = 0.0
        for group, count in self._left.items():
            measured = self._measured.get(group)
            guess = by_policy.get(group.policy, overall) * group.size
            to_do += count * (self._seconds[group] / measured if measured else guess)
        passed = time.monotonic() - self._start
        return to_do * (passed + _TRUST) / (busy + _TRUST * self._workers)

    def _rate(self, policy: str) -> float:
        """Seconds of a replication of size 1."""
        groups = [group for group in self._measured if group.policy == policy]
        return sum(self._seconds[group] for group in groups) / sum(self._measured[group] * group.size for group in groups)


def _group(task: Task) -> _Group:
    return _Group(type(task.policy).__name__, task.horizon, task.environment.arms)
