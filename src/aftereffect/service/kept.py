"""Things that are kept by the name of their experiment."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice, takewhile
from typing import Generic, TypeVar

from aftereffect.errors import NotFoundError
from aftereffect.live import Experiment, Storage

T = TypeVar("T")

#: Experiments that are kept open; others are opened again from their snapshot.
MAX_KEPT = 256
#: Names that are looked through for one that was meant, and those of them that are told.
_MAX_COMPARED, _MAX_SUGGESTED = 10_000, 3
#: How much of its beginning a name must share with another to be taken for it.
_ALIKE = 0.5


class Kept(Generic[T]):
    """Things by name, the latest few, each made once."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._things: OrderedDict[str, T] = OrderedDict()

    def __getitem__(self, name: str) -> T:
        with self._lock:
            if name in self._things:
                self._things.move_to_end(name)
                return self._things[name]
        made = self._make(name)  # may take a while, and others need not wait for it
        with self._lock:
            thing = self._things.setdefault(name, made)
            while len(self._things) > MAX_KEPT:
                self._things.popitem(last=False)
            return thing

    def forget(self, name: str) -> None:
        """Make it anew when it is needed again."""
        with self._lock:
            self._things.pop(name, None)


def opened(name: str, storage: Storage, *, check: bool = True) -> Experiment:
    """An experiment; where there is none of that name, the error tells neither the storage nor all names that there are."""
    if storage.find(name) is None:
        near = near_names(name, storage.names())
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
