"""Experiments by name: those used last stay open, and an unknown name gets suggestions."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Generic, TypeVar

from aftereffect.errors import NotFoundError
from aftereffect.live import Experiment, Record, Storage

#: Experiments that stay open; others are opened again from their snapshot.
MAX_OPEN = 256
#: Names that are compared with an unknown one, and those that are suggested instead.
_MAX_COMPARED, _MAX_SUGGESTED = 10_000, 3
#: The share of an unknown name that a suggestion must begin with.
_MIN_COMMON = 0.5
T = TypeVar("T")


class NamedCache(Generic[T]):
    """One object for each experiment, by name: those used last, each made once.

    An object is made again when its name stands for another experiment: the first was deleted,
    perhaps by another process, and a new one has its name.
    """

    def __init__(self, storage: Storage, make: Callable[[str], T]) -> None:
        self._storage, self._make = storage, make
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, tuple[Record | None, T]] = OrderedDict()

    def __getitem__(self, name: str) -> T:
        record = self._storage.find(name)
        with self._lock:
            if name in self._objects and self._objects[name][0] == record:
                self._objects.move_to_end(name)
                return self._objects[name][1]
            self._objects.pop(name, None)
        made = self._make(name)  # outside the lock, as it may take a while
        with self._lock:
            _, found = self._objects.setdefault(name, (record, made))
            while len(self._objects) > MAX_OPEN:
                self._objects.popitem(last=False)
            return found


def open_experiment(name: str, storage: Storage, *, check: bool = True) -> Experiment:
    """Open an experiment; the error for an unknown name lists a few names, and not the storage."""
    if storage.find(name) is None:
        similar = find_similar_names(name, storage.readable_names())
        hint = (
            f"did you mean {' or '.join(map(repr, similar))}?"
            if similar
            else "GET /v1/experiments lists all experiments"
        )
        raise NotFoundError(f"there is no experiment {name!r}: {hint}")
    return Experiment.open(name, storage=storage, check=check)


def find_similar_names(name: str, names: list[str]) -> list[str]:
    """Names that begin alike; a finer comparison with thousands of names would take too long."""
    wanted = name.lower()
    common = {each: _common_prefix(wanted, each.lower()) for each in islice(names, _MAX_COMPARED)}
    similar = sorted(
        (each for each in common if common[each] >= _MIN_COMMON * len(wanted)),
        key=lambda each: (-common[each], each),
    )
    return similar[:_MAX_SUGGESTED]


def _common_prefix(one: str, other: str) -> int:
    """The number of first letters that two names share."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
