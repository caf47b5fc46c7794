"""Things that are kept by the name of their experiment."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Generic, TypeVar

from aftereffect.errors import NotFoundError
from aftereffect.live import Experiment, Storage
from aftereffect.live.storage import Record

T = TypeVar("T")

#: Experiments that are kept open; others are opened again from their snapshot.
MAX_KEPT = 256
#: Names that are looked through for one that was meant, and those of them that are told.
_MAX_COMPARED, _MAX_SUGGESTED = 10_000, 3
#: How much of its beginning a name must share with another to be taken for it.
_ALIKE = 0.5


class Kept(Generic[T]):
    """Things by the name of their experiment, the latest few, each made once.

    Made anew when the name stands for another experiment: it was deleted, perhaps by another process, and created again.
    """

    def __init__(self, storage: Storage, make: Callable[[str], T]) -> None:
        self._storage, self._make = storage, make
        self._lock = threading.Lock()
        self._things: OrderedDict[str, tuple[Record | None, T]] = OrderedDict()

    def __getitem__(self, name: str) -> T:
        record = self._storage.find(name)
        with self._lock:
            if name in self._things and self._things[name][0] == record:
                self._things.move_to_end(name)
                return self._things[name][1]
            self._things.pop(name, None)
        made = self._make(name)  # may take a while, and others need not wait for it
        with self._lock:
            _, thing = self._things.setdefault(name, (record, made))
            while len(self._things) > MAX_KEPT:
                self._things.popitem(last=False)
            return thing


def opened(name: str, storage: Storage, *, check: bool = True) -> Experiment:
    """An experiment; where there is none of that name, the error tells neither the storage nor all names that there are."""
    if storage.find(name) is None:
        near = near_names(name, storage.readable_names())
        meant = f"did you mean {' or '.join(map(repr, near))}?" if near else "GET /v1/experiments lists those there are"
        raise NotFoundError(f"there is no experiment {name!r}: {meant}")
    return Experiment.open(name, storage=storage, check=check)


def near_names(name: str, names: list[str]) -> list[str]:
    """Names that begin alike; of many that are similar to each other a finer comparison would take long."""
    wanted = name.lower()
    shared = {each: _shared(wanted, each.lower()) for each in islice(names, _MAX_COMPARED)}
    near = sorted((each for each in shared if shared[each] >= _ALIKE * len(wanted)), key=lambda each: (-shared[each], each))
    return near[:_MAX_SUGGESTED]


def _shared(one: str, other: str) -> int:
    """How many letters two names begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
